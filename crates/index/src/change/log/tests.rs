//! Tests of batches, failures of the disk, and states after a power failure, on a simulated disk.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use super::record::{HEAD, HEADER, header};
use super::*;

/// Timeout that is long enough to expire only because of a defect.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request to the disk. The disk continues once it gets an answer, which may be an error.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Write(Vec<u8>),
    Sync,
}

struct Disk {
    asked: Sender<Asked>,
    answers: Receiver<io::Result<()>>,
}

impl Disk {
    fn ask(&self, what: Asked) -> io::Result<()> {
        // A test that has ended gives no answer.
        self.asked.send(what).map_err(io::Error::other)?;
        self.answers.recv().map_err(io::Error::other)?
    }
}

impl Sink for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ask(Asked::Write(bytes.to_vec()))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.ask(Asked::Sync)
    }
}

/// The test's end of a simulated disk, and the bytes written to it.
struct Test {
    asked: Receiver<Asked>,
    answers: Sender<io::Result<()>>,
    bytes: Vec<u8>,
}

fn start(durability: Durability) -> (Log, Test) {
    let ((asked, from_disk), (answers, to_disk)) = (channel(), channel());
    let sink = Box::new(Disk { asked, answers: to_disk });
    let log = Log::start(Path::new("test.log"), sink, HEADER as u64, 0, durability).unwrap();
    (log, Test { asked: from_disk, answers, bytes: header().to_vec() })
}

impl Test {
    /// Returns the next request; the disk waits for an answer.
    fn next(&self) -> Asked {
        self.asked.recv_timeout(PATIENCE).unwrap()
    }

    fn answer(&self, answer: io::Result<()>) {
        self.answers.send(answer).unwrap();
    }

    /// Lets a write succeed.
    fn write(&mut self) {
        let Asked::Write(bytes) = self.next() else { panic!("a write was expected") };
        self.bytes.extend(bytes);
        self.answer(Ok(()));
    }

    /// Lets a sync succeed.
    fn sync(&self) {
        assert_eq!(self.next(), Asked::Sync);
        self.answer(Ok(()));
    }

    /// Lets all requests succeed until the log is closed.
    fn finish(self, log: Log) -> Vec<Asked> {
        let closing = std::thread::spawn(move || log.close());
        let mut asked = Vec::new();
        while let Ok(next) = self.asked.recv_timeout(PATIENCE) {
            asked.push(next);
            self.answer(Ok(()));
        }
        closing.join().unwrap().unwrap();
        asked
    }
}

fn put(log: &Log, id: u64) -> Ticket {
    log.append(Operation::Put { id: &id.to_string(), document: b"{}" }).unwrap()
}

/// Returns the ids of the records, or the error.
fn ids(bytes: &[u8]) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    replay_bytes(Path::new("test.log"), bytes, 0, |record| {
        ids.push(record.operation.id().to_owned());
        Ok(())
    })?;
    Ok(ids)
}

fn names(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|id| id.to_string()).collect()
}

#[test]
fn what_gathers_during_a_sync_is_one_batch() {
    let (log, mut disk) = start(Durability::Synced);
    let first = put(&log, 0);
    disk.write();
    // The disk is busy with the sync.
    assert_eq!(disk.next(), Asked::Sync);
    let rest: Vec<Ticket> = (1..100).map(|id| put(&log, id)).collect();
    assert!(!first.is_done() && !rest[0].is_done());
    disk.answer(Ok(()));
    first.wait().unwrap();
    disk.write();
    assert!(!rest[0].is_done() && !rest[98].is_done());
    disk.sync();
    rest.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(ids(&disk.bytes).unwrap(), names(0..100));
    // Everything is synced, so closing writes only the last head.
    assert!(matches!(&disk.finish(log)[..], [Asked::Write(head)] if head.len() == HEAD));
}

#[test]
fn written_is_enough_if_so_asked() {
    let never = Duration::from_secs(1 << 40);
    for durability in [Durability::Written, Durability::Every(never)] {
        let (log, mut disk) = start(durability);
        for id in 0..3 {
            let ticket = put(&log, id);
            disk.write();
            ticket.wait().unwrap();
        }
        assert!(matches!(&disk.finish(log)[..], [Asked::Sync, Asked::Write(_)]));
    }
}

#[test]
fn a_period_without_writes_ends_with_a_sync() {
    let (log, mut disk) = start(Durability::Every(Duration::from_millis(1)));
    for id in 0..3 {
        let ticket = put(&log, id);
        disk.write();
        ticket.wait().unwrap();
        disk.sync();
    }
    assert!(matches!(&disk.finish(log)[..], [Asked::Write(_)]));
}

#[test]
fn a_failure_reaches_everybody_and_is_final() {
    for fail_sync in [false, true] {
        let (log, mut disk) = start(Durability::Synced);
        let early = put(&log, 0);
        disk.write();
        disk.sync();
        // A ticket can be waited for at any later time.
        let waited = put(&log, 1);
        let failing = disk.next();
        let behind = put(&log, 2);
        let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
        if fail_sync {
            disk.answer(Ok(()));
            assert_eq!(disk.next(), Asked::Sync);
        } else {
            assert!(matches!(failing, Asked::Write(_)));
        }
        disk.answer(full());
        for ticket in [waited, behind] {
            let error = ticket.wait().unwrap_err();
            assert!(
                matches!(&error, IndexError::Log { source, .. } if source.kind() == io::ErrorKind::StorageFull),
                "{error}"
            );
            assert!(error.to_string().contains("test.log"), "{error}");
        }
        early.wait().unwrap();
        let later = log.append(Operation::Delete { id: "0" }).err().unwrap();
        assert!(matches!(later, IndexError::Log { .. }), "{later}");
        assert!(matches!(log.close(), Err(IndexError::Log { .. })));
        // The disk gets no further request.
        assert!(disk.asked.try_recv().is_err());
    }
}

#[test]
fn a_dead_committer_leaves_nobody_waiting() {
    struct Broken;
    impl Sink for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<()> {
            panic!("this is part of the test");
        }
        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let path = Path::new("test.log");
    let log = Log::start(path, Box::new(Broken), HEADER as u64, 0, Durability::Synced).unwrap();
    assert!(put(&log, 0).wait().is_err());
    assert!(log.close().is_err());
}

#[test]
fn a_slow_disk_holds_up_those_who_append() {
    let (log, mut disk) = start(Durability::Written);
    let large = vec![b' '; MOST_PENDING];
    let _ = put(&log, 0);
    assert!(matches!(disk.next(), Asked::Write(_)));
    let _ = log.append(Operation::Put { id: "large", document: &large }).unwrap();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| put(&log, 2).wait());
        // Enough time to append, if that were permitted.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(log.next_sequence(), 2);
        disk.answer(Ok(()));
        disk.write();
        disk.write();
        late.join().unwrap().unwrap();
    });
    disk.finish(log);
}

/// Builds a log of three batches (record 0, records 1 to 99, record 100) and returns it with the
/// start of each batch.
fn three_batches() -> (Vec<u8>, [usize; 4]) {
    let (log, mut disk) = start(Durability::Synced);
    let mut starts = [HEADER; 4];
    let first = put(&log, 0);
    disk.write();
    assert_eq!(disk.next(), Asked::Sync);
    let _rest: Vec<Ticket> = (1..100).map(|id| put(&log, id)).collect();
    starts[1] = disk.bytes.len();
    disk.answer(Ok(()));
    first.wait().unwrap();
    disk.write();
    assert_eq!(disk.next(), Asked::Sync);
    let last = put(&log, 100);
    starts[2] = disk.bytes.len();
    disk.answer(Ok(()));
    disk.write();
    disk.sync();
    last.wait().unwrap();
    starts[3] = disk.bytes.len();
    (disk.bytes, starts)
}

/// A disk may write the pages of a batch in any order, but writes no batch before the previous
/// one is synced.
#[test]
fn holes_in_the_last_batch_are_no_damage_and_others_are() {
    let (whole, starts) = three_batches();
    let two = &whole[..starts[2]];
    for page in [16, 64, 500] {
        for (number, hole) in (starts[1]..starts[2]).step_by(page).enumerate() {
            let mut bytes = two.to_vec();
            let end = bytes.len().min(hole + page);
            bytes[hole..end].fill(0);
            let found = ids(&bytes).unwrap();
            // The records found are the first ones that were written, up to the hole.
            assert_eq!(found, names(0..found.len() as u64));
            assert!((1..100).contains(&found.len()) && (number > 0 || found.len() == 1));
            bytes.extend(&whole[starts[2]..]);
            let error = ids(&bytes).unwrap_err().to_string();
            assert!(error.contains("test.log is damaged: its record"), "{error}");
        }
    }
}

/// Without syncs, a disk may also write whole batches in any order.
#[test]
fn holes_in_what_was_not_synced_are_no_damage() {
    let (log, mut disk) = start(Durability::Written);
    let mut starts = Vec::new();
    for id in 0..4 {
        starts.push(disk.bytes.len());
        let ticket = put(&log, id);
        disk.write();
        ticket.wait().unwrap();
    }
    let mut bytes = disk.bytes.clone();
    bytes[starts[1]..starts[2]].fill(0);
    assert_eq!(ids(&bytes).unwrap(), names(0..1));
    // Once the log is closed, nothing may be missing.
    let closing = disk.finish(log);
    let Some(Asked::Write(head)) = closing.last() else { panic!("closing writes a head") };
    bytes.extend(head);
    let error = ids(&bytes).unwrap_err().to_string();
    assert!(error.contains(&format!("its record 1 at byte {} ", starts[1])), "{error}");
}

/// Intact records that are not those expected at their place are refused.
#[test]
fn forged_records_are_errors_wherever_they_are() {
    let record = |sequence, id| {
        let mut bytes = Vec::new();
        Record { sequence, operation: Operation::Delete { id } }.write(&mut bytes);
        bytes
    };
    let head = |first, synced| {
        let mut head = [0; HEAD];
        record::fill_head(&mut head, first, synced);
        head.to_vec()
    };
    let sealed = |rest: &[u8]| {
        let mut bytes = (rest.len() as u32).to_le_bytes().to_vec();
        bytes.extend(xxhash_rust::xxh3::xxh3_64(rest).to_le_bytes());
        [&bytes, rest].concat()
    };
    let read = |records: &[Vec<u8>]| ids(&[&header()[..], &records.concat()].concat());
    assert_eq!(read(&[head(0, 24), record(0, "a"), record(1, "b")]).unwrap(), ["a", "b"]);
    assert_eq!(read(&[sealed(&[&[0; 8][..], &[1, 1, b'x']].concat())]).unwrap(), ["x"]);
    let forged = [
        vec![record(1, "a")],
        vec![record(0, "a"), record(0, "b")],
        vec![record(0, "a"), record(2, "b")],
        vec![head(1, 24)],
        vec![head(0, 25)],
        vec![record(0, "")],
        vec![record(0, &"x".repeat(1025))],
        vec![sealed(&[])],
        vec![sealed(&[0; 8])],
        // A kind that does not exist, a delete with a document, an incomplete id, and an id that
        // is not UTF-8.
        vec![sealed(&[&[0; 8][..], &[3, 1, b'x']].concat())],
        vec![sealed(&[&[0; 8][..], &[2, 1, b'x', b'y']].concat())],
        vec![sealed(&[&[0; 8][..], &[1, 2, b'x']].concat())],
        vec![sealed(&[&[0; 8][..], &[1, 1, 0xff]].concat())],
    ];
    for (i, records) in forged.iter().enumerate() {
        let error = read(records).unwrap_err().to_string();
        let at = HEADER + records[..records.len() - 1].concat().len();
        assert!(error.contains(&format!("the record at byte {at} is not")), "{i}: {error}");
    }
}

#[test]
fn the_next_file_begins_when_the_one_before_is_complete() {
    let (log, mut old) = start(Durability::Written);
    let ((asked, from_disk), (answers, to_disk)) = (channel(), channel());
    let sink = Box::new(Disk { asked, answers: to_disk });
    let mut new = Test { asked: from_disk, answers, bytes: header().to_vec() };
    let before = put(&log, 0);
    let Asked::Write(first) = old.next() else { panic!("a write was expected") };
    let between = put(&log, 1);
    assert_eq!(log.switch(NewLog { path: "next.log".into(), sink }).unwrap(), 2);
    let after = put(&log, 2);
    old.bytes.extend(first);
    old.answer(Ok(()));
    before.wait().unwrap();
    // Everything before the switch is written and synced, although durability does not require it
    // for each write, and the file is closed.
    old.write();
    assert_eq!(old.next(), Asked::Sync);
    assert!(!between.is_done() && !after.is_done() && new.asked.try_recv().is_err());
    old.answer(Ok(()));
    between.wait().unwrap();
    old.write();
    new.write();
    after.wait().unwrap();
    assert_eq!(ids(&old.bytes).unwrap(), names(0..2));
    let mut found = Vec::new();
    let path = Path::new("next.log");
    let replayed = replay_bytes(path, &new.bytes, 2, |record| {
        found.push(record.operation.id().to_owned());
        Ok(())
    });
    assert_eq!((found, replayed.unwrap().next), (names(2..3), 3));
    // Errors name the new file.
    let last = put(&log, 3);
    assert!(matches!(new.next(), Asked::Write(_)));
    new.answer(Err(io::ErrorKind::StorageFull.into()));
    assert!(last.wait().unwrap_err().to_string().contains("next.log"));
}
