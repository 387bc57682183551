//! The catalogue: all indexes of a folder, open, with their aliases.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use warpseek::Snapshot;
use warpseek::index::Damage;

use crate::elasticsearch::mapping::Declared;
use crate::elasticsearch::unsupported::missing_index;
use crate::error::{Failure, Kind};
use crate::indexes::aliases::{Aliases, Change};
use crate::indexes::files::{rename_durably, sync_folder};
use crate::indexes::identity::Identity;
use crate::indexes::names;
use crate::indexes::ngrams::Ngrams;
use crate::indexes::open_index::{OpenIndex, Opening};

mod listed;
mod reload;

pub(crate) use listed::{IndexKind, Listed, counts};
pub(crate) use reload::Look;

/// Name of the file that marks a folder as an index.
const MANIFEST: &str = "manifest";

/// Folder of the server's data about indexes that the engine does not store. No index name begins
/// with a dot.
const DECLARATIONS: &str = ".warpseek";

/// Maximum number of indexes. Each of them owns threads and files.
pub(crate) const MAX_INDEXES: usize = 1000;

/// All indexes of a folder, open.
pub(crate) struct Catalogue {
    folder: PathBuf,
    opening: Opening,
    all: RwLock<BTreeMap<String, Arc<OpenIndex>>>,
    /// The n-gram indexes.
    ngrams: RwLock<BTreeMap<String, Arc<Ngrams>>>,
    aliases: Aliases,
    /// Held while indexes are added or removed.
    changing: Mutex<()>,
    /// Indexes in the folder that cannot be served, and why. Each is logged once.
    refused: Mutex<BTreeMap<String, (Identity, Failure)>>,
    /// True once the catalogue is closed and opens no further indexes.
    closed: AtomicBool,
    /// Index folders that have disappeared, and since when.
    missing: Mutex<BTreeMap<String, Instant>>,
}

impl Catalogue {
    /// Opens every index in a folder, which is created if missing. Other folders are left alone.
    pub(crate) fn open(folder: &Path, opening: Opening) -> Result<Self, String> {
        let named = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let declarations = folder.join(DECLARATIONS);
        std::fs::create_dir_all(&declarations).map_err(|e| named(&declarations, &e))?;
        clean(&declarations).map_err(|e| named(&declarations, &e))?;
        let (mut all, mut ngrams) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(folder).map_err(|e| named(folder, &e))? {
            let entry = entry.map_err(|e| named(folder, &e))?;
            let (path, Some(name)) = (entry.path(), entry.file_name().to_str().map(str::to_owned))
            else {
                continue;
            };
            // A folder with a damaged manifest is still an index and must not be skipped.
            if !path.is_dir() || names::check(&name).is_err() || !path.join(MANIFEST).exists() {
                if path.is_dir() && !name.starts_with('.') {
                    tracing::warn!(folder = %path.display(), "skipped: not an index, or its name is not a valid index name");
                }
                continue;
            }
            if Ngrams::is_in(&path) {
                let opened = Ngrams::open(&name, path.clone());
                let opened = opened.map_err(|failure| named(&path, &failure.reason))?;
                ngrams.insert(name, Arc::new(opened));
                continue;
            }
            let declaration = declarations.join(format!("{name}.json"));
            let opened = OpenIndex::open(&name, path.clone(), declaration, opening.clone());
            let opened = opened.map_err(|failure| named(&path, &failure.reason))?;
            all.insert(name, Arc::new(opened));
        }
        let aliases = Aliases::open(Aliases::file(&declarations))?;
        let (all, ngrams) = (RwLock::new(all), RwLock::new(ngrams));
        let (changing, refused, closed, missing) = Default::default();
        let folder = folder.to_owned();
        Ok(Catalogue { folder, opening, all, ngrams, aliases, changing, refused, closed, missing })
    }

    /// Returns the index of this name, or the write index of the alias of this name.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<OpenIndex>, Failure> {
        let find =
            |name: &str| self.all.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(found) = find(name) {
            return Ok(found);
        }
        let index = self.aliases.write_index(name, |index| self.is_index(index))?;
        index.and_then(|index| find(&index)).ok_or_else(|| match self.ngrams(name) {
            Some(_) => Ngrams::refusal(name),
            None => missing_index(name),
        })
    }

    /// Returns the n-gram index of this name.
    pub(crate) fn ngrams(&self, name: &str) -> Option<Arc<Ngrams>> {
        self.ngrams.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns all n-gram indexes, sorted by name.
    pub(crate) fn all_ngrams(&self) -> Vec<Arc<Ngrams>> {
        self.ngrams.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the snapshots of all indexes that searches currently use.
    pub(crate) fn snapshots(&self) -> Vec<Arc<Snapshot>> {
        let words = self.all().into_iter().map(|index| index.view().searcher.snapshot());
        words.chain(self.all_ngrams().iter().map(|index| index.searcher.snapshot())).collect()
    }

    /// Returns the indexes with damaged files, and the damage found.
    pub(crate) fn damaged(&self) -> Vec<(String, Damage)> {
        let damage =
            |name: &str, snapshot: &Snapshot| Some((name.to_owned(), snapshot.damage()?.clone()));
        let words = self.all();
        let words = words.iter().filter_map(|at| damage(&at.name, &at.view().searcher.snapshot()));
        let ngrams = self.all_ngrams();
        let ngrams = ngrams.iter().filter_map(|at| damage(&at.name, &at.searcher.snapshot()));
        words.chain(ngrams).collect()
    }

    /// Returns the existing indexes of an alias.
    fn aliased(&self, alias: &str) -> Vec<String> {
        self.aliases.indexes(alias, |index| self.is_index(index))
    }

    /// Returns true if an index, not an alias, has this name.
    pub(crate) fn is_index(&self, name: &str) -> bool {
        self.all.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// Returns the aliases.
    pub(crate) fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    /// Applies all changes of aliases, or none of them.
    pub(crate) fn change_aliases(&self, changes: &[Change]) -> Result<(), Failure> {
        // No index is added or removed while this lock is held.
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        self.aliases.change(changes, |name| all.contains_key(name))
    }

    /// Returns the names of the indexes that an expression selects. Aliases in it are an error.
    pub(crate) fn select_indexes(&self, expression: &str) -> Result<Vec<String>, Failure> {
        let alias = expression.split(',').find(|part| !self.aliased(part).is_empty());
        if let Some(alias) = alias {
            return Err(Failure::illegal(format!(
                "The provided expression [{alias}] matches an alias, specify the corresponding concrete indices instead."
            )));
        }
        Ok(self.select(expression, false)?.iter().map(|index| index.name.clone()).collect())
    }

    /// Returns the single index that a name or alias refers to, for reading.
    pub(crate) fn get_to_read(&self, name: &str) -> Result<Arc<OpenIndex>, Failure> {
        match self.select(name, false)?.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(missing_index(name)),
            several => Err(Failure::illegal(format!(
                "[{name}] refers to {} indexes, but this call searches one; use /{name}/_search",
                several.len()
            ))),
        }
    }

    /// Returns all indexes, sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<OpenIndex>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the indexes that an expression selects: names and patterns, separated by commas.
    /// `_all` and an empty expression select all. An unknown name is an error, unless `lenient`.
    pub(crate) fn select(
        &self,
        expression: &str,
        lenient: bool,
    ) -> Result<Vec<Arc<OpenIndex>>, Failure> {
        let mut selected: Vec<Arc<OpenIndex>> = Vec::new();
        for part in expression.split(',') {
            let found = match part {
                "_all" | "*" => self.all(),
                "" if expression.is_empty() => self.all(),
                part if part.contains('*') => {
                    let by_alias = self.aliases.matching(part);
                    let matches = |index: &Arc<OpenIndex>| {
                        names::matches(part, &index.name) || by_alias.contains(&index.name)
                    };
                    self.all().into_iter().filter(matches).collect()
                }
                part => {
                    let aliased = self.aliased(part);
                    let names = if aliased.is_empty() { vec![part.to_owned()] } else { aliased };
                    let mut found = Vec::with_capacity(names.len());
                    for name in names {
                        match self.get(&name) {
                            Ok(index) => found.push(index),
                            Err(_) if lenient => {}
                            Err(failure) => return Err(failure),
                        }
                    }
                    found
                }
            };
            for index in found {
                if selected.iter().all(|known| known.name != index.name) {
                    selected.push(index);
                }
            }
        }
        Ok(selected)
    }

    /// Creates an index; fails if it exists.
    pub(crate) fn create(&self, name: &str, declared: Declared) -> Result<Arc<OpenIndex>, Failure> {
        self.create_with_aliases(name, declared, &[])
    }

    /// Creates an index with aliases.
    pub(crate) fn create_with_aliases(
        &self,
        name: &str,
        declared: Declared,
        aliases: &[Change],
    ) -> Result<Arc<OpenIndex>, Failure> {
        names::check(name)?;
        // Searches continue while this lock is held.
        let changing = self.changing();
        if !self.aliased(name).is_empty() {
            let reason = format!("Invalid index name [{name}], already exists as alias");
            return Err(Failure::new(Kind::IndexName, reason).of_index(name));
        }
        if self.is_index(name) || self.ngrams(name).is_some() {
            let reason = format!("index [{name}] already exists");
            return Err(Failure::new(Kind::IndexExists, reason).of_index(name));
        }
        self.check_room()?;
        let dir = self.folder.join(name);
        check_unused(&dir)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let declared = Declared {
            created: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            uuid: format!("{:022x}", since.as_nanos()),
            ..declared
        };
        let made =
            OpenIndex::create(name, dir, self.declaration(name), declared, self.opening.clone())?;
        let made = Arc::new(made);
        let changed = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(name.to_owned(), made.clone());
            // An alias of this name can only refer to missing indexes.
            self.aliases
                .give_up(name)
                .and_then(|()| self.aliases.change(aliases, |name| all.contains_key(name)))
        };
        match changed {
            Ok(()) => Ok(made),
            Err(failure) => {
                self.remove(name, &changing)?;
                Err(failure)
            }
        }
    }

    /// Returns the index of this name, creating it if it does not exist.
    pub(crate) fn get_or_create(&self, name: &str) -> Result<Arc<OpenIndex>, Failure> {
        match self.get(name) {
            Err(failure) if failure.kind == Kind::IndexMissing => {
                match self.create(name, Declared::default()) {
                    // Another request was faster.
                    Err(failure) if failure.kind == Kind::IndexExists => self.get(name),
                    made => made,
                }
            }
            found => found,
        }
    }

    /// Removes an index and all of its documents.
    pub(crate) fn delete(&self, name: &str) -> Result<(), Failure> {
        self.remove(name, &self.changing())
    }

    /// Removes an index for callers that hold the lock against additions and removals.
    fn remove(&self, name: &str, _changing: &MutexGuard<'_, ()>) -> Result<(), Failure> {
        let removed = {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.remove(name).ok_or_else(|| match self.ngrams(name) {
                Some(_) => Ngrams::refusal(name),
                None => missing_index(name),
            })?
        };
        // Deleted documents need no flush.
        removed.abandon();
        let gone = |path: &Path, result: std::io::Result<()>| match result {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::broken(format!("{}: {e}", path.display())))
            }
            _ => Ok(()),
        };
        // The folder is renamed first, so that a partially deleted index never appears under its
        // name.
        let trash = self.folder.join(DECLARATIONS).join(format!("{name}.deleted"));
        gone(&trash, std::fs::remove_dir_all(&trash))?;
        gone(removed.dir(), rename_durably(removed.dir(), &trash))?;
        self.aliases.forget(name)?;
        let declaration = self.declaration(name);
        gone(&declaration, std::fs::remove_file(&declaration))?;
        gone(&trash, std::fs::remove_dir_all(&trash))
    }

    /// Returns the path of a scratch folder next to the indexes.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.folder.join(DECLARATIONS).join(format!("{name}.scratch"))
    }

    /// Fails if a new index cannot have this name.
    pub(crate) fn check_free(&self, name: &str) -> Result<(), Failure> {
        names::check(name)?;
        let is_alias = !self.aliased(name).is_empty();
        if is_alias || self.is_index(name) || self.folder.join(name).exists() {
            let reason = format!("index [{name}] already exists");
            return Err(Failure::new(Kind::IndexExists, reason).of_index(name));
        }
        self.check_room()
    }

    /// Fails if the maximum number of indexes is reached.
    fn check_room(&self) -> Result<(), Failure> {
        match self.count() >= MAX_INDEXES {
            true => Err(Failure::illegal(format!(
                "there are {MAX_INDEXES} indexes, which is the limit; delete one first"
            ))),
            false => Ok(()),
        }
    }

    fn count(&self) -> usize {
        let ngrams = self.ngrams.read().unwrap_or_else(PoisonError::into_inner).len();
        self.all.read().unwrap_or_else(PoisonError::into_inner).len() + ngrams
    }

    /// Installs a verified folder as the index of this name, together with its declaration, if it
    /// has one.
    pub(crate) fn adopt(
        &self,
        name: &str,
        dir: &Path,
        declared: Option<&Path>,
    ) -> Result<(), Failure> {
        let broken = |e: std::io::Error| Failure::broken(format!("index [{name}]: {e}"));
        let _changing = self.changing();
        self.check_free(name)?;
        let declaration = self.declaration(name);
        // The declaration comes first, so that the index never appears without it.
        match declared {
            Some(declared) => rename_durably(declared, &declaration).map_err(broken)?,
            None => match std::fs::remove_file(&declaration) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(broken(e)),
                _ => {}
            },
        }
        // The names of the files are synced first: the index must not appear with some files
        // missing.
        sync_folder(dir).map_err(broken)?;
        rename_durably(dir, &self.folder.join(name)).map_err(broken)?;
        self.open_found(name)
    }

    /// Opens an index that is now in the folder, and serves it.
    fn open_found(&self, name: &str) -> Result<(), Failure> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::new(Kind::NotReady, "the server is shutting down"));
        }
        let (dir, declaration) = (self.folder.join(name), self.declaration(name));
        if Ngrams::is_in(&dir) {
            let opened = Arc::new(Ngrams::open(name, dir)?);
            self.all.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            let mut ngrams = self.ngrams.write().unwrap_or_else(PoisonError::into_inner);
            ngrams.insert(name.to_owned(), opened);
            return Ok(());
        }
        let opened = OpenIndex::open(name, dir, declaration, self.opening.clone())?;
        opened.view().searcher.prepare()?;
        self.ngrams.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(name.to_owned(), Arc::new(opened));
        Ok(())
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flushes and closes all indexes.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let _changing = self.changing();
        self.closed.store(true, Ordering::Release);
        // A failure of one index does not prevent the others from closing.
        let closed: Vec<_> = self.all().iter().map(|index| index.close()).collect();
        closed.into_iter().collect()
    }

    fn declaration(&self, name: &str) -> PathBuf {
        self.folder.join(DECLARATIONS).join(format!("{name}.json"))
    }
}

/// Fails if a folder has files that a new index would replace: the folder may be a copy in
/// progress.
fn check_unused(dir: &Path) -> Result<(), Failure> {
    let Ok(files) = std::fs::read_dir(dir) else { return Ok(()) };
    // Files that an interrupted creation of an index leaves behind.
    let left = ["lock", "manifest.new"];
    let other = files.flatten().find(|file| !left.iter().any(|left| file.file_name() == *left));
    match other {
        Some(file) => Err(Failure::illegal(format!(
            "the folder {} is not served as an index but has files, such as {}; wait until it is served, or remove it",
            dir.display(),
            file.file_name().to_string_lossy()
        ))),
        None => Ok(()),
    }
}

/// Removes the remains of interrupted work.
fn clean(declarations: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(declarations)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() && matches!(extension, Some("scratch" | "deleted")) {
            std::fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}
