//! Reads an uncompressed file with several threads ahead of the thread that takes its chunks.
//!
//! Copying a file from the system's cache is slower than cutting it into lines, and only one
//! thread at a time can take the next batch. With read-ahead, that thread takes chunks that
//! others have read and cut. With n threads, each reads every n-th chunk and sends it through a
//! separate channel. Taking from the channels in turn gives the chunks in order, and full
//! channels bound the memory.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::chunk::{Chunk, Limits, capacity_for};
use super::signature::{BOM, Compression, KIND, MAGIC, foreign};

/// Maximum number of threads for one file: about as many as it takes to copy as fast as memory
/// allows.
const THREADS: usize = 4;
/// Minimum number of chunks. Reading a smaller file takes less time than starting the threads.
const CHUNKS: u64 = 4;
/// Number of bytes read at a time. They are set to zero first, and should still be in the core's
/// cache when the file's contents overwrite them.
const BLOCK: usize = 128 << 10;

/// The chunks of a file being read. Dropping it ends its threads.
pub(super) struct ReadAhead {
    /// Chunks with their numbers of bytes, by thread. Empty after the end of the file.
    chunks: Vec<Receiver<io::Result<(usize, Chunk)>>>,
    threads: Vec<JoinHandle<()>>,
    /// Number of the thread whose chunk is next.
    turn: usize,
    size: usize,
    bytes_read: Arc<AtomicU64>,
}

impl ReadAhead {
    /// Starts to read `file`, of about `len` bytes. Returns `None` if the file is too small or
    /// must be read from the beginning, because it is compressed or the system cannot read at an
    /// offset.
    pub(super) fn of(
        file: &File,
        len: u64,
        limits: Limits,
        bytes_read: &Arc<AtomicU64>,
    ) -> Option<Self> {
        if len < CHUNKS * limits.chunk as u64 {
            return None;
        }
        let mut magic = [0; KIND];
        if read_at(file, &mut magic, 0).ok()? < KIND
            || Compression::of(&magic[..MAGIC]).is_some()
            || foreign(&magic).is_some()
        {
            return None;
        }
        let start = if magic.starts_with(BOM) { BOM.len() } else { 0 };
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS));
        let file = file.try_clone().ok()?;
        let read = move |bytes: &mut [u8], offset| read_at(&file, bytes, offset);
        let ahead = Self::start(read, start as u64, threads, limits, bytes_read).ok()?;
        bytes_read.fetch_add(start as u64, Ordering::Relaxed);
        Some(ahead)
    }

    /// Starts to read from the offset `start` on. `read` reads some bytes at an offset, and none
    /// only at the end.
    pub(super) fn start(
        read: impl Fn(&mut [u8], u64) -> io::Result<usize> + Send + Sync + 'static,
        start: u64,
        threads: usize,
        limits: Limits,
        bytes_read: &Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let (size, bytes_read) = (limits.chunk, Arc::clone(bytes_read));
        let mut ahead = Self { chunks: Vec::new(), threads: Vec::new(), turn: 0, size, bytes_read };
        let read = Arc::new(read);
        for thread in 0..threads {
            let (sender, receiver) = sync_channel(1);
            let read = Arc::clone(&read);
            let work = move || {
                for number in (thread as u64..).step_by(threads) {
                    let bytes = read_chunk(&*read, start + number * size as u64, size);
                    let len = bytes.as_ref().map_or(0, Vec::len);
                    let chunk = bytes.map(|bytes| (len, Chunk::cut(bytes, number == 0, limits)));
                    // Sending fails if the reader has been dropped.
                    if sender.send(chunk).is_err() || len < size {
                        return;
                    }
                }
            };
            ahead.chunks.push(receiver);
            let thread = std::thread::Builder::new().name("read-ahead".to_owned()).spawn(work)?;
            ahead.threads.push(thread);
        }
        Ok(ahead)
    }

    /// Returns the next chunk; `None` at the end of the file. The file ends where a read first
    /// found no more bytes, even if other threads have read beyond it.
    pub(super) fn next(&mut self) -> io::Result<Option<Chunk>> {
        let Some(chunks) = self.chunks.get(self.turn) else { return Ok(None) };
        let gone = |_| io::Error::other("a thread that read ahead has panicked");
        let (len, chunk) = chunks.recv().map_err(gone)??;
        self.turn = (self.turn + 1) % self.chunks.len();
        self.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
        if len < self.size {
            self.end();
        }
        Ok((len > 0).then_some(chunk))
    }

    /// Ends the threads: without a receiver, they cannot send another chunk.
    fn end(&mut self) {
        self.chunks.clear();
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads `size` bytes, fewer only at the end.
fn read_chunk(
    read: &impl Fn(&mut [u8], u64) -> io::Result<usize>,
    offset: u64,
    size: usize,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(capacity_for(size));
    let mut len = 0;
    while len < size {
        bytes.resize(size.min(len + BLOCK), 0);
        match read(&mut bytes[len..], offset + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(ErrorKind::Unsupported.into())
}
