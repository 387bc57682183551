//! An open index: it takes writes, gains fields, and answers searches.

mod growth;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use serde_json::{Map, Value};
use warpseek::cache::AnswerCache;
use warpseek::gpu::Notice;
use warpseek::index::{IndexError, WriteTicket};
use warpseek::text::STATIC_FIELD;
use warpseek::{Error, Index, IndexOptions, LiveIndex, LiveOptions, Schema, SearcherOptions};

use crate::elasticsearch::mapping::{Declared, Layout, Mapping};
use crate::error::{Failure, Kind};
use crate::indexes::files::{bytes_of, write_whole};
use crate::indexes::identity::{Identity, identity};
use growth::extend;
pub(crate) use view::View;

/// Options for opening indexes.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) refresh: Duration,
    pub(crate) searcher: SearcherOptions,
    /// The cache of answers that all indexes share, unless it is disabled.
    pub(crate) answers: Option<Arc<AnswerCache>>,
}

impl Opening {
    /// Returns the options for one index: notices of the engine are logged with its name.
    fn of(self, name: &str) -> Self {
        let name = name.to_owned();
        let log = move |notice: &Notice| {
            tracing::warn!(index = name, %notice, "notice of the engine");
        };
        Opening { searcher: self.searcher.on_notice(log), ..self }
    }
}

/// An open index.
pub(crate) struct OpenIndex {
    pub(crate) name: String,
    dir: PathBuf,
    /// File of the mapping and settings that the engine does not store; `None` if the server did
    /// not create the index.
    declaration: Option<PathBuf>,
    opening: Opening,
    /// Identity of the folder that was opened.
    identity: Option<Identity>,
    /// `None` once the index is closed, or if it could not be reopened.
    live: RwLock<Option<LiveIndex>>,
    view: RwLock<Arc<View>>,
    /// Held while fields are added.
    growing: Mutex<()>,
}

/// The outcome of a write.
pub(crate) struct Written {
    pub(crate) ticket: Option<WriteTicket>,
    pub(crate) result: &'static str,
    /// The `_seq_no` of the stored document, or the sequence number of the write if no document
    /// remains.
    pub(crate) number: u64,
}

impl Written {
    /// Returns the version shown to clients: the sequence number of the write in the log, which
    /// increases.
    pub(crate) fn version(&self) -> u64 {
        self.ticket.as_ref().map_or(1, WriteTicket::sequence)
    }

    fn document(ticket: WriteTicket, result: &'static str, stored: &[u8]) -> Self {
        Written { ticket: Some(ticket), result, number: number_of(stored) }
    }
}

/// Returns the `_seq_no` of a stored document: a 52-bit hash of its bytes.
///
/// Writes, reads and searches therefore agree on it, whatever was flushed, merged or restored in
/// between. A changed document gets a different number; one that is changed back gets its old
/// number again. The hash has 52 bits because some clients keep numbers as floats.
pub(crate) fn number_of(stored: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(stored) >> 12
}

/// A document and its `_seq_no`.
pub(crate) struct Numbered {
    pub(crate) source: Value,
    pub(crate) number: u64,
}

impl OpenIndex {
    /// Creates an index.
    pub(crate) fn create(
        name: &str,
        dir: PathBuf,
        declaration: PathBuf,
        declared: Declared,
        opening: Opening,
    ) -> Result<Self, Failure> {
        let mapping = Mapping::new(declared)?;
        write_whole(&declaration, &mapping.declared)?;
        let schema = Schema::new(mapping.schema(None)).map_err(Error::from)?;
        let mut options = IndexOptions::new().schema(schema);
        if mapping.static_field.is_some() {
            options = options.static_field(STATIC_FIELD);
        }
        Index::create_with(&dir, options)?;
        Self::open(name, dir, declaration, opening)
    }

    /// Opens an existing index and adds the fields that its declaration has but its schema lacks.
    pub(crate) fn open(
        name: &str,
        dir: PathBuf,
        declaration: PathBuf,
        opening: Opening,
    ) -> Result<Self, Failure> {
        let index = Index::at(&dir);
        let manifest = index.manifest()?;
        let (mapping, declaration) = match std::fs::read(&declaration) {
            Ok(bytes) => {
                let wrong = |e: serde_json::Error| {
                    Failure::broken(format!("{}: {e}", declaration.display()))
                };
                let declared = serde_json::from_slice(&bytes).map_err(wrong)?;
                let mapping = Mapping::of_old(declared)?;
                let schema = extend(&index, &mapping)?;
                // Earlier versions ignored this setting.
                if mapping.static_field.is_some() && manifest.static_field.is_none() {
                    index.set_static_field(STATIC_FIELD)?;
                }
                (mapping.with_schema(&schema), Some(declaration))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                (Mapping::of_manifest(&manifest), None)
            }
            Err(error) => {
                return Err(Failure::broken(format!("{}: {error}", declaration.display())));
            }
        };
        // Taken before the index is opened, so that a replacement in between is noticed.
        let identity = identity(&dir);
        let live = index.live(live_options(&opening))?;
        let opening = opening.of(name);
        let answers = opening.answers.clone();
        let searcher = live.searcher(opening.searcher.clone())?;
        Ok(OpenIndex {
            name: name.to_owned(),
            dir,
            identity,
            declaration,
            opening,
            live: RwLock::new(Some(live)),
            view: RwLock::new(Arc::new(View::new(searcher, mapping, answers))),
            growing: Mutex::default(),
        })
    }

    /// Returns the view that searches currently use.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the identity of the folder that was opened.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    fn live(&self) -> Result<Live<'_>, Failure> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        match live.is_some() {
            true => Ok(Live(live)),
            false => Err(Failure::new(Kind::NotReady, format!("index [{}] is closed", self.name))),
        }
    }

    fn show(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }

    /// Adds or replaces a document.
    pub(crate) fn put(&self, id: &str, source: &Map<String, Value>) -> Result<Written, Failure> {
        let line = self.line(id, source, || Ok(()))?;
        let live = self.live()?;
        if !live.get().contains(id)? {
            match live.get().create_json(&line) {
                Ok(ticket) => return Ok(Written::document(ticket, "created", line.as_bytes())),
                // Another thread was faster.
                Err(Error::Index(IndexError::Conflict { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let ticket = live.get().put_json(&line)?;
        Ok(Written::document(ticket, "updated", line.as_bytes()))
    }

    /// Replaces a document if it still has this `_seq_no`.
    pub(crate) fn put_if(
        &self,
        id: &str,
        source: &Map<String, Value>,
        number: u64,
    ) -> Result<Written, Failure> {
        let before = self.stored_if(id, number)?;
        let line = self.line(id, source, || Ok(()))?;
        match self.live()?.get().replace_json(id, &before, &line)? {
            Some(ticket) => Ok(Written::document(ticket, "updated", line.as_bytes())),
            None => Err(self.changed(id, number, "another write came in between")),
        }
    }

    /// Deletes a document if it still has this `_seq_no`.
    pub(crate) fn delete_if(&self, id: &str, number: u64) -> Result<Written, Failure> {
        self.delete_unchanged(id, &self.stored_if(id, number)?)
    }

    /// Deletes a document if its stored bytes are unchanged.
    pub(crate) fn delete_unchanged(&self, id: &str, stored: &[u8]) -> Result<Written, Failure> {
        match self.live()?.get().delete_if(id, stored)? {
            Some(ticket) => {
                let number = ticket.sequence();
                Ok(Written { ticket: Some(ticket), result: "deleted", number })
            }
            None => Err(self.changed(id, number_of(stored), "another write came in between")),
        }
    }

    /// Returns the stored bytes of a document if it has this `_seq_no`.
    fn stored_if(&self, id: &str, number: u64) -> Result<Vec<u8>, Failure> {
        let stored = self.live()?.get().get_json(id)?;
        match stored {
            Some(stored) if number_of(&stored) == number => Ok(stored),
            Some(stored) => {
                Err(self.changed(id, number, &format!("it has [{}]", number_of(&stored))))
            }
            None if self.live()?.get().contains(id)? => Err(self.keeps_no_documents()),
            None => Err(self.changed(id, number, "there is no such document")),
        }
    }

    fn changed(&self, id: &str, number: u64, why: &str) -> Failure {
        let reason = format!(
            "[{id}]: version conflict, required seqNo [{number}], primary term [1], but {why}"
        );
        Failure::new(Kind::Conflict, reason).of_index(&self.name)
    }

    fn keeps_no_documents(&self) -> Failure {
        Failure::illegal(format!(
            "index [{}] stores ids only; its documents have no sequence numbers and cannot be updated in part",
            self.name
        ))
    }

    /// Adds a document, unless its id exists.
    pub(crate) fn create_document(
        &self,
        id: &str,
        source: &Map<String, Value>,
    ) -> Result<Written, Failure> {
        let conflict = || {
            let reason = format!("[{id}]: version conflict, document already exists");
            Failure::new(Kind::Conflict, reason).of_index(&self.name)
        };
        let line = self.line(id, source, || match self.contains(id)? {
            true => Err(conflict()),
            false => Ok(()),
        })?;
        match self.live()?.get().create_json(&line) {
            Ok(ticket) => Ok(Written::document(ticket, "created", line.as_bytes())),
            Err(Error::Index(IndexError::Conflict { .. })) => Err(conflict()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if a document with this id exists, regardless of the last refresh.
    pub(crate) fn contains(&self, id: &str) -> Result<bool, Failure> {
        Ok(self.live()?.get().contains(id)?)
    }

    /// Changes a document atomically. `change` maps its current source, if the document exists,
    /// to the new one; nothing is written if it returns `None`.
    ///
    /// The write is retried with the new source if another write comes first. With a `number`, a
    /// document with a different `_seq_no` is a conflict.
    pub(crate) fn change(
        &self,
        id: &str,
        number: Option<u64>,
        change: impl Fn(Option<Map<String, Value>>) -> Result<Option<Map<String, Value>>, Failure>,
    ) -> Result<Written, Failure> {
        loop {
            let stored = match number {
                Some(number) => Some(self.stored_if(id, number)?),
                None => self.live()?.get().get_json(id)?,
            };
            let before = match &stored {
                Some(json) => match self.view().mapping.source_of(parse_stored(id, json)?) {
                    Value::Object(source) => Some(source),
                    _ => return Err(Failure::broken(format!("document [{id}] is not an object"))),
                },
                None if self.live()?.get().contains(id)? => return Err(self.keeps_no_documents()),
                None => None,
            };
            let Some(after) = change(before)? else {
                let number = stored.as_deref().map_or(0, number_of);
                return Ok(Written { ticket: None, result: "noop", number });
            };
            let written = match stored {
                None => match self.create_document(id, &after) {
                    Err(failure) if failure.kind == Kind::Conflict => None,
                    written => Some(written?),
                },
                Some(before) => {
                    let line = self.line(id, &after, || Ok(()))?;
                    let ticket = self.live()?.get().replace_json(id, &before, &line)?;
                    ticket.map(|ticket| Written::document(ticket, "updated", line.as_bytes()))
                }
            };
            if let Some(written) = written {
                return Ok(written);
            }
        }
    }

    /// Deletes a document.
    pub(crate) fn delete(&self, id: &str) -> Result<Written, Failure> {
        let ticket = self.live()?.get().delete(id)?;
        let result = if ticket.is_some() { "deleted" } else { "not_found" };
        let number = ticket.as_ref().map_or(0, WriteTicket::sequence);
        Ok(Written { ticket, result, number })
    }

    /// Returns the current source of a document.
    pub(crate) fn get(&self, id: &str) -> Result<Option<Value>, Failure> {
        Ok(self.get_numbered(id)?.map(|document| document.source))
    }

    /// Returns the current source of a document and its `_seq_no`.
    pub(crate) fn get_numbered(&self, id: &str) -> Result<Option<Numbered>, Failure> {
        let Some(stored) = self.live()?.get().get_json(id)? else { return Ok(None) };
        let source = self.view().mapping.source_of(parse_stored(id, &stored)?);
        Ok(Some(Numbered { source, number: number_of(&stored) }))
    }

    pub(crate) fn refresh(&self) -> Result<(), Failure> {
        self.live()?.get().refresh()?;
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), Failure> {
        self.live()?.get().flush()?;
        Ok(())
    }

    /// Flushes, and merges segments until there are at most this many.
    pub(crate) fn merge(&self, segments: usize) -> Result<(), Failure> {
        self.live()?.get().merge(segments)?;
        Ok(())
    }

    /// Copies the index with all writes so far to the empty folder `dir`, and its declaration to
    /// `declaration`.
    pub(crate) fn export(&self, dir: &Path, declaration: &Path) -> Result<(), Failure> {
        // Adding fields closes the index, which is impossible while this guard is held.
        let live = self.live()?;
        live.get().export(dir)?;
        if let Some(path) = &self.declaration {
            std::fs::copy(path, declaration)
                .map_err(|e| Failure::broken(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    }

    /// Returns true if the index is open for writes.
    pub(crate) fn takes_writes(&self) -> bool {
        self.live.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Drops the live index without flushing, because its folder was replaced or removed.
    /// Searches continue on the current view.
    pub(crate) fn abandon(&self) {
        drop(self.live.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Flushes and closes the index, which then takes no further writes.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner).take();
        match live {
            Some(live) => Ok(live.close()?),
            None => Ok(()),
        }
    }

    /// Returns the number of live documents that searches see.
    pub(crate) fn documents(&self) -> u64 {
        self.view().searcher.snapshot().statistics().documents
    }

    /// Returns true if damage was found in the index's files, which makes searches fail.
    pub(crate) fn is_damaged(&self) -> bool {
        self.view().searcher.snapshot().damage().is_some()
    }

    /// Returns the number of bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.dir)
    }

    pub(crate) fn is_wrapped(&self) -> bool {
        self.view().mapping.layout == Layout::Wrapped
    }
}

/// A guard that keeps the live index open.
struct Live<'a>(RwLockReadGuard<'a, Option<LiveIndex>>);

impl Live<'_> {
    fn get(&self) -> &LiveIndex {
        self.0.as_ref().expect("the constructor checked that the index is open")
    }
}

fn parse_stored(id: &str, json: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(json)
        .map_err(|error| Failure::broken(format!("stored document [{id}]: {error}")))
}

fn live_options(opening: &Opening) -> LiveOptions {
    LiveOptions::new().refresh_every(opening.refresh)
}
