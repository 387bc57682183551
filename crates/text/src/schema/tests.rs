//! Tests of reading and checking schemas. The tests of `infer` are with the reader, which must
//! accept the documents of an inferred schema.

use super::*;
use crate::{AttributeKind, CHAIN_VERSION, Chain};

const FULL: &str = r#"{
    "analyzers": {"names": {"fold": true}},
    "text": [
        {"name": "title", "k1": 1.2, "b": 0.75},
        {"name": "body", "source": "content.body", "analyzer": "german"},
        {"name": "author", "analyzer": "names"}
    ],
    "attributes": [
        {"name": "author.keyword", "source": "author", "type": "keyword", "many": true},
        {"name": "year", "type": "integer"},
        {"name": "price", "type": "float"},
        {"name": "open", "source": "content.open", "type": "boolean"},
        {"name": "day", "type": "date"}
    ],
    "unknown": "refuse"
}"#;

#[test]
fn a_schema_is_what_its_file_says() {
    let schema = Schema::parse(FULL).unwrap();
    assert_eq!(schema.find("body"), Some(FieldId::Text(1)));
    assert_eq!(schema.find("day"), Some(FieldId::Attribute(4)));
    assert_eq!(schema.find("content.body"), None);
    assert_eq!(schema.unknown(), Unknown::Refuse);
    let title = &schema.text()[0];
    assert_eq!((title.source(), title.k1, title.b), ("title", 1.2, 0.75));
    assert_eq!(
        schema.text()[1],
        TextField { source: Some("content.body".into()), ..TextField::new("body", "german") }
    );
    assert_eq!((schema.text()[1].k1, schema.text()[1].b), (0.9, 0.4));
    let many = &schema.attributes()[0];
    assert_eq!((many.source(), many.kind, many.many), ("author", AttributeKind::Keyword, true));
    assert!(!schema.attributes()[1].many);
    let terms = |field| schema.analyzer(field).terms("Häuser").remove(0).0;
    assert_eq!([terms(0), terms(1), terms(2)], ["häuser", "haus", "hauser"]);
}

#[test]
fn what_is_written_is_read() {
    let schema = Schema::parse(FULL).unwrap();
    let json = serde_json::to_string(&schema).unwrap();
    assert!(json.contains(&format!("\"chain_version\":{CHAIN_VERSION}")), "{json}");
    assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
    assert_eq!(Schema::parse(&json).unwrap(), schema);
    let smallest = Schema::parse(r#"{"text":[{"name":"x"}]}"#).unwrap();
    let config =
        SchemaConfig { text: vec![TextField::new("x", "english")], ..SchemaConfig::default() };
    assert_eq!(smallest.config(), &config);
    assert_ne!(smallest, schema);
}

#[test]
fn routes_lead_to_fields() {
    let schema = Schema::parse(FULL).unwrap();
    let root = schema.root();
    let author = root.step("author").unwrap();
    assert_eq!(author.targets(), [FieldId::Text(2), FieldId::Attribute(0)]);
    let content = root.step("content").unwrap();
    assert!(content.is_object() && content.targets().is_empty() && !author.is_object());
    let body = content.step("body").unwrap();
    assert_eq!((body.path(), body.targets()), ("content.body", &[FieldId::Text(1)][..]));
    assert_eq!(root.step("content.body").unwrap().path(), "content.body");
    assert_eq!(content.path_of("x"), "content.x");
    for nothing in ["", ".", "content.", "content.x", "title.x", "x"] {
        assert!(root.step(nothing).is_none(), "{nothing:?}");
    }
}

#[test]
fn files_that_are_no_schema() {
    for (json, message) in [
        ("", "schema: EOF while parsing"),
        ("7", "schema: invalid type: integer `7`, expected an object with \"text\""),
        ("{}", "schema: missing field `text`"),
        (
            r#"{"text":[],"fields":[]}"#,
            "schema: unknown field `fields`, expected one of `analyzers`",
        ),
        (
            r#"{"text":[],"unknown":"keep"}"#,
            "schema: unknown variant `keep`, expected one of `store`",
        ),
        (r#"{"text":[]}"#, "schema: it has no text field"),
        (r#"{"text":[{"name":"x"},{"nam":"y"}]}"#, "text field 2: unknown field `nam`, expected"),
        (
            r#"{"text":[{"name":"x","k1":"1"}]}"#,
            "text field \"x\": invalid type: string \"1\", expected f64",
        ),
        (r#"{"text":[7]}"#, "text field 1: found 7, expected an object"),
        (r#"{"text":[["x"]]}"#, "text field 1: found [\"x\"], expected an object"),
        (
            r#"{"text":[{"name":"x"}],"attributes":[{"name":"y"}]}"#,
            "attribute \"y\": missing field `type`",
        ),
        (
            r#"{"text":[{"name":"x"}],"attributes":[{"name":"y","type":"int"}]}"#,
            "attribute \"y\": unknown variant `int`, expected one of `keyword`, `integer`",
        ),
        (
            r#"{"text":[{"name":"x"}],"analyzers":{"z":{"steam":1}}}"#,
            "analyzer \"z\": unknown field `steam`",
        ),
    ] {
        let error = Schema::parse(json).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        let same = serde_json::from_str::<Schema>(json).unwrap_err().to_string();
        assert!(same.contains(message.trim_start_matches("schema: ")), "{same}");
    }
}

fn with(change: impl FnOnce(&mut SchemaConfig)) -> Result<Schema, TextError> {
    let mut config = Schema::parse(FULL).unwrap().config().clone();
    change(&mut config);
    Schema::new(config)
}

fn text(name: &str) -> TextField {
    TextField::new(name, "plain")
}

#[test]
fn schemas_that_cannot_work() {
    let sourced =
        |name: &str, source: &str| TextField { source: Some(source.into()), ..text(name) };
    let attribute = |name: &str| Attribute::new(name, AttributeKind::Integer);
    type Change = Box<dyn FnOnce(&mut SchemaConfig)>;
    let cases: Vec<(Change, &str)> = vec![
        (
            Box::new(|c| c.chain_version = 2),
            "schema: its analyzers have version 2, but this program has version 1",
        ),
        (Box::new(|c| c.text.clear()), "schema: it has no text field"),
        (
            Box::new(|c| c.text.push(text(""))),
            "text field \"\": a name of 0 bytes, allowed are 1 to 255",
        ),
        (
            Box::new(|c| c.text.push(text("a\nb"))),
            "text field \"a\\nb\": the name has a control character",
        ),
        (
            Box::new(|c| c.text.push(text("_score"))),
            "text field \"_score\": \"id\" and names that begin",
        ),
        (
            Box::new(move |c| c.attributes.push(attribute("id"))),
            "attribute \"id\": \"id\" and names",
        ),
        (Box::new(|c| c.text.push(text("year"))), "attribute \"year\": two fields have this name"),
        (
            Box::new(|c| c.text.push(text("title"))),
            "text field \"title\": two fields have this name",
        ),
        (
            Box::new(move |c| c.text.push(sourced("x", "_id"))),
            "text field \"x\": its source is the id",
        ),
        (
            Box::new(move |c| c.text.push(sourced("x", ""))),
            "text field \"x\": the source \"\" has an empty part",
        ),
        (
            Box::new(move |c| c.text.push(sourced("x", "a..b"))),
            "text field \"x\": the source \"a..b\" has",
        ),
        (
            Box::new(move |c| c.text.push(sourced("x", "content.body.x"))),
            "text field \"x\": its source \"content.body.x\" leads through \"content.body\", which is the value of \"body\"",
        ),
        (
            Box::new(move |c| c.text.push(sourced("x", "content"))),
            "text field \"body\": its source",
        ),
        (Box::new(|c| c.attributes[1].many = true), "attribute \"year\": only keywords"),
        (
            Box::new(|c| c.text[0].k1 = -0.1),
            "text field \"title\": k1 is -0.1, allowed are 0 to 1000",
        ),
        (Box::new(|c| c.text[0].k1 = f64::NAN), "text field \"title\": k1 is NaN"),
        (Box::new(|c| c.text[0].b = 1.01), "text field \"title\": b is 1.01, allowed are 0 to 1"),
        (
            Box::new(|c| c.text[0].analyzer = "engish".into()),
            "text field \"title\": no analyzer named \"engish\"; did you mean \"english\"? Or define it under \"analyzers\" or take one of names, english, plain",
        ),
        (
            Box::new(|c| drop(c.analyzers.insert("greek".into(), Chain::default()))),
            "analyzer \"greek\": a predefined analyzer has this name",
        ),
        (
            Box::new(|c| {
                drop(c.analyzers.insert(
                    "y".into(),
                    Chain { lower: false, ..Chain::predefined("greek").unwrap() },
                ));
            }),
            "analyzer \"y\": stem: greek stemming requires lower case",
        ),
    ];
    for (change, message) in cases {
        let error = with(change).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn limits() {
    let sourced = |source: String| TextField { source: Some(source), ..text("x") };
    let path = |parts: usize| vec!["y"; parts].join(".");
    let texts =
        |c: &mut SchemaConfig, n: usize| c.text = (0..n).map(|i| text(&format!("t{i}"))).collect();
    let attributes = |c: &mut SchemaConfig, n: usize| {
        c.attributes =
            (0..n).map(|i| Attribute::new(format!("a{i}"), AttributeKind::Date)).collect();
    };
    with(|c| texts(c, MAX_TEXT_FIELDS)).unwrap();
    assert!(with(|c| texts(c, MAX_TEXT_FIELDS + 1)).is_err());
    with(|c| attributes(c, MAX_ATTRIBUTES)).unwrap();
    assert!(with(|c| attributes(c, MAX_ATTRIBUTES + 1)).is_err());
    with(|c| c.text.push(text(&"x".repeat(MAX_FIELD_NAME_BYTES)))).unwrap();
    assert!(with(|c| c.text.push(text(&"x".repeat(MAX_FIELD_NAME_BYTES + 1)))).is_err());
    with(|c| c.text.push(sourced("x".repeat(MAX_FIELD_NAME_BYTES)))).unwrap();
    assert!(with(|c| c.text.push(sourced("x".repeat(MAX_FIELD_NAME_BYTES + 1)))).is_err());
    with(|c| c.text.push(sourced(path(MAX_SOURCE_PARTS)))).unwrap();
    assert!(with(|c| c.text.push(sourced(path(MAX_SOURCE_PARTS + 1)))).is_err());
    with(|c| (c.text[0].k1, c.text[0].b) = (1000.0, 1.0)).unwrap();
    with(|c| (c.text[0].k1, c.text[0].b) = (0.0, 0.0)).unwrap();
    assert!(with(|c| c.text[0].k1 = 1000.1).is_err());
}

#[test]
fn fields_are_added_at_the_end() {
    let old = Schema::parse(FULL).unwrap();
    let extends = |change: fn(&mut SchemaConfig)| with(change).unwrap().extends(&old);
    let good: [fn(&mut SchemaConfig); 5] = [
        |_| {},
        |c| c.text.push(text("more")),
        |c| c.attributes.push(Attribute::new("more", AttributeKind::Date)),
        |c| c.unknown = Unknown::Store,
        |c| {
            // Give the chain another name, and the field its name as its source.
            let chain = c.analyzers.remove("names").unwrap();
            c.analyzers.insert("folded".into(), chain);
            c.text[2].analyzer = "folded".into();
            c.text[2].source = Some("author".into());
        },
    ];
    for change in good {
        extends(change).unwrap();
    }
    type Change = fn(&mut SchemaConfig);
    let bad: [(Change, &str); 9] = [
        (|c| drop(c.text.pop()), "text field \"author\""),
        (|c| c.text.swap(0, 1), "text field \"title\""),
        (|c| c.text[0].b = 0.5, "text field \"title\""),
        (|c| c.text[0].source = Some("headline".into()), "text field \"title\""),
        (|c| c.text[0].analyzer = "plain".into(), "text field \"title\""),
        (|c| c.analyzers.get_mut("names").unwrap().fold = false, "text field \"author\""),
        (|c| c.attributes[1].kind = AttributeKind::Float, "attribute \"year\""),
        (|c| c.attributes[0].many = false, "attribute \"author.keyword\""),
        (|c| drop(c.attributes.remove(0)), "attribute \"author.keyword\""),
    ];
    for (change, place) in bad {
        let error = extends(change).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{place}: this field of the index is")), "{error}");
    }
}

/// The page about the format has a valid schema, and lists the parts of the predefined chains.
#[test]
fn the_documentation_is_true() {
    let page = include_str!("../../../../docs/reference/formats/fields.md");
    let (_, example) = page.split_once("```json\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    assert_eq!(Schema::parse(example).unwrap().text().len(), 3);
    for name in ["english", "plain", "raw", "keyword", "cjk"] {
        let (_, chain) = page.split_once(&format!("\n| `{name}` | `{{")).unwrap();
        let (chain, _) = chain.split_once("` |").unwrap();
        let chain: Chain = serde_json::from_str(&format!("{{{chain}")).unwrap();
        assert_eq!(Some(chain), Chain::predefined(name), "{name}");
    }
    for name in Chain::predefined_names() {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}
