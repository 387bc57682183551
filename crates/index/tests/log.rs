//! Tests of the log on a real disk: truncation, damage, reopening, and writes by many threads.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use warpseek_core::limits::MAX_ID_BYTES;
use warpseek_index::log::{
    Durability, Log, MAX_DOCUMENT_BYTES, Operation, Record, Replayed, replay_bytes,
};
use warpseek_index::{IndexError, Result};

const FIRST: u64 = 7;

/// Length of the header of a log.
const HEADER: usize = 24;
/// Length of the head of a batch.
const HEAD: usize = 29;

/// An owned record: sequence number, id, and the document of a put.
type OwnedRecord = (u64, String, Option<Vec<u8>>);

fn keep(record: Record<'_>) -> OwnedRecord {
    let document = match record.operation {
        Operation::Put { document, .. } => Some(document.to_vec()),
        Operation::Delete { .. } => None,
    };
    (record.sequence, record.operation.id().to_owned(), document)
}

fn replay(bytes: &[u8]) -> Result<(Vec<OwnedRecord>, Replayed)> {
    let mut all = Vec::new();
    let replayed = replay_bytes(Path::new("x.log"), bytes, FIRST, |record| {
        all.push(keep(record));
        Ok(())
    })?;
    Ok((all, replayed))
}

/// Opens a log and returns its records.
fn open(path: &Path) -> Result<(Log, Vec<OwnedRecord>)> {
    let mut all = Vec::new();
    let log = Log::open(path, FIRST, Durability::Synced, |record| {
        all.push(keep(record));
        Ok(())
    })?;
    Ok((log, all))
}

/// Appends and waits, so that each record is a batch.
fn append(log: &Log, operation: Operation<'_>) -> u64 {
    let ticket = log.append(operation).unwrap();
    let sequence = ticket.sequence();
    ticket.wait().unwrap();
    sequence
}

/// Writes records of several lengths, including one with an empty document.
fn write_sample(log: &Log) -> Vec<OwnedRecord> {
    let documents = [Some(&br#"{"id":"a"}"#[..]), Some(b""), None, Some(&[b'x'; 200]), Some(b"{}")];
    let ids = ["a", "b", "a", "long id, and more than one byte: é", "b"];
    let kept = ids.into_iter().zip(documents).map(|(id, document)| {
        let sequence = append(
            log,
            match document {
                Some(document) => Operation::Put { id, document },
                None => Operation::Delete { id },
            },
        );
        (sequence, id.to_owned(), document.map(<[u8]>::to_vec))
    });
    kept.collect()
}

/// Returns the bytes of a sample, closed or unclosed as after a crash, with its records and the
/// end of each.
fn sample(closed: bool) -> (Vec<u8>, Vec<OwnedRecord>, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    let log = Log::create(&path, FIRST, Durability::Synced).unwrap();
    let kept = write_sample(&log);
    let crashed = fs::read(&path).unwrap();
    log.close().unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), crashed.len() + HEAD);
    let bytes = if closed { bytes } else { crashed };
    let mut ends = Vec::new();
    for end in 0..=bytes.len() {
        if replay(&bytes[..end]).unwrap().0.len() > ends.len() {
            ends.push(end);
        }
    }
    (bytes, kept, ends)
}

#[test]
fn a_cut_at_any_byte_leaves_all_records_before_it() {
    let (bytes, kept, ends) = sample(true);
    assert_eq!(ends.len(), kept.len());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    for cut in 0..=bytes.len() {
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        let (found, replayed) = replay(&bytes[..cut]).unwrap();
        assert_eq!(found, kept[..whole], "cut at {cut}");
        assert_eq!(replayed.next, FIRST + whole as u64);
        assert!(replayed.end <= cut as u64);
        // The log continues after the last whole record, and the remainder of the next one is
        // gone.
        fs::write(&path, &bytes[..cut]).unwrap();
        let (log, found) = open(&path).unwrap();
        assert_eq!(found, kept[..whole]);
        assert_eq!(fs::metadata(&path).unwrap().len(), replayed.end.max(HEADER as u64));
        assert_eq!(append(&log, Operation::Delete { id: "new" }), replayed.next);
        drop(log);
        let expected = [&kept[..whole], &[(replayed.next, "new".into(), None)]].concat();
        let again = fs::read(&path).unwrap();
        assert!(again.len() > HEADER && again.starts_with(&bytes[..replayed.end as usize]));
        assert_eq!(open(&path).unwrap().1, expected, "cut at {cut}");
    }
}

#[test]
fn every_changed_byte_is_found() {
    for closed in [true, false] {
        let (bytes, kept, ends) = sample(closed);
        // No later head confirms the last batch of a log that was not closed.
        let vouched = if closed { ends[4] } else { ends[3] };
        for at in 0..bytes.len() {
            for change in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= change;
                match replay(&bad) {
                    Err(error) => {
                        assert!(at < vouched, "byte {at}: {error}");
                        let text = error.to_string();
                        assert!(text.starts_with("x.log "), "{text}");
                        if at >= HEADER {
                            assert!(text.contains("at byte "), "{text}");
                        }
                    }
                    Ok((found, _)) => {
                        assert!(at >= vouched, "byte {at}");
                        assert_eq!(found, kept[..if closed { 5 } else { 4 }], "byte {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn damage_is_reported_where_it_is() {
    let (mut bytes, _, ends) = sample(true);
    // Each record follows the head of its batch.
    let at = ends[1] + HEAD;
    bytes[ends[2] - 1] ^= 1;
    let error = replay(&bytes).unwrap_err().to_string();
    assert!(error.contains(&format!("record {} at byte {at} ", FIRST + 2)), "{error}");
    // A damaged log is neither opened nor changed.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(open(&path), Err(IndexError::Corrupt { .. })));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn damage_to_a_closing_head_hides_nothing_that_follows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    Log::create(&path, FIRST, Durability::Synced).unwrap().close().unwrap();
    let (log, _) = open(&path).unwrap();
    append(&log, Operation::Delete { id: "x" });
    let mut bytes = fs::read(&path).unwrap();
    bytes[30] ^= 1;
    assert!(replay(&bytes).is_err());
}

#[test]
fn a_log_is_written_in_many_sittings() {
    for durability in [Durability::Synced, Durability::Written] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("000001.log");
        let mut kept = write_sample(&Log::create(&path, FIRST, durability).unwrap());
        for _ in 0..5 {
            let (log, found) = open(&path).unwrap();
            assert_eq!(found, kept);
            assert_eq!(log.next_sequence(), FIRST + kept.len() as u64);
            kept.extend(write_sample(&log));
            // Some sessions end without an explicit close.
            if kept.len().is_multiple_of(2) {
                log.close().unwrap();
            }
        }
        assert_eq!(open(&path).unwrap().1, kept);
    }
}

#[test]
fn an_error_of_the_caller_ends_the_replay() {
    let (bytes, _, _) = sample(true);
    let mut count = 0;
    let result = replay_bytes(Path::new("x.log"), &bytes, FIRST, |_| {
        count += 1;
        if count == 2 { Err(IndexError::Cancelled) } else { Ok(()) }
    });
    assert!(matches!(result, Err(IndexError::Cancelled)));
    assert_eq!(count, 2);
}

#[test]
fn threads_write_in_the_order_of_their_sequences() {
    const THREADS: usize = 8;
    const WRITES: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    let log = Log::create(&path, FIRST, Durability::Synced).unwrap();
    let written: Vec<Vec<(u64, String)>> = std::thread::scope(|scope| {
        let spawn = |thread: usize| {
            let log = &log;
            scope.spawn(move || {
                let mut written = Vec::new();
                for i in 0..WRITES {
                    let id = format!("{thread}-{i}");
                    let document = vec![b'a' + thread as u8; i % 50];
                    let ticket =
                        log.append(Operation::Put { id: &id, document: &document }).unwrap();
                    written.push((ticket.sequence(), id));
                    if i % 20 == 19 {
                        ticket.wait().unwrap();
                    }
                }
                written
            })
        };
        let threads: Vec<_> = (0..THREADS).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Each thread has waited for its last write, so all records are there, closed or not.
    let (found, _) = replay(&fs::read(&path).unwrap()).unwrap();
    assert!(written.iter().all(|of_thread| of_thread.is_sorted()));
    let mut expected: Vec<(u64, String)> = written.concat();
    expected.sort();
    let sequences = expected.iter().map(|(sequence, _)| *sequence);
    assert!(sequences.eq(FIRST..FIRST + (THREADS * WRITES) as u64));
    let ids = found.iter().map(|(sequence, id, _)| (*sequence, id.clone()));
    assert!(ids.eq(expected));
    for (_, id, document) in &found {
        let (thread, i) = id.split_once('-').unwrap();
        let byte = b'a' + thread.parse::<u8>().unwrap();
        assert_eq!(document.as_ref().unwrap(), &vec![byte; i.parse::<usize>().unwrap() % 50]);
    }
}

#[test]
fn limits_are_checked_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    let log = Log::create(&path, FIRST, Durability::Synced).unwrap();
    let (longest, too_long) = ("x".repeat(MAX_ID_BYTES), "x".repeat(MAX_ID_BYTES + 1));
    let huge = vec![b' '; MAX_DOCUMENT_BYTES + 1];
    let refused = [
        Operation::Delete { id: "" },
        Operation::Put { id: "", document: b"{}" },
        Operation::Delete { id: &too_long },
        Operation::Put { id: &too_long, document: b"{}" },
        Operation::Put { id: "x", document: &huge },
    ];
    for operation in refused {
        let error = log.append(operation).err().unwrap();
        assert!(matches!(error, IndexError::Refused { .. }), "{error}");
    }
    assert_eq!(log.next_sequence(), FIRST);
    append(&log, Operation::Put { id: &longest, document: b"{}" });
    append(&log, Operation::Put { id: "x", document: &huge[1..] });
    log.close().unwrap();
    let (found, _) = replay(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(found[0], (FIRST, longest, Some(b"{}".to_vec())));
    assert_eq!(found[1].2.as_ref().unwrap().len(), MAX_DOCUMENT_BYTES);
}

#[test]
fn a_log_is_not_taken_for_another_file_nor_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("000001.log");
    assert!(matches!(open(&path), Err(IndexError::Io { .. })));
    for text in [
        &b"x"[..],
        b"WARPSEEKpost\0\0\0\0\x01\0\0\0\0\0\0\0",
        b"WARPSEEKlog\0\0\0\0\0\x01\0\0\0\x01",
    ] {
        fs::write(&path, text).unwrap();
        assert!(matches!(open(&path), Err(IndexError::Corrupt { .. })), "{text:?}");
        assert_eq!(fs::read(&path).unwrap(), text);
    }
    fs::write(&path, b"WARPSEEKlog\0\0\0\0\0\x02\0\0\0\0\0\0\0more").unwrap();
    assert!(matches!(open(&path), Err(IndexError::Version { found: 2, known: 1, .. })));
    let error = Log::create(&path, FIRST, Durability::Synced).err().unwrap();
    assert!(matches!(error, IndexError::Io { .. }), "{error}");
    assert!(fs::read(&path).unwrap().ends_with(b"more"));
}
