//! The object store: a folder, or a bucket in a cloud. All functions block until the store has
//! answered.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
    WriteMultipart,
};
use tokio::runtime::{Builder, Handle, Runtime};
use url::Url;

use crate::digest::{CHUNK, Digest, read_full};
use crate::error::{CollectionError, Result};
use crate::layout::MAX_JSON;

/// Number of parts of a file in transit at the same time.
const AT_ONCE: usize = 4;
/// Name of the file that locks a folder while its pointer is switched.
const LOCK: &str = "current.lock";

/// An object store.
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Root folder, if the store is a folder.
    folder: Option<PathBuf>,
    handle: Handle,
    runtime: Option<Runtime>,
}

/// An object that was read completely.
pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    /// Version of the object, for conditional writes.
    seen: UpdateVersion,
}

/// A file that was uploaded.
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waiting for the threads would panic in asynchronous code, where a store may be dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store {
    /// Opens the store at a URL or the path of a folder. Credentials for clouds come only from
    /// the environment, under the names that other programs use, such as `AWS_ACCESS_KEY_ID`. A
    /// folder is created only with `create`.
    pub(crate) fn open(url: &str, create: bool) -> Result<Self> {
        let (objects, prefix, folder) = match Url::parse(url) {
            // `c:\data` is a Windows folder and not a URL with the scheme `c`.
            Ok(url) if url.scheme().len() > 1 => open_url(&url, create)?,
            _ => open_folder(FilePath::new(url), create)?,
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("collection")
            .enable_all()
            .build()
            .map_err(|e| CollectionError::Internal(format!("threads for a store: {e}")))?;
        let handle = runtime.handle().clone();
        Ok(Store { objects, prefix, folder, handle, runtime: Some(runtime) })
    }

    fn at(&self, object: &str) -> Path {
        self.prefix.parts().chain(Path::from(object).parts()).collect()
    }

    /// Reads a small object completely. Returns `None` if it does not exist.
    pub(crate) fn get(&self, object: &str) -> Result<Option<Got>> {
        self.handle.block_on(async {
            let found = match self.objects.get(&self.at(object)).await {
                Err(Error::NotFound { .. }) => return Ok(None),
                found => found.map_err(failure(object))?,
            };
            if found.meta.size > MAX_JSON {
                let what = format!("it has {} bytes", found.meta.size);
                return Err(CollectionError::Damaged { object: object.to_owned(), what });
            }
            let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
            let bytes = found.bytes().await.map_err(failure(object))?.to_vec();
            Ok(Some(Got { bytes, seen: UpdateVersion { e_tag, version } }))
        })
    }

    /// Creates an object. Returns false if it exists already.
    pub(crate) fn create(&self, object: &str, bytes: Vec<u8>) -> Result<bool> {
        let put = self.put(object, bytes, PutMode::Create);
        match put {
            Err(Error::AlreadyExists { .. }) => Ok(false),
            put => put.map(|()| true).map_err(failure(object)),
        }
    }

    /// Writes an object, whether it exists or not.
    pub(crate) fn overwrite(&self, object: &str, bytes: Vec<u8>) -> Result<()> {
        self.put(object, bytes, PutMode::Overwrite).map_err(failure(object))
    }

    /// Replaces an object if it has not changed since `read`, and otherwise returns false.
    /// `folder` is the place of the lock in a store that is a folder.
    pub(crate) fn replace(
        &self,
        folder: &str,
        object: &str,
        read: Option<&Got>,
        bytes: Vec<u8>,
    ) -> Result<bool> {
        let Some(read) = read else { return self.create(object, bytes) };
        if let Some(root) = &self.folder {
            // A folder has no conditional writes, so a lock replaces them. Readers see an atomic
            // rename.
            let _lock = lock(&root.join(folder).join(LOCK))?;
            if self.get(object)?.is_none_or(|now| now.bytes != read.bytes) {
                return Ok(false);
            }
            return self.overwrite(object, bytes).map(|()| true);
        }
        match self.put(object, bytes.clone(), PutMode::Update(read.seen.clone())) {
            Err(Error::Precondition { .. } | Error::NotFound { .. }) => Ok(false),
            // The store has no conditional writes: the last write wins.
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                self.overwrite(object, bytes).map(|()| true)
            }
            put => put.map(|()| true).map_err(failure(object)),
        }
    }

    fn put(&self, object: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let (to, payload) = (self.at(object), PutPayload::from(bytes));
        self.handle.block_on(self.objects.put_opts(&to, payload, options)).map(|_| ())
    }

    /// Uploads a file, which appears in the store when it is complete. `check` is called with the
    /// number of bytes sent so far, and can stop the upload.
    pub(crate) fn upload(
        &self,
        file: &FilePath,
        object: &str,
        mut check: impl FnMut(u64) -> Result<()>,
    ) -> Result<Sent> {
        let mut from = File::open(file).map_err(CollectionError::io(file))?;
        let to = self.at(object);
        self.handle.block_on(async {
            let (mut digest, mut bytes) = (Digest::new(), 0);
            let mut chunk = vec![0; CHUNK];
            let mut parts: Option<WriteMultipart> = None;
            loop {
                check(bytes)?;
                let read = read_full(&mut from, &mut chunk).map_err(CollectionError::io(file))?;
                digest.update(&chunk[..read]);
                bytes += read as u64;
                match &mut parts {
                    None if read < CHUNK => {
                        let payload = PutPayload::from(chunk[..read].to_vec());
                        self.objects.put(&to, payload).await.map_err(failure(object))?;
                        break;
                    }
                    None => {
                        let upload = self.objects.put_multipart(&to).await;
                        let upload = upload.map_err(failure(object))?;
                        parts.insert(WriteMultipart::new(upload)).write(&chunk);
                    }
                    Some(parts) => {
                        parts.wait_for_capacity(AT_ONCE).await.map_err(failure(object))?;
                        parts.write(&chunk[..read]);
                    }
                }
                if read < CHUNK {
                    break;
                }
            }
            if let Some(parts) = parts {
                parts.finish().await.map_err(failure(object))?;
            }
            check(bytes)?;
            Ok(Sent { bytes, sha256: digest.finish() })
        })
    }

    /// Copies an object within the store. Returns false if the store cannot, for whatever reason:
    /// some refuse large objects.
    pub(crate) fn copy(&self, from: &str, to: &str) -> bool {
        self.handle.block_on(self.objects.copy(&self.at(from), &self.at(to))).is_ok()
    }

    /// Reads a range of an object in pieces, several at a time, and passes them to `take` in
    /// order. A piece that is shorter than requested is the last one: the object ends there.
    pub(crate) fn read(
        &self,
        object: &str,
        range: Range<u64>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let from = self.at(object);
        let starts = range.clone().step_by(CHUNK);
        let pieces = stream::iter(starts).map(|start| {
            let (objects, from) = (self.objects.clone(), from.clone());
            let end = range.end.min(start + CHUNK as u64);
            async move { (end - start, objects.get_range(&from, start..end).await) }
        });
        let mut pieces = pieces.buffered(AT_ONCE);
        self.handle.block_on(async {
            while let Some((wanted, piece)) = pieces.next().await {
                let piece = match piece {
                    Err(Error::NotFound { .. }) => {
                        return Err(CollectionError::Missing { object: object.to_owned() });
                    }
                    piece => piece.map_err(failure(object))?,
                };
                take(&piece)?;
                if (piece.len() as u64) < wanted {
                    return Ok(());
                }
            }
            Ok(())
        })
    }

    /// Returns the size of an object in bytes.
    pub(crate) fn size(&self, object: &str) -> Result<u64> {
        match self.handle.block_on(self.objects.head(&self.at(object))) {
            Err(Error::NotFound { .. }) => {
                Err(CollectionError::Missing { object: object.to_owned() })
            }
            found => found.map(|meta| meta.size).map_err(failure(object)),
        }
    }

    /// Returns the names of the folders in a folder, sorted.
    pub(crate) fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let at = self.at(folder);
        let at = (!at.as_ref().is_empty()).then_some(&at);
        let listed = self.handle.block_on(self.objects.list_with_delimiter(at));
        let listed = listed.map_err(failure(folder))?;
        let names = listed.common_prefixes.iter().filter_map(|path| path.filename());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the total size of all objects below a folder in bytes.
    pub(crate) fn bytes_below(&self, folder: &str) -> Result<u64> {
        let all = self.objects_below(folder)?;
        Ok(all.iter().map(|object| object.size).sum())
    }

    fn objects_below(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let all = self.objects.list(Some(&self.at(folder))).try_collect();
        self.handle.block_on(all).map_err(failure(folder))
    }

    /// Deletes an object. A missing object is not an error.
    pub(crate) fn delete(&self, object: &str) -> Result<()> {
        match self.handle.block_on(self.objects.delete(&self.at(object))) {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(object)(error)),
        }
    }

    /// Deletes everything below a folder. Returns false if there was nothing.
    pub(crate) fn delete_below(&self, folder: &str) -> Result<bool> {
        let all = self.objects_below(folder)?;
        for object in &all {
            match self.handle.block_on(self.objects.delete(&object.location)) {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(failure(object.location.as_ref())(error)),
            }
        }
        if let Some(root) = &self.folder {
            // Files left by a killed upload are not listed.
            let path = root.join(folder);
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(CollectionError::io(&path)(error));
                }
                done => return Ok(done.is_ok() || !all.is_empty()),
            }
        }
        Ok(!all.is_empty())
    }
}

type Opened = (Arc<dyn ObjectStore>, Path, Option<PathBuf>);

fn wrong(what: impl std::fmt::Display) -> CollectionError {
    CollectionError::Url { what: redacted(&what.to_string()) }
}

fn open_folder(folder: &FilePath, create: bool) -> Result<Opened> {
    if folder.as_os_str().is_empty() {
        return Err(wrong("it is empty"));
    }
    if create {
        std::fs::create_dir_all(folder).map_err(CollectionError::io(folder))?;
    } else if !folder.is_dir() {
        return Err(wrong(format!("there is no folder {}", folder.display())));
    }
    let folder = folder.canonicalize().map_err(CollectionError::io(folder))?;
    let local = LocalFileSystem::new_with_prefix(&folder).map_err(wrong)?;
    let local = local.with_automatic_cleanup(true).with_fsync(true);
    Ok((Arc::new(local), Path::default(), Some(folder)))
}

fn open_url(url: &Url, create: bool) -> Result<Opened> {
    // In `abfs://container@account.dfs.core.windows.net/prefix` the user name is the container.
    let is_container = matches!(url.scheme(), "abfs" | "abfss");
    let has_user = !url.username().is_empty() && !is_container;
    if has_user || url.password().is_some() || url.query().is_some() {
        return Err(wrong("it has a user, a password or parameters; set keys in the environment"));
    }
    let feature = match url.scheme() {
        "file" => {
            let folder = url.to_file_path().map_err(|()| wrong("it is not a folder"))?;
            return open_folder(&folder, create);
        }
        "s3" | "s3a" => ("s3", cfg!(feature = "s3")),
        "gs" => ("gcs", cfg!(feature = "gcs")),
        "az" | "azure" | "adl" | "abfs" | "abfss" => ("azure", cfg!(feature = "azure")),
        other => return Err(wrong(format!("there is no store of kind `{other}`"))),
    };
    if let (name, false) = feature {
        return Err(wrong(format!("this program was built without the feature `{name}`")));
    }
    let environment = settings(std::env::vars_os());
    let (store, prefix) = object_store::parse_url_opts(url, environment).map_err(wrong)?;
    Ok((Arc::from(store), prefix, None))
}

/// Returns the environment variables for stores. The library would also accept names as common as
/// TOKEN and ENDPOINT, which are set for other programs.
fn settings(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    let text = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    text.filter(|(name, _)| {
        ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix))
    })
}

/// Locks a file for this process, waiting for other processes that hold the lock.
pub(crate) fn lock(path: &FilePath) -> Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(CollectionError::io(path))?;
    file.lock().map_err(CollectionError::io(path))?;
    Ok(file)
}

fn failure(object: &str) -> impl FnOnce(Error) -> CollectionError + '_ {
    move |error| CollectionError::Store {
        object: object.to_owned(),
        what: redacted(&error.to_string()),
    }
}

/// Returns a message without the parameters of URLs, which may contain signatures.
fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let end = rest[at..].find(|c: char| c.is_whitespace() || "\"'<>".contains(c));
        let (address, after) = rest.split_at(end.map_or(rest.len(), |end| at + end));
        out += address.split(['?', '#']).next().unwrap_or_default();
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_repeated() {
        let text =
            "GET https://a.example/b?sig=secret#x failed, see \"http://c.example/?d=e\"; ok?";
        let clean = "GET https://a.example/b failed, see \"http://c.example/\"; ok?";
        assert_eq!(redacted(text), clean);
        assert_eq!(redacted("no address?"), "no address?");
        for url in ["s3://key:secret@bucket/x", "az://container/x?sig=secret"] {
            let error = Store::open(url, false).err().unwrap().to_string();
            assert!(error.contains("environment") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn only_variables_for_stores_reach_them() {
        let all = [
            ("AWS_ENDPOINT", "http://minio:9000"),
            ("ENDPOINT", "http://other"),
            ("TOKEN", "secret"),
            ("PROXY_URL", "http://proxy"),
            ("aws_region", "other"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("GOOGLE_SERVICE_ACCOUNT", "key.json"),
            ("MY_AWS_REGION", "other"),
        ];
        let all = all.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let names: Vec<String> = settings(all.into_iter()).map(|(name, _)| name).collect();
        assert_eq!(names, ["AWS_ENDPOINT", "AZURE_STORAGE_ACCOUNT_NAME", "GOOGLE_SERVICE_ACCOUNT"]);
    }

    #[cfg(unix)]
    #[test]
    fn variables_that_are_no_text_are_left_out() {
        use std::os::unix::ffi::OsStringExt;
        let bytes = || OsString::from_vec(vec![b'A', 0xff]);
        let all = [(bytes(), "x".into()), ("AWS_REGION".into(), bytes())];
        assert_eq!(settings(all.into_iter()).count(), 0);
    }

    #[test]
    fn the_container_of_azure_is_no_user() {
        let error = |url: &str| match Store::open(url, false) {
            // Without Azure in this build, or without its keys.
            Err(error) => error.to_string(),
            Ok(_) => String::new(),
        };
        let host = "account.dfs.core.windows.net/prefix";
        for url in [format!("abfs://box@{host}"), format!("abfss://box@{host}")] {
            assert!(!error(&url).contains("it has a user"), "{}", error(&url));
        }
        for url in [format!("abfs://box:secret@{host}"), format!("az://box@{host}")] {
            assert!(error(&url).contains("it has a user"), "{}", error(&url));
        }
    }

    #[test]
    fn what_is_no_store_is_refused() {
        for url in ["", "ftp://a/b", "file://host/x", "http://a/b"] {
            assert!(matches!(Store::open(url, true), Err(CollectionError::Url { .. })), "{url}");
        }
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let error = Store::open(missing.to_str().unwrap(), false).err().unwrap();
        assert!(error.to_string().contains("there is no folder"), "{error}");
        assert!(!missing.exists());
        Store::open(missing.to_str().unwrap(), true).unwrap();
        assert!(missing.exists());
    }

    #[test]
    fn a_replacement_needs_what_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let url = Url::from_directory_path(dir.path()).unwrap();
        let store = Store::open(url.as_str(), false).unwrap();
        assert!(store.replace("a", "a/x", None, b"1".to_vec()).unwrap());
        assert!(!store.replace("a", "a/x", None, b"2".to_vec()).unwrap());
        let (one, also) = (store.get("a/x").unwrap().unwrap(), store.get("a/x").unwrap().unwrap());
        assert!(store.replace("a", "a/x", Some(&one), b"2".to_vec()).unwrap());
        assert!(!store.replace("a", "a/x", Some(&also), b"3".to_vec()).unwrap());
        assert_eq!(store.get("a/x").unwrap().unwrap().bytes, b"2");
        assert!(store.get("a/y").unwrap().is_none());
    }
}
