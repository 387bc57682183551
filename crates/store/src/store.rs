//! An asynchronous object store: small objects, conditional writes, listing and deletion.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{
    Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

use crate::address;
use crate::error::{Result, StoreError};
use crate::lock::lock;

/// An object store. Its operations must run in a Tokio runtime.
#[derive(Clone)]
pub struct Store {
    pub(crate) objects: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The folder, if the store is one.
    folder: Option<PathBuf>,
}

/// An object that was read as a whole.
pub struct StoredObject {
    /// The contents.
    pub bytes: Vec<u8>,
    /// Version of the object, by which the store recognizes it.
    version: UpdateVersion,
}

impl Store {
    /// Opens the store with a URL, or a store that is a folder by its path.
    ///
    /// Keys for clouds come only from the environment, under the names that other programs use
    /// (`AWS_ACCESS_KEY_ID` and so on). A folder that does not exist is created only with
    /// `create`. Other stores are not contacted.
    pub fn open(url: &str, create: bool) -> Result<Self> {
        let (objects, prefix, folder) = address::open(url, create)?;
        Ok(Store { objects, prefix, folder })
    }

    /// Returns the canonical path of the folder, if the store is one.
    pub fn folder(&self) -> Option<&FilePath> {
        self.folder.as_deref()
    }

    pub(crate) fn at(&self, object: &str) -> Path {
        self.prefix.parts().chain(Path::from(object).parts()).collect()
    }

    /// Reads a small object of at most `limit` bytes. Returns `None` if it does not exist.
    pub async fn get(&self, object: &str, limit: u64) -> Result<Option<StoredObject>> {
        let found = match self.objects.get(&self.at(object)).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(StoreError::failed(object))?,
        };
        if found.meta.size > limit {
            let bytes = found.meta.size;
            return Err(StoreError::TooLarge { object: object.to_owned(), bytes });
        }
        let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
        let bytes = found.bytes().await.map_err(StoreError::failed(object))?.to_vec();
        Ok(Some(StoredObject { bytes, version: UpdateVersion { e_tag, version } }))
    }

    /// Creates an object. Returns false if it exists already.
    pub async fn create(&self, object: &str, bytes: Vec<u8>) -> Result<bool> {
        match self.put(object, bytes, PutMode::Create).await {
            Err(Error::AlreadyExists { .. }) => Ok(false),
            put => put.map(|()| true).map_err(StoreError::failed(object)),
        }
    }

    /// Writes an object, whether it exists or not.
    pub async fn overwrite(&self, object: &str, bytes: Vec<u8>) -> Result<()> {
        self.put(object, bytes, PutMode::Overwrite).await.map_err(StoreError::failed(object))
    }

    /// Replaces an object if it is unchanged since it was read, or creates it if `read` is `None`.
    /// Returns false if the object has changed, or exists already.
    ///
    /// In a store that is a folder, the file `lock` is locked during the operation, since a folder
    /// has no conditional writes. In a cloud without conditional writes, the last writer wins.
    pub async fn replace(
        &self,
        lock: &str,
        object: &str,
        read: Option<&StoredObject>,
        bytes: Vec<u8>,
    ) -> Result<bool> {
        let Some(read) = read else { return self.create(object, bytes).await };
        if let Some(folder) = &self.folder {
            return self.replace_locked(folder.join(lock), object, read, bytes).await;
        }
        match self.put(object, bytes.clone(), PutMode::Update(read.version.clone())).await {
            Err(Error::Precondition { .. } | Error::NotFound { .. }) => Ok(false),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                self.overwrite(object, bytes).await.map(|()| true)
            }
            put => put.map(|()| true).map_err(StoreError::failed(object)),
        }
    }

    /// Replaces an object under a lock. Readers see a rename.
    async fn replace_locked(
        &self,
        path: PathBuf,
        object: &str,
        read: &StoredObject,
        bytes: Vec<u8>,
    ) -> Result<bool> {
        let _lock = match tokio::task::spawn_blocking(move || lock(&path)).await {
            Ok(lock) => lock?,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return Err(StoreError::Threads(io::Error::other("shutting down"))),
            },
        };
        let now = self.get(object, u64::MAX).await?;
        if now.is_none_or(|now| now.bytes != read.bytes) {
            return Ok(false);
        }
        self.overwrite(object, bytes).await.map(|()| true)
    }

    async fn put(&self, object: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let (to, payload) = (self.at(object), PutPayload::from(bytes));
        self.objects.put_opts(&to, payload, options).await.map(|_| ())
    }

    /// Copies an object within the store. Returns false if the store cannot do so; some stores
    /// refuse to copy large objects.
    pub async fn copy(&self, from: &str, to: &str) -> bool {
        self.objects.copy(&self.at(from), &self.at(to)).await.is_ok()
    }

    /// Returns the size of an object in bytes. An object that does not exist is
    /// [`StoreError::Missing`].
    pub async fn size(&self, object: &str) -> Result<u64> {
        match self.objects.head(&self.at(object)).await {
            Err(Error::NotFound { .. }) => Err(StoreError::Missing { object: object.to_owned() }),
            found => found.map(|meta| meta.size).map_err(StoreError::failed(object)),
        }
    }

    /// Returns the names of the folders in a folder, sorted. The name of the root is empty.
    pub async fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let at = self.at(folder);
        let at = (!at.as_ref().is_empty()).then_some(&at);
        let listed = self.objects.list_with_delimiter(at).await;
        let listed = listed.map_err(StoreError::failed(folder))?;
        let names = listed.common_prefixes.iter().filter_map(|path| path.filename());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the total size of all objects below a folder, in bytes.
    pub async fn bytes_below(&self, folder: &str) -> Result<u64> {
        let all = self.objects_below(folder).await?;
        Ok(all.iter().map(|object| object.size).sum())
    }

    async fn objects_below(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let all = self.objects.list(Some(&self.at(folder))).try_collect();
        all.await.map_err(StoreError::failed(folder))
    }

    /// Deletes an object. It is not an error if the object does not exist.
    pub async fn delete(&self, object: &str) -> Result<()> {
        self.delete_at(&self.at(object), object).await
    }

    async fn delete_at(&self, path: &Path, object: &str) -> Result<()> {
        match self.objects.delete(path).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(StoreError::failed(object)(error)),
        }
    }

    /// Deletes everything below a folder. Returns false if there was nothing.
    pub async fn delete_below(&self, folder: &str) -> Result<bool> {
        let all = self.objects_below(folder).await?;
        for object in &all {
            self.delete_at(&object.location, object.location.as_ref()).await?;
        }
        if let Some(root) = &self.folder {
            // Files that a killed upload left behind are not listed.
            let path = root.join(folder);
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(&path)(error));
                }
                done => return Ok(done.is_ok() || !all.is_empty()),
            }
        }
        Ok(!all.is_empty())
    }
}
