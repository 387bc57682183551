//! The folder of indexes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use warpseek::Index;

use crate::collection::{Collection, Opening};
use crate::error::{Failure, Kind};
use crate::mapping::Declared;
use crate::names;

/// The folder of what the engine does not keep of indexes. No index has a name that begins with a dot.
const DECLARATIONS: &str = ".warpseek";

/// The most indexes. Each has threads and files of its own.
pub(crate) const MAX_INDEXES: usize = 1000;

/// All indexes of a folder, open.
pub(crate) struct Catalogue {
    folder: PathBuf,
    opening: Opening,
    all: RwLock<BTreeMap<String, Arc<Collection>>>,
}

impl Catalogue {
    /// Opens every index in a folder, which is made if it is not there. What is not an index is left alone.
    pub(crate) fn open(folder: &Path, opening: Opening) -> Result<Self, String> {
        let named = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let declarations = folder.join(DECLARATIONS);
        std::fs::create_dir_all(&declarations).map_err(|e| named(&declarations, &e))?;
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(|e| named(folder, &e))? {
            let entry = entry.map_err(|e| named(folder, &e))?;
            let (path, Some(name)) = (entry.path(), entry.file_name().to_str().map(str::to_owned))
            else {
                continue;
            };
            if !path.is_dir()
                || names::check(&name).is_err()
                || Index::at(&path).manifest().is_err()
            {
                if path.is_dir() && !name.starts_with('.') {
                    tracing::warn!(folder = %path.display(), "left out: it is no index, or its name cannot be that of one");
                }
                continue;
            }
            let declaration = declarations.join(format!("{name}.json"));
            let opened = Collection::open(&name, path.clone(), declaration, opening.clone());
            let opened = opened.map_err(|failure| named(&path, &failure.reason))?;
            all.insert(name, Arc::new(opened));
        }
        Ok(Catalogue { folder: folder.to_owned(), opening, all: RwLock::new(all) })
    }

    pub(crate) fn get(&self, name: &str) -> Result<Arc<Collection>, Failure> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(name).cloned().ok_or_else(|| Failure::no_index(name))
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Collection>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Those that an expression names: names and patterns with commas between them; `_all` and nothing are all. A name without an index is an error, unless `lenient`.
    pub(crate) fn select(
        &self,
        expression: &str,
        lenient: bool,
    ) -> Result<Vec<Arc<Collection>>, Failure> {
        let mut selected: Vec<Arc<Collection>> = Vec::new();
        for part in expression.split(',') {
            let found = match part {
                "" | "_all" | "*" => self.all(),
                part if part.contains('*') => {
                    self.all().into_iter().filter(|of| names::matches(part, &of.name)).collect()
                }
                part => match self.get(part) {
                    Ok(found) => vec![found],
                    Err(_) if lenient => Vec::new(),
                    Err(failure) => return Err(failure),
                },
            };
            for of in found {
                if selected.iter().all(|known| known.name != of.name) {
                    selected.push(of);
                }
            }
        }
        Ok(selected)
    }

    /// Makes an index; an error if it is there.
    pub(crate) fn create(
        &self,
        name: &str,
        declared: Declared,
    ) -> Result<Arc<Collection>, Failure> {
        names::check(name)?;
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.contains_key(name) {
            let reason = format!("index [{name}] already exists");
            return Err(Failure::new(Kind::IndexExists, reason).of_index(name));
        }
        if all.len() >= MAX_INDEXES {
            return Err(Failure::illegal(format!(
                "there are {MAX_INDEXES} indexes, which is the limit; delete one first"
            )));
        }
        let dir = self.folder.join(name);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let declared = Declared {
            created: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            uuid: format!("{:022x}", since.as_nanos()),
            ..declared
        };
        let made =
            Collection::create(name, dir, self.declaration(name), declared, self.opening.clone())?;
        let made = Arc::new(made);
        all.insert(name.to_owned(), made.clone());
        Ok(made)
    }

    /// The index of this name, which is made if it is not there.
    pub(crate) fn get_or_create(&self, name: &str) -> Result<Arc<Collection>, Failure> {
        match self.get(name) {
            Ok(found) => Ok(found),
            Err(_) => match self.create(name, Declared::default()) {
                // Another request was faster.
                Err(failure) if failure.kind == Kind::IndexExists => self.get(name),
                made => made,
            },
        }
    }

    /// Removes an index and all of its documents.
    pub(crate) fn delete(&self, name: &str) -> Result<(), Failure> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let removed = all.remove(name).ok_or_else(|| Failure::no_index(name))?;
        removed.close()?;
        let gone = |path: &Path, result: std::io::Result<()>| match result {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::broken(format!("{}: {e}", path.display())))
            }
            _ => Ok(()),
        };
        // Renamed first, so that a part of an index is never found under its name.
        let trash = self.folder.join(DECLARATIONS).join(format!("{name}.deleted"));
        gone(&trash, std::fs::remove_dir_all(&trash))?;
        gone(removed.dir(), std::fs::rename(removed.dir(), &trash))?;
        let declaration = self.declaration(name);
        gone(&declaration, std::fs::remove_file(&declaration))?;
        gone(&trash, std::fs::remove_dir_all(&trash))
    }

    /// Flushes and closes all.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        self.all().iter().try_for_each(|of| of.close())
    }

    fn declaration(&self, name: &str) -> PathBuf {
        self.folder.join(DECLARATIONS).join(format!("{name}.json"))
    }
}
