//! Detection of indexes that other programs add to the folder, replace or remove while the server
//! runs.
//!
//! The server holds the lock of every index that it serves, so nothing else can write to one. But
//! a folder can be renamed and another put in its place. The identity of a folder, taken when it
//! was opened, reveals this.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use warpseek::Index;

use super::{Catalogue, MANIFEST, MAX_INDEXES};
use crate::elasticsearch::mapping::Mapping;
use crate::error::{Failure, Kind};
use crate::indexes::identity::{Identity, identity};
use crate::indexes::names;
use crate::indexes::ngrams::Ngrams;
use crate::indexes::verification::verify;

/// Time within which a missing folder counts as being replaced; after that, it counts as removed.
const REPLACING: Duration = Duration::from_secs(2);

/// The result of checking the folder of an index.
pub(crate) enum Look {
    /// The folder was replaced or removed, and the server has followed.
    Changed,
    /// Nothing was done, for this reason.
    Same(&'static str),
    /// The new contents cannot be served, as was reported before.
    Refused(Failure),
}

impl Catalogue {
    /// Checks for indexes that were added, removed or replaced, and serves the current contents
    /// of the folder. Contents that cannot be served are logged once.
    pub(crate) fn look_around(&self) {
        for index in self.all() {
            match self.look_at(&index.name) {
                // A request has deleted the index, or another program still writes to it.
                Err(failure) if matches!(failure.kind, Kind::IndexMissing | Kind::NotReady) => {}
                Err(failure) => {
                    tracing::error!(index = index.name, reason = failure.reason, "not loaded");
                }
                Ok(_) => {}
            }
        }
        for index in self.all_ngrams() {
            match self.look_at_ngrams(&index) {
                Err(failure) if failure.kind != Kind::NotReady => {
                    tracing::error!(index = index.name, reason = failure.reason, "not loaded");
                }
                _ => {}
            }
        }
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let is_known = || self.is_index(&name) || self.ngrams(&name).is_some();
            if names::check(&name).is_err() || is_known() {
                continue;
            }
            if let Err(failure) = self.take_in(&name) {
                tracing::error!(index = name, reason = failure.reason, "not loaded");
            }
        }
    }

    /// Checks one index at once. Contents that cannot be served are an error, even if it was
    /// reported before.
    pub(crate) fn reload(&self, name: &str) -> Result<Look, Failure> {
        let look = match self.ngrams(name) {
            Some(index) => self.look_at_ngrams(&index),
            None => self.look_at(name),
        };
        let look = match look {
            // The index may be in the folder but refused for some reason.
            Err(failure) if failure.kind == Kind::IndexMissing && names::check(name).is_ok() => {
                self.take_in(name)?;
                match self.refusal(name, identity(&self.folder.join(name))) {
                    Some(refusal) => return Err(refusal),
                    None if self.is_index(name) || self.ngrams(name).is_some() => Look::Changed,
                    None => return Err(failure),
                }
            }
            look => look?,
        };
        match look {
            Look::Refused(failure) => Err(failure),
            look => Ok(look),
        }
    }

    /// Serves the current contents of the folder of an index.
    fn look_at(&self, name: &str) -> Result<Look, Failure> {
        let index = self.get(name)?;
        // The name may be that of an alias.
        let name = index.name.as_str();
        let dir = self.folder.join(name);
        let now = identity(&dir);
        if now == index.identity() && index.takes_writes() {
            return Ok(Look::Same("its folder is unchanged"));
        }
        if let Some(failure) = self.refusal(name, now) {
            return Ok(Look::Refused(failure));
        }
        // A folder that is being replaced may be missing for a moment, and one that is being
        // copied has no manifest yet.
        let is_index = dir.join(MANIFEST).exists();
        // No write may be acknowledged that the next server will not find.
        index.abandon();
        if now.is_some() && !is_index {
            return Ok(Look::Same("its folder is new and has no manifest yet"));
        }
        if now.is_none() && !self.is_missing_long(name) {
            return Ok(Look::Same("its folder is missing, but may come back"));
        }
        if is_index && let Err(failure) = verify(&dir, name) {
            self.refuse(name, now, &failure);
            return Err(failure);
        }
        let _changing = self.changing();
        // Requests may have deleted or created an index of this name in the meantime.
        let unchanged = self.get(name).is_ok_and(|there| Arc::ptr_eq(&there, &index));
        if !unchanged || identity(&dir) != now {
            return Ok(Look::Same("it is being changed; try again"));
        }
        if now.is_none() {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.remove(name);
            tracing::warn!(index = name, "the folder was removed; the index is no longer served");
            return Ok(Look::Changed);
        }
        let opened = self.forget_declaration(name).and_then(|()| self.open_found(name));
        opened.inspect_err(|failure| {
            if failure.kind != Kind::NotReady {
                self.refuse(name, now, failure);
            }
        })?;
        tracing::info!(index = name, "the folder was replaced; the new index is served");
        Ok(Look::Changed)
    }

    /// Serves the current contents of the folder of an n-gram index, to which other programs may
    /// have added documents.
    fn look_at_ngrams(&self, index: &Arc<Ngrams>) -> Result<Look, Failure> {
        let (name, now) = (index.name.as_str(), identity(&index.dir));
        if now.is_some() && now == index.identity {
            return Ok(match index.searcher.refresh()? {
                true => Look::Changed,
                false => Look::Same("its folder is unchanged and has no new commit"),
            });
        }
        if let Some(failure) = self.refusal(name, now) {
            return Ok(Look::Refused(failure));
        }
        let is_index = index.dir.join(MANIFEST).exists();
        if (now.is_some() && !is_index) || (now.is_none() && !self.is_missing_long(name)) {
            return Ok(Look::Same("its folder is being replaced"));
        }
        if now.is_some() {
            if let Err(failure) = verify(&index.dir, name) {
                self.refuse(name, now, &failure);
                return Err(failure);
            }
            let _changing = self.changing();
            // A request and the regular check may both see the new folder; the first one serves it.
            let unchanged = self.ngrams(name).is_some_and(|there| Arc::ptr_eq(&there, index));
            if !unchanged || identity(&index.dir) != now {
                return Ok(Look::Same("its folder is being replaced"));
            }
            let opened = self.forget_declaration(name).and_then(|()| self.open_found(name));
            opened.inspect_err(|failure| {
                if failure.kind != Kind::NotReady {
                    self.refuse(name, now, failure);
                }
            })?;
            tracing::info!(index = name, "the folder was replaced; the new index is served");
        } else {
            self.ngrams.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            tracing::warn!(index = name, "the folder was removed; the index is no longer served");
        }
        Ok(Look::Changed)
    }

    /// Serves an index that is new in the folder.
    fn take_in(&self, name: &str) -> Result<(), Failure> {
        let dir = self.folder.join(name);
        let now = identity(&dir);
        if now.is_none() || self.refusal(name, now).is_some() || !dir.join(MANIFEST).exists() {
            return Ok(());
        }
        if self.count() >= MAX_INDEXES {
            let failure = Failure::illegal(format!(
                "there are already {MAX_INDEXES} indexes, which is the limit"
            ));
            self.refuse(name, now, &failure);
            return Err(failure);
        }
        if let Err(failure) = verify(&dir, name) {
            self.refuse(name, now, &failure);
            return Err(failure);
        }
        let _changing = self.changing();
        if self.is_index(name) || self.ngrams(name).is_some() || identity(&dir) != now {
            return Ok(());
        }
        match self.forget_declaration(name).and_then(|()| self.open_found(name)) {
            Ok(()) => {
                tracing::info!(index = name, "found in the folder; the index is served");
                Ok(())
            }
            // The program that creates the index has not finished.
            Err(failure) if failure.kind == Kind::NotReady => Ok(()),
            Err(failure) => {
                self.refuse(name, now, &failure);
                Err(failure)
            }
        }
    }

    /// Removes the declaration of an earlier index of this name, unless a server created the
    /// current index.
    fn forget_declaration(&self, name: &str) -> Result<(), Failure> {
        let manifest = Index::at(self.folder.join(name)).manifest()?;
        if manifest.schema.as_deref().is_some_and(|schema| Mapping::is_of_server(schema.config())) {
            return Ok(());
        }
        let path = self.declaration(name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::broken(format!("{}: {e}", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if a folder has been missing for longer than it takes to replace it.
    fn is_missing_long(&self, name: &str) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.retain(|name, _| !self.folder.join(name).exists());
        missing.entry(name.to_owned()).or_insert_with(Instant::now).elapsed() >= REPLACING
    }

    /// Returns the known reason why this folder is not served.
    fn refusal(&self, name: &str, now: Option<Identity>) -> Option<Failure> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, failure) = refused.get(name)?;
        (Some(*identity) == now).then(|| failure.clone())
    }

    fn refuse(&self, name: &str, now: Option<Identity>, failure: &Failure) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = now {
            refused.insert(name.to_owned(), (now, failure.clone()));
        }
    }
}
