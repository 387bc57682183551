//! Fetching shards from the store to the disk of the machine that serves them.
//!
//! A cache has a folder `NAME/VERSION/SHARD` for each shard, which is an index. While it is being
//! fetched, the folder is called `SHARD.partial`; it is renamed when all of its files are
//! complete, so a folder with the final name is complete. A fetch reuses what an interrupted
//! fetch has left, and the files that another version of the shard in the cache shares with it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use warpseek::Progress;
use warpseek_store::lock;

use crate::collection::Collection;
use crate::digest::Digest;
use crate::error::{CollectionError, Result};
use crate::layout;
use crate::manifest::{FileEntry, ShardEntry};

/// The check of a shard that is already in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Names and sizes of the files are compared. Damage inside the files is found when they are
    /// read, because every page of an index has a checksum.
    #[default]
    Sizes,
    /// All files are read, and their checksums compared.
    Checksums,
}

/// Returns the folder of a shard in a cache, whether it exists or not.
pub fn shard_folder(cache: &Path, name: &str, version: u64, shard: u32) -> PathBuf {
    cache.join(name).join(layout::version_name(version)).join(layout::shard_name(shard))
}

/// The result of fetching a file.
enum Outcome {
    Whole,
    /// Description of the difference.
    Different(String),
}

impl Collection {
    /// Fetches a shard of a complete version into a cache, unless it is there already, and
    /// returns its folder, which [`warpseek::Index::open`] opens.
    pub fn fetch_shard(&self, version: u64, shard: u32, cache: &Path) -> Result<PathBuf> {
        self.fetch_shard_with(version, shard, cache, Check::default(), &Progress::default())
    }

    /// Fetches a shard as [`Collection::fetch_shard`] does, with a choice of the check of files
    /// in the cache, and with progress to watch or to cancel: `progress.bytes()` counts the files
    /// of the shard. A file that differs from its checksum is fetched once more, and is an error
    /// if it still differs. If two processes fetch the same shard, one waits for the other.
    pub fn fetch_shard_with(
        &self,
        version: u64,
        shard: u32,
        cache: &Path,
        check: Check,
        progress: &Progress,
    ) -> Result<PathBuf> {
        let manifest = self.manifest(version)?;
        let Some(entry) = manifest.shards.get(shard as usize) else {
            let last = manifest.shards.len().saturating_sub(1) as u32;
            return Err(CollectionError::NoShard { version, shard, last });
        };
        let folder = shard_folder(cache, &self.name, version, shard);
        let partial = folder.with_extension("partial");
        let done = self.fetch_into(version, entry, &folder, &partial, check, progress);
        match done {
            Err(CollectionError::Io { source, .. }) if is_full(&source) => {
                // A partial shard must not keep the disk full that other shards are being served
                // from.
                let _ = fs::remove_dir_all(&partial);
                let (folder, bytes) = (cache.to_owned(), entry.bytes);
                Err(CollectionError::DiskFull { folder, version, shard, bytes })
            }
            done => done.map(|()| folder),
        }
    }

    fn fetch_into(
        &self,
        version: u64,
        entry: &ShardEntry,
        folder: &Path,
        partial: &Path,
        check: Check,
        progress: &Progress,
    ) -> Result<()> {
        let parent = folder.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(CollectionError::io(parent))?;
        let _lock = lock(&folder.with_extension("lock"))?;
        progress.set_bytes(0, Some(entry.bytes));
        if folder.is_dir() {
            if is_complete(folder, entry, check)? {
                progress.set_bytes(entry.bytes, Some(entry.bytes));
                return Ok(());
            }
            // Its intact files are kept: each is compared with its checksum below.
            remove_folder(partial)?;
            fs::rename(folder, partial).map_err(CollectionError::io(folder))?;
        }
        fs::create_dir_all(partial).map_err(CollectionError::io(partial))?;
        let others = self.other_versions(folder);
        let mut before = 0;
        for file in &entry.files {
            let attempt = &entry.attempt;
            let object = layout::file(&self.name, version, entry.shard, attempt, &file.name);
            let done = |bytes: u64| {
                progress.set_bytes(before + bytes, Some(entry.bytes));
                progress.check().map_err(|e| CollectionError::Index(e.into()))
            };
            let path = partial.join(&file.name);
            if !path.exists() && reuse(&others, file, &path)? {
                done(file.bytes)?;
            } else {
                self.fetch_file(&object, file, &path, done)?;
            }
            before += file.bytes;
        }
        remove_others(partial, entry)?;
        sync_folder(partial)?;
        fs::rename(partial, folder).map_err(CollectionError::io(folder))?;
        sync_folder(parent)
    }

    /// Returns the folders of other versions of a shard in the cache, newest first.
    fn other_versions(&self, folder: &Path) -> Vec<PathBuf> {
        let own = folder.parent().and_then(Path::file_name);
        let (Some(own), Some(shard)) = (own, folder.file_name()) else { return Vec::new() };
        let listed = |all: &Path| versions(all).unwrap_or_default();
        let mut versions = folder.ancestors().nth(2).map(listed).unwrap_or_default();
        versions.retain(|(_, other)| other.file_name() != Some(own));
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.into_iter().map(|(_, folder)| folder.join(shard)).collect()
    }

    fn fetch_file(
        &self,
        object: &str,
        file: &FileEntry,
        path: &Path,
        done: impl Fn(u64) -> Result<()>,
    ) -> Result<()> {
        let mut what = String::new();
        for _ in 0..2 {
            match self.try_file(object, file, path, &done)? {
                Outcome::Whole => return Ok(()),
                Outcome::Different(how) => what = how,
            }
            fs::remove_file(path).map_err(CollectionError::io(path))?;
        }
        Err(CollectionError::Damaged { object: object.to_owned(), what })
    }

    /// Continues a file where it ends, and compares it with its checksum.
    fn try_file(
        &self,
        object: &str,
        file: &FileEntry,
        path: &Path,
        done: &impl Fn(u64) -> Result<()>,
    ) -> Result<Outcome> {
        let named = || CollectionError::io(path);
        let mut to = File::options().create(true).append(true).open(path).map_err(named())?;
        let there = to.metadata().map_err(named())?.len();
        if there > file.bytes {
            let what = format!("it has {there} bytes instead of {}", file.bytes);
            return Ok(Outcome::Different(what));
        }
        let mut digest = Digest::new();
        let mut bytes = digest.update_from(path)?;
        done(bytes)?;
        self.store.read(object, bytes..file.bytes, |piece| {
            to.write_all(piece).map_err(named())?;
            digest.update(piece);
            bytes += piece.len() as u64;
            done(bytes)
        })?;
        to.sync_all().map_err(named())?;
        if bytes != file.bytes {
            let what = format!("it has {bytes} bytes instead of {}", file.bytes);
            return Ok(Outcome::Different(what));
        }
        let found = digest.finish();
        Ok(match found == file.sha256 {
            true => Outcome::Whole,
            false => Outcome::Different(format!("its sha256 is {found}, not {}", file.sha256)),
        })
    }

    /// Removes versions of this collection that are older than `version` from a cache. The newest
    /// of them are kept, so that together with `version` at most `keep` remain. Returns the
    /// removed versions.
    pub fn remove_older(&self, cache: &Path, version: u64, keep: usize) -> Result<Vec<u64>> {
        let folder = cache.join(&self.name);
        let mut older: Vec<(u64, PathBuf)> = versions(&folder)?;
        older.retain(|(other, _)| *other < version);
        older.sort_unstable_by(|a, b| b.cmp(a));
        let mut removed = Vec::new();
        for (version, folder) in older.into_iter().skip(keep.saturating_sub(1)) {
            remove_folder(&folder)?;
            removed.push(version);
        }
        Ok(removed)
    }
}

/// Returns the versions in the folder of a collection, with their folders.
fn versions(folder: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(CollectionError::io(folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(CollectionError::io(folder))?;
        let version = layout::parse_version(&entry.file_name().to_string_lossy());
        found.extend(version.map(|version| (version, entry.path())));
    }
    Ok(found)
}

/// Reuses a file of another version of the shard by a hard link, if there is one. Files of an
/// index never change once they are written, so both versions can share it.
fn reuse(others: &[PathBuf], file: &FileEntry, path: &Path) -> Result<bool> {
    for other in others {
        let from = other.join(&file.name);
        let same_size = from.metadata().is_ok_and(|found| found.len() == file.bytes);
        // If the file system has no hard links, the file is fetched.
        if !same_size || fs::hard_link(&from, path).is_err() {
            continue;
        }
        let mut digest = Digest::new();
        digest.update_from(path)?;
        if digest.finish() == file.sha256 {
            return Ok(true);
        }
        fs::remove_file(path).map_err(CollectionError::io(path))?;
    }
    Ok(false)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn is_complete(folder: &Path, entry: &ShardEntry, check: Check) -> Result<bool> {
    for file in &entry.files {
        let path = folder.join(&file.name);
        match path.metadata() {
            Ok(found) if found.is_file() && found.len() == file.bytes => {}
            _ => return Ok(false),
        }
        if check == Check::Checksums {
            let mut digest = Digest::new();
            digest.update_from(&path)?;
            if digest.finish() != file.sha256 {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Removes everything that is not a file of the shard.
fn remove_others(folder: &Path, entry: &ShardEntry) -> Result<()> {
    for other in fs::read_dir(folder).map_err(CollectionError::io(folder))? {
        let other = other.map_err(CollectionError::io(folder))?;
        let is_file = other.file_type().map_err(CollectionError::io(folder))?.is_file();
        let name = other.file_name();
        if is_file && entry.files.iter().any(|file| name == file.name.as_str()) {
            continue;
        }
        let path = other.path();
        let removed = if is_file { fs::remove_file(&path) } else { fs::remove_dir_all(&path) };
        removed.map_err(CollectionError::io(&path))?;
    }
    Ok(())
}

pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CollectionError::io(folder)(error))
        }
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(CollectionError::io(folder))
}
