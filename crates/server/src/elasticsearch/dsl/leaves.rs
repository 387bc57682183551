//! Clauses that contain no other clauses.

use std::ops::Bound;

use serde_json::Value;
use warpseek::AttributeKind;
use warpseek::query::{Across, Filter, Node, Words};

use super::value::{Side, bound, bound_of_date, equal, equal_date, text};
use super::{Parts, Translator, any, best, boosted, constant, or_all, unsearchable};
use crate::elasticsearch::dates::{Formats, Reader, now, zone};
use crate::elasticsearch::mapping::{Field, Layout};
use crate::error::Failure;
use crate::json::truth;

/// Options of fuzzy matching, which is not supported.
const FUZZY: [&str; 5] =
    ["fuzziness", "prefix_length", "max_expansions", "fuzzy_transpositions", "fuzzy_rewrite"];

/// Options that have no influence on hits here.
const HARMLESS: [&str; 3] = ["lenient", "auto_generate_synonyms_phrase_query", "cutoff_frequency"];

/// Returns the boost next to the field of a clause.
fn beside(body: &Value) -> Result<f64, Failure> {
    body.as_object().map_or(Ok(1.0), |body| Parts(body).boost())
}

/// Converts a range with the obsolete ends `from` and `to`, which some clients still send, to
/// current ones. Returns `None` if no conversion is needed.
fn with_new_ends(path: &str, given: &Value) -> Result<Option<Value>, Failure> {
    const ENDS: [(&str, &str, &str, &str); 2] =
        [("from", "include_lower", "gte", "gt"), ("to", "include_upper", "lte", "lt")];
    let Value::Object(parts) = given else { return Ok(None) };
    if !ENDS
        .iter()
        .any(|(end, included, ..)| parts.contains_key(*end) || parts.contains_key(*included))
    {
        return Ok(None);
    }
    let mut parts = parts.clone();
    for (end, included, with, without) in ENDS {
        let mut taken = |key: &str| parts.remove(key).filter(|value| !value.is_null());
        let (value, is_included) = (taken(end), taken(included));
        let is_included = is_included.map_or(Ok(true), |value| truth(included, &value))?;
        let has = |key: &str| parts.get(key).is_some_and(|value| !value.is_null());
        if (value.is_some() || !is_included) && (has(with) || has(without)) {
            return Err(Failure::parsing(format!(
                "[range] of [{path}] has [{with}] or [{without}] as well as [{end}] or [{included}]"
            )));
        }
        if let Some(value) = value {
            let key = if is_included { with } else { without };
            parts.insert(key.to_owned(), value);
        }
    }
    Ok(Some(Value::Object(parts)))
}

impl Translator<'_> {
    /// Builds the condition that a field has this value.
    pub(super) fn equals(&mut self, path: &str, value: &Value) -> Result<Filter, Failure> {
        if path == "_id" {
            return Ok(Filter::Ids(vec![text(path, value)?]));
        }
        match self.mapping.field(path) {
            Some(Field::Attribute { name, kind: AttributeKind::Date }) => {
                let reader = self.dates(path);
                equal_date(path, name, value, &reader)
            }
            Some(Field::Attribute { name, kind }) => equal(path, name, *kind, value),
            Some(Field::Stored(why)) => Err(unsearchable(path, why)),
            _ => Ok(Filter::Ids(Vec::new())),
        }
    }

    /// Returns the reader for dates of a field. `now` is the same throughout a query.
    fn dates(&mut self, path: &str) -> Reader {
        let now = *self.now.get_or_insert_with(now);
        Reader { formats: self.mapping.date_formats(path), zone: 0, now }
    }

    fn ignore(&mut self, clause: &str, parts: Parts<'_>) {
        // Without fuzziness, the other options have no effect in Elasticsearch either.
        if parts.get("fuzziness").is_some_and(|f| !f.is_null() && f != 0 && f != "0") {
            self.warn(format!("[{clause}] [fuzziness] is ignored: words match exactly"));
        }
        if parts.get("cutoff_frequency").is_some_and(|least| !least.is_null()) {
            self.warn(format!("[{clause}] [cutoff_frequency] is ignored: all words count"));
        }
    }

    /// Warns about `lenient`, which in Elasticsearch makes a value of the wrong type match
    /// nothing.
    fn ignore_lenient(&mut self, clause: &str, parts: Parts<'_>) {
        if parts.get("lenient").is_some_and(|lenient| *lenient == true || *lenient == "true") {
            self.warn(format!(
                "[{clause}] [lenient] is ignored: a value of the wrong type is an error"
            ));
        }
    }

    pub(super) fn match_words(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (field, given) = self.single(clause, body)?;
        let Value::Object(_) = given else {
            let text = self.text(clause, given)?;
            return self.words(&[(field.to_owned(), 1.0)], &Words::any([], text), scored);
        };
        let mut allowed = vec![
            "query",
            "operator",
            "minimum_should_match",
            "boost",
            "analyzer",
            "zero_terms_query",
        ];
        allowed.extend(FUZZY.iter().chain(&HARMLESS));
        let parts = self.parts(clause, given, &allowed)?;
        self.ignore(clause, parts);
        if matches!(self.mapping.field(field), Some(Field::Attribute { .. })) {
            self.ignore_lenient(clause, parts);
        }
        if parts.get("analyzer").is_some() {
            return Err(Failure::unsupported("match with an [analyzer]"));
        }
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let (operator, least) = (parts.operator("operator")?, parts.least("minimum_should_match")?);
        let words = Words { operator, least, ..Words::any([], text) };
        let mut node = self.words(&[(field.to_owned(), 1.0)], &words, scored)?;
        if parts.zero_terms_match_all()? {
            node = or_all(node);
        }
        Ok(boosted(node, parts.boost()?))
    }

    pub(super) fn multi_match(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let mut allowed = vec![
            "query",
            "fields",
            "type",
            "operator",
            "tie_breaker",
            "minimum_should_match",
            "boost",
            "analyzer",
            "slop",
            "zero_terms_query",
        ];
        allowed.extend(FUZZY.iter().chain(&HARMLESS));
        let parts = self.parts(clause, body, &allowed)?;
        self.ignore(clause, parts);
        if parts.get("analyzer").is_some() {
            return Err(Failure::unsupported("multi_match with an [analyzer]"));
        }
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let fields = self.fields(clause, parts.get("fields"))?;
        let tie_breaker = parts.number("tie_breaker")?;
        let across = match parts.get("type").map_or(Some("best_fields"), Value::as_str) {
            Some("best_fields") => Across::Best { tie_breaker: tie_breaker.unwrap_or(0.0) },
            // With a tie breaker of 1, the best field plus the others is the sum.
            Some("most_fields") => match tie_breaker {
                None | Some(1.0) => Across::Most,
                Some(tie_breaker) => Across::Best { tie_breaker },
            },
            Some("cross_fields") => Across::Cross { tie_breaker: tie_breaker.unwrap_or(0.0) },
            Some("phrase") => {
                let slop = self.slop(clause, parts.get("slop"))?;
                let tie_breaker = tie_breaker.unwrap_or(0.0);
                let node = match parts.zero_terms_match_all()? {
                    true => {
                        self.each_or_all(&fields, &text, tie_breaker, |translator, field| {
                            translator.phrase(field, &text, slop, 0.0, scored)
                        })?
                    }
                    false => self.phrase(&fields, &text, slop, tie_breaker, scored)?,
                };
                return Ok(boosted(node, parts.boost()?));
            }
            Some(kind) => return Err(Failure::unsupported(&format!("multi_match of type {kind}"))),
            None => return Err(Failure::parsing("[multi_match] [type] must be a string")),
        };
        let (operator, least) = (parts.operator("operator")?, parts.least("minimum_should_match")?);
        let words = Words { operator, least, across, ..Words::any([], text) };
        let tie_breaker = match across {
            Across::Best { tie_breaker } | Across::Cross { tie_breaker } => tie_breaker,
            Across::Most => 1.0,
        };
        let node = match parts.zero_terms_match_all()? {
            // The fields are searched as one field.
            true if matches!(across, Across::Cross { .. }) => {
                or_all(self.words(&fields, &words, scored)?)
            }
            true => self.each_or_all(&fields, &words.text, tie_breaker, |translator, field| {
                translator.words(field, &words, scored)
            })?,
            false => self.words(&fields, &words, scored)?,
        };
        Ok(boosted(node, parts.boost()?))
    }

    /// Builds a separate query for each field; a field whose analyzer makes no terms of the text
    /// matches all documents.
    fn each_or_all(
        &mut self,
        fields: &[(String, f64)],
        text: &str,
        tie_breaker: f64,
        mut query: impl FnMut(&mut Self, &[(String, f64)]) -> Result<Node, Failure>,
    ) -> Result<Node, Failure> {
        let mut queries = Vec::with_capacity(fields.len());
        for (name, weight) in fields {
            let has_values = matches!(self.mapping.field(name), Some(Field::Attribute { .. }));
            // Among several fields, those whose type cannot hold the value do not match.
            if has_values && fields.len() > 1 && self.equals(name, &Value::from(text)).is_err() {
                continue;
            }
            match query(self, &[(name.clone(), 1.0)])? {
                Node::Nothing => {}
                node => queries.push(boosted(or_all(node), *weight)),
            }
        }
        Ok(best(queries, tie_breaker))
    }

    pub(super) fn combined_fields(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let allowed =
            ["query", "fields", "operator", "minimum_should_match", "boost", "zero_terms_query"];
        let parts = self.parts(clause, body, &allowed)?;
        if parts.get("fields").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            return Err(Failure::parsing("[combined_fields] [fields] must name a field"));
        }
        self.warn("[combined_fields] adds the scores of fields, like [multi_match] of type [cross_fields] with [tie_breaker] 1");
        let text = self.text(clause, parts.get("query").unwrap_or(&Value::Null))?;
        let fields = self.fields(clause, parts.get("fields"))?;
        let (operator, least) = (parts.operator("operator")?, parts.least("minimum_should_match")?);
        let words = Words {
            operator,
            least,
            across: Across::Cross { tie_breaker: 1.0 },
            ..Words::any([], text)
        };
        let mut node = self.words(&fields, &words, scored)?;
        if parts.zero_terms_match_all()? {
            node = or_all(node);
        }
        Ok(boosted(node, parts.boost()?))
    }

    /// Parses fields with weights, such as `title^2`. Patterns select the text fields that they
    /// match; without any, all text fields are selected.
    pub(super) fn fields(
        &mut self,
        clause: &str,
        fields: Option<&Value>,
    ) -> Result<Vec<(String, f64)>, Failure> {
        let given: Vec<&str> = match fields {
            None | Some(Value::Null) => vec!["*"],
            Some(Value::String(one)) => vec![one],
            // As in Elasticsearch, an empty array counts as no fields.
            Some(Value::Array(many)) if many.is_empty() => vec!["*"],
            Some(Value::Array(many)) => {
                let names: Option<_> = many.iter().map(Value::as_str).collect();
                names.ok_or_else(|| {
                    Failure::parsing(format!("[{clause}] [fields] must be an array of strings"))
                })?
            }
            Some(_) => {
                return Err(Failure::parsing(format!("[{clause}] [fields] must be an array")));
            }
        };
        let mut found: Vec<(String, f64)> = Vec::new();
        for field in given {
            let (name, weight) = match field.rsplit_once('^') {
                Some((name, weight)) => {
                    let weight = weight
                        .parse()
                        .ok()
                        .filter(|weight: &f64| *weight > 0.0 && weight.is_finite());
                    (
                        name,
                        weight.ok_or_else(|| {
                            Failure::parsing(format!(
                                "[{clause}] field [{field}]: the boost must be a number above 0"
                            ))
                        })?,
                    )
                }
                None => (field, 1.0),
            };
            if name.contains('*') {
                let matching = self.mapping.matching(name).into_iter();
                let text = matching.filter(|(_, field)| matches!(field, Field::Text { .. }));
                found.extend(text.map(|(name, _)| (name.to_owned(), weight)));
            } else {
                found.push((name.to_owned(), weight));
            }
        }
        Ok(found)
    }

    pub(super) fn term(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (field, given) = self.single(clause, body)?;
        let (value, boost) = match given {
            Value::Object(_) => {
                let parts = self.parts(clause, given, &["value", "boost", "case_insensitive"])?;
                if parts.get("case_insensitive").is_some_and(|value| value == true) {
                    return Err(Failure::unsupported("term with [case_insensitive]"));
                }
                let value = parts
                    .get("value")
                    .ok_or_else(|| Failure::parsing("[term] query requires a [value]"))?;
                (value, parts.boost()?)
            }
            value => (value, 1.0),
        };
        let node = self.exactly(field, value, scored)?;
        Ok(boosted(node, boost * beside(body)?))
    }

    /// Builds a query for documents with exactly this value or, in a text field, exactly this
    /// term.
    pub(super) fn exactly(
        &mut self,
        field: &str,
        value: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        match self.mapping.field(field) {
            Some(Field::Text { .. }) if self.mapping.layout == Layout::NoSchema => {
                Err(unsearchable(
                    field,
                    "the index has no schema and therefore no terms by field; use [match]",
                ))
            }
            Some(Field::Text { name, factor, .. }) => {
                let term = Node::Term { field: name.clone(), term: text(field, value)? };
                Ok(boosted(term, *factor))
            }
            other => {
                if scored
                    && matches!(other, Some(Field::Attribute { kind: AttributeKind::Keyword, .. }))
                {
                    self.warn("[term] of a keyword field has the score 1 and no idf");
                }
                Ok(constant(Node::Filter(self.equals(field, value)?), 1.0, scored))
            }
        }
    }

    pub(super) fn terms(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (field, given) = self.single(clause, body)?;
        let Value::Array(values) = given else {
            return Err(match given {
                Value::Object(_) => Failure::unsupported("terms lookup"),
                _ => Failure::parsing("[terms] query requires an array of values"),
            });
        };
        let boost = beside(body)?;
        let filter = match self.mapping.field(field) {
            Some(Field::Text { name, .. }) if self.mapping.layout != Layout::NoSchema => {
                let term = |value: &Value| {
                    Ok(Node::Term { field: name.clone(), term: text(field, value)? })
                };
                any(values.iter().map(term).collect::<Result<_, Failure>>()?)
            }
            Some(Field::Text { .. }) => {
                return Err(unsearchable(field, "the index has no schema; use [match]"));
            }
            _ if field == "_id" => {
                let ids =
                    values.iter().map(|value| text(field, value)).collect::<Result<_, _>>()?;
                Node::Filter(Filter::Ids(ids))
            }
            _ => {
                let (mut listed, mut others) = (Vec::new(), Vec::new());
                let mut known = String::new();
                for value in values.iter().filter(|value| !value.is_null()) {
                    match self.equals(field, value)? {
                        Filter::Terms { field, values } => {
                            known = field;
                            listed.extend(values);
                        }
                        other => others.push(Node::Filter(other)),
                    }
                }
                if !listed.is_empty() {
                    others.push(Node::Filter(Filter::Terms { field: known, values: listed }));
                }
                any(others)
            }
        };
        Ok(constant(filter, boost, scored))
    }

    pub(super) fn ids(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let parts = self.parts(clause, body, &["values", "boost"])?;
        let ids = match parts.get("values") {
            Some(Value::Array(values)) => {
                values.iter().map(|value| text("_id", value)).collect::<Result<_, _>>()?
            }
            Some(value) => vec![text("_id", value)?],
            None => return Err(Failure::parsing("[ids] query requires [values]")),
        };
        Ok(constant(Node::Filter(Filter::Ids(ids)), parts.boost()?, scored))
    }

    pub(super) fn exists(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let parts = self.parts(clause, body, &["field", "boost"])?;
        let field = parts.get("field").and_then(Value::as_str);
        let field =
            field.ok_or_else(|| Failure::parsing("[exists] must be provided with a [field]"))?;
        let boost = parts.boost()?;
        let exists = |name: &str| Node::Filter(Filter::Exists { field: name.to_owned() });
        let filter = match self.mapping.field(field) {
            _ if field == "_id" => Node::All,
            Some(Field::Text { .. }) if self.mapping.layout == Layout::NoSchema => {
                return Err(unsearchable(field, "the index has no schema"));
            }
            Some(Field::Attribute { name, .. }) => exists(name),
            Some(Field::Text { name, .. }) => {
                let mut having = vec![exists(name)];
                // A value without terms, such as an empty string, also counts: sub-fields have
                // it.
                for (path, inner) in self.mapping.matching(&format!("{field}.*")) {
                    if let Field::Attribute { name, .. } = inner
                        && self.mapping.path_of(path) == field
                    {
                        having.push(exists(name));
                    }
                }
                any(having)
            }
            Some(Field::Stored(why)) => return Err(unsearchable(field, why)),
            Some(Field::Object) => {
                let (mut inside, mut stored) = (Vec::new(), None);
                for (name, inner) in self.mapping.matching(&format!("{field}.*")) {
                    match inner {
                        Field::Text { name, .. } | Field::Attribute { name, .. } => {
                            inside.push(exists(name));
                        }
                        Field::Stored(why) => stored = stored.or(Some((name, why))),
                        Field::Object => {}
                    }
                }
                match stored {
                    // Documents whose only value is in this field would be missed.
                    Some((name, why)) => return Err(unsearchable(name, why)),
                    None => any(inside),
                }
            }
            None => Node::Nothing,
        };
        Ok(constant(filter, boost, scored))
    }

    pub(super) fn range(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (path, given) = self.single(clause, body)?;
        let rewritten = with_new_ends(path, given)?;
        let given = rewritten.as_ref().unwrap_or(given);
        let parts = self.parts(
            clause,
            given,
            &["gte", "gt", "lte", "lt", "boost", "format", "relation", "time_zone"],
        )?;
        let boost = parts.boost()? * beside(body)?;
        for (one, other) in [("gte", "gt"), ("lte", "lt")] {
            let is_set = |key: &str| parts.get(key).is_some_and(|value| !value.is_null());
            if is_set(one) && is_set(other) {
                let reason = format!("[range] of [{path}] has [{one}] and [{other}]; give one");
                return Err(Failure::parsing(reason));
            }
        }
        let (name, kind) = match self.mapping.field(path) {
            Some(Field::Attribute { name, kind }) => (name.clone(), *kind),
            Some(Field::Stored(why)) => return Err(unsearchable(path, why)),
            Some(Field::Text { .. }) => {
                return Err(unsearchable(
                    path,
                    "text fields have no ranges; use the sub-field [keyword]",
                ));
            }
            Some(Field::Object) | None => return Ok(Node::Nothing),
        };
        let mut reader = None;
        if kind == AttributeKind::Date {
            let mut dates = self.dates(path);
            if let Some(format) = parts.get("format").filter(|format| !format.is_null()) {
                let format = format.as_str().ok_or("[format] must be a string".to_owned());
                dates.formats = format.and_then(Formats::parse).map_err(Failure::illegal)?;
            }
            if let Some(given) = parts.get("time_zone").filter(|zone| !zone.is_null()) {
                dates.zone = given.as_str().and_then(zone).ok_or_else(|| {
                    Failure::illegal(format!(
                        "[time_zone] {given} is not supported by warpseek; write it as +01:00 or UTC"
                    ))
                })?;
            }
            reader = Some(dates);
        }
        let side = |a: (&str, Side), b: (&str, Side)| -> Result<Bound<String>, Failure> {
            for (key, side) in [a, b] {
                if let Some(value) = parts.get(key).filter(|value| !value.is_null()) {
                    return match &reader {
                        Some(reader) => bound_of_date(path, side, value, reader),
                        None => bound(path, kind, side, value),
                    };
                }
            }
            Ok(Bound::Unbounded)
        };
        let from = side(("gte", Side::Gte), ("gt", Side::Gt))?;
        let to = side(("lte", Side::Lte), ("lt", Side::Lt))?;
        let range = Node::Filter(Filter::Range { field: name, from, to });
        Ok(constant(range, boost, scored))
    }

    /// Translates `prefix`, which matches keywords by their beginning.
    pub(super) fn prefix(
        &mut self,
        clause: &str,
        body: &Value,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (path, given) = self.single(clause, body)?;
        let (value, boost) = match given {
            Value::Object(_) => {
                let parts = self.parts(clause, given, &["value", "boost", "rewrite"])?;
                (parts.get("value").unwrap_or(&Value::Null), parts.boost()?)
            }
            value => (value, 1.0),
        };
        let boost = boost * beside(body)?;
        let prefix = text(path, value)?;
        match self.mapping.field(path) {
            Some(Field::Attribute { name, kind: AttributeKind::Keyword }) => {
                let prefix = Node::Filter(Filter::Prefix { field: name.clone(), prefix });
                Ok(constant(prefix, boost, scored))
            }
            None => Ok(Node::Nothing),
            Some(Field::Stored(why)) => Err(unsearchable(path, why)),
            _ => Err(Failure::unsupported("prefix of a field that is not a keyword")),
        }
    }
}
