use xxhash_rust::xxh3::Xxh3;

/// The CUDA C++ of some kernels, as NVRTC gets it.
///
/// Sources include no system headers: those are not there where only a driver and NVRTC are.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The folder's name under `kernels`.
    pub name: &'static str,
    /// The text of `kernel.cu`.
    pub text: &'static str,
    /// Headers as (name in `#include`, text), with all that they include themselves.
    pub headers: &'static [(&'static str, &'static str)],
}

impl Source {
    /// Differs when any of the texts does.
    pub(super) fn hash(&self, options: &[String]) -> u128 {
        let mut hash = Xxh3::new();
        let headers = self.headers.iter().flat_map(|&(name, text)| [name, text]);
        let options = options.iter().map(String::as_str);
        for part in [self.name, self.text].into_iter().chain(headers).chain(options) {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.digest128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let base = Source { name: "a", text: "bc", headers: &[("d", "e")] };
        let others = [
            Source { name: "x", ..base },
            Source { text: "bx", ..base },
            Source { headers: &[("x", "e")], ..base },
            Source { headers: &[("d", "x")], ..base },
            Source { name: "ab", text: "c", ..base },
        ];
        for other in others {
            assert_ne!(base.hash(&[]), other.hash(&[]), "{other:?}");
        }
        assert_ne!(base.hash(&[]), base.hash(&["-g".into()]));
        assert_eq!(base.hash(&["-g".into()]), base.hash(&["-g".into()]));
    }
}
