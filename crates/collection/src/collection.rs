//! A collection and its versions: listing, publishing, activating, rolling back and removing
//! them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use warpseek_store::{BlockingStore, StoredObject};

use crate::error::{CollectionError, Result};
use crate::layout;
use crate::limits::MAX_JSON;
use crate::manifest::{Cut, FORMAT, Object, Pointer, ShardEntry, VersionManifest, difference};

/// A collection in an object store.
pub struct Collection {
    pub(crate) store: BlockingStore,
    pub(crate) name: String,
}

/// State of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VersionState {
    /// Nodes serve this version.
    Current,
    /// The version is complete and can be activated.
    Ready,
    /// The version is being built, or its build has failed.
    Unfinished,
}

/// A summary of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionSummary {
    /// Number of the version.
    pub version: u64,
    /// State of the version.
    pub state: VersionState,
    /// Time when it was published, or when it was cut if it is unfinished, in milliseconds since
    /// 1970.
    pub created: u64,
    /// Number of shards.
    pub shards: usize,
    /// Number of documents, without deleted ones.
    pub documents: u64,
    /// Size of all files of the shards in bytes. For an unfinished version, the size of the files
    /// uploaded so far.
    pub bytes: u64,
}

pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Collection {
    /// Opens a collection in the store at a URL or the path of a folder, without reading anything
    /// yet.
    pub fn open(url: &str, name: &str) -> Result<Self> {
        layout::check_name(name)?;
        Ok(Collection { store: BlockingStore::open(url, false)?, name: name.to_owned() })
    }

    /// Opens a collection for building. A store that is a folder is created if it does not exist.
    pub fn create(url: &str, name: &str) -> Result<Self> {
        layout::check_name(name)?;
        Ok(Collection { store: BlockingStore::open(url, true)?, name: name.to_owned() })
    }

    /// Returns the names of all collections in a store.
    pub fn names(url: &str) -> Result<Vec<String>> {
        let all = BlockingStore::open(url, false)?.folders("")?;
        Ok(all.into_iter().filter(|name| layout::check_name(name).is_ok()).collect())
    }

    /// Returns the name of the collection.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the pointer to the current version, or `None` if no version was activated yet.
    pub fn pointer(&self) -> Result<Option<Pointer>> {
        Ok(self.read_pointer()?.map(|(pointer, _)| pointer))
    }

    pub(crate) fn read_pointer(&self) -> Result<Option<(Pointer, StoredObject)>> {
        let object = layout::pointer(&self.name);
        let Some(found) = self.store.get(&object, MAX_JSON)? else { return Ok(None) };
        Ok(Some((Pointer::read(&found.bytes, &object)?, found)))
    }

    /// Returns the number of the current version.
    pub fn current(&self) -> Result<u64> {
        match self.pointer()? {
            Some(pointer) => Ok(pointer.version),
            None => Err(CollectionError::NoCollection { name: self.name.clone() }),
        }
    }

    pub(crate) fn read<T: Object>(&self, object: &str) -> Result<Option<T>> {
        let found = self.store.get(object, MAX_JSON)?;
        found.map(|found| T::read(&found.bytes, object)).transpose()
    }

    /// Returns the manifest of a version. Fails if the version is not complete.
    pub fn manifest(&self, version: u64) -> Result<VersionManifest> {
        match self.find_manifest(version)? {
            Some(manifest) => Ok(manifest),
            None => {
                let missing = self.missing(&self.cut_of(version)?, version)?;
                Err(CollectionError::Unfinished { name: self.name.clone(), version, missing })
            }
        }
    }

    pub(crate) fn find_manifest(&self, version: u64) -> Result<Option<VersionManifest>> {
        let object = layout::manifest(&self.name, version);
        let Some(found) = self.read::<VersionManifest>(&object)? else { return Ok(None) };
        if (found.version, &found.name) != (version, &self.name) {
            let what = format!("it belongs to version {} of `{}`", found.version, found.name);
            return Err(CollectionError::Damaged { object, what });
        }
        Ok(Some(found))
    }

    /// Returns the division of a version into shards.
    pub fn cut_of(&self, version: u64) -> Result<Cut> {
        self.read(&layout::cut(&self.name, version))?
            .ok_or_else(|| CollectionError::NoVersion { name: self.name.clone(), version })
    }

    /// Returns the shards of a version that are not uploaded yet.
    fn missing(&self, cut: &Cut, version: u64) -> Result<Vec<u32>> {
        let mut missing = Vec::new();
        for shard in (0..).take(cut.shards.len()) {
            if self.read::<ShardEntry>(&layout::shard(&self.name, version, shard))?.is_none() {
                missing.push(shard);
            }
        }
        Ok(missing)
    }

    pub(crate) fn version_numbers(&self) -> Result<Vec<u64>> {
        let folders = self.store.folders(&layout::versions(&self.name))?;
        Ok(folders.iter().filter_map(|folder| layout::parse_version(folder)).collect())
    }

    /// Returns summaries of all versions, oldest first.
    pub fn versions(&self) -> Result<Vec<VersionSummary>> {
        let current = self.pointer()?.map(|pointer| pointer.version);
        let mut all = Vec::new();
        for version in self.version_numbers()? {
            if let Some(manifest) = self.find_manifest(version)? {
                let documents = manifest.live();
                let VersionManifest { created, bytes, shards, .. } = manifest;
                let state = match current == Some(version) {
                    true => VersionState::Current,
                    false => VersionState::Ready,
                };
                let shards = shards.len();
                all.push(VersionSummary { version, state, created, shards, documents, bytes });
                continue;
            }
            let cut: Option<Cut> = self.read(&layout::cut(&self.name, version))?;
            let bytes = self.store.bytes_below(&layout::version(&self.name, version))?;
            all.push(VersionSummary {
                version,
                state: VersionState::Unfinished,
                created: cut.as_ref().map_or(0, |cut| cut.created),
                shards: cut.as_ref().map_or(0, |cut| cut.shards.len()),
                documents: cut.as_ref().map_or(0, |cut| cut.documents),
                bytes,
            });
        }
        if all.is_empty() && current.is_none() {
            return Err(CollectionError::NoCollection { name: self.name.clone() });
        }
        Ok(all)
    }

    /// Completes a version whose shards are all uploaded. It becomes the current one only with
    /// [`Collection::activate`].
    pub fn publish(&self, version: u64) -> Result<VersionManifest> {
        let published = || CollectionError::Published { name: self.name.clone(), version };
        let cut = self.cut_of(version)?;
        if self.find_manifest(version)?.is_some() {
            return Err(published());
        }
        let (mut shards, mut missing) = (Vec::new(), Vec::new());
        for (number, wanted) in (0..).zip(&cut.shards) {
            let object = layout::shard(&self.name, version, number);
            let Some(shard) = self.read::<ShardEntry>(&object)? else {
                missing.push(number);
                continue;
            };
            if (shard.shard, shard.base, shard.documents) != (number, wanted.base, wanted.documents)
            {
                let what = "its documents are not those that the version was cut into".to_owned();
                return Err(CollectionError::Damaged { object, what });
            }
            shards.push(shard);
        }
        if !missing.is_empty() {
            return Err(CollectionError::Unfinished { name: self.name.clone(), version, missing });
        }
        for shard in &shards[1..] {
            if let Some(what) = difference(&shards[0].settings, &shard.settings) {
                return Err(CollectionError::OtherOptions { version, shard: shard.shard, what });
            }
        }
        for shard in &shards {
            self.check_files(version, shard)?;
        }
        let manifest = VersionManifest {
            format: FORMAT,
            name: self.name.clone(),
            version,
            created: now(),
            warpseek: env!("CARGO_PKG_VERSION").to_owned(),
            documents: cut.documents,
            bytes: shards.iter().map(|shard| shard.bytes).sum(),
            shards,
        };
        manifest.check().map_err(CollectionError::Internal)?;
        match self.store.create(&layout::manifest(&self.name, version), manifest.to_bytes()?)? {
            true => Ok(manifest),
            false => Err(published()),
        }
    }

    /// Checks that the files of a shard are in the store with the right sizes.
    fn check_files(&self, version: u64, shard: &ShardEntry) -> Result<()> {
        for file in &shard.files {
            let (number, attempt) = (shard.shard, &shard.attempt);
            let object = layout::file(&self.name, version, number, attempt, &file.name);
            let found = self.store.size(&object)?;
            if found != file.bytes {
                let what = format!("it has {found} bytes instead of {}", file.bytes);
                return Err(CollectionError::Damaged { object, what });
            }
        }
        Ok(())
    }

    /// Makes a complete version the current one. Nodes switch to it the next time they check.
    pub fn activate(&self, version: u64) -> Result<Pointer> {
        self.manifest(version)?;
        let before = self.read_pointer()?;
        let previous = match &before {
            // Activating the current version again changes nothing, including the version to roll
            // back to.
            Some((pointer, _)) if pointer.version == version => return Ok(pointer.clone()),
            Some((pointer, _)) => Some(pointer.version),
            None => None,
        };
        self.switch(Pointer { format: FORMAT, version, previous }, before.as_ref().map(|b| &b.1))
    }

    /// Makes the previously current version the current one again. A second rollback undoes the
    /// first.
    pub fn rollback(&self) -> Result<Pointer> {
        let name = self.name.clone();
        let Some((pointer, read)) = self.read_pointer()? else {
            return Err(CollectionError::NoCollection { name });
        };
        let Some(version) = pointer.previous else {
            return Err(CollectionError::NoPrevious { name });
        };
        self.manifest(version)?;
        let previous = Some(pointer.version);
        self.switch(Pointer { format: FORMAT, version, previous }, Some(&read))
    }

    pub(crate) fn switch(&self, to: Pointer, before: Option<&StoredObject>) -> Result<Pointer> {
        let object = layout::pointer(&self.name);
        let lock = layout::pointer_lock(&self.name);
        match self.store.replace(&lock, &object, before, to.to_bytes()?)? {
            true => Ok(to),
            false => Err(CollectionError::Conflict { name: self.name.clone() }),
        }
    }

    /// Removes a version that is not the current one, complete or not. Nodes that are still
    /// fetching it will fail to.
    pub fn remove(&self, version: u64) -> Result<()> {
        if self.pointer()?.is_some_and(|pointer| pointer.version == version) {
            return Err(CollectionError::IsCurrent { name: self.name.clone(), version });
        }
        // The manifest is deleted first, so that a partly removed version does not look complete.
        self.store.delete(&layout::manifest(&self.name, version))?;
        match self.store.delete_below(&layout::version(&self.name, version))? {
            true => Ok(()),
            false => Err(CollectionError::NoVersion { name: self.name.clone(), version }),
        }
    }

    /// Removes all versions before the current one, except `keep` complete ones: preferably the
    /// one that [`Collection::rollback`] returns to, then the newest. Versions after the current
    /// one are kept, since they may be under construction. Returns the removed versions.
    pub fn remove_old(&self, keep: usize) -> Result<Vec<u64>> {
        let Some(Pointer { version: current, previous, .. }) = self.pointer()? else {
            return Err(CollectionError::NoCollection { name: self.name.clone() });
        };
        let mut old = self.versions()?;
        old.retain(|version| version.version < current);
        old.sort_by_key(|version| (Some(version.version) == previous, version.version));
        let mut kept = 0;
        let mut removed = Vec::new();
        for version in old.iter().rev() {
            if version.state == VersionState::Ready && kept < keep {
                kept += 1;
                continue;
            }
            self.remove(version.version)?;
            removed.push(version.version);
        }
        removed.sort_unstable();
        Ok(removed)
    }
}
