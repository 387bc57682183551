//! A file that the system begins to write to disk long before it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes after which another part is synced.
const PART: usize = 32 << 20;

/// Writes a file. While one part is written, another thread syncs those before it, so that at the end there is little to wait for.
pub(crate) struct EarlySync {
    file: BufWriter<File>,
    /// Bytes since a part was last handed on.
    since: usize,
    /// None for a file that is small so far.
    syncing: Option<Syncing>,
}

struct Syncing {
    wake: SyncSender<()>,
    /// The system reports a failed write only once for all handles of a file, so what the thread saw must not get lost.
    thread: JoinHandle<io::Result<()>>,
}

impl EarlySync {
    pub(crate) fn new(file: File) -> Self {
        EarlySync { file: BufWriter::with_capacity(1 << 20, file), since: 0, syncing: None }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.since += bytes.len();
        if self.since >= PART {
            self.since = 0;
            self.sync_in_background();
        }
        Ok(())
    }

    fn sync_in_background(&mut self) {
        if self.syncing.is_none() {
            self.syncing = Syncing::start(self.file.get_ref()).ok();
        }
        if let Some(syncing) = &self.syncing {
            // If it is still busy, it has been woken already for what comes next, or has failed, which the end will show.
            _ = syncing.wake.try_send(());
        }
    }

    /// Returns when all is on disk.
    pub(crate) fn finish(self) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Some(Syncing { wake, thread }) = self.syncing {
            drop(wake);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        file.sync_all()
    }
}

impl Syncing {
    fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (wake, woken) = sync_channel(1);
        let sync = move || woken.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new().name("sync".to_owned()).spawn(sync)?;
        Ok(Syncing { wake, thread })
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
        let mut file = EarlySync::new(File::create(&path).unwrap());
        let part: Vec<u8> = (0..PART / 3).map(|i| (i * 7 + i / 251) as u8).collect();
        for _ in 0..7 {
            file.write(&part).unwrap();
        }
        assert!(file.syncing.is_some());
        file.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == part.repeat(7));
    }

    #[test]
    fn what_the_thread_saw_fails_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = EarlySync::new(File::create(folder.path().join("file")).unwrap());
        let (wake, woken) = sync_channel::<()>(1);
        let sync =
            move || woken.iter().try_for_each(|()| Err(io::Error::other("the disk is gone")));
        file.syncing = Some(Syncing { wake, thread: std::thread::spawn(sync) });
        file.sync_in_background();
        assert_eq!(file.finish().unwrap_err().to_string(), "the disk is gone");
    }
}
