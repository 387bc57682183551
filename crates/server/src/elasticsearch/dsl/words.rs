//! Clauses that match words of texts: `match`, `multi_match` and `combined_fields`.

use serde_json::Value;
use warpseek::query::{Across, Node, Words};

use super::{Parts, Translator, best, boosted, constant, or_all, unsearchable};
use crate::elasticsearch::mapping::{Field, Layout};
use crate::error::Failure;

/// Options of fuzzy matching, which is not supported.
const FUZZY: [&str; 5] =
    ["fuzziness", "prefix_length", "max_expansions", "fuzzy_transpositions", "fuzzy_rewrite"];

/// Options that have no influence on hits here.
const HARMLESS: [&str; 3] = ["lenient", "auto_generate_synonyms_phrase_query", "cutoff_frequency"];

impl Translator<'_> {
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

    /// Translates words in several fields, each with its weight.
    pub(super) fn words(
        &mut self,
        fields: &[(String, f64)],
        words: &Words,
        scored: bool,
    ) -> Result<Node, Failure> {
        let (mut text, mut others) = (Vec::new(), Vec::new());
        for (path, weight) in fields {
            match self.mapping.field(path) {
                None | Some(Field::Object) if path != "_id" => {}
                Some(Field::Stored(why)) => return Err(unsearchable(path, why)),
                Some(Field::Text { name, factor, .. }) => {
                    text.push((name.clone(), weight * factor));
                }
                _ => {
                    let value = Value::String(words.text.clone());
                    // Among several fields, those whose type cannot hold the value do not match.
                    match self.equals(path, &value) {
                        Ok(filter) => others.push(constant(Node::Filter(filter), *weight, scored)),
                        Err(_) if fields.len() > 1 => {}
                        Err(failure) => return Err(failure),
                    }
                }
            }
        }
        if self.mapping.layout == Layout::NoSchema && !text.is_empty() {
            // Without a schema, title and text form one field without a name.
            let weight = text.iter().map(|(_, weight)| *weight).fold(0.0, f64::max);
            text.clear();
            others
                .push(boosted(Node::Words(Words { fields: Vec::new(), ..words.clone() }), weight));
        }
        if !text.is_empty() {
            let node = Node::Words(Words { fields: text, ..words.clone() });
            if others.is_empty() {
                return Ok(node);
            }
            others.push(node);
        }
        let tie_breaker = match words.across {
            Across::Best { tie_breaker } | Across::Cross { tie_breaker } => tie_breaker,
            // With a tie breaker of 1, the best score plus the others is the sum.
            Across::Most => 1.0,
        };
        Ok(best(others, tie_breaker))
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
}
