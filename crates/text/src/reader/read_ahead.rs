//! A plain file that several threads read ahead of the one that asks for it.
//!
//! Copying a file from the system's cache is slower than cutting it into lines, and only one thread at a time can take the next batch. So that thread finds chunks that others have read and cut.
//! With n threads, each reads every n-th chunk and hands it over through a channel of its own: taking from the channels in turn gives the chunks in order, and full channels bound the memory.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use super::input::{BOM, Compression, KIND, MAGIC, foreign};
use super::lines::{Chunk, Limits, with_room};

/// The most threads for one file: about as many as it takes to copy as fast as memory allows.
const THREADS: usize = 4;
/// Files with fewer chunks than this are read sooner than threads are started.
const CHUNKS: u64 = 4;
/// Bytes read at a time: they are set to zero before, and should still be in the core's cache then.
const BLOCK: usize = 128 << 10;

/// The chunks of a file being read. Dropping it ends its threads.
pub(super) struct ReadAhead {
    /// Of each thread, chunks with their numbers of bytes. Empty when the end has been reached.
    chunks: Vec<Receiver<io::Result<(usize, Chunk)>>>,
    threads: Vec<JoinHandle<()>>,
    /// Whose chunk is next.
    turn: usize,
    size: usize,
    bytes_read: Arc<AtomicU64>,
}

impl ReadAhead {
    /// Starts to read `file`, of about `len` bytes; `None` if it is too small or must be read from the beginning: it is compressed, or the system cannot read at an offset.
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

    /// Reads from the offset `start` on with `read`, which reads some bytes at an offset, none only at the end.
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
                    // Nobody receives it if the reader is gone.
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

    /// The next chunk; `None` at the end of the file, which is where a read first found no more, whatever was read beyond it.
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

    /// Ends the threads: without a receiver, none can hand over another chunk.
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
    let mut bytes = Vec::with_capacity(with_room(size));
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
