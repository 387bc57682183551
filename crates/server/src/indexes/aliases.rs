//! Index aliases. All aliases live in one file, so that several of them change atomically.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Failure, Kind, brief};
use crate::indexes::files::write_whole;
use crate::indexes::names;

/// Maximum number of aliases of all indexes together.
pub(crate) const MAX_ALIASES: usize = 10_000;

/// The aliases of a folder of indexes.
///
/// Aliases of an index that is currently missing are kept for its return, but are invisible until
/// then.
pub(crate) struct Aliases {
    path: PathBuf,
    all: RwLock<All>,
    /// Held while aliases change.
    changing: Mutex<()>,
}

/// All aliases: by alias name, then by index name.
pub(crate) type All = BTreeMap<String, BTreeMap<String, Alias>>;

/// The options of an alias for one of its indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "the options of an alias")]
pub(crate) struct Alias {
    /// `true` if writes go to this index, `false` if they must not, `None` if unspecified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is_write_index: Option<bool>,
}

/// A change of aliases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Gives an index an alias.
    Add { alias: String, index: String, of: Alias },
    /// Takes an alias, which may be a pattern, from an index.
    Remove { alias: String, index: String, must_exist: bool },
}

impl Change {
    /// Returns the alias that this change adds, if it adds one.
    pub(crate) fn added(self) -> Option<String> {
        match self {
            Change::Add { alias, .. } => Some(alias),
            Change::Remove { .. } => None,
        }
    }
}

impl Alias {
    /// Reads the options of an alias.
    pub(crate) fn parse(body: &Value) -> Result<Self, Failure> {
        if !matches!(body, Value::Null | Value::Object(_)) {
            return Err(Failure::parsing("the options of an alias must be an object"));
        }
        let map = body.as_object().into_iter().flatten();
        for (key, value) in map {
            match key.as_str() {
                "is_write_index" => {}
                // No pattern would match a hidden alias.
                "is_hidden" if *value == false => {}
                "is_hidden" => return Err(Failure::unsupported("is_hidden of an alias")),
                _ if value.is_null() => {}
                "filter" | "routing" | "index_routing" | "search_routing" => {
                    return Err(Failure::unsupported(&format!("{key} of an alias")));
                }
                other => {
                    let reason = format!("an alias has no option [{}]", brief(other));
                    return Err(Failure::parsing(reason));
                }
            }
        }
        let is_write_index = match &body["is_write_index"] {
            Value::Null => None,
            Value::Bool(value) => Some(*value),
            _ => return Err(Failure::parsing("[is_write_index] must be true or false")),
        };
        Ok(Alias { is_write_index })
    }

    /// Returns a copy that takes no writes.
    pub(crate) fn without_writes(self) -> Self {
        Alias { is_write_index: self.is_write_index.map(|_| false) }
    }

    pub(crate) fn shown(self) -> Value {
        match self.is_write_index {
            Some(value) => json!({"is_write_index": value}),
            None => json!({}),
        }
    }
}

impl Aliases {
    /// Reads the file of aliases, if there is one.
    pub(crate) fn open(path: PathBuf) -> Result<Self, String> {
        let wrong = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let all: All = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| wrong(&e))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => All::new(),
            Err(error) => return Err(wrong(&error)),
        };
        Ok(Aliases { path, all: RwLock::new(all), changing: Mutex::default() })
    }

    fn all(&self) -> All {
        self.all.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the indexes of an alias that exist. No lock is held while `is_there` runs, because
    /// it takes another lock.
    fn there(&self, alias: &str, is_there: impl Fn(&str) -> bool) -> Vec<(String, Alias)> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner).get(alias).cloned();
        all.into_iter().flatten().filter(|(index, _)| is_there(index)).collect()
    }

    /// Returns the names of the existing indexes of an alias; none if the alias does not exist.
    pub(crate) fn indexes(&self, alias: &str, is_there: impl Fn(&str) -> bool) -> Vec<String> {
        self.there(alias, is_there).into_iter().map(|(index, _)| index).collect()
    }

    /// Returns the indexes of all aliases that match a pattern.
    pub(crate) fn matching(&self, pattern: &str) -> BTreeSet<String> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().filter(|(alias, _)| names::matches(pattern, alias));
        found.flat_map(|(_, indexes)| indexes.keys().cloned()).collect()
    }

    /// Returns the index that writes through an alias go to, or `None` if the alias does not
    /// exist.
    pub(crate) fn write_index(
        &self,
        alias: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, Failure> {
        let indexes = self.there(alias, is_there);
        if indexes.is_empty() {
            return Ok(None);
        }
        let chosen = indexes.iter().find(|(_, options)| options.is_write_index == Some(true));
        let only = || indexes.first().filter(|_| indexes.len() == 1);
        let only = || only().filter(|(_, options)| options.is_write_index != Some(false));
        match chosen.or_else(only) {
            Some((index, _)) => Ok(Some(index.clone())),
            None => Err(Failure::illegal(format!(
                "no write index is defined for alias [{alias}]. The write index may be explicitly disabled using is_write_index=false or the alias points to multiple indices without one being designated as a write index"
            ))),
        }
    }

    /// Returns the aliases of an index that match one of the patterns, in the form clients see.
    pub(crate) fn of_index(&self, index: &str, patterns: Option<&str>) -> Map<String, Value> {
        let wanted = |alias: &str| {
            patterns.is_none_or(|patterns| {
                patterns.split(',').any(|p| p == "_all" || names::matches(p, alias))
            })
        };
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().filter(|(alias, _)| wanted(alias));
        found
            .filter_map(|(alias, by_index)| Some((alias.clone(), by_index.get(index)?.shown())))
            .collect()
    }

    /// Returns all pairs of an alias and an index, and whether writes through the alias go there.
    pub(crate) fn pairs(&self) -> Vec<(String, String, Option<bool>)> {
        let pairs = |(alias, indexes): (String, BTreeMap<String, Alias>)| {
            indexes
                .into_iter()
                .map(move |(index, options)| (alias.clone(), index, options.is_write_index))
        };
        self.all().into_iter().flat_map(pairs).collect()
    }

    /// Returns the aliases of the indexes that `is_wanted` accepts.
    pub(crate) fn of_indexes(&self, is_wanted: impl Fn(&str) -> bool) -> All {
        let mut all = self.all();
        all.values_mut().for_each(|indexes| indexes.retain(|index, _| is_wanted(index)));
        all.retain(|_, indexes| !indexes.is_empty());
        all
    }

    /// Applies all changes, or none of them. `is_index` reports whether an index of that name
    /// exists.
    pub(crate) fn change(
        &self,
        changes: &[Change],
        is_index: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.all();
        for change in changes {
            apply(&mut all, change, &is_index)?;
        }
        if all.len() > MAX_ALIASES {
            return Err(Failure::illegal(format!("at most {MAX_ALIASES} aliases are allowed")));
        }
        for (alias, indexes) in &mut all {
            let writes = |options: &Alias| options.is_write_index == Some(true);
            let writers = indexes
                .iter()
                .filter(|(index, options)| is_index(index) && writes(options))
                .count();
            if writers > 1 {
                return Err(Failure::illegal(format!(
                    "alias [{alias}] has more than one write index"
                )));
            }
            // A missing index loses its write flag, so that it takes no writes when it comes
            // back.
            let away =
                indexes.iter_mut().filter(|(index, options)| !is_index(index) && writes(options));
            if writers == 1 {
                away.for_each(|(_, options)| options.is_write_index = Some(false));
            }
        }
        self.store(all)
    }

    /// Removes an alias whose indexes are all missing, so that a new index can take its name.
    pub(crate) fn give_up(&self, alias: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.all();
        if all.remove(alias).is_none() { Ok(()) } else { self.store(all) }
    }

    /// Removes all aliases of an index that is being deleted.
    pub(crate) fn forget(&self, index: &str) -> Result<(), Failure> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.all();
        let before = all.clone();
        all.values_mut().for_each(|indexes| indexes.retain(|name, _| name != index));
        all.retain(|_, indexes| !indexes.is_empty());
        if all == before { Ok(()) } else { self.store(all) }
    }

    /// Writes the file first and then publishes the change, so that every acknowledged change
    /// survives a restart.
    fn store(&self, all: All) -> Result<(), Failure> {
        write_whole(&self.path, &all)?;
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
        Ok(())
    }

    /// Returns the path of the file in the folder of declarations. No index can have this name.
    pub(crate) fn file(folder: &Path) -> PathBuf {
        folder.join("_aliases.json")
    }
}

fn apply(all: &mut All, change: &Change, is_index: &impl Fn(&str) -> bool) -> Result<(), Failure> {
    match change {
        Change::Add { alias, index, of } => {
            names::check(alias).map_err(|failure| {
                let reason = failure.reason.replace("index name", "alias name");
                Failure { kind: Kind::AliasName, reason, ..failure }
            })?;
            if is_index(alias) {
                let reason = format!(
                    "Invalid alias name [{alias}]: an index exists with the same name as the alias"
                );
                return Err(Failure::new(Kind::AliasName, reason));
            }
            if !is_index(index) {
                return Err(Failure::no_index(index));
            }
            all.entry(alias.clone()).or_default().insert(index.clone(), *of);
        }
        Change::Remove { alias, index, must_exist } => {
            let mut removed = false;
            for (_, indexes) in all.iter_mut().filter(|(name, _)| names::matches(alias, name)) {
                removed |= indexes.remove(index).is_some();
            }
            all.retain(|_, indexes| !indexes.is_empty());
            if !removed && *must_exist {
                let reason = format!("aliases [{alias}] missing");
                return Err(Failure::new(Kind::AliasMissing, reason));
            }
        }
    }
    Ok(())
}
