//! A selection of a range of records gives that range of all records.

use std::path::PathBuf;

use super::{Reader, ReaderConfig, Selection};

/// Returns every record as text: the document, or the error, which names its file and line.
fn all(mut reader: Reader) -> (Vec<String>, Vec<u64>) {
    let mut out = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        for i in 0..batch.len() {
            out.push(match batch.record(i) {
                Ok(document) => format!("{} {}", batch.location(i), document.id),
                Err(error) => error.to_string(),
            });
        }
    }
    (out, reader.file_records().to_vec())
}

fn files(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (name, lines) in [("a.jsonl", 7), ("b.jsonl", 0), ("c.jsonl", 1), ("d.jsonl", 12)] {
        let mut text = String::from("\n");
        for i in 0..lines {
            match i % 5 {
                4 => text += "{not json}\n",
                _ => {
                    text +=
                        &format!("{{\"id\": \"{name}{i}\", \"text\": \"{}\"}}\n\n", "x".repeat(i));
                }
            }
        }
        paths.push(dir.join(name));
        std::fs::write(dir.join(name), text).unwrap();
    }
    paths.push(dir.join("e.tsv"));
    std::fs::write(dir.join("e.tsv"), "1\tone\n2\ttwo\n3\tthree\n").unwrap();
    paths.push(dir.join("f.trec"));
    let record = |i| format!("<DOC>\n<DOCNO>t{i}</DOCNO>\n<TEXT>words</TEXT>\n</DOC>\n");
    std::fs::write(dir.join("f.trec"), (0..4).map(record).collect::<String>()).unwrap();
    paths
}

#[test]
fn every_range_is_a_part_of_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    let paths = files(dir.path());
    for batch_records in [1, 3, 1024] {
        let config = ReaderConfig { batch_records, ..ReaderConfig::default() };
        let open = || Reader::open(&paths, config.clone()).unwrap();
        let (whole, files) = all(open());
        assert_eq!(files, [7, 0, 1, 12, 3, 4]);
        let n = whole.len() as u64;
        for known in [Vec::new(), files[..2].to_vec(), files.clone()] {
            for start in 0..=n {
                for end in start..=n {
                    let (records, files) = (start..end, known.clone());
                    let selection = Selection { records, except: Vec::new(), files };
                    let (found, _) = all(open().within(selection));
                    assert_eq!(found, whole[start as usize..end as usize], "{start}..{end}");
                }
            }
        }
    }
}

#[test]
fn exceptions_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let paths = files(dir.path());
    for batch_records in [1, 2, 1024] {
        let config = ReaderConfig { batch_records, ..ReaderConfig::default() };
        let open = || Reader::open(&paths, config.clone()).unwrap();
        let (whole, files) = all(open());
        let except: Vec<u64> = vec![0, 3, 4, 9, 10, 11, 25, 99];
        let selection = Selection { records: 3..26, except: except.clone(), files };
        let (found, _) = all(open().within(selection));
        let wanted = (3..26).filter(|i| !except.contains(i));
        let wanted: Vec<&String> = wanted.map(|i| &whole[i as usize]).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted);
    }
}

#[test]
fn batches_of_which_nothing_is_left_do_not_end_the_read() {
    let dir = tempfile::tempdir().unwrap();
    let paths = files(dir.path());
    let config = ReaderConfig { batch_bytes: 1, ..ReaderConfig::default() };
    let open = || Reader::open(&paths, config.clone()).unwrap();
    let (whole, files) = all(open());
    let selection = Selection { records: 2..27, except: (3..24).collect(), files };
    let (found, _) = all(open().within(selection));
    assert_eq!(found, [&whole[2..3], &whole[24..27]].concat());
}

#[test]
fn files_before_the_selection_are_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let paths = files(dir.path());
    let (whole, files) = all(Reader::open(&paths, ReaderConfig::default()).unwrap());
    let selection = Selection { records: 8..20, except: Vec::new(), files };
    let reader = Reader::open(&paths, ReaderConfig::default()).unwrap().within(selection);
    let left: u64 = paths[3..].iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(reader.progress().bytes_total, Some(left));
    std::fs::remove_file(&paths[0]).unwrap();
    assert_eq!(all(reader).0, whole[8..20]);
}
