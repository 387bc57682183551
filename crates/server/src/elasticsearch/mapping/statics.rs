//! Static scores: a number in each document that searches can add to its score.
//!
//! The setting `static_field` names the field of the source with the score. A copy next to the
//! source makes it available to the engine even if the field is inside an object.

use serde_json::{Map, Value};
use warpseek::schema::AttributeKind;
use warpseek::text::STATIC_FIELD;

use super::{Field, Mapping, refused};
use crate::error::{Failure, Kind};

/// Name of the index setting.
pub(crate) const STATIC_FIELD_SETTING: &str = "static_field";

/// Reads the setting.
pub(super) fn setting(settings: &Map<String, Value>) -> Result<Option<String>, Failure> {
    match settings.get(STATIC_FIELD_SETTING) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(field)) if !field.is_empty() => Ok(Some(field.clone())),
        Some(other) => Err(Failure::illegal(format!(
            "[index.{STATIC_FIELD_SETTING}] must be the name of a field, found [{other}]"
        ))),
    }
}

impl Mapping {
    /// Refuses a field of static scores whose values are not numbers.
    pub(super) fn check_static_field(&self) -> Result<(), Failure> {
        let Some(path) = &self.static_field else { return Ok(()) };
        match self.fields.get(path) {
            None | Some(Field::Stored(_)) => Ok(()),
            Some(Field::Attribute {
                kind: AttributeKind::Integer | AttributeKind::Float, ..
            }) => Ok(()),
            Some(field) => {
                let kind = field.type_name().unwrap_or("object");
                Err(refused(
                    path,
                    format!(
                        "[index.{STATIC_FIELD_SETTING}] requires a field of numbers, but its type is [{kind}]"
                    ),
                ))
            }
        }
    }

    /// Adds the static score of a document to its line. `converted` is the source with converted
    /// values, if it differs from `source`.
    pub(super) fn put_static_score(
        &self,
        line: &mut Map<String, Value>,
        source: &Map<String, Value>,
        converted: Option<&Map<String, Value>>,
    ) -> Result<(), Failure> {
        let Some(path) = &self.static_field else { return Ok(()) };
        // The converted value of an integer field has lost its fraction.
        let value = match find(source, path) {
            Some(value @ Value::Number(_)) => Some(value),
            other => converted.map_or(other, |converted| find(converted, path)),
        };
        let score = match value {
            None | Some(Value::Null) => return Ok(()),
            Some(value) => value.as_f64().filter(|score| {
                // The engine stores 32-bit floats.
                *score >= 0.0 && (*score as f32).is_finite()
            }),
        };
        let Some(score) = score else {
            let found = value.unwrap_or(&Value::Null);
            return Err(Failure::new(
                Kind::Document,
                format!(
                    "failed to parse field [{path}], which has the static scores (index.{STATIC_FIELD_SETTING}): expected a finite number of at least 0, found {found}"
                ),
            ));
        };
        line.insert(STATIC_FIELD.to_owned(), score.into());
        Ok(())
    }
}

/// Returns the value at a path, whose dots separate keys or are part of a key.
fn find<'a>(object: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = object.get(path) {
        return Some(value);
    }
    path.match_indices('.').find_map(|(at, _)| {
        let inner = object.get(&path[..at])?.as_object()?;
        find(inner, &path[at + 1..])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Declared;
    use super::*;

    fn mapping(settings: Value, properties: Value) -> Result<Mapping, Failure> {
        let object = |value: Value| value.as_object().unwrap().clone();
        let (mappings, settings) = (object(json!({"properties": properties})), object(settings));
        Mapping::new(Declared { mappings, settings, ..Declared::default() })
    }

    #[test]
    fn scores_stand_beside_the_source() {
        let properties = json!({"about": {"properties": {"rank": {"type": "long"}}}});
        let mapping = mapping(json!({"static_field": "about.rank"}), properties).unwrap();
        let score = |source: Value| {
            let line = mapping.line("1", source.as_object().unwrap()).map_err(|e| e.reason)?;
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(mapping.source_of(line.clone()), source);
            Ok::<_, String>(line.get(STATIC_FIELD).cloned())
        };
        for (source, wanted) in [
            (json!({"about": {"rank": 3}}), Some(json!(3.0))),
            (json!({"about.rank": 3}), Some(json!(3.0))),
            // The integer field drops the fraction, but the score keeps it.
            (json!({"about": {"rank": 2.5}}), Some(json!(2.5))),
            (json!({"about": {"rank": "7"}}), Some(json!(7.0))),
            (json!({"about": {"rank": [4]}}), Some(json!(4.0))),
            (json!({"about": {"rank": null}}), None),
            (json!({"rank": 3}), None),
        ] {
            assert_eq!(score(source.clone()), Ok(wanted), "{source}");
        }
        for wrong in [json!({"about": {"rank": -1}}), json!({"about": {"rank": 1e300}})] {
            let reason = score(wrong.clone()).unwrap_err();
            assert!(reason.contains("about.rank"), "{wrong}: {reason}");
        }
    }

    #[test]
    fn the_setting_names_a_field_of_numbers() {
        for kind in ["long", "double", "rank_feature"] {
            let made = mapping(json!({"static_field": "r"}), json!({"r": {"type": kind}}));
            assert_eq!(made.unwrap().static_field.as_deref(), Some("r"));
        }
        for kind in ["text", "keyword", "date", "boolean", "object"] {
            let refused = mapping(json!({"static_field": "r"}), json!({"r": {"type": kind}}));
            assert!(refused.unwrap_err().reason.contains("static_field"), "{kind}");
        }
        for wrong in [json!({"static_field": 3}), json!({"static_field": ""})] {
            assert!(mapping(wrong.clone(), json!({})).is_err(), "{wrong}");
        }
    }
}
