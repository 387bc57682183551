//! The store of snapshots: a folder, or a bucket in S3 or a compatible service.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path as FilePath;
use std::sync::{Mutex, MutexGuard, TryLockError};

use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, WriteMultipart,
};
use url::Url;
use xxhash_rust::xxh3::Xxh3;

use super::Contents;
use crate::error::{Failure, Kind};

/// Number of bytes that are read or sent at once.
const CHUNK: usize = 8 << 20;
/// Maximum size of a `snapshot.json` that is read, in bytes.
const MAX_CONTENTS: u64 = 256 << 20;
/// Maximum number of parts of a file in transfer at once.
const AT_ONCE: usize = 4;

/// A store of snapshots.
pub(crate) struct Store {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    /// Held while a snapshot is taken, restored or deleted.
    busy: Mutex<()>,
}

/// The size and checksum of a file that was sent or fetched.
pub(crate) struct Moved {
    pub(crate) bytes: u64,
    pub(crate) checksum: String,
}

impl Store {
    /// Opens the store that a URL names. Credentials for cloud stores come from the usual
    /// environment variables (`AWS_ACCESS_KEY_ID` and so on).
    pub(crate) fn open(url: &str, data: &std::path::Path) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| {
            format!(
                "snapshots.url = {url:?}: {e}; write it as file:///folder or s3://bucket/prefix"
            )
        };
        let parsed = Url::parse(url).map_err(|e| wrong(&e))?;
        let (store, prefix): (Box<dyn ObjectStore>, Path) = match parsed.scheme() {
            "file" => {
                let folder = parsed.to_file_path().map_err(|()| wrong(&"it is not a folder"))?;
                std::fs::create_dir_all(&folder).map_err(|e| wrong(&e))?;
                if let (Ok(folder), Ok(data)) = (folder.canonicalize(), data.canonicalize())
                    && folder.starts_with(data)
                {
                    return Err(wrong(
                        &"it is in the folder of the indexes and could be mistaken for one",
                    ));
                }
                let local = LocalFileSystem::new_with_prefix(&folder).map_err(|e| wrong(&e))?;
                (Box::new(local.with_automatic_cleanup(true).with_fsync(true)), Path::default())
            }
            #[cfg(not(feature = "s3"))]
            "s3" | "s3a" => {
                return Err(wrong(&"this program was built without the feature `s3`"));
            }
            _ => {
                let environment = settings(std::env::vars_os());
                object_store::parse_url_opts(&parsed, environment).map_err(|e| wrong(&e))?
            }
        };
        Ok(Store { store, prefix, busy: Mutex::default() })
    }

    /// Starts a change; fails if another is in progress.
    pub(crate) fn begin(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        match self.busy.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                Kind::Overload,
                "a snapshot is being taken, restored or deleted; try again later",
            )),
        }
    }

    fn at(&self, path: &str) -> Path {
        self.prefix.parts().chain(Path::from(path).parts()).collect()
    }

    fn document(&self, name: &str) -> Path {
        self.at(&format!("{name}/snapshot.json"))
    }

    /// Returns the contents of a snapshot, or `None` if it does not exist.
    pub(crate) async fn contents(&self, name: &str) -> Result<Option<Contents>, Failure> {
        let path = self.document(name);
        let found = match self.store.get(&path).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(broken)?,
        };
        if found.meta.size > MAX_CONTENTS {
            let reason = format!(
                "snapshot [{name}]: {path} has {} bytes, which is too large",
                found.meta.size
            );
            return Err(Failure::damaged(reason));
        }
        let bytes = found.bytes().await.map_err(broken)?;
        let contents: Contents = serde_json::from_slice(&bytes)
            .map_err(|e| Failure::damaged(format!("snapshot [{name}]: {path}: {e}")))?;
        contents.check(name)?;
        Ok(Some(contents))
    }

    /// Returns all snapshots, sorted by name. Unreadable ones are skipped with a warning.
    pub(crate) async fn all(&self) -> Result<Vec<Contents>, Failure> {
        let prefix = (!self.prefix.as_ref().is_empty()).then_some(&self.prefix);
        let listed = self.store.list_with_delimiter(prefix).await.map_err(broken)?;
        let mut all = Vec::new();
        for folder in listed.common_prefixes {
            let Some(name) = folder.filename().map(str::to_owned) else { continue };
            match self.contents(&name).await {
                Ok(contents) => all.extend(contents),
                Err(failure) => tracing::warn!(reason = failure.reason, "snapshot skipped"),
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Uploads a file.
    pub(crate) async fn upload(&self, file: &FilePath, path: &str) -> Result<Moved, Failure> {
        let named = |e: std::io::Error| Failure::broken(format!("{}: {e}", file.display()));
        let mut from = File::open(file).map_err(named)?;
        let to = self.at(path);
        let (mut checksum, mut bytes) = (Xxh3::new(), 0);
        let mut chunk = vec![0; CHUNK];
        let mut parts: Option<WriteMultipart> = None;
        loop {
            let read = read_full(&mut from, &mut chunk).map_err(named)?;
            checksum.update(&chunk[..read]);
            bytes += read as u64;
            match &mut parts {
                None if read < CHUNK => {
                    let payload = PutPayload::from(chunk[..read].to_vec());
                    self.store.put(&to, payload).await.map_err(broken)?;
                    break;
                }
                None => {
                    let upload = self.store.put_multipart(&to).await.map_err(broken)?;
                    parts.insert(WriteMultipart::new(upload)).write(&chunk);
                }
                Some(parts) => {
                    parts.wait_for_capacity(AT_ONCE).await.map_err(broken)?;
                    parts.write(&chunk[..read]);
                }
            }
            if read < CHUNK {
                break;
            }
        }
        if let Some(parts) = parts {
            parts.finish().await.map_err(broken)?;
        }
        Ok(Moved { bytes, checksum: text(&checksum) })
    }

    /// Downloads a file, which must have the size recorded in the snapshot.
    pub(crate) async fn download(
        &self,
        path: &str,
        file: &FilePath,
        bytes: u64,
    ) -> Result<Moved, Failure> {
        let named = |e: std::io::Error| Failure::broken(format!("{}: {e}", file.display()));
        let from = self.at(path);
        let there = match self.store.head(&from).await {
            Err(Error::NotFound { .. }) => {
                return Err(Failure::damaged(format!(
                    "the snapshot is damaged: {path} is missing"
                )));
            }
            there => there.map_err(broken)?.size,
        };
        if there != bytes {
            return Err(Failure::damaged(format!(
                "the snapshot is damaged: {path} has {there} bytes, but must have {bytes}"
            )));
        }
        let mut to = File::create(file).map_err(named)?;
        let (mut checksum, mut at) = (Xxh3::new(), 0);
        while at < bytes {
            let end = bytes.min(at + CHUNK as u64);
            let chunk = self.store.get_range(&from, at..end).await.map_err(broken)?;
            checksum.update(&chunk);
            to.write_all(&chunk).map_err(named)?;
            at = end;
        }
        to.sync_all().map_err(named)?;
        Ok(Moved { bytes, checksum: text(&checksum) })
    }

    /// Publishes a snapshot once all of its files are stored.
    pub(crate) async fn publish(&self, contents: &Contents) -> Result<(), Failure> {
        let bytes =
            serde_json::to_vec_pretty(contents).map_err(|e| Failure::broken(e.to_string()))?;
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let put = self.store.put_opts(&self.document(&contents.name), bytes.into(), options).await;
        match put {
            // Another server has created the snapshot first.
            Err(Error::AlreadyExists { .. }) => {
                let reason = format!("snapshot [{}] already exists", contents.name);
                Err(Failure::new(Kind::SnapshotExists, reason))
            }
            put => put.map(|_| ()).map_err(broken),
        }
    }

    /// Removes a snapshot, finished or not; returns false if nothing of it exists.
    pub(crate) async fn remove(&self, name: &str) -> Result<bool, Failure> {
        let document = self.document(name);
        let mut found = match self.store.head(&document).await {
            Ok(_) => self.store.delete(&document).await.map(|()| true).map_err(broken)?,
            Err(Error::NotFound { .. }) => false,
            Err(error) => return Err(broken(error)),
        };
        let files: Vec<ObjectMeta> =
            self.store.list(Some(&self.at(name))).try_collect().await.map_err(broken)?;
        for file in &files {
            match self.store.delete(&file.location).await {
                Ok(()) | Err(Error::NotFound { .. }) => found = true,
                Err(error) => return Err(broken(error)),
            }
        }
        Ok(found)
    }
}

/// Selects the environment variables meant for a store. The library would also accept names as
/// common as TOKEN and ENDPOINT, which are set for other programs.
fn settings(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    let text = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| {
        ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
    })
}

fn broken(error: Error) -> Failure {
    Failure::broken(format!("snapshot store: {error}"))
}

fn text(checksum: &Xxh3) -> String {
    format!("{:032x}", checksum.digest128())
}

/// Fills the buffer, unless the file ends earlier.
fn read_full(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_for_stores_reach_them() {
        let all = [("AWS_ENDPOINT", "a"), ("ENDPOINT", "b"), ("TOKEN", "c"), ("aws_region", "d")];
        let all = all.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let found: Vec<(String, String)> = settings(all.into_iter()).collect();
        assert_eq!(found, [("AWS_ENDPOINT".to_owned(), "a".to_owned())]);
    }

    #[cfg(unix)]
    #[test]
    fn variables_that_are_no_text_are_left_out() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = || OsString::from_vec(vec![b'A', 0xff]);
        let all = [(bytes(), "x".into()), ("AWS_REGION".into(), bytes())];
        assert_eq!(settings(all.into_iter()).count(), 0);
    }
}
