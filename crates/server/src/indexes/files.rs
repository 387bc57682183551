//! Files and folders of indexes: sizes, and changes that survive a crash of the machine.

use std::path::Path;

use crate::error::Failure;

/// Writes a JSON file under a temporary name and renames it, so that the file is always complete.
pub(crate) fn write_whole(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let broken = |e: std::io::Error| Failure::broken(format!("{}: {e}", path.display()));
    let bytes = serde_json::to_vec_pretty(value).map_err(|e| Failure::broken(e.to_string()))?;
    let beside = path.with_extension("json.new");
    let write = || {
        use std::io::Write;
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        rename_durably(&beside, path)
    };
    write().map_err(broken)
}

/// Renames a file or folder so that the change survives a crash of the machine.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)?;
    let (old, new) = (from.parent(), to.parent());
    [new, old.filter(|_| old != new)].into_iter().flatten().try_for_each(sync_folder)
}

/// Makes the names in a folder survive a crash of the machine.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// Returns the total size of the files in a folder.
pub(crate) fn bytes_of(dir: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(dir) else { return 0 };
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
}
