//! Tests of records under a schema, and of schemas that are inferred from records.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::testing::{Read, errors, ids, try_read};
use crate::{
    Analyzer, AttributeKind, AttributeValue, Document, Format, OwnedDocument, Reader, ReaderConfig,
    RecordErrorKind, Schema, Unknown,
};

const SCHEMA: &str = r#"{
    "text": [
        {"name": "title"},
        {"name": "body", "source": "content.body"},
        {"name": "author", "source": "authors.name"}
    ],
    "attributes": [
        {"name": "tags", "type": "keyword", "many": true},
        {"name": "lang", "source": "content.lang", "type": "keyword"},
        {"name": "year", "type": "integer"},
        {"name": "price", "type": "float"},
        {"name": "open", "type": "boolean"},
        {"name": "day", "type": "date"},
        {"name": "title.keyword", "source": "title", "type": "keyword"}
    ]
}"#;

fn config(unknown: Unknown) -> ReaderConfig {
    let mut config = Schema::parse(SCHEMA).unwrap().config().clone();
    config.unknown = unknown;
    let schema = Some(Arc::new(Schema::new(config).unwrap()));
    ReaderConfig { schema, static_field: Some("rank".into()), ..ReaderConfig::default() }
}

fn read(lines: &str) -> Read {
    try_read(config(Unknown::Store), Format::Jsonl, lines.as_bytes()).unwrap()
}

fn one(line: &str) -> Document<'static> {
    read(line).remove(0).unwrap()
}

fn keyword(text: &str) -> AttributeValue<'_> {
    AttributeValue::Keyword(text.into())
}

fn stored(document: &Document<'_>) -> String {
    let mut out = Vec::new();
    document.write_json(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn values_go_to_their_fields() {
    let document = one(
        r#"{"id":1,"day":"2020-01-31T10:15:30Z","open":false,"price":2,"year":-3,"title":"A \"T\"","x":[{}],
            "content":{"lang":"de","y":null,"body":"one"},"tags":["b","a",7],"rank":0.5}"#
            .replace('\n', "")
            .as_str(),
    );
    assert_eq!((&*document.id, document.static_score), ("1", Some(0.5)));
    assert_eq!((&*document.title, &*document.text), ("", ""));
    assert_eq!(document.fields, [(0, "A \"T\"".into()), (1, "one".into())]);
    let expected = [
        (0, keyword("7")),
        (0, keyword("a")),
        (0, keyword("b")),
        (1, keyword("de")),
        (2, AttributeValue::Integer(-3)),
        (3, AttributeValue::Float(2.0)),
        (4, AttributeValue::Boolean(false)),
        (5, AttributeValue::Date(1_580_465_730_000)),
        (6, keyword("A \"T\"")),
    ];
    assert_eq!(document.attributes, expected);
    let nothing =
        one(r#"{"_id":"x","title":null,"tags":[],"content":null,"year":null,"rank":null}"#);
    assert_eq!((&*nothing.id, nothing.static_score), ("x", None));
    assert!(nothing.fields.is_empty() && nothing.attributes.is_empty());
}

#[test]
fn arrays_and_paths() {
    let document = one(
        r#"{"id":1,"authors":[{"name":"B"},{"name":["A",null,["C"]]},{"mail":1},null],"content":[{"body":"x"},{"body":"y"}],"tags":"a"}"#,
    );
    let texts: Vec<_> = document.fields.iter().map(|(n, text)| (*n, &**text)).collect();
    assert_eq!(texts, [(1, "x"), (1, "y"), (2, "B"), (2, "A"), (2, "C")]);
    assert_eq!(document.attributes, [(0, keyword("a"))]);
    let dotted = one(r#"{"id":1,"content.lang":"de","content":{"body":"x"},"authors.name":"A"}"#);
    assert_eq!(dotted.fields, [(1, "x".into()), (2, "A".into())]);
    assert_eq!(dotted.attributes, [(1, keyword("de"))]);
    let twice = one(r#"{"id":1,"tags":["b","a","b"],"year":[3]}"#);
    let expected = [(0, keyword("a")), (0, keyword("b")), (2, AttributeValue::Integer(3))];
    assert_eq!(twice.attributes, expected);
}

#[test]
fn wrong_types_are_located_and_leave_the_rest() {
    let bad = [
        (r#""title":3"#, "title", "found 3, expected a string"),
        (r#""title":{"x":1}"#, "title", "found an object, expected a value"),
        (r#""content":"x""#, "content", "found \"x\", expected an object"),
        (r#""content":[{"body":1}]"#, "content.body", "found 1, expected a string"),
        (r#""tags":["a",1.5]"#, "tags", "found 1.5, expected a string, an integer or a boolean"),
        (
            r#""content":{"lang":["a","b"]}"#,
            "content.lang",
            "it has several values, but only keywords",
        ),
        (r#""year":[3,3]"#, "year", "it has several values"),
        (r#""year":"3""#, "year", "found \"3\", expected an integer of 64 bits"),
        (r#""year":9223372036854775808"#, "year", "found 9223372036854775808, expected an integer"),
        (r#""price":true"#, "price", "found true, expected a number"),
        (r#""open":"yes""#, "open", "found \"yes\", expected true or false"),
        (r#""day":"31.1.2020""#, "day", "found \"31.1.2020\", expected a date of the years"),
    ];
    let mut lines = String::from("{\"id\":\"first\"}\n");
    for (fields, _, _) in bad {
        lines += &format!("{{\"id\":1,{fields}}}\n");
    }
    let read = read(&(lines + "{\"id\":\"last\"}"));
    assert_eq!(ids(&read), ["first", "last"]);
    let errors = errors(&read);
    assert_eq!(errors.len(), bad.len());
    for ((line, kind), (i, (_, path, message))) in errors.into_iter().zip(bad.iter().enumerate()) {
        assert_eq!(line, i as u64 + 2);
        let RecordErrorKind::BadField { field, reason } = kind else { panic!("{kind:?}") };
        assert_eq!(field, *path);
        assert!(reason.starts_with(message), "{reason}");
    }
}

#[test]
fn ids_scores_and_json_are_checked_as_without_a_schema() {
    let error = |line: &str| read(line).remove(0).unwrap_err().kind;
    assert_eq!(error(r#"{"title":"x"}"#), RecordErrorKind::MissingId { seen: "title".to_owned() });
    assert_eq!(error(r#"{"id":""}"#), RecordErrorKind::EmptyId);
    assert_eq!(one(r#"{"_id":"beir","id":18446744073709551615}"#).id, "18446744073709551615");
    for bad in [r#"{"id":1.5}"#, r#"{"id":["a"]}"#, r#"{"id":{"a":1}}"#, r#"{"_id":true}"#] {
        assert!(matches!(error(bad), RecordErrorKind::BadField { .. }), "{bad}");
    }
    for bad in ["-1", "1e300", "\"1\"", "[]", "{}"] {
        let kind = error(&format!("{{\"id\":1,\"rank\":{bad}}}"));
        assert!(matches!(&kind, RecordErrorKind::BadStaticScore { field, .. } if field == "rank"));
    }
    for bad in
        ["[]", r#"{"id":1}x"#, r#"{"id":1,"x":1e999}"#, r#"{"id":1,"year":1e999}"#, r#"{"id":1"#]
    {
        let kind = error(bad);
        let RecordErrorKind::Json(reason) = &kind else { panic!("{kind:?}") };
        assert!(reason.contains(" at column "), "{reason}");
    }
}

#[test]
fn long_keywords_are_no_values_if_the_schema_says_so() {
    let schema = r#"{"text":[{"name":"t"}],"attributes":[{"name":"t.keyword","source":"t","type":"keyword","many":true,"ignore_above":3}]}"#;
    let config = ReaderConfig {
        schema: Some(Arc::new(Schema::parse(schema).unwrap())),
        ..ReaderConfig::default()
    };
    let long = "x".repeat(crate::MAX_KEYWORD_BYTES + 1);
    let line = serde_json::json!({"id": "1", "t": ["äöü", "äöüß", long]}).to_string();
    let document = Document::parse(&line, &config).unwrap();
    assert_eq!(document.attributes, [(0, keyword("äöü"))]);
    assert_eq!(document.fields.len(), 3);
    let number = schema.replace("keyword\",\"many\":true", "integer\"");
    assert!(Schema::parse(&number).unwrap_err().to_string().contains("ignore_above"));
}

#[test]
fn order_keys() {
    let key = |field: &str, line: &str| {
        let config = ReaderConfig { order_field: Some(field.into()), ..config(Unknown::Refuse) };
        let document = Document::parse(line, &config);
        document.map(|document| document.order_key.map(String::from))
    };
    let found = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(key("year", r#"{"id":1,"year":1999}"#), found("1999"));
    assert_eq!(key("title", r#"{"id":1,"title":"T"}"#), found("T"));
    assert_eq!(key("rank", r#"{"id":1,"rank":0.5}"#), found("0.5"));
    assert_eq!(key("id", r#"{"_id":"a"}"#), found("a"));
    assert_eq!(key("other", r#"{"id":1,"other":true}"#), found("true"));
    assert_eq!(key("other", r#"{"id":1}"#), Ok(None));
    let error = key("tags", r#"{"id":1,"tags":["a"]}"#).unwrap_err().to_string();
    assert_eq!(error, "field \"tags\": found an array, expected a string, a number or a boolean");
}

#[test]
fn unknown_fields() {
    let line = r#" {"x":1, "id":7,"content":{"z":[1],"lang" : "de"},"vector":{"a":1},"rank":1.50,"authors":[{"name":"A","m":2},null], "price":0.10000000000000000555, "text":"t"} "#;
    let parse = |unknown, line| {
        Document::parse(line, &config(unknown)).map(|d| (stored(&d), d.fields.len()))
    };
    assert_eq!(parse(Unknown::Store, line), Ok((line.to_owned(), 1)));
    let kept = r#"{"id":7,"content":{"lang":"de"},"rank":1.50,"authors":[{"name":"A"},null],"price":0.10000000000000000555}"#;
    assert_eq!(parse(Unknown::Ignore, line), Ok((kept.to_owned(), 1)));
    // All fields are known here, so the line stays unchanged.
    let known = r#"{ "id" : 7, "rank":1, "content":{"lang":"de"} }"#;
    assert_eq!(parse(Unknown::Ignore, known), Ok((known.to_owned(), 0)));
    assert_eq!(parse(Unknown::Refuse, known), Ok((known.to_owned(), 0)));
    for (line, path) in [
        (r#"{"id":1,"x":null}"#, "x"),
        (r#"{"id":1,"content":{"z":1}}"#, "content.z"),
        (r#"{"id":1,"authors":[{"name":"A"},{"mail":1}]}"#, "authors.mail"),
        (r#"{"id":1,"text":"t"}"#, "text"),
    ] {
        let error = parse(Unknown::Refuse, line).unwrap_err().to_string();
        let start = format!("field \"{path}\": it is not in the schema, which refuses");
        assert!(error.starts_with(&start), "{error}");
    }
}

#[test]
fn other_formats_have_title_and_text() {
    let read = |unknown, text: &str| {
        let config = ReaderConfig { order_field: Some("title".into()), ..config(unknown) };
        try_read(config, Format::Tsv, text.as_bytes()).unwrap().remove(0)
    };
    let document = read(Unknown::Store, "1\tT\tsome text").unwrap();
    assert_eq!(document.fields, [(0, "T".into())]);
    assert_eq!(document.attributes, [(6, keyword("T"))]);
    assert_eq!(document.order_key.as_deref(), Some("T"));
    assert_eq!(stored(&document), r#"{"id":"1","title":"T","text":"some text"}"#);
    let document = read(Unknown::Ignore, "1\tT\tsome text").unwrap();
    assert_eq!(stored(&document), r#"{"id":"1","title":"T","text":""}"#);
    let error = read(Unknown::Refuse, "1\tT\tsome text").unwrap_err().to_string();
    assert!(error.starts_with("input.ext:1: field \"text\": it is not in the schema"), "{error}");
    assert!(read(Unknown::Refuse, "1\tT\t").is_err());
    assert!(read(Unknown::Store, "1\t").unwrap().fields.is_empty());
}

#[test]
fn documents_of_a_program() {
    let mut document = OwnedDocument::new("1", "T", "");
    document.fields = Map::from_iter([
        ("year".to_owned(), json!(1999)),
        ("content".to_owned(), json!({"body": "b"})),
    ]);
    let mut wrong = document.clone();
    wrong.fields["year"] = json!("x");
    let config = ReaderConfig { static_field: None, ..config(Unknown::Refuse) };
    let mut reader = Reader::of_documents([document, wrong], config).unwrap();
    let batch = reader.next_batch().unwrap().unwrap();
    let read = batch.record(0).unwrap();
    assert_eq!(read.fields, [(0, "T".into()), (1, "b".into())]);
    assert_eq!(read.attributes, [(2, AttributeValue::Integer(1999)), (6, keyword("T"))]);
    let error = batch.record(1).unwrap_err().to_string();
    assert!(error.starts_with("document 2: field \"year\": found \"x\""), "{error}");
}

fn infer(documents: &[Value]) -> Result<Schema, crate::TextError> {
    let documents: Vec<_> = documents.iter().map(|d| d.as_object().unwrap().clone()).collect();
    Schema::infer(&documents, Analyzer::Plain)
}

#[test]
fn types_are_inferred() {
    let long = "x".repeat(65);
    let schema = infer(&[
        json!({"id": 1, "_id": 2, "title": "Emma", "text": "2020-01-01", "author": "Jane Austen", "tags": ["a", "b"], "year": 1815, "price": 1,
            "open": true, "day": "1815-12-23", "meta": {"lang": "en", "n": 18446744073709551615u64}, "vector": [0.1, 0.2], "sizes": [1, 2],
            "days": ["1815-12-23", "1815-12-24"], "mixed": 1, "odd": {"x": 1}, "id2": "a", "_x": 1, "null": null,
            "body": "five words make a text", "long": "short", "codes": 7, "flag": true, "wide": 1}),
        json!({"title": null, "year": null, "price": 2.5, "meta": null, "mixed": [1.5, "a"], "odd": 3, "author": "Me", "codes": "A7", "long": long, "wide": long,
            "flag": "no", "tags": "c", "body": "and this one does so too"}),
    ])
    .unwrap();
    let text: Vec<_> = schema.text().iter().map(|field| (&*field.name, &*field.analyzer)).collect();
    assert_eq!(text, [("body", "plain"), ("long", "plain"), ("text", "plain"), ("title", "plain")]);
    let attributes: Vec<_> =
        schema.attributes().iter().map(|a| (&*a.name, a.kind, a.many)).collect();
    use AttributeKind::{Boolean, Date, Float, Integer, Keyword};
    assert_eq!(
        attributes,
        [
            ("author", Keyword, false),
            ("codes", Keyword, false),
            ("day", Date, false),
            ("days", Keyword, true),
            ("flag", Keyword, false),
            ("id2", Keyword, false),
            ("meta.lang", Keyword, false),
            ("meta.n", Keyword, false),
            ("open", Boolean, false),
            ("price", Float, false),
            ("tags", Keyword, true),
            ("year", Integer, false),
        ]
    );
    assert_eq!(schema.unknown(), Unknown::Store);
    let error = infer(&[json!({"id": "a", "year": 1})]).unwrap_err().to_string();
    assert_eq!(
        error,
        "schema: no text in the first document; write a schema that names the text fields"
    );
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..3).prop_map(Value::from),
        Just(json!(u64::MAX)),
        Just(json!(0.5)),
        "[a-c]{0,3}".prop_map(Value::from),
        Just(json!("2020-01-31")),
        Just(json!("these are so many words that it is text, as anyone can see at once")),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            objects(inner).prop_map(Value::Object),
        ]
    })
}

fn objects(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map("[a-c](\\.[a-c])?|id|title|text|_a|\\.|", values, 0..5)
        .prop_map(|fields| fields.into_iter().collect())
}

fn documents() -> impl Strategy<Value = Vec<Map<String, Value>>> {
    let with_id = |mut document: Map<String, Value>| {
        document.insert("id".to_owned(), json!("1"));
        document
    };
    prop::collection::vec(objects(values()).prop_map(with_id), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A schema accepts all documents that it was inferred from, and the stored documents have
    /// the same values, however unknown fields are handled.
    #[test]
    fn inferred_schemas_refuse_no_document(documents in documents()) {
        let Ok(schema) = Schema::infer(&documents, Analyzer::English) else { return Ok(()) };
        let json = serde_json::to_string(&schema).unwrap();
        prop_assert_eq!(&Schema::parse(&json).unwrap(), &schema);
        let mut ignoring = schema.config().clone();
        ignoring.unknown = Unknown::Ignore;
        let with = |schema| ReaderConfig { schema: Some(Arc::new(schema)), ..ReaderConfig::default() };
        let (keeping, ignoring) = (with(schema), with(Schema::new(ignoring).unwrap()));
        for document in documents {
            let line = Value::Object(document).to_string();
            let kept = Document::parse(&line, &keeping).unwrap();
            prop_assert_eq!(&stored(&kept), &line);
            let short = Document::parse(&line, &ignoring).unwrap();
            prop_assert_eq!((&short.fields, &short.attributes), (&kept.fields, &kept.attributes));
            // All fields that are left are known.
            let line = stored(&short);
            let mut strict = keeping.schema.as_ref().unwrap().config().clone();
            strict.unknown = Unknown::Refuse;
            let again = Document::parse(&line, &with(Schema::new(strict).unwrap())).unwrap();
            prop_assert_eq!((again.fields, again.attributes), (kept.fields, kept.attributes));
        }
    }

    /// Title and text as two fields contain the same values as without a schema, and lines that
    /// are not JSON are rejected in the same way.
    #[test]
    fn a_schema_of_title_and_text_finds_the_same(documents in documents(), cut in 0usize..60) {
        let schema = Schema::parse(r#"{"text":[{"name":"title"},{"name":"text"}]}"#).unwrap();
        let with = ReaderConfig { schema: Some(Arc::new(schema)), ..ReaderConfig::default() };
        for document in documents {
            let line = Value::Object(document).to_string();
            if let Ok(plain) = Document::from_json(&line, 1) {
                let fields = [(0, plain.title), (1, plain.text)];
                let expected: Vec<_> = fields.into_iter().filter(|(_, text)| !text.is_empty()).collect();
                let mut found = Document::parse(&line, &with).unwrap();
                found.fields.retain(|(_, text)| !text.is_empty());
                prop_assert_eq!((found.id, found.fields), (plain.id, expected));
            }
            let part = &line[..cut.min(line.len() - 1)];
            let (a, b) = (Document::from_json(part, 1), Document::parse(part, &with));
            let is_json_error = |kind: &RecordErrorKind| matches!(kind, RecordErrorKind::Json(_));
            prop_assert!(a.is_err() && b.is_err());
            prop_assert!(a == b || !is_json_error(&a.unwrap_err()) || !is_json_error(&b.unwrap_err()));
        }
    }
}
