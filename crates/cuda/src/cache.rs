//! A cache of compiled kernels on disk, so that only the first start has to compile.
//!
//! An entry is a magic number, the checksum of the image, and the image. Its name contains a hash
//! of everything that the image depends on, so an entry is never out of date. A damaged entry is
//! compiled again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::{Architecture, Compiler, DeviceError, Image, Source};

const MAGIC: &[u8; 8] = b"wskernel";

/// A folder of compiled kernels; `None` if the user has no cache folder.
pub(crate) struct Cache {
    folder: Option<PathBuf>,
}

/// Returns the folder for data that can be created again: `$WARPSEEK_CACHE`, or a part of the
/// user's cache folder. Returns `None` if the user has no cache folder.
pub fn user_cache() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("WARPSEEK_CACHE").or_else(|| {
        let user = variable("XDG_CACHE_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| variable("HOME").map(|home| home.join(".cache")));
        user.map(|user| user.join("warpseek"))
    })
}

impl Cache {
    /// Returns the cache of the user.
    pub(crate) fn of_user() -> Self {
        Cache { folder: user_cache().map(|folder| folder.join("kernels")) }
    }

    /// Returns the image of a source: read from the cache, or compiled and stored there.
    pub(crate) fn image(
        &self,
        compiler: &Compiler,
        source: &Source,
        architecture: Architecture,
    ) -> Result<Image, DeviceError> {
        let options = compiler.options(architecture);
        let (major, minor) = compiler.version();
        let hash = source.hash(&options);
        let name = format!("{}-{architecture}-nvrtc{major}.{minor}-{hash:032x}", source.name);
        self.get_or_make(&name, || compiler.compile(source, architecture, &options))
    }

    fn get_or_make(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<Image, DeviceError>,
    ) -> Result<Image, DeviceError> {
        let Some(folder) = &self.folder else { return make() };
        let path = folder.join(name);
        if let Some(bytes) = fs::read(&path).ok().and_then(|entry| unpack(&entry)) {
            return Ok(Image { bytes, log: String::new() });
        }
        let image = make()?;
        // If the cache cannot be written, the only cost is compilation at the next start.
        let _ = write(folder, &path, &image.bytes);
        Ok(image)
    }
}

fn unpack(entry: &[u8]) -> Option<Vec<u8>> {
    let rest = entry.strip_prefix(MAGIC)?;
    let (sum, image) = rest.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*sum) == xxh3_64(image)).then(|| image.to_vec())
}

/// Writes under a temporary name first, so that no process reads half an entry.
fn write(folder: &Path, path: &Path, image: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let temporary = folder.join(format!("{}.{}.part", std::process::id(), next_number()));
    let written = fs::File::create_new(&temporary).and_then(|mut file| {
        file.write_all(MAGIC)?;
        file.write_all(&xxh3_64(image).to_le_bytes())?;
        file.write_all(image)?;
        drop(file);
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Returns a number that is unique in this process.
fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_compiled_once_and_damaged_ones_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: Some(folder.path().join("kernels")) };
        let image = Image { bytes: b"image".to_vec(), log: String::new() };
        let never = || -> Result<Image, DeviceError> { panic!("made twice") };
        assert_eq!(cache.get_or_make("a-1.2-x", || Ok(image.clone())), Ok(image.clone()));
        assert_eq!(cache.get_or_make("a-1.2-x", never), Ok(image.clone()));

        let path = folder.path().join("kernels/a-1.2-x");
        let whole = fs::read(&path).unwrap();
        for damage in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[damage] ^= 1;
            fs::write(&path, bytes).unwrap();
            let mut made = false;
            let again = cache.get_or_make("a-1.2-x", || {
                made = true;
                Ok(image.clone())
            });
            assert_eq!(again, Ok(image.clone()));
            assert!(made, "damage at byte {damage} went unseen");
        }
        for len in 0..whole.len() {
            assert_eq!(unpack(&whole[..len]), None);
        }
        assert_eq!(fs::read_dir(folder.path().join("kernels")).unwrap().count(), 1);
    }

    #[test]
    fn failures_are_not_cached_and_a_missing_folder_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let image = Image { bytes: b"image".to_vec(), log: String::new() };
        let cache = Cache { folder: Some(folder.path().join("kernels")) };
        let error = cache.get_or_make("a", || Err(DeviceError::NoDevice));
        assert_eq!(error, Err(DeviceError::NoDevice));
        assert_eq!(cache.get_or_make("a", || Ok(image.clone())), Ok(image.clone()));
        fs::write(folder.path().join("file"), "").unwrap();
        for folder in [None, Some(folder.path().join("file/below"))] {
            let cache = Cache { folder };
            assert_eq!(cache.get_or_make("a", || Ok(image.clone())), Ok(image.clone()));
        }
    }
}
