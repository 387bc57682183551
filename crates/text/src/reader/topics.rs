//! TREC topics: `<top>` with `<num>`, `<title>`, `<desc>` and `<narr>`, whose tags need not be
//! closed, and `<topic>` of the later XML forms.

use std::fmt;
use std::str::FromStr;

use super::file_query::FileQuery;
use super::trec::decode;
use crate::{RecordError, TextError};

/// A part of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicPart {
    /// A few words: `<title>` or `<query>`.
    Title,
    /// A sentence: `<desc>`, `<description>` or `<question>`.
    Desc,
    /// A description of relevant documents: `<narr>` or `<narrative>`.
    Narr,
}

impl TopicPart {
    /// Names that [`FromStr`] accepts and [`fmt::Display`] writes.
    pub const NAMES: &'static [&'static str] = &["title", "desc", "narr"];

    /// Returns the tags of the part.
    fn tags(self) -> &'static [&'static str] {
        match self {
            Self::Title => &["title", "query"],
            Self::Desc => &["desc", "description", "question"],
            Self::Narr => &["narr", "narrative"],
        }
    }

    /// Returns the label that some collections put before the text.
    fn label(self) -> &'static str {
        match self {
            Self::Title => "topic:",
            Self::Desc => "description:",
            Self::Narr => "narrative:",
        }
    }
}

impl FromStr for TopicPart {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        match name {
            "title" => Ok(Self::Title),
            "desc" => Ok(Self::Desc),
            "narr" => Ok(Self::Narr),
            _ => {
                let reason =
                    format!("`{name}` is unknown; expected one of {}", Self::NAMES.join(", "));
                Err(TextError::BadConfig { field: "topic field", reason })
            }
        }
    }
}

impl fmt::Display for TopicPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Title => "title",
            Self::Desc => "desc",
            Self::Narr => "narr",
        })
    }
}

/// Returns true if a file with this first line has topics.
pub(super) fn begin(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    ["<top>", "<topic", "<?xml", "<!doctype", "<xml"].iter().any(|start| line.starts_with(start))
}

/// Parses the topics of a file, whose first byte is in line `first`.
pub(super) fn parse(
    bytes: &[u8],
    first: u64,
    parts: &[TopicPart],
    fault: impl Fn(u64, String) -> RecordError,
) -> Vec<Result<FileQuery, RecordError>> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = first + newlines(&bytes[..error.valid_up_to()]);
            return vec![Err(fault(line, "the topic is not UTF-8; convert the file".to_owned()))];
        }
    };
    // Find tags regardless of case; lower-casing ASCII letters changes no positions.
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut at = opening(&lower, 0);
    while let Some(start) = at {
        at = opening(&lower, start + 1);
        let limit = at.unwrap_or(text.len());
        let end = lower[start..limit].find("</top").map_or(limit, |end| start + end);
        let line = first + newlines(&bytes[..start]);
        let topic = Topic { text: &text[start..end], lower: &lower[start..end] };
        let query = topic.query(parts).map(|(id, text)| FileQuery { line, id, text });
        found.push(query.map_err(|reason| fault(line, reason)));
    }
    if found.is_empty() {
        let reason = "the file begins like TREC topics but has no <top> or <topic>";
        found.push(Err(fault(first, reason.to_owned())));
    }
    found
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Returns the position at which the next topic opens.
fn opening(lower: &str, from: usize) -> Option<usize> {
    let places = lower.get(from..)?.match_indices("<top").map(|(at, _)| from + at);
    places.into_iter().find(|&at| {
        let rest = &lower[at + "<top".len()..];
        let rest = rest.strip_prefix("ic").unwrap_or(rest);
        rest.starts_with(|c: char| c == '>' || c.is_ascii_whitespace())
    })
}

struct Topic<'a> {
    text: &'a str,
    lower: &'a str,
}

impl<'a> Topic<'a> {
    /// Returns the id and the text of these parts.
    fn query(&self, parts: &[TopicPart]) -> Result<(String, String), String> {
        let id = self.id().ok_or("the topic has no id; add <num>, or `number` to its tag")?;
        let mut texts = Vec::new();
        for &part in parts {
            let text = part.tags().iter().find_map(|tag| self.element(tag));
            // Some topics have no elements, but text alone.
            let text = text.or_else(|| self.content().filter(|_| part == TopicPart::Title));
            let text = text.map(|text| clean(text, part.label())).filter(|text| !text.is_empty());
            let Some(text) = text else {
                let has =
                    |part: &TopicPart| part.tags().iter().any(|tag| self.element(tag).is_some());
                let all = [TopicPart::Title, TopicPart::Desc, TopicPart::Narr];
                let there: Vec<String> =
                    all.iter().filter(|part| has(part)).map(ToString::to_string).collect();
                return Err(format!(
                    "topic {id} has no {part}; it has: {}; choose with --topic-field",
                    there.join(", ")
                ));
            };
            texts.push(text);
        }
        Ok((id, texts.join(" ")))
    }

    fn id(&self) -> Option<String> {
        let of_element = || self.element("num").map(|text| clean(text, "number:"));
        let of_tag = || {
            let tag = &self.text[..self.text.find('>')?];
            ["number=", "id="].iter().find_map(|name| {
                let at = tag.to_ascii_lowercase().find(name)? + name.len();
                let quote = tag[at..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
                let value = &tag[at + 1..];
                Some(value[..value.find(quote)?].trim().to_owned())
            })
        };
        let id = of_element().or_else(of_tag).filter(|id| !id.is_empty())?;
        // Relevance judgements have numbers without leading zeros.
        Some(match id.bytes().all(|byte| byte.is_ascii_digit()) {
            true => match id.trim_start_matches('0') {
                "" => "0".to_owned(),
                number => number.to_owned(),
            },
            false => id,
        })
    }

    /// Returns the text after a tag, up to the next tag.
    fn element(&self, tag: &str) -> Option<&'a str> {
        let open = format!("<{tag}");
        let places = self.lower.match_indices(&open).map(|(at, _)| at + open.len());
        places.into_iter().find_map(|at| {
            let rest = &self.lower[at..];
            let is_tag = rest.starts_with(|c: char| c == '>' || c.is_ascii_whitespace());
            let start = at + rest.find('>').filter(|_| is_tag)? + 1;
            Some(self.until_tag(start))
        })
    }

    /// Returns the text of a topic without elements.
    fn content(&self) -> Option<&'a str> {
        let start = self.text.find('>')? + 1;
        let text = self.until_tag(start);
        (start + text.len() == self.text.len()).then_some(text)
    }

    fn until_tag(&self, start: usize) -> &'a str {
        let rest = &self.text[start..];
        let is_tag = |at: usize| {
            rest[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!')
        };
        let end = rest.match_indices('<').map(|(at, _)| at).find(|&at| is_tag(at));
        &rest[..end.unwrap_or(rest.len())]
    }
}

/// Returns the text of an element on one line, without its label.
fn clean(text: &str, label: &str) -> String {
    let mut decoded = String::new();
    decode(text, &mut decoded);
    let words = decoded.trim();
    let has_label = words.get(..label.len()).is_some_and(|at| at.eq_ignore_ascii_case(label));
    let words = if has_label { &words[label.len()..] } else { words };
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}
