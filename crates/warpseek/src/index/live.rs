//! An index that accepts single writes, with the threads that refresh, flush and merge it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use warpseek_index::log::{Durability, Ticket};
use warpseek_index::{
    IndexError, LiveIndex as Core, LiveOptions as CoreOptions, Progress, Snapshot,
};
use warpseek_text::{OwnedDocument, Schema};

use super::Index;
use crate::error::{Error, Result};
use crate::options::SearcherOptions;
use crate::searcher::{Follower, Searcher};

/// Time between two checks whether there is something to flush or merge.
const UPKEEP: Duration = Duration::from_millis(250);

/// Options for an index that accepts single writes.
///
/// ```
/// use std::time::Duration;
/// use warpseek::LiveOptions;
/// use warpseek::index::Durability;
///
/// let options = LiveOptions::new()
///     .durability(Durability::Every(Duration::from_millis(100)))
///     .refresh_every(Duration::from_secs(1))
///     .threads(2);
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LiveOptions {
    core: CoreOptions,
    refresh_every: Option<Duration>,
}

impl LiveOptions {
    /// Returns the default options: every write is synced before it is acknowledged, refreshes
    /// happen on demand, with one thread per core and 256 MiB of memory.
    pub fn new() -> Self {
        LiveOptions::default()
    }

    /// Sets the durability that a write must have reached before [`WriteTicket::wait`] returns.
    /// Default: it is on stable storage.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.core.durability = durability;
        self
    }

    /// Sets the period of automatic refreshes. Periods without writes are skipped. Default: the
    /// index is refreshed on demand only.
    pub fn refresh_every(mut self, period: Duration) -> Self {
        self.refresh_every = Some(period);
        self
    }

    /// Sets the number of threads of a refresh, flush or merge. Default: one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.core.threads = threads.max(1);
        self
    }

    /// Sets the memory budget in bytes. It applies to the postings of writes that are not
    /// refreshed yet, and again to segments that are not flushed yet. A write that exceeds the
    /// former triggers a refresh; exceeding the latter triggers a flush in the background.
    /// Default: 256 MiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.core.memory = bytes;
        self
    }

    /// Limits the rate at which background merges write, in bytes per second. With `None` they
    /// write as fast as possible. Default: 64 MiB.
    pub fn merge_rate(mut self, bytes_per_second: Option<u64>) -> Self {
        self.core.merge_rate = bytes_per_second;
        self
    }
}

/// An index that accepts single writes from any number of threads, opened by [`Index::live`].
///
/// A write is durable once [`WriteTicket::wait`] has returned; no crash can undo it.
/// [`get`](Self::get) sees a write at once, searches see it after the next
/// [`refresh`](Self::refresh). Writes become durable in order, and many of them share one sync of
/// the disk. A thread that writes many documents therefore only needs to wait for the last
/// ticket.
///
/// The index excludes other writers while it is open. [`close`](Self::close) moves all writes
/// into the index on disk and removes the log. If the index is only dropped, or the process is
/// killed, the next writer recovers the writes from the log. Readers in other processes see what
/// has been flushed.
///
/// ```
/// use warpseek::{Document, Index, LiveOptions, Request, SearcherOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let live = index.live(LiveOptions::new())?;
/// let searcher = live.searcher(SearcherOptions::new())?;
/// let ticket = live.put(&Document::new("1", "", "an apple"))?;
/// live.put_json(r#"{"id": "2", "text": "a pear", "price": 3}"#)?;
/// ticket.wait()?; // The write is on stable storage now.
///
/// assert_eq!(live.get("2")?.unwrap()["price"], 3);
/// assert!(searcher.search(&Request::new("pear"))?.hits().is_empty());
/// live.refresh()?;
/// assert_eq!(searcher.search(&Request::new("pear"))?.hits().len(), 1);
///
/// live.update("2", r#"{"price": 4}"#)?.unwrap().wait()?;
/// assert!(live.create(&Document::new("2", "", "another pear")).is_err());
/// assert!(live.delete("1")?.is_some() && live.delete("1")?.is_none());
/// live.close()?;
/// assert_eq!(index.snapshot()?.statistics().documents, 1);
/// # Ok::<(), warpseek::Error>(())
/// ```
pub struct LiveIndex {
    index: Index,
    shared: Arc<Shared>,
    /// Channels that end the threads when they are dropped.
    stops: Vec<Sender<()>>,
    /// The thread that refreshes, if any, and the thread that flushes and merges.
    threads: Vec<JoinHandle<()>>,
}

/// State that the background threads share.
struct Shared {
    core: Core,
    /// Progress of the flush or merge in the background, used to cancel it.
    progress: Progress,
    /// The error of the last flush or merge in the background that failed.
    trouble: Mutex<Option<Error>>,
    /// Searchers that see every refresh.
    followers: Mutex<Vec<Follower>>,
}

/// A pending write. Dropping a ticket does not undo the write.
///
/// ```
/// use warpseek::{Document, Index, LiveOptions};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let live = index.live(LiveOptions::new())?;
/// let tickets: Vec<_> = (0..100)
///     .map(|i| live.put(&Document::new(i.to_string(), "", "many at once")))
///     .collect::<Result<_, _>>()?;
/// let last = tickets.into_iter().last().unwrap();
/// assert_eq!(last.sequence(), 100);
/// last.wait()?; // All of them are durable.
/// # Ok::<(), warpseek::Error>(())
/// ```
#[must_use = "a write is durable once its ticket was waited for"]
pub struct WriteTicket(Ticket);

impl WriteTicket {
    /// Returns the sequence number of the write. Later writes have larger numbers.
    pub fn sequence(&self) -> u64 {
        self.0.sequence()
    }

    /// Returns true if [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Waits until the write is as durable as set by [`LiveOptions::durability`]. After an error
    /// it is unknown whether the write will be there when the index is opened again.
    pub fn wait(self) -> Result<()> {
        Ok(self.0.wait()?)
    }
}

impl Index {
    /// Opens the index for single writes. Each of them is durable, and searches see them after
    /// the next refresh. Other writers are excluded until the returned index is closed.
    pub fn live(&self, options: LiveOptions) -> Result<LiveIndex> {
        LiveIndex::open(self, options)
    }
}

impl LiveIndex {
    fn open(index: &Index, options: LiveOptions) -> Result<Self> {
        let core = Core::open(index.path(), options.core)?;
        let shared = Arc::new(Shared {
            core,
            progress: Progress::default(),
            trouble: Mutex::default(),
            followers: Mutex::default(),
        });
        let (stops, threads) = Default::default();
        let mut live = LiveIndex { index: index.clone(), shared, stops, threads };
        if let Some(period) = options.refresh_every {
            live.start("warpseek-refresh", period, |shared| {
                // A failed refresh is final: every later write returns the error.
                let _ = shared.refresh();
            })?;
        }
        live.start("warpseek-merge", UPKEEP, Shared::keep_up)?;
        Ok(live)
    }

    /// Starts a thread that runs a task periodically until the index is closed.
    fn start(&mut self, name: &str, period: Duration, task: fn(&Shared)) -> Result<()> {
        let (stop, stopped) = channel();
        let shared = self.shared.clone();
        let run = move || {
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                task(&shared);
            }
        };
        let thread = std::thread::Builder::new().name(name.into());
        self.threads.push(thread.spawn(run).map_err(Error::Threads)?);
        self.stops.push(stop);
        Ok(())
    }

    /// Adds a document, or replaces the document with the same id. If the document has a static
    /// score, the index must have a field for it
    /// ([`IndexOptions::static_field`](crate::IndexOptions::static_field)).
    pub fn put(&self, document: &OwnedDocument) -> Result<WriteTicket> {
        self.put_json(&self.json(document)?)
    }

    /// Adds or replaces a document, given as one line of JSON as in JSONL files.
    pub fn put_json(&self, json: &str) -> Result<WriteTicket> {
        Ok(WriteTicket(self.shared.core.put(json)?))
    }

    /// Adds a document, unless there is one with the same id. In that case the error is
    /// [`IndexError::Conflict`]. If several threads create the same id, exactly one of them
    /// succeeds.
    pub fn create(&self, document: &OwnedDocument) -> Result<WriteTicket> {
        self.create_json(&self.json(document)?)
    }

    /// Adds a document given as one line of JSON, unless there is one with the same id.
    pub fn create_json(&self, json: &str) -> Result<WriteTicket> {
        Ok(WriteTicket(self.shared.core.create(json)?))
    }

    /// Checks a document as [`put_json`](Self::put_json) does, but under a `schema` to which
    /// [`Index::extend_schema`] is going to extend that of the index. Returns an error if the
    /// document would be refused. Writes nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use warpseek::schema::{Attribute, AttributeKind};
    /// use warpseek::{Index, IndexOptions, LiveOptions, Schema};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let dir = folder.path().join("index");
    /// let schema = Schema::parse(r#"{"text": [{"name": "title"}]}"#)?;
    /// let index = Index::create_with(&dir, IndexOptions::new().schema(schema.clone()))?;
    /// let live = index.live(LiveOptions::new())?;
    /// let mut config = schema.config().clone();
    /// config.attributes.push(Attribute::new("year", AttributeKind::Integer));
    /// let larger = Arc::new(Schema::new(config)?);
    /// assert!(live.check_json(r#"{"id": "1", "year": 1999}"#, &larger).is_ok());
    /// assert!(live.check_json(r#"{"id": "1", "year": "soon"}"#, &larger).is_err());
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn check_json(&self, json: &str, schema: &Arc<Schema>) -> Result<()> {
        Ok(self.shared.core.check(json, schema)?)
    }

    /// Deletes the document with this id. Returns `None` if there is none.
    pub fn delete(&self, id: &str) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.delete(id)?.map(WriteTicket))
    }

    /// Deletes the document with this id if it is still `before`, as returned by
    /// [`get_json`](Self::get_json). Comparison and deletion are atomic. Returns `None` if the
    /// document has been changed or deleted.
    pub fn delete_if(&self, id: &str, before: &[u8]) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.delete_if(id, before)?.map(WriteTicket))
    }

    /// Updates fields of the document with this id by a JSON merge patch (RFC 7396): fields of
    /// the patch replace those of the document, objects are patched recursively, and `null`
    /// removes a field. The update is atomic. Returns `None` if there is no such document. The
    /// patch cannot change the id, and the index must store whole documents.
    pub fn update(&self, id: &str, patch: &str) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.update(id, patch)?.map(WriteTicket))
    }

    /// Replaces the document with this id by `json`, which has the same id, if it is still
    /// `before`, as returned by [`get_json`](Self::get_json). Comparison and replacement are
    /// atomic. Returns `None` if the document has been changed or deleted.
    ///
    /// ```
    /// use warpseek::{Document, Index, LiveOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let index = Index::create(folder.path().join("index"))?;
    /// let live = index.live(LiveOptions::new())?;
    /// live.put_json(r#"{"id": "1", "text": "an apple", "price": 3}"#)?;
    /// let before = live.get_json("1")?.unwrap();
    /// live.put_json(r#"{"id": "1", "text": "an apple", "price": 4}"#)?;
    /// let dearer = r#"{"id": "1", "text": "an apple", "price": 5}"#;
    /// assert!(live.replace_json("1", &before, dearer)?.is_none()); // It costs 4 by now.
    /// let before = live.get_json("1")?.unwrap();
    /// live.replace_json("1", &before, dearer)?.unwrap().wait()?;
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn replace_json(&self, id: &str, before: &[u8], json: &str) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.replace(id, before, json)?.map(WriteTicket))
    }

    /// Returns the newest document with this id in its stored form: one line of JSON. Otherwise
    /// like [`get`](Self::get).
    pub fn get_json(&self, id: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.shared.core.get(id)?)
    }

    /// Returns the newest document with this id, whether or not it has been refreshed. Returns
    /// `None` if there is none, or if the index stores only ids.
    pub fn get(&self, id: &str) -> Result<Option<Value>> {
        let Some(json) = self.get_json(id)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&json);
        parsed.map(Some).map_err(|e| Error::LiveDocument { id: id.into(), problem: e.to_string() })
    }

    /// Returns true if there is a document with this id, whether or not it has been refreshed.
    pub fn contains(&self, id: &str) -> Result<bool> {
        Ok(self.shared.core.contains(id)?)
    }

    /// Makes all writes so far, durable or not, visible to searches that start from now on.
    /// Returns the snapshot that they search.
    pub fn refresh(&self) -> Result<Arc<Snapshot>> {
        self.shared.refresh()
    }

    /// Writes all changes so far to the index on disk, where readers in other processes see them.
    /// The log of these writes is no longer needed afterwards. Returns the generation of the
    /// index.
    pub fn flush(&self) -> Result<u64> {
        let generation = self.shared.core.flush()?;
        self.shared.tell_followers()?;
        Ok(generation)
    }

    /// Flushes the index, and merges segments until there are at most `segments`, with all
    /// threads and without a limit on the rate. Writes and searches continue during the merge;
    /// segments that they add are not merged.
    ///
    /// ```
    /// use warpseek::{Document, Index, LiveOptions};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let index = Index::create(folder.path().join("index"))?;
    /// let live = index.live(LiveOptions::new())?;
    /// for id in ["1", "2", "3"] {
    ///     live.put(&Document::new(id, "", "an apple"))?;
    ///     live.flush()?;
    /// }
    /// live.delete("2")?;
    /// live.merge(1)?;
    /// assert_eq!(live.refresh()?.segments().len(), 1);
    /// # Ok::<(), warpseek::Error>(())
    /// ```
    pub fn merge(&self, segments: usize) -> Result<()> {
        self.shared.core.flush()?;
        self.shared.core.merge_down_to(segments, &Progress::default())?;
        self.shared.tell_followers()
    }

    /// Exports all writes so far to an empty directory, as a complete and independent index.
    /// Writes and searches continue during the export. If both directories are on one file system
    /// that supports links, files are linked instead of copied. Returns the generation of the
    /// exported index.
    pub fn export(&self, dir: impl AsRef<std::path::Path>) -> Result<u64> {
        let generation = self.shared.core.export(dir.as_ref())?;
        self.shared.tell_followers()?;
        Ok(generation)
    }

    /// Opens a searcher that sees the current state of the index and every later refresh. It
    /// remains usable after the index was closed.
    pub fn searcher(&self, options: SearcherOptions) -> Result<Searcher> {
        // No refresh can finish while this lock is held, so the searcher misses none.
        let mut followers = self.shared.followers();
        let published = self.shared.core.published();
        let (searcher, follower) = Searcher::follow(&self.index, published, options)?;
        followers.push(follower);
        Ok(searcher)
    }

    /// Returns a document as a line of JSON, including its static score under the name of the
    /// index's field.
    fn json(&self, document: &OwnedDocument) -> Result<String> {
        let refused = |what: String| Error::Index(IndexError::Refused { what });
        let line = match (document.static_score, self.shared.core.static_field()) {
            (Some(_), None) => {
                let id = &document.id;
                return Err(refused(format!(
                    "document `{id}` has a static score, but the index has no field for it; create the index with `IndexOptions::static_field`, or add a field with `Index::set_static_field`"
                )));
            }
            (Some(_), Some(field)) => document.to_json_with(field),
            (None, _) => document.to_json(),
        };
        line.map_err(|kind| refused(kind.to_string()))
    }

    /// Returns the error of the last flush or merge in the background if it failed, and clears
    /// it. No write is lost by such a failure, and the work is retried.
    pub fn trouble(&self) -> Option<Error> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Flushes and closes the index. Afterwards there is no log, and other writers can change the
    /// index.
    pub fn close(mut self) -> Result<()> {
        self.end_threads();
        self.flush()?;
        let shared = self.shared.clone();
        drop(self);
        // The threads have ended, so this is the only reference.
        match Arc::try_unwrap(shared) {
            Ok(shared) => Ok(shared.core.close()?),
            Err(_) => Ok(()),
        }
    }

    fn end_threads(&mut self) {
        self.stops.clear();
        self.shared.progress.cancel();
        for thread in self.threads.drain(..) {
            // If a thread panicked, the next writer does its remaining work.
            let _ = thread.join();
        }
    }
}

impl Drop for LiveIndex {
    fn drop(&mut self) {
        self.end_threads();
    }
}

impl Shared {
    fn followers(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh(&self) -> Result<Arc<Snapshot>> {
        let snapshot = self.core.refresh()?;
        self.tell_followers()?;
        Ok(snapshot)
    }

    /// Flushes and merges segments if necessary.
    fn keep_up(&self) {
        let keep_up = || -> Result<bool> {
            let mut changed = false;
            if self.core.wants_flush() {
                // A flush in the background is not urgent: one thread is enough.
                self.core.flush_with(1, &self.progress)?;
                changed = true;
            }
            changed |= self.core.merge_some(&self.progress)?;
            Ok(changed)
        };
        let kept_up = match keep_up() {
            Ok(true) => self.tell_followers(),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = kept_up
            && !matches!(error, Error::Index(IndexError::Cancelled))
        {
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Refreshes all searchers that follow the index, and removes those that no longer exist.
    fn tell_followers(&self) -> Result<()> {
        let mut followers = self.followers();
        let mut result = Ok(());
        followers.retain(|follower| match follower.refresh() {
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                result = Err(error);
                true
            }
            None => false,
        });
        result
    }
}
