//! `schema` and `index --schema`: deriving a schema from documents, and building an index with
//! it.

use serde_json::json;

use crate::support::Space;

const JSONL: &str = "\
{\"id\":\"a\",\"title\":\"Apples\",\"body\":\"a green apple that fell from the tree\",\"year\":1999,\"tags\":[\"fruit\",\"green\"]}
{\"id\":\"p\",\"title\":\"Pears\",\"body\":\"a yellow pear that fell from the tree\",\"tags\":[\"fruit\"]}
";

fn space() -> Space {
    let space = Space::new();
    space.write("docs.jsonl", JSONL);
    space
}

#[test]
fn a_schema_is_made_and_used() {
    let space = space();
    let schema = space.run("schema docs.jsonl").ok();
    space.write("schema.json", &schema);
    let parsed: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let names = |part: &str| {
        let fields = parsed[part].as_array().unwrap();
        fields.iter().map(|field| field["name"].clone()).collect::<serde_json::Value>()
    };
    assert_eq!(names("text"), json!(["body", "title"]));
    assert_eq!(names("attributes"), json!(["tags", "year"]));
    assert_eq!(parsed["text"][0]["analyzer"], "english");
    let plain = space.run("schema docs.jsonl --analyzer plain --documents 1").json();
    assert_eq!(plain["text"][0]["analyzer"], "plain");

    space.run("index docs.jsonl -o idx --schema schema.json -q").ok();
    assert_eq!(space.documents("idx"), 2);
    let found = space.run("inspect idx --json").json();
    assert_eq!(found["manifest"]["schema"], parsed);
    assert_eq!(found["fields"][0]["name"], "body");
    assert_eq!(found["fields"][0]["documents"], 2);
    assert_eq!(
        found["attributes"][1],
        json!({"name": "year", "type": "integer", "documents": 1, "bytes": found["attributes"][1]["bytes"]})
    );
    let text = space.run("inspect idx").ok();
    for part in ["text fields", "title", "attributes", "year", "integer", "of each field"] {
        assert!(text.contains(part), "{part}\n{text}");
    }

    // Further documents are read with the schema of the index, to which fields can be appended.
    space.write(
        "more.jsonl",
        "{\"id\":\"q\",\"title\":\"Quinces\",\"year\":2001,\"note\":\"hard\"}\n",
    );
    space.run("add idx more.jsonl -q").ok();
    let mut larger = parsed.clone();
    larger["text"].as_array_mut().unwrap().push(json!({"name": "note"}));
    space.write("larger.json", larger.to_string());
    space.run("add idx more.jsonl --schema larger.json -q").ok();
    space.run("delete idx --id p").ok();
    assert_eq!(space.documents("idx"), 2);
    let found = space.run("inspect idx --json").json();
    assert_eq!(found["fields"][2]["name"], "note");
    assert_eq!(found["fields"][2]["documents"], 1);
    assert_eq!(found["attributes"][1]["documents"], 2);
    space.run("merge idx -q").ok();
    assert_eq!(space.documents("idx"), 2);
    assert_eq!(space.run("inspect idx --json").json()["fields"][2]["tokens"], 1);
}

#[test]
fn errors_name_file_place_and_remedy() {
    let space = space();
    space.write(
        "schema.json",
        r#"{"text": [{"name": "title"}], "attributes": [{"name": "year", "type": "integer"}]}"#,
    );
    let index = "index docs.jsonl -o bad";
    space.run(&format!("{index} --schema none.json")).fails(2, &["none.json", "No such file"]);
    for (schema, said) in [
        ("{", "line 1"),
        (r#"{"text": []}"#, "no text field"),
        (r#"{"text": [{"name": "title", "analyser": "plain"}]}"#, "text field \"title\""),
        (r#"{"text": [{"name": "title", "analyzer": "klingon"}]}"#, "klingon"),
    ] {
        space.write("wrong.json", schema);
        space.run(&format!("{index} --schema wrong.json")).fails(2, &["wrong.json", said]);
    }
    space
        .run(&format!("{index} --schema schema.json --quantize"))
        .fails(2, &["--quantize", "--schema"]);
    space
        .run(&format!("{index} --schema schema.json --analyzer plain"))
        .fails(2, &["--analyzer", "--schema"]);
    space.write("odd.jsonl", "{\"id\":\"1\",\"year\":1}\n{\"id\":\"2\",\"year\":\"MCM\"}\n");
    space
        .run("index odd.jsonl -o bad --schema schema.json -q")
        .fails(2, &["odd.jsonl:2", "\"year\"", "an integer", "--on-error skip"]);
    assert!(!space.path("bad").exists());

    space.run("index docs.jsonl -o plain -q").ok();
    space
        .run("add plain docs.jsonl --schema schema.json")
        .fails(2, &["without a schema", "index --schema"]);
    space.run("index docs.jsonl -o idx --schema schema.json -q").ok();
    space.write("other.json", r#"{"text": [{"name": "body"}]}"#);
    space
        .run("add idx docs.jsonl --schema other.json")
        .fails(2, &["text field \"title\"", "at the end"]);
    space.run("add idx docs.jsonl --device auto -q").ok();

    space.run("schema none.jsonl").fails(2, &["none.jsonl"]);
    space.write("numbers.jsonl", "{\"id\":\"1\",\"year\":1}\n");
    space.run("schema numbers.jsonl -q").fails(2, &["no text in the first document"]);
    space.run("schema numbers.jsonl").code(2).says("year").says("no text in the first document");
}
