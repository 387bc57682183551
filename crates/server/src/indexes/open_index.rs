//! An index that is open: it takes writes, gets new fields, and is searched.

mod growth;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use serde_json::{Map, Value};
use warpseek::{
    Error, Index, IndexError, IndexOptions, LiveIndex, LiveOptions, Notice, STATIC_FIELD, Schema,
    SearcherOptions, WriteTicket,
};

use crate::elasticsearch::mapping::{Declared, Layout, Mapping};
use crate::error::{Failure, Kind};
use crate::indexes::catalogue::{Identity, identity};
use growth::extend;
pub(crate) use growth::write_whole;
pub(crate) use view::View;

/// How indexes are opened.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) refresh: Duration,
    pub(crate) searcher: SearcherOptions,
}

impl Opening {
    /// How the index with this name is opened: what the engine has to say is logged with the name.
    fn of(self, name: &str) -> Self {
        let name = name.to_owned();
        let log = move |notice: &Notice| {
            tracing::warn!(index = name, %notice, "notice of the engine");
        };
        Opening { searcher: self.searcher.on_notice(log), ..self }
    }
}

/// An index that is open.
pub(crate) struct Collection {
    pub(crate) name: String,
    dir: PathBuf,
    /// What the engine does not keep; none if the server did not make the index.
    declaration: Option<PathBuf>,
    opening: Opening,
    /// Of the folder that was opened.
    identity: Option<Identity>,
    /// `None` after it was closed, or if it could not be opened again.
    live: RwLock<Option<LiveIndex>>,
    view: RwLock<Arc<View>>,
    /// Held while fields are added.
    growing: Mutex<()>,
}

/// What became of a write.
pub(crate) struct Written {
    pub(crate) ticket: Option<WriteTicket>,
    pub(crate) result: &'static str,
    /// That of the document as it is now, or of the write in the log if there is none.
    pub(crate) number: u64,
}

impl Written {
    /// What is shown as its version: the number of the write in the log, which grows.
    pub(crate) fn version(&self) -> u64 {
        self.ticket.as_ref().map_or(1, WriteTicket::sequence)
    }

    fn document(ticket: WriteTicket, result: &'static str, stored: &[u8]) -> Self {
        Written { ticket: Some(ticket), result, number: number_of(stored) }
    }
}

/// The number (`_seq_no`) of a document as it is stored. It is made of what the document is, so that a write, a read and a search know the same one, whatever was flushed, merged or restored in between. One that
/// is changed gets another number; one that is what it was before has its number again. It has 52 bits, as some clients keep numbers in floats.
pub(crate) fn number_of(stored: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(stored) >> 12
}

/// A document and its number.
pub(crate) struct Numbered {
    pub(crate) source: Value,
    pub(crate) number: u64,
}

impl Collection {
    /// Makes an index.
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

    /// Opens an index that is there, with the fields that its declaration has and it has not yet.
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
                // The setting had no effect in earlier versions.
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
        // Before it is opened: if it is replaced in between, that is noticed.
        let identity = identity(&dir);
        let live = index.live(live_options(&opening))?;
        let opening = opening.of(name);
        let searcher = live.searcher(opening.searcher.clone())?;
        Ok(Collection {
            name: name.to_owned(),
            dir,
            identity,
            declaration,
            opening,
            live: RwLock::new(Some(live)),
            view: RwLock::new(Arc::new(View::new(searcher, mapping))),
            growing: Mutex::default(),
        })
    }

    /// What searches see now.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Of the folder that was opened.
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

    /// Replaces a document, if it still has this number.
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

    /// Deletes a document, if it still has this number.
    pub(crate) fn delete_if(&self, id: &str, number: u64) -> Result<Written, Failure> {
        self.delete_unchanged(id, &self.stored_if(id, number)?)
    }

    /// Deletes a document, if it is stored like this still.
    pub(crate) fn delete_unchanged(&self, id: &str, stored: &[u8]) -> Result<Written, Failure> {
        match self.live()?.get().delete_if(id, stored)? {
            Some(ticket) => {
                let number = ticket.sequence();
                Ok(Written { ticket: Some(ticket), result: "deleted", number })
            }
            None => Err(self.changed(id, number_of(stored), "another write came in between")),
        }
    }

    /// A document as it is stored, if it has this number.
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
            "index [{}] keeps ids alone, so that its documents have no numbers and cannot be changed in part",
            self.name
        ))
    }

    /// Adds a document, unless there is one.
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

    /// Whether there is a document with an id, whatever searches see.
    pub(crate) fn contains(&self, id: &str) -> Result<bool, Failure> {
        Ok(self.live()?.get().contains(id)?)
    }

    /// Changes a document by what `change` makes of its source, which it gets as it is now, if there is a document; nothing is written if that returns `None`. No other write comes in between: if one does, `change` is asked again.
    /// With a `number`, the document must have it, or it is a conflict.
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
                    _ => return Err(Failure::broken(format!("document [{id}] is no object"))),
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

    /// The newest source of a document.
    pub(crate) fn get(&self, id: &str) -> Result<Option<Value>, Failure> {
        Ok(self.get_numbered(id)?.map(|document| document.source))
    }

    /// The same with its number.
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

    /// Makes `dir`, an empty folder, a copy of the index with all writes so far, and `declaration` a copy of what the engine does not keep.
    pub(crate) fn export(&self, dir: &Path, declaration: &Path) -> Result<(), Failure> {
        // Fields are added when the index is closed, which it cannot be while this is held.
        let live = self.live()?;
        live.get().export(dir)?;
        if let Some(path) = &self.declaration {
            std::fs::copy(path, declaration)
                .map_err(|e| Failure::broken(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    }

    /// Whether it is open for writes.
    pub(crate) fn takes_writes(&self) -> bool {
        self.live.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Lets go of a folder that is not the one that was opened: nothing is written there. Searches go on with what they have.
    pub(crate) fn abandon(&self) {
        drop(self.live.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Flushes and closes; it takes no writes any more.
    pub(crate) fn close(&self) -> Result<(), Failure> {
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner).take();
        match live {
            Some(live) => Ok(live.close()?),
            None => Ok(()),
        }
    }

    /// Live documents as searches see them.
    pub(crate) fn documents(&self) -> u64 {
        self.view().searcher.snapshot().statistics().documents
    }

    /// Whether damage was found in its files, so that searches fail.
    pub(crate) fn is_damaged(&self) -> bool {
        self.view().searcher.snapshot().damage().is_some()
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.dir)
    }

    pub(crate) fn is_wrapped(&self) -> bool {
        self.view().mapping.layout == Layout::Wrapped
    }
}

/// The live index, which is there as long as this is held.
struct Live<'a>(RwLockReadGuard<'a, Option<LiveIndex>>);

impl Live<'_> {
    fn get(&self) -> &LiveIndex {
        self.0.as_ref().expect("checked when it was made")
    }
}

/// Bytes of the files of a folder.
pub(crate) fn bytes_of(dir: &Path) -> u64 {
    let Ok(files) = std::fs::read_dir(dir) else { return 0 };
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|file| file.len()).sum()
}

fn parse_stored(id: &str, json: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(json)
        .map_err(|error| Failure::broken(format!("document [{id}] as it is stored: {error}")))
}

fn live_options(opening: &Opening) -> LiveOptions {
    LiveOptions::new().refresh_every(opening.refresh)
}

/// Renames a file or folder, so that a crash of the machine does not undo it.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)?;
    let (old, new) = (from.parent(), to.parent());
    [new, old.filter(|_| old != new)].into_iter().flatten().try_for_each(sync_folder)
}

/// Lets the names in a folder outlast a crash of the machine.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}
