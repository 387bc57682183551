//! Sort values as JSON, for programs that pass them on.

use serde_json::{Number, Value, json};
use warpseek_core::DocId;
use warpseek_text::{AttributeKind, AttributeValue, DATES, format_date};

use super::sort::{PlanBy, SortBy, SortKey, SortValue, SortValues};
use crate::error::ExecError;
use crate::plan::Planner;
use crate::query::{expected, read};

impl SortValues {
    /// Converts the values to JSON, with the document's id at the end if there is one. Dates are
    /// milliseconds since 1970, and a missing value is null.
    pub fn to_json(&self) -> Vec<Value> {
        let values = self.values.iter().map(|value| match value {
            SortValue::Missing => Value::Null,
            SortValue::Score(score) => json!(score),
            SortValue::Document(doc) => json!(doc),
            SortValue::Value(AttributeValue::Date(date)) => json!(date),
            SortValue::Value(value) => value_as_json(value),
        });
        values.chain(self.doc.map(|doc| json!(doc))).collect()
    }
}

/// Converts the value of an attribute to JSON; a date becomes its text.
pub fn value_as_json(value: &AttributeValue<'_>) -> Value {
    match value {
        AttributeValue::Keyword(text) => json!(text),
        AttributeValue::Integer(number) => json!(number),
        AttributeValue::Float(number) => json!(number),
        AttributeValue::Boolean(value) => json!(value),
        AttributeValue::Date(date) => json!(format_date(*date)),
    }
}

impl Planner {
    /// Reads values as [`SortValues::to_json`] writes them: one for each key, or the score if
    /// there are no keys, optionally followed by the document's id. Strings are parsed by the
    /// type of the attribute.
    pub fn sort_values(&self, sort: &[SortKey], values: &[Value]) -> Result<SortValues, ExecError> {
        let plain = [SortKey::score()];
        let sort = if sort.is_empty() { &plain } else { sort };
        let order = self.order(sort)?;
        if !(order.len()..=order.len() + 1).contains(&values.len()) {
            return Err(ExecError::Sort(format!(
                "{} values to continue after, but there must be {}, one for each key, optionally followed by the document's id",
                values.len(),
                order.len()
            )));
        }
        let (of_keys, doc) = values.split_at(order.len());
        let value = |(key, (plan, value)): (&SortKey, (&_, &Value))| read_json(key, plan, value);
        let keys = order.iter().map(|key| &key.by).zip(of_keys);
        let values = sort.iter().zip(keys).map(value).collect::<Result<_, _>>()?;
        let doc = doc.first().map(document).transpose()?;
        Ok(SortValues { values, doc })
    }
}

fn document(value: &Value) -> Result<DocId, ExecError> {
    let doc = value.as_u64().and_then(|doc| DocId::try_from(doc).ok());
    doc.ok_or_else(|| ExecError::Sort(format!("{value} to continue after is not a document id")))
}

fn read_json(key: &SortKey, by: &PlanBy, value: &Value) -> Result<SortValue, ExecError> {
    match (by, &key.by) {
        (PlanBy::Score, _) => match value.as_f64() {
            Some(score) => Ok(SortValue::Score(score)),
            None => Err(ExecError::Sort(format!("{value} to continue after is not a score"))),
        },
        (PlanBy::Attribute { kind, .. }, SortBy::Attribute(name)) => match value {
            Value::Null => Ok(SortValue::Missing),
            Value::String(text) => read(name, *kind, text).map(SortValue::Value),
            value => {
                let refused = || ExecError::Value {
                    name: name.clone(),
                    value: value.to_string(),
                    expected: expected(*kind),
                };
                typed(*kind, value).map(SortValue::Value).ok_or_else(refused)
            }
        },
        _ => document(value).map(SortValue::Document),
    }
}

/// Reads a value that is not a string.
fn typed(kind: AttributeKind, value: &Value) -> Option<AttributeValue<'static>> {
    let integer = || value.as_number().and_then(Number::as_i64);
    match kind {
        AttributeKind::Keyword => None,
        AttributeKind::Integer => integer().map(AttributeValue::Integer),
        // Adding zero turns a negative zero into zero.
        AttributeKind::Float => value.as_f64().map(|number| AttributeValue::Float(number + 0.0)),
        AttributeKind::Boolean => value.as_bool().map(AttributeValue::Boolean),
        AttributeKind::Date => {
            integer().filter(|date| DATES.contains(date)).map(AttributeValue::Date)
        }
    }
}
