//! Tests of the reader as a whole: files, directories, compression, limits.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::testing::{ids, read, try_read};
use super::{Format, RawBatch, Reader, ReaderConfig};
use crate::TextError;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn batches(inputs: &[PathBuf], config: ReaderConfig) -> Result<Vec<RawBatch>, TextError> {
    let mut reader = Reader::open(inputs, config)?;
    std::iter::from_fn(|| reader.next_batch().transpose()).collect()
}

fn all_ids(inputs: &[PathBuf], config: ReaderConfig) -> Vec<String> {
    let batches = batches(inputs, config).unwrap();
    let records = batches.iter().flat_map(|batch| (0..batch.len()).map(|i| batch.record(i)));
    records.map(|record| record.unwrap().id.into_owned()).collect()
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn compression_is_told_by_content() {
    let plain = b"\xef\xbb\xbf1\tone\n2\ttwo\n";
    for bytes in [plain.to_vec(), gzip(plain), zstd(plain)] {
        assert_eq!(ids(&read(Format::Tsv, &bytes)), ["1", "2"]);
    }
    let members = [gzip(b"1\tone\n2\tt"), gzip(b""), gzip(b"wo\n3\tx")].concat();
    assert_eq!(ids(&read(Format::Tsv, &members)), ["1", "2", "3"]);
    let frames =
        [b"\x50\x2a\x4d\x18\x01\0\0\0x".to_vec(), zstd(b"1\tone\n2\tt"), zstd(b"wo\n3\tx")];
    assert_eq!(ids(&read(Format::Tsv, &frames.concat())), ["1", "2", "3"]);
}

#[test]
fn blank_lines_do_not_end_the_read() {
    let dir = tempfile::tempdir().unwrap();
    // The file has more blank lines than a chunk of small batches.
    let text = format!("\n1\ta\n{}2\tb\n\n \r\n3\tc\n\n", "\n".repeat(300_000));
    let path = write(dir.path(), "a.tsv", text.as_bytes());
    for (batch_records, batch_bytes) in [(0, 0), (1, 1), (1, 1 << 20), (1024, 1), (1024, 100)] {
        let config = ReaderConfig { batch_records, batch_bytes, ..ReaderConfig::default() };
        let read = all_ids(std::slice::from_ref(&path), config);
        assert_eq!(read, ["1", "2", "3"], "{batch_records} {batch_bytes}");
    }
}

#[test]
fn damaged_compression_is_told_apart() {
    let text = b"1\tsome text that is long enough\n".repeat(100);
    for whole in [gzip(&text), zstd(&text)] {
        let cut = try_read(ReaderConfig::default(), Format::Tsv, &whole[..whole.len() - 9]);
        assert!(matches!(cut, Err(TextError::CorruptCompression { .. })), "{cut:?}");
        let mut flipped = whole;
        flipped[20] ^= 0x55;
        let flipped = try_read(ReaderConfig::default(), Format::Tsv, &flipped);
        assert!(matches!(flipped, Err(TextError::CorruptCompression { .. })), "{flipped:?}");
    }
}

#[test]
fn empty_inputs_have_no_records_but_a_tree_file_is_a_document() {
    for format in [Format::Jsonl, Format::Tsv, Format::Trec, Format::Words] {
        for bytes in [Vec::new(), b"\xef\xbb\xbf".to_vec(), gzip(b""), zstd(b"\n \r\n")] {
            assert!(read(format, &bytes).is_empty(), "{format}");
        }
    }
    assert_eq!(ids(&read(Format::Tree, b"")), ["input.ext"]);
}

#[test]
fn a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    write(&root, "b.txt", b"\xef\xbb\xbfbee");
    write(&root, "a/z.md.gz", &gzip(b"zed"));
    write(&root, "a/a.rs", b"");
    write(&root, ".git/config", b"hidden");
    write(&root, "a/.hidden", b"hidden");
    write(&root, "c.bin", b"nul\0");
    write(&root, "d.bin", b"ok\xff");
    #[cfg(unix)]
    std::os::unix::fs::symlink(root.join("b.txt"), root.join("link.txt")).unwrap();
    let mut reader = Reader::open(std::slice::from_ref(&root), ReaderConfig::default()).unwrap();
    let batch = reader.next_batch().unwrap().unwrap();
    assert!(reader.next_batch().unwrap().is_none());
    let records: Vec<_> = (0..batch.len()).map(|i| batch.record(i)).collect();
    let found: Vec<_> = records.iter().flatten().map(|d| (&*d.id, &*d.title, &*d.text)).collect();
    let expected =
        [("a/a.rs", "a.rs", ""), ("a/z.md.gz", "z.md.gz", "zed"), ("b.txt", "b.txt", "bee")];
    assert_eq!(found, expected);
    let errors: Vec<_> = records
        .iter()
        .filter_map(|record| record.as_ref().err())
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        errors,
        [
            format!(
                "{}: the file has a NUL byte at offset 3, so it is not text; exclude it",
                root.join("c.bin").display()
            ),
            format!(
                "{}: the record is not valid UTF-8 from byte 2 on; convert the input to UTF-8",
                root.join("d.bin").display()
            ),
        ]
    );
    let progress = reader.progress();
    assert_eq!(Some(progress.bytes_read), progress.bytes_total);
}

#[test]
fn inputs_in_order_and_directories_with_a_format() {
    let dir = tempfile::tempdir().unwrap();
    let words = write(dir.path(), "w/x.words.zst", &zstd(b"a\n\nb"));
    let tsv = write(dir.path(), "y.tsv", b"1\ta\n2\tb\n");
    let text = write(dir.path(), "z.txt", b"text");
    let json = write(dir.path(), "j/2.log", b"{\"id\":2}");
    write(dir.path(), "j/1/deep.json", b"{\"id\":1}\n");
    let inputs = [tsv.clone(), words, text];
    assert_eq!(all_ids(&inputs, ReaderConfig::default()), ["1", "2", "x:0", "x:1", "z.txt"]);
    let config = ReaderConfig { format: Some(Format::Jsonl), ..ReaderConfig::default() };
    assert_eq!(all_ids(&[json.parent().unwrap().to_owned()], config), ["1", "2"]);
    let config = ReaderConfig { format: Some(Format::Words), ..ReaderConfig::default() };
    assert_eq!(all_ids(&[dir.path().join("w")], config), ["x:0", "x:1"]);
    // Batches end at their limits but always have a record.
    let config = ReaderConfig { batch_bytes: 0, batch_records: 0, ..ReaderConfig::default() };
    let batches = batches(&[tsv], config).unwrap();
    assert_eq!(batches.iter().map(RawBatch::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(batches[1].location(0).line(), Some(2));
}

#[test]
fn bad_inputs_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: PathBuf, config| Reader::open(&[path], config).err().unwrap();
    let missing = open(dir.path().join("no.jsonl"), ReaderConfig::default());
    assert!(matches!(missing, TextError::NoSuchInput { .. }), "{missing}");
    let unknown = open(write(dir.path(), "data.xml", b""), ReaderConfig::default()).to_string();
    assert!(unknown.contains("--format") && unknown.contains("trec"), "{unknown}");
    let config = ReaderConfig { vector_scale: 0, ..ReaderConfig::default() };
    assert!(matches!(open("-".into(), config), TextError::BadConfig { .. }));
    let config = ReaderConfig { static_field: Some("text".into()), ..ReaderConfig::default() };
    assert!(matches!(open("-".into(), config), TextError::BadConfig { .. }));
    let stdin = Reader::open(&["-".into()], ReaderConfig::default()).unwrap();
    assert_eq!(stdin.progress().bytes_total, None);
}

#[test]
fn records_are_bounded() {
    let config = ReaderConfig { max_record: 20, ..ReaderConfig::default() };
    let twenty = b"1\t345678901234567890\r\n".repeat(2);
    assert_eq!(try_read(config.clone(), Format::Tsv, &twenty).unwrap().len(), 2);
    for (format, bytes, line) in [
        (Format::Tsv, b"1\t3\n1\t3456789012345678901\n".to_vec(), Some(2)),
        (Format::Jsonl, b"\n\n{\"id\":1,            }".to_vec(), Some(3)),
        (Format::Trec, b"<DOC></DOC>\n<DOC>\n123456789\n1234567890</DOC>\n".to_vec(), Some(2)),
        (Format::Words, b"\na\n\nb\n123456789\n1234567890\n\n".to_vec(), Some(4)),
        (Format::Tree, b"123456789012345678901".to_vec(), None),
        // A decompression bomb: one line of a gigabyte in a few kilobytes. Reading must stop
        // after twenty bytes of it.
        (
            Format::Jsonl,
            zstd::encode_all(std::io::Read::take(std::io::repeat(b' '), 1 << 30), 1).unwrap(),
            Some(1),
        ),
    ] {
        match try_read(config.clone(), format, &bytes) {
            Err(TextError::RecordTooLong { location, limit: 20 }) => {
                assert_eq!(location.line(), line);
            }
            other => panic!("{format}: {other:?}"),
        }
    }
}

#[test]
fn an_error_ends_the_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.tsv", b"1\t2\n1\tlong long long\n1\t2\n");
    let config = ReaderConfig { max_record: 5, ..ReaderConfig::default() };
    let mut reader = Reader::open(&[path.clone(), path], config).unwrap();
    assert!(reader.next_batch().is_err());
    assert!(reader.next_batch().unwrap().is_none());
}

#[test]
fn batches_go_to_other_threads() {
    fn check<T: Send + Sync>() {}
    check::<RawBatch>();
    fn check_send<T: Send>() {}
    check_send::<Reader>();
}

/// Generates bytes that are often nearly valid: pieces of every format between arbitrary ones.
#[test]
fn lines_are_cut_the_same_in_batches_of_any_size() {
    // The file is longer than a chunk. It has lines of all lengths, blank ones, both terminators,
    // and none at the end.
    let (mut file, mut expected) = (Vec::new(), Vec::new());
    for i in 0..3000usize {
        let len = i * 7919 % 257 + if i % 500 == 250 { 200_000 } else { 0 };
        if i % 7 == 3 {
            file.extend_from_slice(if i % 2 == 0 { b"\n" } else { b" \r\n" });
        } else {
            expected.push((i as u64 + 1, format!("{i}")));
            file.extend(format!("{i}\t{}", "x".repeat(len)).bytes());
            file.extend_from_slice(if i % 3 == 0 { b"\r\n" } else { b"\n" });
        }
    }
    file.truncate(file.len() - 1);
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.tsv", &file);
    for (batch_bytes, batch_records) in
        [(1 << 20, 1024), (1, 1024), (1 << 30, 1), (1000, 3), (150_000, 7), (1 << 30, usize::MAX)]
    {
        let config = ReaderConfig { batch_bytes, batch_records, ..ReaderConfig::default() };
        let mut found = Vec::new();
        for batch in batches(std::slice::from_ref(&path), config).unwrap() {
            assert!((1..=batch_records).contains(&batch.len()));
            for i in 0..batch.len() {
                let line = batch.location(i).line().unwrap();
                found.push((line, batch.record(i).unwrap().id.into_owned()));
            }
        }
        assert!(found == expected, "{batch_bytes} {batch_records}");
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static [u8]> = vec![
        b"<DOC>",
        b"</DOC>",
        b"<DOCNO>",
        b"</DOCNO>",
        b"<TITLE>",
        b"</title",
        b"<!--",
        b"-->",
        b"&amp;",
        b"{\"id\":",
        b"\"text\":",
        b"\"vector\":{",
        b"\"a\"",
        b"1",
        b"}",
        b",",
        b"null",
        b"\\u00e9",
        b"\\ud800",
        b"\n",
        b"\r\n",
        b"\t",
        b" ",
        b"\0",
        b"<",
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08",
        b"\x28\xb5\x2f\xfd",
    ];
    let piece = prop_oneof![
        3 => proptest::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
        1 => "\\PC{0,4}".prop_map(String::into_bytes),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_format_panics(bytes in bytes(), compression in 0..3, max_record in 0usize..200) {
        let bytes = match compression {
            0 => bytes,
            1 => gzip(&bytes),
            _ => zstd(&bytes),
        };
        for format in [Format::Jsonl, Format::Tsv, Format::Trec, Format::Tree, Format::Words] {
            let static_field = Some("a".to_owned());
            let config = ReaderConfig { max_record, static_field, ..ReaderConfig::default() };
            if let Ok(records) = try_read(config, format, &bytes) {
                for record in records {
                    match record {
                        Ok(document) => prop_assert!(!document.id.is_empty()),
                        Err(error) => prop_assert!(error.to_string().starts_with("input.ext")),
                    }
                }
            }
        }
    }
}
