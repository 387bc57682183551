//! JSON lines: one object per line.
//!
//! `id` is a string or an integer (BEIR's `_id` if there is no `id`), `title` and `text` are
//! strings, `vector` maps tokens to weights, and the configuration names the fields of the static
//! score and of the order key. All other fields are skipped; they survive in the raw line, so
//! they must parse as well. If a record has no `text`, a string `contents` is the text, as in
//! corpora of Pyserini and Search-R1. If it has both, `contents` is one of the other fields.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::config::ReaderConfig;
use super::pairs::keys_of;
use super::values::{Id, IfText, Key, Number, Scalar, Skip, Text, Weights};
use warpseek_core::limits::{MAX_IMPACT, MAX_TERM_BYTES};

use crate::{Document, RecordErrorKind};

/// Parses one line, without a schema.
pub(super) fn parse<'a>(
    line: &'a str,
    config: &ReaderConfig,
) -> Result<Document<'a>, RecordErrorKind> {
    let static_field = config.static_field.as_deref();
    let order_field = config.order_field.as_deref();
    let mut bad_field = None;
    let seed = ObjectSeed { static_field, order_field, bad_field: &mut bad_field };
    let mut json = serde_json::Deserializer::from_str(line);
    let parsed = seed.deserialize(&mut json).and_then(|fields| json.end().map(|()| fields));
    let fields =
        parsed.map_err(|error| explain(line, &error, bad_field, static_field, order_field))?;

    let id = fields.id.or(fields.beir_id);
    let id = id.ok_or_else(|| RecordErrorKind::MissingId { seen: keys_of(line) })?;
    let text = fields.text.or(fields.contents).unwrap_or_default();
    let mut document = Document::new(id, fields.title.unwrap_or_default(), text).with_source(line);
    document.order_key = match fields.static_score {
        Some(score) if order_field == static_field => Some(score.to_string().into()),
        _ => fields.order_key,
    };
    document.static_score =
        fields.static_score.map(|score| static_score(score, static_field)).transpose()?;
    document.vector =
        fields.vector.map(|weights| quantize(weights, config.vector_scale)).transpose()?;
    Ok(document.ordered_by(order_field))
}

/// Converts a static score to the precision of the index.
pub(super) fn static_score(score: f64, field: Option<&str>) -> Result<f32, RecordErrorKind> {
    let narrow = score as f32;
    if narrow.is_finite() && score >= 0.0 {
        // Adding zero turns a negative zero, which would have a different sort key, into zero.
        return Ok(narrow + 0.0);
    }
    let field = field.unwrap_or_default().to_owned();
    Err(RecordErrorKind::BadStaticScore { field, reason: format!("found {score}") })
}

/// Converts weights to integers, sorted so that duplicate tokens are adjacent.
fn quantize(
    mut weights: Vec<(Cow<'_, str>, f64)>,
    scale: u32,
) -> Result<Vec<(Cow<'_, str>, u32)>, RecordErrorKind> {
    let bad = |reason| Err(RecordErrorKind::BadVector { reason });
    weights.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(pair) = weights.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return bad(format!("token {:?} occurs twice", pair[0].0));
    }
    let mut quantized = Vec::with_capacity(weights.len());
    for (token, weight) in weights {
        if token.is_empty() || token.len() > MAX_TERM_BYTES {
            let len = token.len();
            return bad(format!("a token of {len} bytes, allowed are 1 to {MAX_TERM_BYTES}"));
        }
        let scaled = (weight * f64::from(scale)).round();
        if weight < 0.0 || scaled > f64::from(MAX_IMPACT) {
            let most = f64::from(MAX_IMPACT) / f64::from(scale);
            return bad(format!("token {token:?} has weight {weight}, allowed are 0 to {most:.3}"));
        }
        if scaled > 0.0 {
            quantized.push((token, scaled as u32));
        }
    }
    Ok(quantized)
}

/// Distinguishes a field of the wrong type from a line that is not JSON.
fn explain(
    line: &str,
    error: &serde_json::Error,
    bad_field: Option<&'static str>,
    static_field: Option<&str>,
    order_field: Option<&str>,
) -> RecordErrorKind {
    let full = error.to_string();
    // The parser adds its position. The line number is always 1, so keep only the column.
    let reason = full.rsplit_once(" at line ").map_or(full.as_str(), |(reason, _)| reason);
    match bad_field {
        Some(field) if error.is_data() => {
            let reason = reason.to_owned();
            match field {
                "vector" => RecordErrorKind::BadVector { reason },
                STATIC => {
                    let field = static_field.unwrap_or_default().to_owned();
                    RecordErrorKind::BadStaticScore { field, reason }
                }
                ORDER => {
                    let field = order_field.unwrap_or_default().to_owned();
                    RecordErrorKind::BadField { field, reason }
                }
                _ => RecordErrorKind::BadField { field: field.to_owned(), reason },
            }
        }
        _ => not_json(line, error),
    }
}

/// Describes a line that is not JSON. The usual cause is a file that does not consist of lines of
/// documents.
pub(super) fn not_json(line: &str, error: &serde_json::Error) -> RecordErrorKind {
    let full = error.to_string();
    // The parser adds its position. The line number is always 1, so keep only the column.
    let reason = full.rsplit_once(" at line ").map_or(full.as_str(), |(reason, _)| reason);
    let hint = match line.trim_start().as_bytes() {
        [b'[', ..] => "; write the documents of an array on a line each, as `jq -c '.[]'` does",
        [b'{', rest @ ..] if error.is_eof() && rest.iter().all(u8::is_ascii_whitespace) => {
            "; write each document on one line, as `jq -c .` does"
        }
        _ => "",
    };
    RecordErrorKind::Json(format!("{reason} at column {}{hint}", error.column()))
}

/// Placeholder for the configured field of static scores, which equals no JSON key of a record.
const STATIC: &str = "static score";
/// Placeholder for the configured order field.
const ORDER: &str = "order key";

#[derive(Default)]
struct Fields<'a> {
    id: Option<Cow<'a, str>>,
    beir_id: Option<Cow<'a, str>>,
    title: Option<Cow<'a, str>>,
    text: Option<Cow<'a, str>>,
    contents: Option<Cow<'a, str>>,
    vector: Option<Vec<(Cow<'a, str>, f64)>>,
    static_score: Option<f64>,
    order_key: Option<Cow<'a, str>>,
}

/// The object as a whole. After a failure, `bad_field` is the field whose value was rejected.
struct ObjectSeed<'s> {
    static_field: Option<&'s str>,
    order_field: Option<&'s str>,
    bad_field: &'s mut Option<&'static str>,
}

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_> {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Fields<'de>, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed<'_> {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = map.next_key_seed(Key)? {
            // Set the field before reading its value and clear it afterwards, so that it survives
            // only a failure.
            let bad_field = &mut *self.bad_field;
            match key.as_ref() {
                "id" => {
                    *bad_field = Some("id");
                    fields.id = map.next_value_seed(Id)?;
                }
                "_id" => {
                    *bad_field = Some("_id");
                    fields.beir_id = map.next_value_seed(Id)?;
                }
                "title" => {
                    *bad_field = Some("title");
                    fields.title = map.next_value_seed(Text)?;
                }
                "text" => {
                    *bad_field = Some("text");
                    fields.text = map.next_value_seed(Text)?;
                }
                "vector" => {
                    *bad_field = Some("vector");
                    fields.vector = map.next_value_seed(Weights)?;
                }
                key if self.static_field == Some(key) => {
                    *bad_field = Some(STATIC);
                    fields.static_score = map.next_value_seed(Number)?;
                }
                "contents" => {
                    fields.contents = map.next_value_seed(IfText)?;
                    if self.order_field == Some("contents") {
                        fields.order_key = fields.contents.clone();
                    }
                }
                key if self.order_field == Some(key) => {
                    *bad_field = Some(ORDER);
                    fields.order_key = map.next_value_seed(Scalar)?;
                }
                _ => {
                    map.next_value_seed(Skip)?;
                }
            }
            *bad_field = None;
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use crate::reader::testing::{Read, errors, ids, read, try_read};
    use crate::{Document, Format, ReaderConfig, RecordErrorKind};

    fn one(line: &str) -> Document<'static> {
        read(Format::Jsonl, line.as_bytes()).remove(0).unwrap()
    }

    fn error(line: &str) -> RecordErrorKind {
        read(Format::Jsonl, line.as_bytes()).remove(0).unwrap_err().kind
    }

    fn scored(line: &str) -> Read {
        let config =
            ReaderConfig { static_field: Some("rank".to_owned()), ..ReaderConfig::default() };
        try_read(config, Format::Jsonl, line.as_bytes()).unwrap()
    }

    #[test]
    fn fields() {
        let document =
            one(r#"{"id":"a\u0062","x":[{"id":1}],"title":"T\n","text":"ü \"q\"","vector":null} "#);
        assert_eq!(document, Document::new("ab", "T\n", "ü \"q\""));
        assert_eq!(one(r#"{"text":null,"id":12}"#), Document::new("12", "", ""));
        assert_eq!(one(r#"{"id":-3,"title":"t"}"#).id, "-3");
        assert_eq!(one(r#"{"_id":"beir"}"#).id, "beir");
        assert_eq!(one(r#"{"_id":"beir","id":"x"}"#).id, "x");
        assert_eq!(one(r#"{"id":"x","_id":"beir"}"#).id, "x");
    }

    #[test]
    fn contents_are_the_text_if_there_is_no_other() {
        let search_r1 = one(r#"{"id":"0","contents":"\"Emma\"\nEmma Woodhouse, handsome"}"#);
        assert_eq!(search_r1, Document::new("0", "", "\"Emma\"\nEmma Woodhouse, handsome"));
        let with_title = one(r#"{"contents":"a","title":"T","id":1,"text":null}"#);
        assert_eq!(with_title, Document::new("1", "T", "a"));
        for both in
            [r#"{"id":1,"contents":"c","text":"t"}"#, r#"{"id":1,"text":"t","contents":"c"}"#]
        {
            assert_eq!(one(both).text, "t");
        }
        assert_eq!(one(r#"{"id":1,"text":"","contents":"c"}"#).text, "");
        for other in ["null", "7", "1.5", "-1", "true", r#"["c",["d"]]"#, r#"{"contents":"c"}"#] {
            assert_eq!(one(&format!(r#"{{"id":1,"contents":{other},"title":"T"}}"#)).text, "");
        }
        let bad = error(r#"{"id":1,"contents":[1e999]}"#);
        assert!(matches!(bad, RecordErrorKind::Json(_)), "{bad:?}");
    }

    #[test]
    fn lines() {
        let read = read(
            Format::Jsonl,
            b"\xef\xbb\xbf{\"id\":1}\r\n\r\n  \n{\"id\":2}\n{\"id\":3,\n{\"id\":4}",
        );
        assert_eq!(ids(&read), ["1", "2", "4"]);
        let [(5, RecordErrorKind::Json(reason))] = &errors(&read)[..] else {
            panic!("one error in line 5");
        };
        assert!(reason.starts_with("EOF while parsing"), "{reason}");
    }

    #[test]
    fn order_keys() {
        let key = |field: &str, line: &str| {
            let (order_field, static_field) = (Some(field.to_owned()), Some("rank".to_owned()));
            let config = ReaderConfig { order_field, static_field, ..ReaderConfig::default() };
            let document = try_read(config, Format::Jsonl, line.as_bytes()).unwrap().remove(0);
            document.map(|document| document.order_key.map(String::from)).map_err(|e| e.kind)
        };
        let line = r#"{"id":7,"title":"T","s":"a\"b","n":-1.5,"big":12345678901,"t":true,"no":null,"rank":0.25,"x":[]}"#;
        for (field, value) in [
            ("id", "7"),
            ("_id", "7"),
            ("title", "T"),
            ("s", "a\"b"),
            ("n", "-1.5"),
            ("big", "12345678901"),
            ("t", "true"),
            ("rank", "0.25"),
        ] {
            assert_eq!(key(field, line), Ok(Some(value.to_owned())), "{field}");
        }
        let line_of_contents = r#"{"id":7,"contents":"c"}"#;
        assert_eq!(key("contents", line_of_contents), Ok(Some("c".to_owned())));
        assert_eq!(key("text", line_of_contents), Ok(Some("c".to_owned())));
        for field in ["text", "no", "absent"] {
            assert_eq!(key(field, line), Ok(None), "{field}");
        }
        let bad = key("x", line).unwrap_err();
        assert!(matches!(&bad, RecordErrorKind::BadField { field, .. } if field == "x"), "{bad}");
    }

    #[test]
    fn the_raw_line_is_kept() {
        use crate::reader::RawBatch;
        fn stored(batch: &RawBatch) -> Vec<u8> {
            let mut out = Vec::new();
            batch.record(0).unwrap().write_json(&mut out);
            out
        }
        let line = br#"{"url":"http://x","id":1, "text":"a"}"#;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, line).unwrap();
        let mut reader = crate::Reader::open(&[path], ReaderConfig::default()).unwrap();
        assert_eq!(stored(&reader.next_batch().unwrap().unwrap()), line);
    }

    #[test]
    fn skipped_fields_must_parse_as_well() {
        for good in ["null", "true", "-1.5e9", "7", r#""\u00e9\ud83d\ude00""#, r#"[1,{"a":[{}]}]"#]
        {
            assert_eq!(one(&format!(r#"{{"id":1,"x":{good}}}"#)).id, "1");
        }
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for bad in ["1e999", r#""\ud800""#, r#"{"\ud800":1}"#, &deep] {
            let kind = error(&format!(r#"{{"id":1,"x":{bad}}}"#));
            assert!(matches!(kind, RecordErrorKind::Json(_)), "{bad}: {kind:?}");
        }
    }

    #[test]
    fn vectors_become_integers() {
        let document = one(r#"{"id":1,"vector":{"b":1.5,"a":2,"zero":0,"tiny":0.001,"é":0.002}}"#);
        let expected = [("a", 512), ("b", 384), ("é", 1)].map(|(token, w)| (token.into(), w));
        assert_eq!(document.vector.unwrap(), expected);
        assert_eq!(one(r#"{"id":1,"vector":{}}"#).vector, Some(Vec::new()));
        assert_eq!(one(r#"{"id":1}"#).vector, None);
    }

    #[test]
    fn bad_vectors() {
        for (vector, reason) in [
            (r#"{"a":1,"b":2,"\u0061":3}"#, "token \"a\" occurs twice"),
            (r#"{"a":0,"a":0}"#, "token \"a\" occurs twice"),
            (r#"{"a":-1}"#, "token \"a\" has weight -1, allowed are 0 to 255.996"),
            (r#"{"a":1e9}"#, "token \"a\" has weight 1000000000, allowed are 0 to 255.996"),
            (r#"{"a":256}"#, "token \"a\" has weight 256, allowed are 0 to 255.996"),
            (r#"{"a":null}"#, "token \"a\" has weight null"),
            (r#"{"a":"1"}"#, "invalid type: string \"1\", expected a number"),
            (r#"{"":1}"#, "a token of 0 bytes, allowed are 1 to 255"),
            ("[1]", "invalid type: sequence, expected an object of numbers"),
        ] {
            let expected = RecordErrorKind::BadVector { reason: reason.to_owned() };
            assert_eq!(error(&format!(r#"{{"id":1,"vector":{vector}}}"#)), expected);
        }
    }

    #[test]
    fn static_scores() {
        let read = scored(
            "{\"id\":1,\"rank\":0.5}\n{\"id\":2}\n{\"id\":3,\"rank\":7}\n{\"id\":4,\"rank\":null}",
        );
        let scores: Vec<_> = read.into_iter().map(|record| record.unwrap().static_score).collect();
        assert_eq!(scores, [Some(0.5), None, Some(7.0), None]);
        for bad in ["-1", "1e300", "\"1\"", "[]"] {
            let kind = scored(&format!("{{\"id\":1,\"rank\":{bad}}}")).remove(0).unwrap_err().kind;
            let RecordErrorKind::BadStaticScore { field, .. } = kind else { panic!("{kind:?}") };
            assert_eq!(field, "rank");
        }
        let zero = scored("{\"id\":1,\"rank\":-0.0}").remove(0).unwrap().static_score.unwrap();
        assert!(zero.is_sign_positive());
    }

    #[test]
    fn bad_objects() {
        let missing = |seen: &str| RecordErrorKind::MissingId { seen: seen.to_owned() };
        assert_eq!(error(r#"{"text":"x"}"#), missing("text"));
        assert_eq!(error(r#"{"id":null}"#), missing("id"));
        assert_eq!(error(r#"{"id":""}"#), RecordErrorKind::EmptyId);
        let field = |field: &str, reason: &str| RecordErrorKind::BadField {
            field: field.to_owned(),
            reason: reason.to_owned(),
        };
        let reason = "invalid type: integer `3`, expected a string or null";
        assert_eq!(error(r#"{"id":1,"title":3}"#), field("title", reason));
        let reason = "invalid type: floating point `1.5`, expected a string or an integer";
        assert_eq!(error(r#"{"id":1.5}"#), field("id", reason));
        for bad in [r#"{"id":1} x"#, r#"{"id":1}{}"#, "[]", "7", r#"{"id":"a"#, r#"{"id":1,}"#] {
            let kind = error(bad);
            assert!(matches!(kind, RecordErrorKind::Json(_)), "{bad}: {kind:?}");
        }
        assert_eq!(error("{\"id\":\"\u{1}\"}").to_string().find("not a JSON object"), Some(0));
    }
}
