//! Batches of searches as Arrow streams.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use serde_json::{Value, json};

use crate::common::{Running, start};

const KIND: &str = "application/vnd.apache.arrow.stream";

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

fn rows(queries: &[&str], ks: &[Option<i64>]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("query", Arc::new(StringArray::from(queries.to_vec()))),
        ("k", Arc::new(Int64Array::from(ks.to_vec()))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Sends a stream and returns the status and the body of the response.
fn send(server: &Running, body: &[u8]) -> (u16, Vec<u8>) {
    let host = server.url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(socket, "POST /v1/indexes/a/batch HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {KIND}\r\ncontent-length: {length}\r\n\r\n").unwrap();
    socket.write_all(body).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[head + 4..].to_vec())
}

#[test]
fn hits_are_those_of_json_to_the_last_bit() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("limits.batch", 7.into()), ("limits.window", 20.into())]);
    let lines: String = (0..50)
        .map(|i| {
            format!(
                "{}\n",
                json!({"id": i, "t": format!("common {} word{}", "x ".repeat(i % 7), i % 5)})
            )
        })
        .collect();
    server.ok("PUT", "/v1/indexes/a", &Value::Null);
    server.ok("POST", "/v1/indexes/a/bulk?refresh", &lines.into());
    let (queries, ks) = (
        ["common", "word3", "nothing", "common word1", "x"],
        [Some(20), None, Some(3), Some(0), Some(1)],
    );
    let input =
        stream(&[rows(&queries[..2], &ks[..2]), rows(&[], &[]), rows(&queries[2..], &ks[2..])]);
    let (status, answer) = send(&server, &input);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let (mut found, mut batches) = (vec![Vec::new(); queries.len()], 0);
    for batch in StreamReader::try_new(&answer[..], None).unwrap() {
        let batch = batch.unwrap();
        batches += 1;
        for row in 0..batch.num_rows() {
            let query = batch["query"].as_primitive::<UInt32Type>().value(row) as usize;
            assert_eq!(
                batch["rank"].as_primitive::<UInt32Type>().value(row) as usize,
                found[query].len()
            );
            assert_eq!(batch["coverage"].as_primitive::<Float64Type>().value(row), 1.0);
            let id = batch["id"].as_string::<i32>().value(row).to_owned();
            found[query]
                .push((id, batch["score"].as_primitive::<Float64Type>().value(row).to_bits()));
        }
    }
    assert_eq!(batches, 3);
    for ((query, k), found) in queries.iter().zip(ks).zip(&found) {
        let body = json!({"query": query, "k": k.unwrap_or(10), "documents": false});
        let wanted = server.ok("POST", "/v1/indexes/a/search", &body);
        let wanted: Vec<(String, u64)> = wanted["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| {
                (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap().to_bits())
            })
            .collect();
        assert_eq!(*found, wanted, "{query}");
    }
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [20, 10, 0, 0, 1]);
}

#[test]
fn what_is_no_batch_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &[("limits.batch", 3.into()), ("limits.window", 20.into())]);
    server.ok("PUT", "/a/_doc/1?refresh=true", &json!({"t": "some text"}));
    let good = stream(&[rows(&["some"; 3], &[Some(20); 3])]);
    assert_eq!(send(&server, &good).0, 200);
    let numbers: ArrayRef = Arc::new(UInt32Array::from(vec![1]));
    let one = |name: &str| RecordBatch::try_from_iter([(name, numbers.clone())]).unwrap();
    let none = RecordBatch::try_from_iter([(
        "query",
        Arc::new(StringArray::from(vec![None::<&str>])) as ArrayRef,
    )]);
    for (body, reason) in [
        (stream(&[rows(&["a"; 2], &[None; 2]), rows(&["a"; 2], &[None; 2])]), "limits.batch"),
        (stream(&[rows(&["a", "b"], &[None, Some(21)])]), "row 1: [k] is 21"),
        (stream(&[rows(&["a"], &[Some(-1)])]), "row 0: [k]"),
        (stream(&[one("query")]), "must be strings"),
        (stream(&[one("text")]), "no column [text]"),
        (stream(&[none.unwrap()]), "row 0: [query] is null"),
        (b"{\"searches\": []}".to_vec(), "not an Arrow stream"),
        (Vec::new(), "not an Arrow stream"),
        (good[..good.len() / 2].to_vec(), "not an Arrow stream"),
    ] {
        let (status, answer) = send(&server, &body);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(status == 400 && answer.contains(reason), "{status} {answer}: {reason}");
    }
    // Bytes that announce more data than follows, and corrupted bytes, cause errors at most.
    for at in 0..good.len() {
        for value in [0x00, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            let (status, answer) = send(&server, &bad);
            assert!(
                matches!(status, 200 | 400),
                "byte {at} {value}: {status} {}",
                String::from_utf8_lossy(&answer)
            );
        }
    }
}
