//! A store that has a separate runtime and whose operations block.

use std::ops::Range;
use std::path::Path;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::{Result, StoreError};
use crate::store::{Store, StoredObject};

/// Number of threads of a store.
const THREADS: usize = 2;

/// A [`Store`] whose operations block. Do not call them in asynchronous code, except where blocking
/// is allowed (`spawn_blocking`).
pub struct BlockingStore {
    store: Store,
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Drop for BlockingStore {
    fn drop(&mut self) {
        // Waiting for threads is an error in asynchronous code, where a store may be dropped.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl BlockingStore {
    /// Opens a store, as [`Store::open`] does.
    pub fn open(url: &str, create: bool) -> Result<Self> {
        let store = Store::open(url, create)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(StoreError::Threads)?;
        let handle = runtime.handle().clone();
        Ok(BlockingStore { store, handle, runtime: Some(runtime) })
    }

    /// Reads a small object, as [`Store::get`] does.
    pub fn get(&self, object: &str, limit: u64) -> Result<Option<StoredObject>> {
        self.handle.block_on(self.store.get(object, limit))
    }

    /// Creates an object, as [`Store::create`] does.
    pub fn create(&self, object: &str, bytes: Vec<u8>) -> Result<bool> {
        self.handle.block_on(self.store.create(object, bytes))
    }

    /// Writes an object, as [`Store::overwrite`] does.
    pub fn overwrite(&self, object: &str, bytes: Vec<u8>) -> Result<()> {
        self.handle.block_on(self.store.overwrite(object, bytes))
    }

    /// Replaces an object if it is unchanged, as [`Store::replace`] does.
    pub fn replace(
        &self,
        lock: &str,
        object: &str,
        read: Option<&StoredObject>,
        bytes: Vec<u8>,
    ) -> Result<bool> {
        self.handle.block_on(self.store.replace(lock, object, read, bytes))
    }

    /// Uploads a file, as [`Store::upload`] does.
    pub fn upload<E: From<StoreError>>(
        &self,
        file: &Path,
        object: &str,
        on_part: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.handle.block_on(self.store.upload(file, object, on_part))
    }

    /// Reads a range of an object in parts, as [`Store::read`] does.
    pub fn read<E: From<StoreError>>(
        &self,
        object: &str,
        range: Range<u64>,
        on_part: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.handle.block_on(self.store.read(object, range, on_part))
    }

    /// Copies an object within the store, as [`Store::copy`] does.
    pub fn copy(&self, from: &str, to: &str) -> bool {
        self.handle.block_on(self.store.copy(from, to))
    }

    /// Returns the size of an object, as [`Store::size`] does.
    pub fn size(&self, object: &str) -> Result<u64> {
        self.handle.block_on(self.store.size(object))
    }

    /// Returns the names of the folders in a folder, as [`Store::folders`] does.
    pub fn folders(&self, folder: &str) -> Result<Vec<String>> {
        self.handle.block_on(self.store.folders(folder))
    }

    /// Returns the total size of the objects below a folder, as [`Store::bytes_below`] does.
    pub fn bytes_below(&self, folder: &str) -> Result<u64> {
        self.handle.block_on(self.store.bytes_below(folder))
    }

    /// Deletes an object, as [`Store::delete`] does.
    pub fn delete(&self, object: &str) -> Result<()> {
        self.handle.block_on(self.store.delete(object))
    }

    /// Deletes everything below a folder, as [`Store::delete_below`] does.
    pub fn delete_below(&self, folder: &str) -> Result<bool> {
        self.handle.block_on(self.store.delete_below(folder))
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    const LIMIT: u64 = 100;

    fn open(dir: &Path) -> BlockingStore {
        BlockingStore::open(Url::from_directory_path(dir).unwrap().as_str(), false).unwrap()
    }

    #[test]
    fn a_replacement_needs_what_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let get = || store.get("a/x", LIMIT).unwrap().unwrap();
        let replace = |read: Option<&StoredObject>, bytes: &[u8]| {
            store.replace("a/x.lock", "a/x", read, bytes.to_vec()).unwrap()
        };
        assert!(replace(None, b"1"));
        assert!(!replace(None, b"2"));
        let (one, also) = (get(), get());
        assert!(replace(Some(&one), b"2"));
        assert!(!replace(Some(&also), b"3"));
        assert_eq!(get().bytes, b"2");
        assert!(store.get("a/y", LIMIT).unwrap().is_none());
        assert!(matches!(store.get("a/x", 0), Err(StoreError::TooLarge { bytes: 1, .. })));
    }

    #[test]
    fn what_is_uploaded_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (store, file) = (open(dir.path()), dir.path().join("file"));
        // Several parts, and a file of whole parts.
        for len in [0, 1, 8 << 20, (16 << 20) + 3] {
            let bytes: Vec<u8> = (0..len).map(|i: u32| (i % 251) as u8).collect();
            std::fs::write(&file, &bytes).unwrap();
            let mut sent = Vec::new();
            let mut each = |part: &[u8]| {
                sent.extend_from_slice(part);
                Ok::<_, StoreError>(())
            };
            assert_eq!(store.upload(&file, "up", &mut each).unwrap(), u64::from(len));
            let mut read = Vec::new();
            let mut each = |part: &[u8]| {
                read.extend_from_slice(part);
                Ok::<_, StoreError>(())
            };
            store.read("up", 0..u64::from(len), &mut each).unwrap();
            assert!(sent == bytes && read == bytes, "{len} bytes");
            assert_eq!(store.size("up").unwrap(), u64::from(len));
        }
        let missing = store.read("no", 0..1, |_| Ok::<_, StoreError>(()));
        assert!(matches!(missing, Err(StoreError::Missing { .. })));
    }

    #[test]
    fn folders_are_listed_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        for object in ["b/1", "b/c/2", "a/3", "top"] {
            assert!(store.create(object, vec![7; 3]).unwrap());
        }
        assert_eq!(store.folders("").unwrap(), ["a", "b"]);
        assert_eq!(store.folders("b").unwrap(), ["c"]);
        assert_eq!(store.bytes_below("b").unwrap(), 6);
        assert!(store.copy("a/3", "b/4") && !store.copy("a/no", "b/5"));
        assert!(store.delete_below("b").unwrap() && !store.delete_below("b").unwrap());
        store.delete("a/3").unwrap();
        store.delete("a/3").unwrap();
        assert!(matches!(store.size("a/3"), Err(StoreError::Missing { .. })));
    }
}
