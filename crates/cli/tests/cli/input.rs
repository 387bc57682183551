//! Input that is not what it seems: it is read correctly, rejected, or reported in a note.

use std::fs::{self, File};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::support::Space;

fn gz(bytes: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

const BODIES: &str = "\
{\"id\":1,\"body\":\"a green apple\",\"meta\":{\"head\":\"Apples\"}}
{\"id\":2,\"body\":\"a yellow pear\",\"meta\":{\"head\":\"Pears\"}}
";

#[test]
fn documents_without_text_are_noted_and_fields_can_be_named() {
    let space = Space::new();
    space.write("docs.jsonl", BODIES);
    let done = space.run("index docs.jsonl -o idx").code(0);
    for part in [
        "no document has text",
        "no field `text`, `title` or `contents`",
        "body, id, meta.head",
        "--text-field",
    ] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    let named = "--text-field body --title-field meta.head";
    let done = space.run(&format!("index docs.jsonl -o idx --overwrite {named}")).code(0);
    assert!(!done.err.contains("note"), "{}", done.err);
    assert_eq!(space.hits("idx pears"), ["2"]);
    assert_eq!(space.hits("idx apple"), ["1"]);
    let found = space.run("search idx green --json").json();
    let stored =
        json!({"id": 1, "title": "Apples", "text": "a green apple", "meta": {"head": "Apples"}});
    assert_eq!(found["hits"][0]["document"], stored);
    // The store has the indexed documents, so they can be replaced and deleted.
    space.write("new.jsonl", "{\"id\":2,\"body\":\"a red cherry\"}\n");
    space.run("add idx new.jsonl --text-field body -q").ok();
    assert_eq!(space.hits("idx pear"), [""; 0]);
    space.run("delete idx --id 1 -q").ok();
    assert_eq!(space.hits("idx cherry"), ["2"]);
    assert_eq!(space.documents("idx"), 1);
}

#[test]
fn some_documents_without_text_are_counted() {
    let space = Space::new();
    space.write(
        "docs.jsonl",
        "{\"id\":1,\"text\":\"a\"}\n{\"id\":2,\"text\":\"\"}\n{\"id\":3,\"n\":1}\n",
    );
    let done = space.run("index docs.jsonl -o idx").code(0);
    assert!(done.err.contains("2 of 3 documents have no text, the first is `2`"), "{}", done.err);
    space.write("empty.jsonl", "{\"id\":1,\"text\":\"\"}\n");
    let done = space.run("index empty.jsonl -o empty").code(0);
    assert!(done.err.contains("`text`, `title` and `contents` are empty"), "{}", done.err);
    space.write("nothing.jsonl", "");
    let done = space.run("index docs.jsonl nothing.jsonl -o two").code(0);
    assert!(done.err.contains("nothing.jsonl has no documents"), "{}", done.err);
}

#[test]
fn a_field_of_the_schema_that_no_document_has_is_noted() {
    let space = Space::new();
    space.write("docs.jsonl", BODIES);
    space.write(
        "schema.json",
        r#"{"text": [{"name": "bdy"}, {"name": "body"}], "attributes": [{"name": "yaer", "type": "integer"}]}"#,
    );
    let done = space.run("index docs.jsonl -o idx --schema schema.json").code(0);
    assert!(
        done.err.contains("no document has a value for text field `bdy`; fields seen: body, id, meta.head; did you mean `body`?"),
        "{}",
        done.err
    );
    assert!(done.err.contains("attribute `yaer`") && !done.err.contains("`body`;"), "{}", done.err);
    space
        .run("index docs.jsonl -o other --schema schema.json --text-field body")
        .fails(2, &["the schema names the text fields", "source"]);
}

#[test]
fn a_missing_id_names_the_fields_and_the_flag() {
    let space = Space::new();
    space.write("docs.jsonl", "{\"docno\":\"x\",\"text\":\"an apple\",\"id\":null}\n");
    space
        .run("index docs.jsonl -o idx")
        .fails(2, &["docs.jsonl:1: no id; fields seen: docno, text, id", "--id-field"]);
    space.run("index docs.jsonl -o idx --id-field docno -q").ok();
    assert_eq!(space.hits("idx apple"), ["x"]);
    space.run("index docs.jsonl -o other --id-field dcno").fails(2, &["docs.jsonl:1: no id"]);
}

#[test]
fn files_of_records_in_a_directory_are_read_as_such() {
    let space = Space::new();
    space.write("in/a.jsonl", "{\"id\":1,\"text\":\"apple\"}\n{\"id\":2,\"text\":\"pear\"}\n");
    space.write("in/b.jsonl.gz", gz("{\"id\":3,\"text\":\"plum\"}\n"));
    let done = space.run("index in -o idx").code(0);
    assert!(done.err.starts_with("3 documents in "), "{}", done.err);
    space.write("in/c.txt", "cherry");
    space.write("in/settings.json", "{\n  \"key\": \"fig\"\n}\n");
    space.write("in/d.json", "{\"id\":4,\"text\":\"lime\"}\n");
    let done = space.run("index in -o mixed").code(0);
    let says = "in: 3 files are read as jsonl, one document per line; 2 files are read as tree, one document per file; --format sets one format for all";
    assert!(done.err.contains(says), "{}", done.err);
    assert_eq!(space.documents("mixed"), 6);
    assert_eq!(space.hits("mixed fig"), ["settings.json"]);
    assert_eq!(space.hits("mixed lime"), ["4"]);
    space.run("index in -o tree --format tree -q").ok();
    assert_eq!(space.hits("tree plum"), ["b.jsonl.gz"]);
}

#[test]
fn the_first_line_of_tsv_may_name_columns() {
    let space = Space::new();
    // The order of columns is that of DPR's passages.
    space.write("docs.tsv", "id\ttext\ttitle\n1\ta green apple\tApples\n2\ta yellow pear\tPears\n");
    let done = space.run("index docs.tsv -o idx").code(0);
    assert!(
        done.err.contains("docs.tsv: the first line names the columns: id from `id`, title from `title`, text from `text`"),
        "{}",
        done.err
    );
    assert_eq!(space.documents("idx"), 2);
    let found = space.run("search idx pear --json").json();
    assert_eq!(found["hits"][0]["document"]["title"], "Pears");
    space.write("ms.tsv", "docid\turl\tBody\n7\thttp://a\tan apple\n");
    space.run("index ms.tsv -o ms -q").ok();
    assert_eq!(space.hits("ms apple"), ["7"]);
    space.write("own.tsv", "key\twords\n1\tapple\n");
    space.run("index own.tsv -o own --id-field key --text-field words -q").ok();
    assert_eq!(space.hits("own apple"), ["1"]);
    space.run("index own.tsv -o bad --id-field kye").fails(2, &["own.tsv", "did you mean `key`?"]);
    // A document may have any id.
    space.write("plain.tsv", "id\tapple\n2\tpear\n");
    space.run("index plain.tsv -o plain -q").ok();
    assert_eq!(space.documents("plain"), 2);
}

#[test]
fn tables_with_commas_and_their_types() {
    let space = Space::new();
    let csv = "sku,name,text,price,tag\n007,\"Apple, green\",\"a \"\"sour\"\"\nfruit\",1.5,a\n8,Pear,,2,b\n";
    space.write("docs.csv", csv);
    space
        .run("index docs.csv -o idx")
        .fails(2, &["docs.csv: no column `id`; the columns are sku, name", "--id-field"]);
    space.run("index docs.csv -o idx --id-field sku --title-field name -q").ok();
    assert_eq!(space.hits("idx sour"), ["007"]);
    let found = space.run("search idx green --json").json();
    let stored = json!({"id": "007", "title": "Apple, green", "text": "a \"sour\"\nfruit", "price": 1.5, "tag": "a"});
    assert_eq!(found["hits"][0]["document"], stored);
    let done = space.run("schema docs.csv --id-field sku").code(0);
    assert!(done.err.contains("price") && done.err.contains("1 integer, 1 float"), "{}", done.err);
    let schema: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let attributes = schema["attributes"].as_array().unwrap();
    assert!(attributes.iter().any(|a| a["name"] == "price" && a["type"] == "float"), "{schema}");
    assert!(attributes.iter().all(|a| a["name"] != "sku" && a["name"] != "id"), "{schema}");
    space.write("schema.json", &done.out);
    space.run("index docs.csv -o fields --id-field sku --schema schema.json -q").ok();
    assert_eq!(space.hits("fields price:>1.7"), ["8"]);
}

#[test]
fn what_is_no_text_is_refused_by_its_name() {
    let space = Space::new();
    for (name, bytes, says) in [
        ("wide.jsonl", &b"\xff\xfe{\0\"\0"[..], "text in UTF-16"),
        ("a.jsonl", b"%PDF-1.7\n", "a PDF file"),
        ("b.jsonl", b"PAR1....", "--format parquet"),
        ("c.tsv", b"BZh91AY", "bzip2"),
        ("d.csv", b"PK\x03\x04....", "ZIP"),
        ("e.trec", b"a\0b\0c\0d\0", "a binary file"),
        ("f.txt", b"%PDF-1.7\n", "a PDF file"),
        ("g.jsonl", b"[{\"id\":1}]\n", "jq -c '.[]'"),
        ("h.jsonl", b"{\n \"id\": 1\n}\n", "jq -c ."),
        ("i.parquet", b"{\"id\":1}\n", "i.parquet"),
    ] {
        space.write(name, bytes);
        space.run(&format!("index {name} -o idx")).fails(2, &[name, says]);
        assert!(!space.path("idx").exists(), "{name}");
    }
    let crlf = b"\xef\xbb\xbf{\"id\":1,\"text\":\"apple\"}\r\n\r\n{\"id\":2,\"text\":\"pear\"}\r\n";
    space.write("crlf.jsonl", crlf);
    space.run("index crlf.jsonl -o idx -q").ok();
    assert_eq!(space.documents("idx"), 2);
    space.run("index crlf.jsonl -o -").fails(2, &["an index is a directory"]);
}

/// Creates an index of three fruits.
fn fruits() -> Space {
    Space::with_index(
        "{\"id\":\"a\",\"text\":\"a green apple\"}\n{\"id\":\"p\",\"text\":\"a yellow pear\"}\n{\"id\":\"c\",\"text\":\"red cherries\"}\n",
    )
}

#[test]
fn files_of_queries_in_every_form() {
    let space = fruits();
    let lines = "q1\tapple\nq2\tpear\n";
    let wanted = {
        space.write("q.tsv", lines);
        space.run("run idx --queries q.tsv -q").code(0).out
    };
    assert!(wanted.starts_with("q1 Q0 a 1 "), "{wanted}");
    space.write("q.tsv.gz", gz(lines));
    space.write("q.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap());
    space.write("head.tsv", format!("query_id\tquery\n{lines}"));
    space.write(
        "q.jsonl",
        "{\"_id\":\"q1\",\"text\":\"apple\",\"metadata\":{}}\n{\"id\":\"q2\",\"query\":\"pear\"}\n",
    );
    space.write(
        "topics.txt",
        "<top>\n<num> Number: q1\n<title> apple\n<desc> Description:\ncherry?\n</top>\n<top>\n<num> Number: q2\n<title> pear\n</top>\n",
    );
    for file in ["q.tsv.gz", "q.zst", "head.tsv", "q.jsonl", "topics.txt"] {
        assert_eq!(
            space.run(&format!("run idx --queries {file} -q")).code(0).out,
            wanted,
            "{file}"
        );
    }
    let done = space.run("run idx --queries head.tsv").code(0);
    assert!(done.err.contains("head.tsv: the first line names the columns"), "{}", done.err);
    space
        .run("run idx --queries topics.txt --topic-field desc")
        .fails(2, &["topics.txt:7: topic q2 has no desc; it has: title"]);
    let skipped =
        space.run("run idx --queries topics.txt --topic-field desc --on-error skip").code(0);
    assert!(
        skipped.out.starts_with("q1 Q0 c 1 ") && skipped.err.contains("1 query was skipped"),
        "{}",
        skipped.err
    );
    space.write("bad.jsonl", "{\"id\":\"q1\",\"txt\":\"apple\"}\n");
    space.run("run idx --queries bad.jsonl").fails(2, &["bad.jsonl:1: ", "fields seen: id, txt"]);
    space.write("q.csv", "id,text\n");
    space.run("run idx --queries q.csv").fails(2, &["q.csv", "CSV"]);
}

#[test]
fn a_dash_is_standard_output() {
    let space = fruits();
    space.write("q.tsv", "q1\tapple\n");
    let wanted = space.run("run idx --queries q.tsv -q").code(0).out;
    assert_eq!(space.run("run idx --queries q.tsv -q -o -").code(0).out, wanted);
    space.run("ngram index docs.jsonl -o grams -q").ok();
    let wanted = space.run("ngram run grams q.tsv -q").code(0).out;
    assert_eq!(space.run("ngram run grams q.tsv -q -o -").code(0).out, wanted);
    assert!(!space.path("-").exists() && fs::metadata(space.path("q.tsv")).is_ok());
}

#[test]
fn signs_that_are_read_as_words_are_noted_once() {
    let space = fruits();
    let done = space.args(&["search", "idx", "--", "green -apple"]).code(0);
    assert!(
        done.err.contains("`-apple` is read as words") && done.err.contains("--syntax"),
        "{}",
        done.err
    );
    for quiet in
        [&["search", "idx", "green apple"][..], &["search", "idx", "--words", "--", "green -apple"]]
    {
        assert_eq!(space.args(quiet).code(0).err, "", "{quiet:?}");
    }
    let done = space.args(&["search", "idx", "--syntax", "--", "+green -apple"]).code(0);
    assert_eq!(done.err, "");
    space.write("q.tsv", "1\tgreen -apple\n2\tred -apple\n");
    let done = space.run("run idx --queries q.tsv -q").code(0);
    assert_eq!(done.err.matches("is read as words").count(), 1, "{}", done.err);
}

#[test]
fn unknown_words_are_shown_as_they_were_typed() {
    let space = fruits();
    let done = space.args(&["search", "idx", "Libraries title:library apple libraries"]).code(0);
    assert!(done.out.contains("\nin no document: Libraries title:library\n"), "{}", done.out);
    let found = space.args(&["search", "idx", "Automation apple", "--json"]).json();
    assert_eq!(found["missing"], json!(["Automation"]));
    space.write("schema.json", r#"{"text": [{"name": "text"}]}"#);
    space.run("index docs.jsonl -o fields --schema schema.json -q").ok();
    let done = space.args(&["search", "fields", "text:Libraries apple"]).code(0);
    assert!(done.out.contains("\nin no document: Libraries\n"), "{}", done.out);
    // Text is read from the fields of the schema, so no other fields can be named.
    space.run("add fields docs.jsonl --text-field body").fails(2, &["schema"]);
    // If the deadline leaves no time for a plan, there are no hits and no error.
    let done = space.run("search fields apple --deadline 1us").code(0);
    assert!(done.out.contains("0 of "), "{}", done.out);
    // Thousands of unknown words are found in the query in one pass.
    let words: Vec<String> = (0..4000).map(|i| format!("nosuch{i}")).collect();
    let found = space.args(&["search", "idx", &words.join(" "), "--json"]).json();
    assert_eq!(found["missing"].as_array().unwrap().len(), 4000);
}

#[test]
fn a_schema_is_made_from_a_pipe() {
    let space = fruits();
    let documents: String = (0..3000)
        .map(|i| {
            format!(
                "{{\"id\":\"{i}\",\"body\":\"an apple a day keeps number {i} away from here\"}}\n"
            )
        })
        .collect();
    space.write("many.jsonl", &documents);
    let many = File::open(space.path("many.jsonl")).unwrap();
    let mut command = space.command();
    let done = command.args(["schema", "--format", "jsonl", "-"]).stdin(many).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(
        done.status.success() && out.contains("body") && err.contains("an apple a day"),
        "{out} {err}"
    );
}

/// Checks that `schema` and `index` use the same names of fields.
#[test]
fn a_schema_of_a_table_fits_the_table() {
    let space = fruits();
    space.write("t.csv", "id,name,body\n1,Foo,a long text about kettles and other things\n");
    let schema = space.run("schema t.csv -q").ok();
    space.write("s.json", &schema);
    space.run("index t.csv -o t --schema s.json -q").ok();
    let found = space.args(&["search", "t", "kettles", "--json"]).json();
    assert_eq!(found["hits"][0]["id"], "1");
    space.run("search t kettles --static-weight 1").fails(2, &["static scores"]);
}

#[test]
fn files_of_settings_in_a_directory_are_documents_of_their_own() {
    let space = fruits();
    space.write("tree/tsconfig.json", "{\"extends\":\"base\"}\n");
    space.write("tree/a.txt", "an apple");
    space.run("index tree -o tree-index -q").ok();
    assert_eq!(
        space.args(&["search", "tree-index", "extends", "--json"]).json()["hits"][0]["id"],
        "tsconfig.json"
    );
}

#[test]
fn names_that_are_nearly_right_are_suggested() {
    let space = fruits();
    space.write("schema.json", r#"{"text": [{"name": "text", "analyzer": "enlgish"}]}"#);
    space
        .run("index docs.jsonl -o fields --schema schema.json")
        .fails(2, &["did you mean \"english\"?"]);
    space.run("search idxx apple").fails(2, &["idxx holds no index", "did you mean `idx`?"]);
    space.write(
        "schema.json",
        r#"{"text": [{"name": "text"}], "attributes": [{"name": "tag", "type": "keyword"}]}"#,
    );
    space.run("index docs.jsonl -o fields --schema schema.json -q").ok();
    space.run("search fields apple --facet tga").fails(2, &["did you mean `tag`?"]);
    space.run("serach idx apple").fails(2, &["search"]);
    let by_long = space.run("search idx apple --k 1 --json").json();
    assert_eq!(by_long["hits"].as_array().unwrap().len(), 1);
}
