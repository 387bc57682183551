//! Lines are the same however an input is cut into chunks, and whichever threads read them.

use std::io::{self, Cursor, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::chunk::Limits;
use super::lines::Cutter;
use super::read_ahead::ReadAhead;
use super::source::Source;
use super::{Format, Input, RawBatch, Reader, ReaderConfig};
use crate::{RecordErrorKind, TextError};

/// Line numbers with the text, or with the offset at which it is not UTF-8.
type Found = Vec<(u64, Result<String, usize>)>;

/// Returns the expected lines of a file, found without chunks, and the number of the line that is
/// too long and ends them.
fn model(bytes: &[u8], max_record: usize) -> (Found, Option<u64>) {
    let mut found = Vec::new();
    for (line, number) in bytes.split_inclusive(|&byte| byte == b'\n').zip(1..) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > max_record {
            return (found, Some(number));
        }
        if !line.trim_ascii().is_empty() {
            let text = std::str::from_utf8(line);
            found.push((number, text.map(str::to_owned).map_err(|error| error.valid_up_to())));
        }
    }
    (found, None)
}

/// Creates a source whose records are their texts.
fn source() -> Arc<Source> {
    let name = "input".to_owned();
    let relative = Some(name.clone());
    Arc::new(Source {
        path: None,
        format: Format::Tree,
        name,
        relative,
        columns: Default::default(),
        size: None,
    })
}

fn texts(batch: &RawBatch) -> impl Iterator<Item = (u64, Result<String, usize>)> {
    (0..batch.len()).map(|i| {
        let text = batch.record(i).map(|document| document.text.into_owned());
        let text = text.map_err(|error| match error.kind {
            RecordErrorKind::InvalidUtf8 { offset } => offset,
            other => panic!("{other}"),
        });
        (batch.location(i).line().unwrap(), text)
    })
}

/// Returns the records of all batches up to the end or an error.
fn read(mut input: Input, config: &ReaderConfig) -> (Found, Option<TextError>) {
    let (mut cutter, config) = (Cutter::default(), Arc::new(config.clone()));
    let mut found = Vec::new();
    loop {
        let mut batch = RawBatch::new(Arc::clone(&config));
        let mut more = true;
        while more && !batch.is_full() {
            match cutter.cut(&mut input, &mut batch) {
                Ok(any) => more = any,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(batch.len() <= config.batch_records);
        let but_last: usize = (1..batch.len()).map(|i| batch.record_bytes(i - 1)).sum();
        assert!(but_last < config.batch_bytes);
        found.extend(texts(&batch));
        if !more {
            assert_eq!(input.records, found.len() as u64);
            return (found, None);
        }
        assert!(!batch.is_empty());
    }
}

/// Creates a function that reads `bytes` at an offset, a few at a time.
fn at_offsets(bytes: Vec<u8>) -> impl Fn(&mut [u8], u64) -> io::Result<usize> + Send + Sync {
    move |out, offset| {
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len()).min(3);
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

fn ahead(
    read: impl Fn(&mut [u8], u64) -> io::Result<usize> + Send + Sync + 'static,
    threads: usize,
    limits: Limits,
) -> Input {
    let ahead = ReadAhead::start(read, 0, threads, limits, &Arc::default()).unwrap();
    Input::ahead(ahead, source(), limits)
}

fn small(chunk: usize) -> (ReaderConfig, Limits) {
    let config = ReaderConfig { batch_bytes: 10, batch_records: 4, ..ReaderConfig::default() };
    let limits = Limits { chunk, ..Limits::of(&config) };
    (config, limits)
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"a",
        b"bcd",
        b"x\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b"\r",
        b" ",
        b"0123456789",
        b"\xff",
        b"\xc3\xa9",
    ];
    proptest::collection::vec(proptest::sample::select(PIECES), 0..60)
        .prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn chunks_change_nothing(
        bytes in content(),
        chunk in 1usize..24,
        threads in 1usize..5,
        batch_bytes in 1usize..40,
        batch_records in 1usize..6,
        max_record in prop_oneof![1usize..14, Just(1000)],
    ) {
        let config = ReaderConfig { batch_bytes, batch_records, max_record, ..ReaderConfig::default() };
        let limits = Limits { chunk, ..Limits::of(&config) };
        let stream = Input::over(Cursor::new(bytes.clone()), source(), limits).unwrap();
        for input in [ahead(at_offsets(bytes.clone()), threads, limits), stream] {
            check(&bytes, input, &config);
        }
    }
}

/// Checks that the records are those of the model, even if a line is too long.
fn check(bytes: &[u8], input: Input, config: &ReaderConfig) {
    let (expected, too_long) = model(bytes, config.max_record);
    let (found, error) = read(input, config);
    match error {
        None => assert_eq!((&found, None), (&expected, too_long)),
        Some(TextError::RecordTooLong { location, limit }) => {
            assert_eq!((location.line(), limit), (too_long, config.max_record));
            assert!(expected.starts_with(&found));
        }
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn every_short_input_in_small_chunks() {
    let (max_record, batch_bytes, batch_records) = (2, 3, 2);
    let config = ReaderConfig { max_record, batch_bytes, batch_records, ..ReaderConfig::default() };
    for len in 0..8 {
        for mut code in 0..3usize.pow(len) {
            let mut byte = || {
                let byte = b"a\r\n"[code % 3];
                code /= 3;
                byte
            };
            let bytes: Vec<u8> = (0..len).map(|_| byte()).collect();
            for chunk in 1..5 {
                let limits = Limits { chunk, ..Limits::of(&config) };
                let input = Input::over(Cursor::new(bytes.clone()), source(), limits).unwrap();
                check(&bytes, input, &config);
            }
        }
    }
}

#[test]
fn an_error_comes_in_its_place() {
    let (config, limits) = small(8);
    let bytes = b"1234567\n".repeat(40);
    for threads in [1, 3] {
        let good = at_offsets(bytes.clone());
        let read_until = move |out: &mut [u8], offset| match offset {
            0..100 => good(out, offset),
            _ => Err(io::Error::other("broken")),
        };
        let (found, error) = read(ahead(read_until, threads, limits), &config);
        // The batch before the chunk in which reading fails is lost with it.
        assert!((10..=12).contains(&found.len()), "{}", found.len());
        assert_eq!(found, model(&bytes, 1000).0[..found.len()]);
        let error = error.unwrap();
        assert!(
            matches!(&error, TextError::Io { path, source }
            if path.as_os_str() == "input" && source.to_string() == "broken"),
            "{error}"
        );
    }
}

#[test]
fn a_panic_is_an_error() {
    let (config, limits) = small(8);
    let (found, error) = read(ahead(|_, _| panic!("as the test wants"), 2, limits), &config);
    assert!(found.is_empty() && matches!(error, Some(TextError::Io { .. })));
}

#[test]
fn threads_read_a_bounded_part_and_end_with_the_reader() {
    let (config, limits) = small(8);
    for batches in [0, 1, 20] {
        // The file never ends.
        let reads = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&reads);
        let mut input = ahead(
            move |out: &mut [u8], _| {
                out.copy_from_slice(b"1234567\n");
                counting.fetch_add(1, Ordering::Relaxed);
                Ok(out.len())
            },
            3,
            limits,
        );
        let mut cutter = Cutter::default();
        for _ in 0..batches {
            let mut batch = RawBatch::new(Arc::new(config.clone()));
            while !batch.is_full() {
                assert!(cutter.cut(&mut input, &mut batch).unwrap());
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        drop(input);
        // All threads have ended and dropped the closure that counts.
        assert_eq!(Arc::strong_count(&reads), 1);
        // Each batch takes at most two chunks, and one more may be open; each thread has one
        // chunk in its channel and one in progress.
        assert!(reads.load(Ordering::Relaxed) <= batches * 2 + 1 + 3 * 2);
    }
}

#[test]
fn the_file_ends_where_a_read_first_finds_no_more() {
    let (config, limits) = small(8);
    for shrunk in [20, 24] {
        // The bytes beyond the end were read before the file shrank, or after it grew.
        let whole = at_offsets(b"1\n2\n3\n4\n".repeat(10));
        let read_part = move |out: &mut [u8], offset| match offset {
            0..24 => {
                let len = out.len().min((shrunk - offset) as usize);
                whole(&mut out[..len], offset)
            }
            24..32 => Ok(0),
            _ => whole(out, offset),
        };
        let (found, error) = read(ahead(read_part, 4, limits), &config);
        assert!(error.is_none());
        assert_eq!(found, model(&b"1\n2\n3\n4\n".repeat(3)[..shrunk as usize], 1000).0);
    }
}

#[test]
fn large_files_are_read_ahead() {
    let config = ReaderConfig { batch_bytes: 1, batch_records: 100, ..ReaderConfig::default() };
    let limits = Limits::of(&config);
    let lines: String = (0..100_000).map(|i| format!("{i}\ttext\n")).collect();
    let mut file = tempfile::NamedTempFile::with_suffix(".tsv").unwrap();
    for start in ["\u{feff}", ""] {
        file.as_file_mut().set_len(0).unwrap();
        file.reopen().unwrap().write_all(format!("{start}{lines}").as_bytes()).unwrap();
        let len = (start.len() + lines.len()) as u64;
        let starts = |len| ReadAhead::of(file.as_file(), len, limits, &Arc::default()).is_some();
        assert_eq!(starts(len), cfg!(unix));
        assert!(!starts(limits.chunk as u64));
        let mut reader = Reader::open(&[file.path().to_owned()], config.clone()).unwrap();
        let mut next = 0;
        while let Some(batch) = reader.next_batch().unwrap() {
            for i in 0..batch.len() {
                assert_eq!(batch.record(i).unwrap().id, next.to_string());
                next += 1;
                assert_eq!(batch.location(i).line(), Some(next));
            }
        }
        assert_eq!((next, reader.progress().bytes_read), (100_000, len));
        assert_eq!(reader.file_records(), [100_000]);
    }
    file.reopen().unwrap().write_all(b"\x1f\x8b").unwrap();
    assert!(ReadAhead::of(file.as_file(), 1 << 30, limits, &Arc::default()).is_none());
}
