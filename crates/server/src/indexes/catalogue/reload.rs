//! Indexes that others put into the folder, replace or remove while the server runs.
//!
//! The server has the lock of every index that it serves, so nobody else can write to one. But a folder can be renamed, and another put in its place: then the one that was opened is not the one that is there.

use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use warpseek::Index;

use super::{Catalogue, MANIFEST, MAX_INDEXES};
use crate::elasticsearch::mapping::Mapping;
use crate::error::{Failure, Kind};
use crate::indexes::names;
use crate::indexes::ngrams::Ngrams;
use crate::indexes::snapshots::verify;

/// A folder that comes back within this time was replaced, and one that does not was removed.
const REPLACING: Duration = Duration::from_secs(2);

/// What tells a folder from one that has its name later.
pub(crate) type Identity = (u64, u64);

/// The identity of a folder; `None` if there is no folder.
#[cfg(unix)]
pub(crate) fn identity(dir: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(dir).ok().filter(std::fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

/// Folders cannot be renamed while they are open here, so that they stay the same.
#[cfg(not(unix))]
pub(crate) fn identity(dir: &Path) -> Option<Identity> {
    dir.is_dir().then_some((0, 0))
}

/// What a look at the folder of an index has shown.
pub(crate) enum Look {
    /// It is another one than before, or gone, and that is how it is served now.
    Changed,
    /// Nothing has changed, for this reason.
    Same(&'static str),
    /// What is there cannot be served, which was said before.
    Refused(Failure),
}

impl Catalogue {
    /// Looks for indexes that came, went, or are others than before, and serves what is there now. What cannot be served is logged once.
    pub(crate) fn look_around(&self) {
        for of in self.all() {
            match self.look_at(&of.name) {
                // A request has deleted it, or somebody else writes to it still.
                Err(failure) if matches!(failure.kind, Kind::IndexMissing | Kind::NotReady) => {}
                Err(failure) => {
                    tracing::error!(index = of.name, reason = failure.reason, "not loaded");
                }
                Ok(_) => {}
            }
        }
        for of in self.all_ngrams() {
            match self.look_at_ngrams(&of) {
                Err(failure) if failure.kind != Kind::NotReady => {
                    tracing::error!(index = of.name, reason = failure.reason, "not loaded");
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

    /// The same for one index, at once. What cannot be served is an error, however often it was said before.
    pub(crate) fn reload(&self, name: &str) -> Result<Look, Failure> {
        let look = match self.ngrams(name) {
            Some(of) => self.look_at_ngrams(&of),
            None => self.look_at(name),
        };
        let look = match look {
            // It may be in the folder, and not served for a reason.
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

    /// Serves what is in the folder of an index now.
    fn look_at(&self, name: &str) -> Result<Look, Failure> {
        let of = self.get(name)?;
        // Not that of an alias.
        let name = of.name.as_str();
        let dir = self.folder.join(name);
        let now = identity(&dir);
        if now == of.identity() && of.takes_writes() {
            return Ok(Look::Same("its folder is the one that is served"));
        }
        if let Some(failure) = self.refusal(name, now) {
            return Ok(Look::Refused(failure));
        }
        // A folder that is about to be replaced may be away for a moment, and one that is being copied has no manifest yet.
        let is_index = dir.join(MANIFEST).exists();
        // No write may be acknowledged that nobody will find.
        of.abandon();
        if now.is_some() && !is_index {
            return Ok(Look::Same("there is a new folder, which has no manifest yet"));
        }
        if now.is_none() && !self.is_missing_long(name) {
            return Ok(Look::Same("its folder is not there, and may come back"));
        }
        if is_index && let Err(failure) = verify(&dir, name) {
            self.refuse(name, now, &failure);
            return Err(failure);
        }
        let _changing = self.changing();
        // Requests may have deleted or made one in the meantime.
        let unchanged = self.get(name).is_ok_and(|there| Arc::ptr_eq(&there, &of));
        if !unchanged || identity(&dir) != now {
            return Ok(Look::Same("it changes now; try again"));
        }
        if now.is_none() {
            let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
            all.remove(name);
            tracing::warn!(index = name, "its folder is gone, so it is not served any more");
            return Ok(Look::Changed);
        }
        let opened = self.forget_declaration(name).and_then(|()| self.open_found(name));
        opened.inspect_err(|failure| {
            if failure.kind != Kind::NotReady {
                self.refuse(name, now, failure);
            }
        })?;
        tracing::info!(index = name, "its folder was replaced, and the new one is served");
        Ok(Look::Changed)
    }

    /// The same for an index of n-grams, to which others may have added documents.
    fn look_at_ngrams(&self, of: &Arc<Ngrams>) -> Result<Look, Failure> {
        let (name, now) = (of.name.as_str(), identity(&of.dir));
        if now.is_some() && now == of.identity {
            return Ok(match of.searcher.refresh()? {
                true => Look::Changed,
                false => Look::Same("its folder is the one that is served, and has no new commit"),
            });
        }
        if let Some(failure) = self.refusal(name, now) {
            return Ok(Look::Refused(failure));
        }
        let is_index = of.dir.join(MANIFEST).exists();
        if (now.is_some() && !is_index) || (now.is_none() && !self.is_missing_long(name)) {
            return Ok(Look::Same("its folder is being replaced"));
        }
        if now.is_some() {
            if let Err(failure) = verify(&of.dir, name) {
                self.refuse(name, now, &failure);
                return Err(failure);
            }
            let _changing = self.changing();
            // A request and the regular look may both have seen the new folder; the first serves it.
            let unchanged = self.ngrams(name).is_some_and(|there| Arc::ptr_eq(&there, of));
            if !unchanged || identity(&of.dir) != now {
                return Ok(Look::Same("it changes now; try again"));
            }
            let opened = self.forget_declaration(name).and_then(|()| self.open_found(name));
            opened.inspect_err(|failure| {
                if failure.kind != Kind::NotReady {
                    self.refuse(name, now, failure);
                }
            })?;
            tracing::info!(index = name, "its folder was replaced, and the new one is served");
        } else {
            self.ngrams.write().unwrap_or_else(PoisonError::into_inner).remove(name);
            tracing::warn!(index = name, "its folder is gone, so it is not served any more");
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
            let failure = Failure::illegal(format!("there are {MAX_INDEXES} indexes already"));
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
                tracing::info!(index = name, "found in the folder, and served from now on");
                Ok(())
            }
            // Whoever makes it has not finished.
            Err(failure) if failure.kind == Kind::NotReady => Ok(()),
            Err(failure) => {
                self.refuse(name, now, &failure);
                Err(failure)
            }
        }
    }

    /// Removes what was declared of an index before, if the one that is there now was not made by a server.
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

    /// Whether a folder has been away for longer than it takes to replace it.
    fn is_missing_long(&self, name: &str) -> bool {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.retain(|name, _| !self.folder.join(name).exists());
        missing.entry(name.to_owned()).or_insert_with(Instant::now).elapsed() >= REPLACING
    }

    /// Why a folder is not served, if that was found out before.
    fn refusal(&self, name: &str, now: Option<Identity>) -> Option<Failure> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, failure) = refused.get(name)?;
        (Some(*of) == now).then(|| failure.clone())
    }

    fn refuse(&self, name: &str, now: Option<Identity>, failure: &Failure) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = now {
            refused.insert(name.to_owned(), (now, failure.clone()));
        }
    }
}
