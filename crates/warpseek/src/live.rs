//! An index that takes single writes, with the threads that refresh, flush and merge it.

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

use crate::error::{Error, Result};
use crate::index::Index;
use crate::options::SearcherOptions;
use crate::searcher::{Follower, Searcher};

/// How often it is asked whether there is something to flush or merge.
const UPKEEP: Duration = Duration::from_millis(250);

/// How an index takes single writes.
///
/// ```
/// use std::time::Duration;
/// use warpseek::{Durability, LiveOptions};
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
    /// The defaults: writes are synced before they are acknowledged, refreshes happen when they are asked for, a thread a core, 256 MiB.
    pub fn new() -> Self {
        LiveOptions::default()
    }

    /// What must have happened to a write before [`WriteTicket::wait`] returns. Default: it is on stable storage.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.core.durability = durability;
        self
    }

    /// Refreshes the index this often in the background, if there were writes. Default: only on demand.
    pub fn refresh_every(mut self, period: Duration) -> Self {
        self.refresh_every = Some(period);
        self
    }

    /// Threads of a refresh, flush or merge. Default: one a core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.core.threads = threads.max(1);
        self
    }

    /// Bytes of memory for postings of writes that were not refreshed, and again for segments that were not flushed. Writes that exceed it refresh the index, or let it be flushed in the background. Default: 256 MiB.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.core.memory = bytes;
        self
    }

    /// Bytes per second that merges in the background write at most; `None`: as fast as they can. Default: 64 MiB.
    pub fn merge_rate(mut self, bytes_per_second: Option<u64>) -> Self {
        self.core.merge_rate = bytes_per_second;
        self
    }
}

/// An index that takes single writes from any number of threads, made by [`Index::live`].
///
/// A write is in the log when its [`WriteTicket::wait`] returns, and no crash can undo it then. [`get`](Self::get) sees it at once, searches see it after the next [`refresh`](Self::refresh). Threads that
/// write many documents wait for the last ticket alone: writes become durable in order, many of them with one sync of the disk.
///
/// It excludes other writers as long as it is open. [`close`](Self::close) brings all writes into the index and removes the log; if it is only dropped, or the process is killed, the next writer
/// finds them in the log. Readers in other processes see what was flushed.
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
/// ticket.wait()?; // It is on stable storage now.
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
    /// Ends the threads when they are dropped.
    stops: Vec<Sender<()>>,
    /// The thread that refreshes, if one is to, and the one that flushes and merges.
    threads: Vec<JoinHandle<()>>,
}

/// What the threads have as well.
struct Shared {
    core: Core,
    /// Of the merge or flush in the background, to be cancelled.
    progress: Progress,
    /// Why the last merge or flush in the background failed.
    trouble: Mutex<Option<Error>>,
    /// Searchers that see every refresh.
    followers: Mutex<Vec<Follower>>,
}

/// A write that is or will be durable. Dropping a ticket does not take the write back.
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
    /// The number of the write; later writes have larger ones.
    pub fn sequence(&self) -> u64 {
        self.0.sequence()
    }

    /// Whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Waits until the write is as durable as [`LiveOptions::durability`] asks. After an error it is not known whether it will be there when the index is opened again.
    pub fn wait(self) -> Result<()> {
        Ok(self.0.wait()?)
    }
}

impl LiveIndex {
    pub(crate) fn open(index: &Index, options: LiveOptions) -> Result<Self> {
        let core = Core::open(index.dir(), options.core)?;
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
                // A refresh that fails is final, and every later write says so.
                let _ = shared.refresh();
            })?;
        }
        live.start("warpseek-merge", UPKEEP, Shared::keep_up)?;
        Ok(live)
    }

    /// Starts a thread that does something again and again until the index is closed.
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

    /// Adds a document, or replaces the one with the same id. If it has a static score, the index must have a field for it ([`IndexOptions::static_field`](crate::IndexOptions::static_field)).
    pub fn put(&self, document: &OwnedDocument) -> Result<WriteTicket> {
        self.put_json(&self.json(document)?)
    }

    /// The same with a document as one line of JSON, as JSONL has it.
    pub fn put_json(&self, json: &str) -> Result<WriteTicket> {
        Ok(WriteTicket(self.shared.core.put(json)?))
    }

    /// Adds a document, unless there is one with its id: then the error is [`IndexError::Conflict`]. Of several threads that create the same id, one succeeds.
    pub fn create(&self, document: &OwnedDocument) -> Result<WriteTicket> {
        self.create_json(&self.json(document)?)
    }

    /// The same with a document as one line of JSON.
    pub fn create_json(&self, json: &str) -> Result<WriteTicket> {
        Ok(WriteTicket(self.shared.core.create(json)?))
    }

    /// Checks a document as [`put_json`](Self::put_json) does, under a schema that the index is to get with [`Index::extend_schema`]: an error if it would be refused. Nothing is written.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use warpseek::{Attribute, AttributeKind, Index, IndexOptions, LiveOptions, Schema};
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

    /// Deletes the document with an id; `None` if there is none.
    pub fn delete(&self, id: &str) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.delete(id)?.map(WriteTicket))
    }

    /// Deletes the document with an id if it is still `before`, as [`get_json`](Self::get_json) returned it; no other write comes in between. `None` if it was changed or deleted meanwhile.
    pub fn delete_if(&self, id: &str, before: &[u8]) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.delete_if(id, before)?.map(WriteTicket))
    }

    /// Changes fields of the document with an id by a JSON merge patch (RFC 7396): fields of the patch replace those of the document, objects are patched in turn, and `null` removes a field.
    /// No other write comes in between. `None` if there is no such document. The id cannot be changed, and the index must store whole documents.
    pub fn update(&self, id: &str, patch: &str) -> Result<Option<WriteTicket>> {
        Ok(self.shared.core.update(id, patch)?.map(WriteTicket))
    }

    /// Replaces the document with an id by another with the same id, if it is still `before`, as [`get_json`](Self::get_json) returned it; no other write comes in between. `None` if it was changed or deleted meanwhile.
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

    /// The newest document with an id as the index keeps it, one line of JSON; otherwise as [`get`](Self::get).
    pub fn get_json(&self, id: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.shared.core.get(id)?)
    }

    /// The newest document with an id, refreshed or not; `None` if there is none, or if the index stores only ids.
    pub fn get(&self, id: &str) -> Result<Option<Value>> {
        let Some(json) = self.get_json(id)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&json);
        parsed.map(Some).map_err(|e| Error::LiveDocument { id: id.into(), problem: e.to_string() })
    }

    /// Whether there is a document with an id, refreshed or not.
    pub fn contains(&self, id: &str) -> Result<bool> {
        Ok(self.shared.core.contains(id)?)
    }

    /// Shows all writes so far to searches, durable or not: searches that start after it see them. Returns what they search.
    pub fn refresh(&self) -> Result<Arc<Snapshot>> {
        self.shared.refresh()
    }

    /// Brings all writes so far into the index on disk, where readers in other processes see them. Returns the generation. Their log is not needed any more then.
    pub fn flush(&self) -> Result<u64> {
        let generation = self.shared.core.flush()?;
        self.shared.tell_followers()?;
        Ok(generation)
    }

    /// Flushes, and merges segments until there are at most `segments`, with all threads and as fast as possible. Writes and searches go on meanwhile; what they add is not waited for.
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

    /// Makes an empty directory an index of all writes so far, which is complete and of its own from then on. Writes and searches go on meanwhile. Files are linked if both directories are on one file system that can. Returns its generation.
    pub fn export(&self, dir: impl AsRef<std::path::Path>) -> Result<u64> {
        let generation = self.shared.core.export(dir.as_ref())?;
        self.shared.tell_followers()?;
        Ok(generation)
    }

    /// For searching what was refreshed, with every later refresh. It keeps what it has after the index was closed.
    pub fn searcher(&self, options: SearcherOptions) -> Result<Searcher> {
        // While this lock is held, no refresh comes to its end, so that none is missed.
        let mut followers = self.shared.followers();
        let published = self.shared.core.published();
        let (searcher, follower) = Searcher::follow(&self.index, published, options)?;
        followers.push(follower);
        Ok(searcher)
    }

    /// The line of JSON of a document, with its static score where the index has it.
    fn json(&self, document: &OwnedDocument) -> Result<String> {
        let refused = |what: String| Error::Index(IndexError::Refused { what });
        let line = match (document.static_score, self.shared.core.static_field()) {
            (Some(_), None) => {
                let id = &document.id;
                return Err(refused(format!(
                    "document `{id}` has a static score, and the index has no field for it; make the index with `IndexOptions::static_field`, or give it one with `Index::set_static_field`"
                )));
            }
            (Some(_), Some(field)) => document.to_json_with(field),
            (None, _) => document.to_json(),
        };
        line.map_err(|kind| refused(kind.to_string()))
    }

    /// Why the last flush or merge in the background failed; `None` if it did not, or if this was asked since. Nothing is lost by it, and it is tried again.
    pub fn trouble(&self) -> Option<Error> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Flushes and closes the index. Afterwards it has no log, and other writers may change it.
    pub fn close(mut self) -> Result<()> {
        self.end_threads();
        self.flush()?;
        let shared = self.shared.clone();
        drop(self);
        // The threads have ended, so nobody else has it.
        match Arc::try_unwrap(shared) {
            Ok(shared) => Ok(shared.core.close()?),
            Err(_) => Ok(()),
        }
    }

    fn end_threads(&mut self) {
        self.stops.clear();
        self.shared.progress.cancel();
        for thread in self.threads.drain(..) {
            // If one panicked, what it did not do is done by the next writer.
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

    /// Flushes and merges, if there is reason to.
    fn keep_up(&self) {
        let keep_up = || -> Result<bool> {
            let mut changed = false;
            if self.core.wants_flush() {
                // One thread is enough for what nobody waits for.
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

    /// Lets searchers go over to the published snapshot. Those that nobody has any more are forgotten.
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
