//! Loading of CUDA's shared libraries. It happens when they are first needed, so that the program
//! starts without them.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use libloading::Library;

/// A function that finds a function of the driver by name, in the driver's library or in the
/// emulator that replaces it.
pub type Symbols = fn(&str) -> Option<*const c_void>;

/// Loads the first library that can be loaded, or returns the names tried.
pub(crate) fn load_first(candidates: Vec<String>) -> Result<Library, Vec<String>> {
    for name in &candidates {
        // SAFETY: NVIDIA's libraries have no initialisers with requirements on the caller.
        if let Ok(library) = unsafe { Library::new(name) } {
            return Ok(library);
        }
    }
    Err(candidates)
}

pub(crate) fn driver_candidates() -> Vec<String> {
    // WSL keeps the library outside of the linker's path.
    [
        "libcuda.so.1",
        "libcuda.so",
        "/usr/lib/wsl/lib/libcuda.so.1",
        "/usr/local/nvidia/lib64/libcuda.so.1",
    ]
    .map(String::from)
    .to_vec()
}

/// Returns the names of NVML to try, in the folders of the driver.
pub(crate) fn nvml_candidates() -> Vec<String> {
    [
        "libnvidia-ml.so.1",
        "libnvidia-ml.so",
        "/usr/lib/wsl/lib/libnvidia-ml.so.1",
        "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    ]
    .map(String::from)
    .to_vec()
}

/// Returns the names of NVRTC to try. The one of the driver's version comes first, because an
/// older driver may refuse what a newer compiler produces.
pub(crate) fn nvrtc_candidates(driver_major: u32) -> Vec<String> {
    if let Some(path) = std::env::var_os("WARPSEEK_NVRTC").filter(|path| !path.is_empty()) {
        return vec![path.to_string_lossy().into_owned()];
    }
    let mut names = vec!["libnvrtc.so.12".to_owned(), "libnvrtc.so.13".to_owned()];
    if driver_major >= 13 {
        names.reverse();
    }
    names.push("libnvrtc.so".to_owned());
    let homes = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let folders: Vec<PathBuf> =
        homes.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("lib64")).collect();
    let in_folder = |folder: &Path, name: &String| folder.join(name).display().to_string();
    let paths: Vec<String> =
        folders.iter().flat_map(|f| names.iter().map(|n| in_folder(f, n))).collect();
    names.into_iter().chain(paths).collect()
}

#[cfg(test)]
mod tests {
    use warpseek_testkit::skips::elsewhere;

    use super::*;

    #[test]
    fn the_names_tried_are_returned() {
        let tried = vec!["libnowhere.so.7".to_owned(), "/nowhere/libnowhere.so".to_owned()];
        assert_eq!(load_first(tried.clone()).err(), Some(tried));
    }

    #[test]
    fn the_drivers_own_version_of_the_compiler_comes_first() {
        if std::env::var_os("WARPSEEK_NVRTC").is_some() {
            return elsewhere(
                "the order of compilers",
                "WARPSEEK_NVRTC is set, and only it is tried",
            );
        }
        for (major, first) in
            [(12, "libnvrtc.so.12"), (13, "libnvrtc.so.13"), (14, "libnvrtc.so.13")]
        {
            let candidates = nvrtc_candidates(major);
            assert_eq!(candidates[0], first);
            assert!(candidates.contains(&format!("/usr/local/cuda/lib64/{first}")));
        }
    }
}
