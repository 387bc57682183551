//! The directory of an index: its lock, commits, and cleaning up after a crash
//! (docs/reference/formats/README.md).

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{IndexError, Result};
use crate::files::container::{Kind, SealedFile, seal_bytes};
use crate::files::manifest::{Manifest, SegmentEntry};

/// Name of the file that names all other files of an index.
pub const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
const LOCK: &str = "lock";
const BUILD_PREFIX: &str = "build-";
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads the manifest of the index in `dir`.
pub fn read_manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join(MANIFEST);
    // The manifest is never mapped: it is small and is read only once.
    match SealedFile::read(&path, Kind::Manifest, Manifest::MAX_FILE) {
        Ok(file) => Manifest::read(&file),
        Err(IndexError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Err(IndexError::NotAnIndex { dir: dir.to_owned() })
        }
        Err(error) => Err(error),
    }
}

/// Writes a manifest into a directory that has none and that no reader has open yet.
pub(crate) fn place_manifest(dir: &Path, manifest: &Manifest) -> Result<()> {
    let path = dir.join(MANIFEST);
    let bytes = seal_bytes(Kind::Manifest, &manifest.to_bytes());
    fs::write(&path, bytes).map_err(IndexError::io(&path))?;
    File::open(&path).and_then(|f| f.sync_all()).map_err(IndexError::io(&path))
}

/// The exclusive right to write to an index, released on drop.
pub(crate) struct WriteLock {
    dir: PathBuf,
    file: File,
    in_use: Mutex<InUse>,
}

/// Files that a writer still needs although no manifest names them: one thread may commit while
/// others write.
#[derive(Default)]
struct InUse {
    /// Numbers of segments that are being written.
    segments: BTreeSet<u64>,
    /// Names of scratch directories.
    scratch: BTreeSet<String>,
}

impl Drop for WriteLock {
    /// Releases the lock explicitly. Closing the file is not enough: a process that another thread
    /// starts at this moment has a copy of the file until it executes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

impl WriteLock {
    /// Takes the lock of `dir`, which must exist. Waits up to one second, since another writer
    /// may be about to finish.
    pub(crate) fn take(dir: &Path) -> Result<Self> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            match Self::try_take(dir) {
                Err(IndexError::Locked { .. }) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
    }

    fn try_take(dir: &Path) -> Result<Self> {
        let path = dir.join(LOCK);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(IndexError::io(&path))?;
        match file.try_lock() {
            // A writer that failed may have removed the file just now.
            Ok(()) if !is_still_there(&file, &path) => {
                Err(IndexError::Locked { dir: dir.to_owned() })
            }
            Ok(()) => {
                let in_use = Mutex::default();
                Ok(WriteLock { dir: dir.to_owned(), file, in_use })
            }
            Err(TryLockError::WouldBlock) => Err(IndexError::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(source)) => Err(IndexError::Io { path, source }),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns an error if the directory has been replaced by another one, in which this writer
    /// must not write.
    pub(crate) fn check(&self) -> Result<()> {
        let path = self.dir.join(LOCK);
        match is_still_there(&self.file, &path) {
            true => Ok(()),
            false => {
                let what = "the directory was removed or replaced while it was open for writing";
                let source = std::io::Error::new(ErrorKind::NotFound, what);
                Err(IndexError::Io { path, source })
            }
        }
    }

    /// Creates an empty directory for scratch files.
    pub(crate) fn scratch(&self) -> Result<Scratch<'_>> {
        // The name is unique in this process, which is the only one that writes here.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{BUILD_PREFIX}{}{number:06}", std::process::id());
        let scratch = Scratch { lock: self, path: self.dir.join(&name), name: name.clone() };
        self.in_use().scratch.insert(name);
        // Another process may have left a directory of the same name that could not be removed.
        let _ = fs::remove_dir_all(&scratch.path);
        fs::create_dir(&scratch.path).map_err(IndexError::io(&scratch.path))?;
        Ok(scratch)
    }

    /// Protects the files of a segment that is being written, until the guard is dropped.
    pub(crate) fn protect(&self, number: u64) -> Protected<'_> {
        self.in_use().segments.insert(number);
        Protected { lock: self, number }
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `manifest` the current one. When this returns, the manifest is durable and files
    /// that it does not name have been removed.
    pub(crate) fn commit(&self, manifest: &Manifest) -> Result<()> {
        self.check()?;
        let (new, current) = (self.dir.join(MANIFEST_NEW), self.dir.join(MANIFEST));
        // Opened before the manifest is switched: a failure to open the directory afterwards
        // would report an error for a commit that took effect.
        let dir = File::open(&self.dir).map_err(IndexError::io(&self.dir))?;
        let sync = || dir.sync_all().map_err(IndexError::io(&self.dir));
        sync()?;
        let bytes = seal_bytes(Kind::Manifest, &manifest.to_bytes());
        fs::write(&new, bytes).map_err(IndexError::io(&new))?;
        File::open(&new).and_then(|f| f.sync_all()).map_err(IndexError::io(&new))?;
        fs::rename(&new, &current).map_err(IndexError::io(&current))?;
        // From here on the new manifest is in effect even if a later step fails. Cleaning up
        // after an error must therefore read the manifest on disk.
        sync()?;
        self.clean(manifest);
        Ok(())
    }

    /// Removes files that the manifest does not name, except those in use. A file that cannot be
    /// removed is left to the next writer.
    pub(crate) fn clean(&self, manifest: &Manifest) {
        let named: HashSet<String> =
            manifest.segments.iter().flat_map(SegmentEntry::file_names).collect();
        self.clean_scratch();
        let is_needed = |name: &str| {
            log_number(name).is_some_and(|n| manifest.log.is_some_and(|log| log.number <= n))
        };
        self.remove(|name| {
            is_segment_file(name) && !named.contains(name) && !is_needed(name) && !self.uses(name)
        });
    }

    /// Returns true if the file belongs to a segment that is being written.
    fn uses(&self, name: &str) -> bool {
        segment_number(name).is_some_and(|number| self.in_use().segments.contains(&number))
    }

    /// Removes unused scratch files, which no manifest ever names.
    pub(crate) fn clean_scratch(&self) {
        self.remove(|name| name == MANIFEST_NEW);
        let unused = |name: &str| is_scratch(name) && !self.in_use().scratch.contains(name);
        for entry in entries(&self.dir) {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && entry.file_name().to_str().is_some_and(unused) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Prepares a write by removing what an interrupted writer left behind.
    ///
    /// If no manifest can be read, it is unknown which segment files matter, so they stay until a
    /// new index is committed here.
    pub(crate) fn recover(&self) {
        match read_manifest(&self.dir) {
            Ok(manifest) => self.clean(&manifest),
            Err(_) => self.clean_scratch(),
        }
    }

    /// Cleans up after a failed write by removing files that the manifest on disk does not name.
    /// If there is no manifest, only the files of segment `number`, which was being written, are
    /// removed.
    pub(crate) fn abandon(&self, number: u64) {
        match read_manifest(&self.dir) {
            Ok(manifest) => self.clean(&manifest),
            // A manifest that could not be read may name the segment.
            Err(IndexError::Io { .. }) => self.clean_scratch(),
            Err(_) => {
                self.clean_scratch();
                self.remove(|name| is_segment_file(name) && segment_number(name) == Some(number));
            }
        }
    }

    /// Removes the plain files whose names match.
    fn remove(&self, unwanted: impl Fn(&str) -> bool) {
        for entry in entries(&self.dir) {
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && entry.file_name().to_str().is_some_and(&unwanted) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Removes the lock and the directory if the directory contains nothing else.
    pub(crate) fn remove_if_empty(self) {
        let only_lock = entries(&self.dir).all(|entry| entry.file_name() == LOCK);
        if only_lock && fs::remove_file(self.dir.join(LOCK)).is_ok() {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(dir).into_iter().flatten().flatten()
}

/// Returns true if `path` still names the locked file, so that other processes find the lock.
#[cfg(unix)]
fn is_still_there(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |m: fs::Metadata| (m.dev(), m.ino());
    let (ours, there) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    matches!((ours, there), (Ok(ours), Ok(there)) if ours == there)
}

#[cfg(not(unix))]
fn is_still_there(_: &File, path: &Path) -> bool {
    path.exists()
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Returns true if the name has the form of a scratch directory.
fn is_scratch(name: &str) -> bool {
    name.strip_prefix(BUILD_PREFIX).is_some_and(digits)
}

/// Returns true if the name has the form of a file of an index.
fn is_segment_file(name: &str) -> bool {
    let Some((number, rest)) = name.split_once('.') else { return false };
    let deletes = rest.strip_suffix(".del").is_some_and(digits);
    digits(number)
        && number.len() >= 6
        && (deletes || rest == "log" || Kind::SEGMENT.iter().any(|kind| kind.name() == rest))
}

/// Returns the number of a log, or `None` if the name is not that of a log.
fn log_number(name: &str) -> Option<u64> {
    let is_log = is_segment_file(name) && name.ends_with(".log");
    is_log.then(|| segment_number(name)).flatten()
}

/// Returns the numbers of all logs in `dir` from `first` on, in ascending order.
pub(crate) fn log_numbers(dir: &Path, first: u64) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(IndexError::io(dir))? {
        let name = entry.map_err(IndexError::io(dir))?.file_name();
        numbers.extend(log_number(&name.to_string_lossy()).filter(|&number| number >= first));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn segment_number(name: &str) -> Option<u64> {
    name.split_once('.')?.0.parse().ok()
}

/// Returns the highest segment number of any file in `dir`, or 0 if there is none.
pub(crate) fn highest_number(dir: &Path) -> Result<u64> {
    let mut highest = 0;
    for entry in fs::read_dir(dir).map_err(IndexError::io(dir))? {
        let name = entry.map_err(IndexError::io(dir))?.file_name();
        let name = name.to_string_lossy();
        if is_segment_file(&name) {
            highest = highest.max(segment_number(&name).unwrap_or(0));
        }
    }
    Ok(highest)
}

/// Returns true if `dir` holds only files that a writer may have left there before its first
/// commit.
pub(crate) fn holds_nothing_else(dir: &Path) -> Result<bool> {
    for entry in fs::read_dir(dir).map_err(IndexError::io(dir))? {
        let name = entry.map_err(IndexError::io(dir))?.file_name();
        let name = name.to_string_lossy();
        let ours = [LOCK, MANIFEST, MANIFEST_NEW].contains(&&*name)
            || is_scratch(&name)
            || is_segment_file(&name);
        if !ours {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|d| d.sync_all()).map_err(IndexError::io(dir))
}

/// Creates a directory and its parents, durably. A parent that this process may not read is not
/// synced.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    let parent = |path: &Path| match path.parent() {
        Some(up) if up.as_os_str().is_empty() => Some(PathBuf::from(".")),
        up => up.map(Path::to_owned),
    };
    let missing = std::iter::successors(Some(dir.to_owned()), |path| parent(path));
    let missing: Vec<PathBuf> = missing.take_while(|path| !path.exists()).collect();
    fs::create_dir_all(dir).map_err(IndexError::io(dir))?;
    for above in missing.iter().filter_map(|path| parent(path)) {
        match sync_dir(&above) {
            Err(IndexError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {}
            result => result?,
        }
    }
    Ok(())
}

/// A directory that is removed when this value is dropped.
pub(crate) struct Scratch<'a> {
    lock: &'a WriteLock,
    path: PathBuf,
    name: String,
}

impl Scratch<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        self.lock.in_use().scratch.remove(&self.name);
    }
}

/// A guard that keeps the files of a segment being written from being removed.
pub(crate) struct Protected<'a> {
    lock: &'a WriteLock,
    number: u64,
}

impl Drop for Protected<'_> {
    fn drop(&mut self) {
        self.lock.in_use().segments.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{BuildConfig, Progress};
    use crate::change::create::create;
    use crate::files::manifest::{LogEntry, log_name};

    /// Creates an index without documents, and takes its lock.
    fn locked(dir: &Path) -> (WriteLock, Manifest) {
        create(dir, &[], &BuildConfig::default(), false, &Progress::default()).unwrap();
        (WriteLock::take(dir).unwrap(), read_manifest(dir).unwrap())
    }

    #[test]
    fn a_directory_that_was_replaced_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, old) = (folder.path().join("index"), folder.path().join("old"));
        fs::create_dir(&dir).unwrap();
        let (lock, manifest) = locked(&dir);
        fs::rename(&dir, &old).unwrap();
        assert!(lock.commit(&manifest).is_err());
        fs::create_dir(&dir).unwrap();
        let (_, other) = locked(&dir);
        let error = lock.commit(&Manifest { generation: 77, ..manifest }).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
        assert_eq!(read_manifest(&dir).unwrap().generation, other.generation);
    }

    #[test]
    fn what_is_in_the_making_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, manifest) = locked(dir.path());
        let files =
            ["000007.dict", "000007.1.del", "000008.dict"].map(|name| dir.path().join(name));
        let write = || files.iter().for_each(|file| fs::write(file, "x").unwrap());
        let there = || files.each_ref().map(|file| file.exists());
        let cleanings: [&dyn Fn(); 3] =
            [&|| lock.clean(&manifest), &|| lock.commit(&manifest).unwrap(), &|| lock.abandon(8)];
        for clean in cleanings {
            write();
            let protected = lock.protect(7);
            clean();
            assert_eq!(there(), [true, true, false]);
            drop(protected);
            clean();
            assert_eq!(there(), [false; 3]);
        }
    }

    #[test]
    fn logs_stay_from_the_one_that_the_manifest_names_on() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, manifest) = locked(dir.path());
        let logs = |log: Option<u64>| {
            (7..=9).for_each(|n| fs::write(dir.path().join(log_name(n)), "x").unwrap());
            let log = log.map(|number| LogEntry { number, sequence: 1 });
            lock.clean(&Manifest { log, ..manifest.clone() });
            log_numbers(dir.path(), 0).unwrap()
        };
        assert_eq!(logs(Some(8)), [8, 9]);
        assert_eq!(log_numbers(dir.path(), 9).unwrap(), [9]);
        assert_eq!(logs(None), [0; 0]);
    }

    #[test]
    fn scratch_directories_are_apart_and_go_when_they_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, manifest) = locked(dir.path());
        // Left behind by a process that was killed.
        let dead = dir.path().join("build-12345");
        fs::create_dir(&dead).unwrap();
        let (first, second) = (lock.scratch().unwrap(), lock.scratch().unwrap());
        assert_ne!(first.path(), second.path());
        for scratch in [&first, &second] {
            fs::write(scratch.path().join("run-0"), "x").unwrap();
        }
        lock.clean(&manifest);
        assert!(first.path().join("run-0").exists() && second.path().join("run-0").exists());
        assert!(!dead.exists());
        let path = first.path().to_owned();
        assert!(is_scratch(path.file_name().unwrap().to_str().unwrap()));
        drop(first);
        assert!(!path.exists() && second.path().exists());
    }

    #[test]
    fn only_our_own_names_are_ever_removed() {
        assert!(is_scratch("build-123"));
        for name in ["build-debug", "build-", "build-1x", "rebuild-1"] {
            assert!(!is_scratch(name), "{name}");
        }
        for name in ["000001.dict", "1234567.post", "000002.7.del", "000001.store", "000003.log"] {
            assert!(is_segment_file(name), "{name}");
        }
        for name in [
            "2024.docs",
            "7.dict",
            "notes.txt",
            "000001.txt",
            ".dict",
            "a.dict",
            "000001.x.del",
            "manifest",
            "1.del",
            "3.log",
            "error.log",
        ] {
            assert!(!is_segment_file(name), "{name}");
        }
    }
}
