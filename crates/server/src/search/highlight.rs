//! Parts of texts that show why they matched.

use serde_json::{Map, Value, json};
use warpseek::{FieldId, Response, Snippet};

use super::Part;
use crate::collection::View;
use crate::error::Failure;
use crate::mapping::Field;

/// The longest fragment that can be asked for, in characters.
const MAX_FRAGMENT: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Highlight {
    fields: Vec<(String, Options)>,
}

#[derive(Clone, Debug)]
struct Options {
    before: String,
    after: String,
    /// Characters of a fragment.
    width: usize,
    /// Whether the text is written as HTML, so that only the tags are markup.
    escapes: bool,
}

/// Parts of `highlight` that count.
const KNOWN: [&str; 6] =
    ["fields", "pre_tags", "post_tags", "fragment_size", "number_of_fragments", "encoder"];

/// Parts that choose among ways to find fragments, of which there is one here.
const IGNORED: [&str; 15] = [
    "type",
    "order",
    "require_field_match",
    "boundary_chars",
    "boundary_max_scan",
    "boundary_scanner",
    "boundary_scanner_locale",
    "fragmenter",
    "fragment_offset",
    "phrase_limit",
    "max_analyzed_offset",
    "max_fragment_length",
    "no_match_size",
    "force_source",
    "tags_schema",
];

impl Highlight {
    /// Reads `highlight`. What of it is ignored is said in `warnings`.
    pub(super) fn parse(value: &Value, warnings: &mut Vec<String>) -> Result<Self, Failure> {
        let usual =
            Options { before: "<em>".into(), after: "</em>".into(), width: 100, escapes: false };
        let whole = options(value, &usual, warnings)?;
        let fields: Vec<(&String, &Value)> = match &value["fields"] {
            Value::Object(fields) => fields.iter().collect(),
            Value::Array(fields) => fields.iter().filter_map(Value::as_object).flatten().collect(),
            _ => return Err(Failure::parsing("[highlight] requires [fields]")),
        };
        let fields = fields
            .into_iter()
            .map(|(name, value)| Ok((name.clone(), options(value, &whole, warnings)?)));
        Ok(Highlight { fields: fields.collect::<Result<_, Failure>>()? })
    }

    /// The highlights of a hit; fields without a match are left out.
    pub(super) fn of(&self, part: &Part, source: &Value) -> Map<String, Value> {
        let mut shown = Map::new();
        for (pattern, options) in &self.fields {
            for (name, snippet) in
                snippets(&part.view, &part.response, pattern, source, options.width)
            {
                if !snippet.highlights.is_empty() {
                    shown.insert(name, json!([marked(&snippet, options)]));
                }
            }
        }
        shown
    }
}

/// The parts of the text fields whose names match a pattern, by name; fields that the source does not have are left out.
pub(crate) fn snippets(
    view: &View,
    response: &Response,
    pattern: &str,
    source: &Value,
    width: usize,
) -> Vec<(String, Snippet)> {
    let schema = &response.snapshot().manifest().schema;
    let fields = view.mapping.matching(pattern).into_iter().filter_map(|(name, field)| {
        let Field::Text { name: engine, .. } = field else { return None };
        let number = match schema {
            None => 0,
            Some(schema) => match schema.find(engine) {
                Some(FieldId::Text(number)) => number,
                _ => return None,
            },
        };
        let text = text_at(source, view.mapping.path_of(name))?;
        Some((name.to_owned(), response.snippet_in(number, &text, width)))
    });
    fields.collect()
}

fn options(value: &Value, outer: &Options, warnings: &mut Vec<String>) -> Result<Options, Failure> {
    let mut warn = |what: String| {
        if !warnings.contains(&what) {
            warnings.push(what);
        }
    };
    for (key, value) in value.as_object().into_iter().flatten() {
        match key.as_str() {
            "number_of_fragments" if value.as_u64().is_some_and(|number| number > 1) => {
                warn(format!("[highlight] [{key}] is ignored: the best fragment is shown"));
            }
            key if KNOWN.contains(&key) => {}
            key if IGNORED.contains(&key) => warn(format!("[highlight] [{key}] is ignored")),
            key => return Err(Failure::unsupported(&format!("{key} of highlight"))),
        }
    }
    let escapes = match value.get("encoder").map(Value::as_str) {
        None => outer.escapes,
        Some(Some("html")) => true,
        Some(Some("default")) => false,
        Some(_) => return Err(Failure::parsing("[encoder] must be default or html")),
    };
    let tag = |key: &str, default: &str| match &value[key] {
        Value::Array(tags) => tags.first().and_then(Value::as_str).unwrap_or(default).to_owned(),
        Value::String(tag) => tag.clone(),
        _ => default.to_owned(),
    };
    let mut width = match value.get("fragment_size") {
        None => outer.width,
        Some(size) => size
            .as_u64()
            .and_then(|size| usize::try_from(size).ok())
            .ok_or_else(|| Failure::parsing("[fragment_size] must be a number"))?,
    };
    if value.get("number_of_fragments").is_some_and(|n| n == 0) {
        width = MAX_FRAGMENT;
    }
    Ok(Options {
        before: tag("pre_tags", &outer.before),
        after: tag("post_tags", &outer.after),
        width: width.clamp(3, MAX_FRAGMENT),
        escapes,
    })
}

fn marked(snippet: &Snippet, options: &Options) -> String {
    let (mut out, mut at) = (String::new(), 0);
    let text = |out: &mut String, text: &str| match options.escapes {
        true => text.chars().for_each(|c| match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            c => out.push(c),
        }),
        false => out.push_str(text),
    };
    for range in &snippet.highlights {
        text(&mut out, &snippet.text[at..range.start]);
        out.push_str(&options.before);
        text(&mut out, &snippet.text[range.clone()]);
        out.push_str(&options.after);
        at = range.end;
    }
    text(&mut out, &snippet.text[at..]);
    out
}

/// The strings at a path of a source, each on a line of its own.
fn text_at(source: &Value, path: &str) -> Option<String> {
    let mut out = Vec::new();
    collect(source, path, &mut out);
    (!out.is_empty()).then(|| out.join("\n"))
}

fn collect(value: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key == path {
                    collect(value, "", out);
                } else if let Some(inner) =
                    path.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('.'))
                {
                    collect(value, inner, out);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, path, out)),
        Value::String(text) if path.is_empty() => out.push(text.clone()),
        Value::Null => {}
        other if path.is_empty() => out.push(other.to_string()),
        _ => {}
    }
}
