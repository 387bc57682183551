//! Highlights: the parts of texts that show why they matched.

use std::ops::Range;

use serde_json::{Map, Value, json};
use warpseek::Response;
use warpseek::schema::FieldId;
use warpseek::text::Snippet;

use super::Part;
use crate::elasticsearch::mapping::Field;
use crate::error::Failure;
use crate::indexes::open_index::View;

/// Maximum length of a fragment in characters.
const MAX_FRAGMENT: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Highlight {
    fields: Vec<(String, Options)>,
}

#[derive(Clone, Debug)]
struct Options {
    before: String,
    after: String,
    /// Length of a fragment in characters.
    width: usize,
    /// Maximum number of fragments of a field.
    fragments: usize,
    /// Length in characters of the beginning that is shown of a field without a match.
    no_match: usize,
    /// True to escape the text as HTML, so that only the tags are markup.
    escapes: bool,
}

/// Default number of fragments of a field.
const FRAGMENTS: usize = 5;

/// Keys of `highlight` that have an effect.
const KNOWN: [&str; 7] = [
    "fields",
    "pre_tags",
    "post_tags",
    "fragment_size",
    "number_of_fragments",
    "no_match_size",
    "encoder",
];

/// Keys that choose among methods of finding fragments; there is only one method here.
const IGNORED: [&str; 14] = [
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
    "force_source",
    "tags_schema",
];

impl Highlight {
    /// Parses `highlight`. Ignored options are reported in `warnings`.
    pub(super) fn parse(value: &Value, warnings: &mut Vec<String>) -> Result<Self, Failure> {
        let usual = Options {
            before: "<em>".into(),
            after: "</em>".into(),
            width: 100,
            fragments: FRAGMENTS,
            no_match: 0,
            escapes: false,
        };
        let whole = options(value, &usual, warnings)?;
        let fields: Vec<(&String, &Value)> = match &value["fields"] {
            Value::Object(fields) => fields.iter().collect(),
            Value::Array(fields) => {
                let fields: Option<Vec<_>> = fields.iter().map(Value::as_object).collect();
                let wrong = || {
                    Failure::parsing(
                        "[fields] of [highlight] must be an object or an array of objects",
                    )
                };
                fields.ok_or_else(wrong)?.into_iter().flatten().collect()
            }
            _ => return Err(Failure::parsing("[highlight] requires [fields]")),
        };
        let fields = fields
            .into_iter()
            .map(|(name, value)| Ok((name.clone(), options(value, &whole, warnings)?)));
        Ok(Highlight { fields: fields.collect::<Result<_, Failure>>()? })
    }

    /// Returns the highlights of a hit. Fields without a match are omitted unless their beginning
    /// is to be shown.
    pub(super) fn of(&self, part: &Part, source: &Value) -> Map<String, Value> {
        let mut shown = Map::new();
        for (pattern, options) in &self.fields {
            // Several fragments are cut from the whole text with all of its matches marked.
            let width = if options.fragments == 1 { options.width } else { MAX_FRAGMENT };
            let cut = |width| snippets(&part.view, &part.response, pattern, source, width);
            for (name, snippet) in cut(width) {
                if !snippet.highlights.is_empty() {
                    let marked = fragments(&snippet, options);
                    shown.insert(name, marked.collect());
                }
            }
            if options.no_match > 0 {
                let fits = options.no_match.clamp(3, MAX_FRAGMENT);
                for (name, snippet) in cut(fits) {
                    if !snippet.text.is_empty() && !shown.contains_key(&name) {
                        shown.insert(name, json!([marked(&snippet, options)]));
                    }
                }
            }
        }
        shown
    }
}

/// Returns the matching parts of the text fields whose names match a pattern, sorted by name.
/// Fields that are missing from the source are omitted.
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
    if !value.is_object() {
        return Err(Failure::parsing("options of [highlight] must be an object"));
    }
    for key in value.as_object().into_iter().flat_map(Map::keys) {
        match key.as_str() {
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
    let tag = |key: &str, default: &str| {
        let wrong = || Failure::parsing(format!("[{key}] must be a string or an array of strings"));
        match &value[key] {
            Value::Null => Ok(default.to_owned()),
            Value::String(tag) => Ok(tag.clone()),
            Value::Array(tags) if tags.iter().all(Value::is_string) => {
                Ok(tags.first().and_then(Value::as_str).unwrap_or(default).to_owned())
            }
            _ => Err(wrong()),
        }
    };
    let number = |key: &str, outer: usize| match value.get(key) {
        None | Some(Value::Null) => Ok(outer),
        Some(number) => number
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
            .ok_or_else(|| Failure::parsing(format!("[{key}] must be a non-negative integer"))),
    };
    let (mut width, mut fragments) =
        (number("fragment_size", outer.width)?, number("number_of_fragments", outer.fragments)?);
    // 0 fragments means the whole field.
    if fragments == 0 {
        (width, fragments) = (MAX_FRAGMENT, 1);
    }
    Ok(Options {
        before: tag("pre_tags", &outer.before)?,
        after: tag("post_tags", &outer.after)?,
        width: width.clamp(3, MAX_FRAGMENT),
        fragments,
        no_match: number("no_match_size", outer.no_match)?,
        escapes,
    })
}

/// Cuts a text into the fragments that contain its matches, in order. If there are too many,
/// those with the most matches are kept.
fn fragments(whole: &Snippet, options: &Options) -> impl Iterator<Item = Value> {
    // Fragments, each with its matches.
    let mut cuts: Vec<(Range<usize>, &[Range<usize>])> = Vec::new();
    let mut rest = &whole.highlights[..];
    let mut from = 0;
    // Characters are counted only as far as necessary.
    let fits = |range: Range<usize>| whole.text[range].chars().nth(options.width).is_none();
    while !rest.is_empty() {
        let is_whole = options.fragments == 1 || (cuts.is_empty() && fits(0..whole.text.len()));
        let cut =
            if is_whole { 0..whole.text.len() } else { around(&whole.text, rest, from, options) };
        let inside = rest.iter().take_while(|range| range.end <= cut.end).count().max(1);
        let (inside, after) = rest.split_at(inside);
        (rest, from) = (after, cut.end);
        cuts.push((cut, inside));
    }
    if cuts.len() > options.fragments {
        let mut matches: Vec<usize> = cuts.iter().map(|(_, matches)| matches.len()).collect();
        matches.sort_unstable_by(|a, b| b.cmp(a));
        let least = matches[options.fragments - 1];
        // Among fragments with as many matches as the last one kept, the first ones stay.
        let above = matches.iter().filter(|matches| **matches > least).count();
        let mut room = options.fragments - above;
        cuts.retain(|(_, matches)| {
            let matches = matches.len();
            let stays = matches > least || (matches == least && room > 0);
            room -= usize::from(stays && matches == least);
            stays
        });
    }
    cuts.into_iter()
        .map(|(cut, inside)| Value::from(marked(&part_of(&whole.text, cut, inside), options)))
}

/// Returns the range of a fragment. It begins shortly before the first remaining match, but not
/// before `from`, and ends with a word.
fn around(text: &str, rest: &[Range<usize>], from: usize, options: &Options) -> Range<usize> {
    let first = &rest[0];
    let matched = text[first.clone()].chars().count();
    let before = options.width.saturating_sub(matched) / 4;
    let mut chars = text[from..first.start].char_indices().rev();
    let start = match before {
        0 => first.start,
        before => chars.nth(before - 1).map_or(from, |(at, _)| from + at),
    };
    // The fragment does not begin in the middle of a word, in languages that separate words.
    let start = match start == from || text[..start].ends_with(' ') {
        true => start,
        false => text[start..first.start].find(' ').map_or(start, |at| start + at + 1),
    };
    let end =
        text[start..].char_indices().nth(options.width).map_or(text.len(), |(at, _)| start + at);
    let end = end.max(first.end);
    let end = match end == text.len() || text[end..].starts_with(' ') {
        true => end,
        false => text[first.end..end].rfind(' ').map_or(end, |at| first.end + at),
    };
    // A match that would be cut belongs to the next fragment.
    let cut = rest.iter().find(|range| range.end > end).filter(|range| range.start < end);
    start..cut.map_or(end, |range| range.start.max(first.end))
}

fn part_of(whole: &str, cut: Range<usize>, inside: &[Range<usize>]) -> Snippet {
    let text = &whole[cut.clone()];
    let skipped = cut.start + text.len() - text.trim_start().len();
    let mut out = String::new();
    if cut.start > 0 {
        out.push('…');
    }
    let moved = out.len();
    let highlights =
        inside.iter().map(|range| range.start - skipped + moved..range.end - skipped + moved);
    let highlights = highlights.collect();
    out.push_str(text.trim());
    if cut.end < whole.len() {
        out.push('…');
    }
    Snippet { text: out, highlights }
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

/// Joins the strings at a path of a source with line feeds.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn options(fragments: usize, width: usize) -> Options {
        let (before, after) = ("[".to_owned(), "]".to_owned());
        Options { before, after, width, fragments, no_match: 0, escapes: false }
    }

    /// Highlights every `x` of a text.
    fn shown(text: &str, fragments: usize, width: usize) -> Vec<String> {
        let highlights = text.match_indices('x').map(|(at, x)| at..at + x.len()).collect();
        let whole = Snippet { text: text.to_owned(), highlights };
        let options = options(fragments, width);
        let shown = super::fragments(&whole, &options);
        shown.map(|fragment| fragment.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn fragments_have_the_matches() {
        assert_eq!(shown("a x b", 5, 10), ["a [x] b"]);
        let text = "aa bb x cc dd ee ff gg x x hh ii jj x kk";
        assert_eq!(shown(text, 5, 8), ["…[x] cc dd…", "…[x] [x] hh…", "…[x] kk"]);
        // The fragments with the most matches are kept; among equal ones, the first.
        assert_eq!(shown(text, 2, 8), ["…[x] cc dd…", "…[x] [x] hh…"]);
        assert_eq!(shown(text, 1, 100).len(), 1);
        // In languages that do not separate words, a fragment may begin and end anywhere.
        let text = format!("{0}x{0}xx{0}", "東".repeat(20));
        assert_eq!(shown(&text, 5, 8), ["…東[x]東東東東東東…", "…東[x][x]東東東東東…"]);
        assert_eq!(shown("ü".repeat(50).as_str(), 5, 10), [""; 0]);
    }

    proptest! {
        #[test]
        fn every_match_is_in_one_fragment(text in "[axü ]{0,60}", width in 3usize..12) {
            let all: String = shown(text.trim(), 1000, width).concat();
            prop_assert_eq!(all.matches("[x]").count(), text.matches('x').count(), "{}", all);
        }
    }
}
