//! Tables: rows of cells in columns that the first row names. A row becomes a line of JSON.

use std::collections::HashSet;

use serde_json::Number;

use super::config::ReaderConfig;
use super::field_names::FieldNames;
use crate::json::write_string;
use crate::{AttributeKind, FieldId, RecordErrorKind, Schema};

/// Names of columns with ids, in order of preference.
pub(super) const IDS: [&str; 8] =
    ["id", "_id", "docid", "doc_id", "docno", "pid", "document_id", "passage_id"];

/// Names of columns with text, in order of preference.
pub(super) const TEXTS: [&str; 7] =
    ["text", "contents", "content", "body", "passage", "document", "abstract"];

/// The columns of a table.
#[derive(Debug)]
pub(super) struct Columns {
    columns: Vec<Column>,
    /// Names of the columns with id, title and text, unless they have the usual names.
    pub(super) names: FieldNames,
    has_schema: bool,
    /// Message to the user about the columns.
    notice: Option<String>,
}

#[derive(Debug)]
struct Column {
    name: String,
    /// True if numbers and booleans in the column are not text.
    typed: bool,
}

impl Columns {
    /// Creates columns with these names. An error says which column is missing.
    pub(super) fn new(header: Vec<String>, config: &ReaderConfig) -> Result<Self, String> {
        let header: Vec<String> = (1..)
            .zip(header)
            .map(|(number, name)| match name.trim() {
                "" => format!("column_{number}"),
                name => name.to_owned(),
            })
            .collect();
        let mut known = HashSet::new();
        if let Some(name) = header.iter().find(|name| !known.insert(name.as_str())) {
            return Err(format!("two columns are called `{name}`; rename one"));
        }
        let names = find(&header, config)?;
        let schema = config.schema.as_deref();
        let is_text = |name: &String| {
            // Ids are text even if they look like numbers.
            let is_id = matches!(name.as_str(), "id" | "_id");
            let usual = matches!(name.as_str(), "title" | "text" | "contents");
            is_id || usual && config.renames() || names.all().any(|own| own == name)
        };
        let is_score = |name: &String| config.static_field.as_ref() == Some(name);
        let columns = header.iter().map(|name| {
            let typed = is_score(name) || !is_text(name) && is_typed(schema, name);
            Column { name: name.clone(), typed }
        });
        let has_schema = schema.is_some();
        Ok(Columns { columns: columns.collect(), names, has_schema, notice: None })
    }

    /// Returns true if a schema wants the column's values as numbers.
    pub(super) fn wants_numbers(&self, name: &str) -> bool {
        self.has_schema && self.columns.iter().any(|column| column.typed && column.name == name)
    }

    /// Returns the names of the columns.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Returns the message to the user about the columns, if there is one.
    pub(super) fn notice(&self) -> Option<String> {
        self.notice.clone()
    }

    /// Adds a message that says which columns have id, title and text. Unless `always` is set, it
    /// is added only if neither the column names nor the user say so.
    pub(super) fn noticed(mut self, file: &str, config: &ReaderConfig, always: bool) -> Self {
        let FieldNames { id, title, text } = &self.names;
        let guessed = (id.is_some() && config.fields.id.is_none())
            || (!text.is_empty() && config.fields.text.is_empty());
        if guessed || always {
            let mut parts = vec![format!("id from `{}`", id.as_deref().unwrap_or("id"))];
            if config.renames() {
                let has_title = self.keys().any(|key| key == "title");
                let title = title.as_deref().or(has_title.then_some("title"));
                parts.extend(title.map(|title| format!("title from `{title}`")));
                let text = if text.is_empty() { "text".to_owned() } else { text.join("`, `") };
                parts.push(format!("text from `{text}`"));
            }
            self.notice =
                Some(format!("{file}: the first line names the columns: {}", parts.join(", ")));
        }
        self
    }

    /// Appends a row as a line of JSON. Empty cells count as absent.
    pub(super) fn write_row<'a>(
        &self,
        cells: impl ExactSizeIterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordErrorKind> {
        let (found, expected) = (cells.len(), self.columns.len());
        if found != expected {
            return Err(RecordErrorKind::Cells { found, expected });
        }
        let (start, mut offset) = (out.len(), 0);
        out.push(b'{');
        for (column, cell) in self.columns.iter().zip(cells) {
            let text = str::from_utf8(cell).map_err(|error| RecordErrorKind::InvalidUtf8 {
                offset: offset + error.valid_up_to(),
            })?;
            offset += cell.len() + 1;
            if text.is_empty() {
                continue;
            }
            if out.len() > start + 1 {
                out.push(b',');
            }
            write_string(out, &column.name);
            out.push(b':');
            match column.typed && is_literal(text) {
                true => out.extend_from_slice(cell),
                false => write_string(out, text),
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// Converts a line of TSV to a line of JSON. Tabs after the last column belong to its cell.
    pub(super) fn of_line(&self, line: &str) -> Result<String, RecordErrorKind> {
        let cells: Vec<&[u8]> = line.splitn(self.columns.len(), '\t').map(str::as_bytes).collect();
        let mut out = Vec::with_capacity(line.len() + 16 * cells.len());
        self.write_row(cells.into_iter(), &mut out)?;
        // All parts that were written came from strings.
        Ok(String::from_utf8(out).unwrap_or_default())
    }
}

/// Finds the columns with id, title and text. The result omits usual names.
fn find(header: &[String], config: &ReaderConfig) -> Result<FieldNames, String> {
    let seen = || {
        let names: Vec<&str> = header.iter().map(String::as_str).collect();
        format!("the columns are {}", names.join(", "))
    };
    for name in config.fields.all() {
        let outer = name.split('.').next().unwrap_or_default();
        if !header.iter().any(|own| own == name || own == outer) {
            let near = warpseek_core::near(name, header.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("there is no column `{name}`; {}{near}", seen()));
        }
    }
    let one_of = |known: &[&str]| {
        known
            .iter()
            .find_map(|known| header.iter().find(|name| name.eq_ignore_ascii_case(known)).cloned())
    };
    let mut names = config.fields.clone();
    names.id = names.id.or_else(|| one_of(&IDS));
    if names.id.is_none() {
        let fix = "name the one with the id (--id-field, in Python id_field)";
        return Err(format!("no column `id`; {}; {fix}", seen()));
    }
    if config.renames() {
        names.title = names.title.or_else(|| one_of(&["title"]));
        if names.text.is_empty() {
            names.text.extend(one_of(&TEXTS));
        }
        let vector = header.iter().any(|name| name == "vector");
        if names.text.is_empty() && names.title.is_none() && !vector {
            let fix = "name those with the text (--text-field, in Python text_fields)";
            return Err(format!("no column `text`; {}; {fix}", seen()));
        }
    }
    names.id = names.id.filter(|name| !matches!(name.as_str(), "id" | "_id"));
    names.title = names.title.filter(|name| name != "title");
    if names.text == ["text"] {
        names.text.clear();
    }
    Ok(names)
}

/// Returns true if numbers and booleans of a column are not text: all fields of a schema that
/// take its values must be numbers or booleans.
fn is_typed(schema: Option<&Schema>, name: &str) -> bool {
    let Some(schema) = schema else { return true };
    let Some(route) = schema.root().step(name) else { return true };
    route.targets().iter().all(|target| match target {
        FieldId::Text(_) => false,
        FieldId::Attribute(number) => {
            let kind = schema.attributes()[usize::from(*number)].kind;
            matches!(kind, AttributeKind::Integer | AttributeKind::Float | AttributeKind::Boolean)
        }
    })
}

/// Returns true if a cell is a number or a boolean in JSON. A number with leading zeros is not;
/// it is probably a name.
fn is_literal(cell: &str) -> bool {
    let begins = |c: u8| c.is_ascii_digit() || c == b'-';
    matches!(cell, "true" | "false")
        || cell.bytes().next().is_some_and(begins) && cell.parse::<Number>().is_ok()
}
