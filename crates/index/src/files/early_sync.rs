//! A file that is written and synced in the background while its next bytes are being produced.

use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes that are passed to the operating system at a time.
const BUFFER: usize = 1 << 20;
/// Number of buffers that may wait to be written.
const WAITING: usize = 4;
/// Number of bytes after which the next part is synced.
const PART: usize = 32 << 20;

/// A file writer with two background threads.
///
/// One thread passes bytes to the operating system, which takes as long as producing them; the
/// other syncs them, so that little is left to wait for at the end.
pub(crate) struct EarlySync {
    file: File,
    /// The bytes that come next.
    buffer: Vec<u8>,
    /// The writing thread; `None` while the file is small.
    writing: Option<Writing>,
}

/// The thread that writes. Until it ends, no other thread writes to the file.
struct Writing {
    full: SyncSender<Vec<u8>>,
    /// Buffers that the thread has written, for reuse.
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<io::Result<()>>,
}

struct Syncing {
    wake: SyncSender<()>,
    /// The thread that syncs. The system reports a failed write only once for all handles of a
    /// file, so an error that this thread sees must not get lost.
    thread: JoinHandle<io::Result<()>>,
}

impl EarlySync {
    pub(crate) fn new(file: File) -> Self {
        EarlySync { file, buffer: Vec::with_capacity(BUFFER), writing: None }
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BUFFER - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == BUFFER {
                self.hand_on()?;
            }
        }
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let writing = match &self.writing {
            Some(writing) => writing,
            None => self.writing.insert(Writing::start(&self.file)?),
        };
        let next = writing.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        let full = std::mem::replace(&mut self.buffer, next);
        match writing.full.send(full) {
            Ok(()) => Ok(()),
            // The receiver is dropped only if the thread has failed.
            Err(_) => self.join().and(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits until the thread has written everything that it was given.
    fn join(&mut self) -> io::Result<()> {
        let Some(Writing { full, thread, .. }) = self.writing.take() else { return Ok(()) };
        drop(full);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Completes the file and waits until all of it is on disk.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.join()?;
        self.file.write_all(&self.buffer)?;
        self.file.sync_all()
    }
}

impl Writing {
    fn start(file: &File) -> io::Result<Self> {
        let mut file = file.try_clone()?;
        let (full, buffers) = sync_channel::<Vec<u8>>(WAITING);
        let (used, empty) = sync_channel(WAITING);
        let write = move || {
            let (mut syncing, mut since) = (None, 0);
            for mut buffer in buffers {
                file.write_all(&buffer)?;
                since += buffer.len();
                if since >= PART {
                    since = 0;
                    Syncing::wake(&mut syncing, &file);
                }
                buffer.clear();
                // A buffer that does not fit into the channel is dropped.
                _ = used.try_send(buffer);
            }
            syncing.map_or(Ok(()), Syncing::join)
        };
        let thread = std::thread::Builder::new().name("write".to_owned()).spawn(write)?;
        Ok(Writing { full, empty, thread })
    }
}

impl Syncing {
    /// Requests a sync of everything written so far, and starts the syncing thread if necessary.
    fn wake(syncing: &mut Option<Syncing>, file: &File) {
        if syncing.is_none() {
            *syncing = Syncing::start(file).ok();
        }
        if let Some(syncing) = syncing {
            // A thread that is still busy will sync these bytes in its next round, or has failed,
            // which `join` will report.
            _ = syncing.wake.try_send(());
        }
    }

    fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (wake, woken) = sync_channel(1);
        let sync = move || woken.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new().name("sync".to_owned()).spawn(sync)?;
        Ok(Syncing { wake, thread })
    }

    fn join(self) -> io::Result<()> {
        drop(self.wake);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_arrive_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (len, times) in [(0, 1), (BUFFER - 1, 1), (BUFFER, 1), (BUFFER + 1, 3), (PART / 3, 7)] {
            let mut file = EarlySync::new(File::create(&path).unwrap());
            let part: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            for _ in 0..times {
                file.write(&part).unwrap();
            }
            assert_eq!(file.writing.is_some(), len * times >= BUFFER);
            file.finish().unwrap();
            assert!(std::fs::read(&path).unwrap() == part.repeat(times), "{times} times {len}");
        }
    }

    /// A file that can only be read cannot be written: the error is reported at the end at the
    /// latest.
    #[test]
    fn what_the_writing_thread_saw_fails_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "").unwrap();
        let mut file = EarlySync::new(File::open(&path).unwrap());
        let written = (0..100).try_for_each(|_| file.write(&vec![0; BUFFER]));
        assert!(written.is_err(), "more than may wait");
        let mut file = EarlySync::new(File::open(&path).unwrap());
        _ = file.write(&vec![0; BUFFER]);
        file.finish().unwrap_err();
    }

    #[test]
    fn what_the_syncing_thread_saw_fails_the_file() {
        let (wake, woken) = sync_channel::<()>(1);
        let sync =
            move || woken.iter().try_for_each(|()| Err(io::Error::other("the disk is gone")));
        let mut syncing = Some(Syncing { wake, thread: std::thread::spawn(sync) });
        let folder = tempfile::tempdir().unwrap();
        let file = File::create(folder.path().join("file")).unwrap();
        Syncing::wake(&mut syncing, &file);
        let error = syncing.unwrap().join().unwrap_err();
        assert_eq!(error.to_string(), "the disk is gone");
    }
}
