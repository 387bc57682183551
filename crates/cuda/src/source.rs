//! CUDA C++ sources of kernels, and their replacement at run time.

use std::path::PathBuf;

use xxhash_rust::xxh3::Xxh3;

use super::DeviceError;

/// The CUDA C++ source of some kernels, as NVRTC receives it.
///
/// Sources include no system headers, because machines with only a driver and NVRTC do not have
/// them.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// The name of the folder under `kernels`.
    pub name: &'static str,
    /// The text of `kernel.cu`.
    pub text: &'static str,
    /// Headers as (name in `#include`, text), including those that headers include.
    pub headers: &'static [(&'static str, &'static str)],
}

impl Source {
    /// Returns the source or, if WARPSEEK_KERNELS is set, its replacement from the folders listed
    /// there (separated as in PATH), so that kernels can be tried out without a new build.
    pub(crate) fn as_wanted(&self) -> Result<Source, DeviceError> {
        let Some(folders) = std::env::var_os("WARPSEEK_KERNELS").filter(|f| !f.is_empty()) else {
            return Ok(*self);
        };
        let folders: Vec<PathBuf> = std::env::split_paths(&folders).collect();
        // A source lives as long as the program, even if it is not in the binary; there are few.
        let read = |name: PathBuf| -> Result<&'static str, DeviceError> {
            let found = folders.iter().map(|folder| folder.join(&name)).find(|path| path.exists());
            let path = found.unwrap_or(name);
            let text = std::fs::read_to_string(&path).map_err(|error| DeviceError::Sources {
                path: path.display().to_string(),
                problem: error.to_string(),
            })?;
            Ok(text.leak())
        };
        let text = read(PathBuf::from(self.name).join("kernel.cu"))?;
        let header = |&(name, _): &(&'static str, &'static str)| {
            Ok((name, read(PathBuf::from("common").join(name))?))
        };
        let headers = self.headers.iter().map(header).collect::<Result<Vec<_>, _>>()?;
        Ok(Source { name: self.name, text, headers: headers.leak() })
    }

    /// Returns a hash that differs if any of the texts does.
    pub(crate) fn hash(&self, options: &[String]) -> u128 {
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
