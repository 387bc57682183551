//! Parses records under a schema: values go to the fields that take them.
//!
//! An object leads to its keys; an array is equivalent to several values at its path; null counts
//! as absent. So `{"author": [{"name": "A"}, {"name": "B"}]}` has two values at `author.name`. A
//! line is read once, and only strings with escapes are copied.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::config::ReaderConfig;
use super::jsonl::{not_json, static_score};
use super::known;
use super::pairs::keys_of;
use super::values::{Key, Skip};
use crate::attribute::Scalar;
use crate::schema::Route;
use crate::{Attribute, AttributeValue, Document, FieldId, RecordErrorKind, Schema, Unknown};

/// Parses one line.
pub(super) fn parse<'a>(
    line: &'a str,
    config: &ReaderConfig,
    schema: &Schema,
) -> Result<Document<'a>, RecordErrorKind> {
    let static_field = config.static_field.as_deref();
    let order_field = config.order_field.as_deref();
    let mut values = Values::new(schema);
    let mut json = serde_json::Deserializer::from_str(line);
    let record = Record { static_field, order_field, values: &mut values };
    let parsed = record.deserialize(&mut json).and_then(|()| json.end());
    parsed.map_err(|error| values.fault.take().unwrap_or_else(|| not_json(line, &error)))?;

    let id = values.id.take().or(values.beir_id.take());
    let id = id.ok_or_else(|| RecordErrorKind::MissingId { seen: keys_of(line) })?;
    let order_key = match order_field {
        Some("id" | "_id") => Some(id.clone()),
        _ => values.order_key.take(),
    };
    let mut document = Document::new(id, "", "");
    document.order_key = order_key;
    let score = values.static_score;
    document.static_score = score.map(|score| static_score(score, static_field)).transpose()?;
    document = if values.drops {
        document.with_source(known::copy(line, config, schema))
    } else {
        document.with_source(line)
    };
    values.finish(document)
}

/// Assigns the title and text of a record that is not JSON to the fields that take them. As in
/// the stored document, an empty title is absent and an empty text is not.
pub(super) fn assign<'a>(
    mut document: Document<'a>,
    schema: &Schema,
) -> Result<Document<'a>, RecordErrorKind> {
    let mut values = Values::new(schema);
    for (key, text) in [("title", &mut document.title), ("text", &mut document.text)] {
        match schema.root().step(key) {
            _ if key == "title" && text.is_empty() => {}
            Some(route) => values.take(route, &Scalar::String(text.clone()))?,
            None => match schema.unknown() {
                Unknown::Store => {}
                Unknown::Ignore => *text = Cow::Borrowed(""),
                Unknown::Refuse => return Err(unknown(key.to_owned())),
            },
        }
    }
    values.finish(document)
}

fn unknown(field: String) -> RecordErrorKind {
    let reason = "it is not in the schema, which refuses unknown fields; add it there, or set \"unknown\" to \"store\" or \"ignore\"";
    RecordErrorKind::BadField { field, reason: reason.to_owned() }
}

fn bad_field(field: &str, reason: impl Into<String>) -> RecordErrorKind {
    RecordErrorKind::BadField { field: field.to_owned(), reason: reason.into() }
}

/// Returns true if a string is too long to be a value of the attribute.
fn is_ignored(attribute: &Attribute, value: &Scalar<'_>) -> bool {
    match (attribute.ignore_above, value) {
        (Some(most), Scalar::String(text)) => text.chars().nth(most as usize).is_some(),
        _ => false,
    }
}

/// The values read so far.
struct Values<'s, 'de> {
    schema: &'s Schema,
    id: Option<Cow<'de, str>>,
    beir_id: Option<Cow<'de, str>>,
    static_score: Option<f64>,
    order_key: Option<Cow<'de, str>>,
    fields: Vec<(u8, Cow<'de, str>)>,
    attributes: Vec<(u16, AttributeValue<'de>)>,
    /// True if there are unknown fields that must not be stored.
    drops: bool,
    /// Reason for rejecting the record, if it is JSON.
    fault: Option<RecordErrorKind>,
}

impl<'s, 'de> Values<'s, 'de> {
    fn new(schema: &'s Schema) -> Self {
        Values {
            schema,
            id: None,
            beir_id: None,
            static_score: None,
            order_key: None,
            fields: Vec::new(),
            attributes: Vec::new(),
            drops: false,
            fault: None,
        }
    }

    /// Passes a value to all fields that take it.
    fn take(&mut self, route: &Route, value: &Scalar<'de>) -> Result<(), RecordErrorKind> {
        if route.is_object() {
            return Err(bad_field(route.path(), format!("found {value}, expected an object")));
        }
        for target in route.targets() {
            match (*target, value) {
                (FieldId::Text(number), Scalar::String(text)) => {
                    self.fields.push((number, text.clone()));
                }
                (FieldId::Text(_), value) => {
                    let reason = format!("found {value}, expected a string");
                    return Err(bad_field(route.path(), reason));
                }
                (FieldId::Attribute(number), value) => {
                    let attribute = &self.schema.attributes()[usize::from(number)];
                    if is_ignored(attribute, value) {
                        continue;
                    }
                    let kind = attribute.kind;
                    let value = kind.read(value).map_err(|why| bad_field(route.path(), why))?;
                    self.attributes.push((number, value));
                }
            }
        }
        Ok(())
    }

    /// Moves the values into the document, sorted by field.
    fn finish(mut self, mut document: Document<'de>) -> Result<Document<'de>, RecordErrorKind> {
        self.fields.sort_by_key(|(number, _)| *number);
        self.attributes
            .sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.as_keyword().cmp(&y.as_keyword())));
        for pair in self.attributes.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let attribute = &self.schema.attributes()[usize::from(pair[0].0)];
            if !attribute.many {
                let reason = "it has several values, but only keywords with \"many\" in the schema can have more than one";
                return Err(bad_field(attribute.source(), reason));
            }
        }
        self.attributes.dedup();
        document.fields = self.fields;
        document.attributes = self.attributes;
        Ok(document)
    }

    /// Decides about an unknown field before its value is skipped.
    fn meet_unknown(&mut self, route: &Route, key: &str) -> Result<(), RecordErrorKind> {
        match self.schema.unknown() {
            Unknown::Store => Ok(()),
            Unknown::Ignore => {
                self.drops = true;
                Ok(())
            }
            Unknown::Refuse => Err(unknown(route.path_of(key))),
        }
    }

    /// Keeps the reason for the caller of the parser, since errors of the parser cannot carry it.
    fn refuse<T, E: Error>(&mut self, result: Result<T, RecordErrorKind>) -> Result<T, E> {
        result.map_err(|fault| {
            self.fault = Some(fault);
            E::custom("refused")
        })
    }
}

/// The roles of a value by its key, in addition to the fields that take it. Only keys of the
/// record itself have roles.
#[derive(Clone, Copy, Default)]
struct Meaning<'s> {
    id: bool,
    beir_id: bool,
    /// Name of the key, if it is the field of the static score.
    static_field: Option<&'s str>,
    /// Name of the key, if it is the order field.
    order_field: Option<&'s str>,
}

impl Meaning<'_> {
    /// Rejects an array or object if the key has a role.
    fn refuse_compound(&self, what: &str) -> Result<(), RecordErrorKind> {
        if let Some(field) = self.static_field {
            let (field, reason) = (field.to_owned(), format!("found {what}"));
            return Err(RecordErrorKind::BadStaticScore { field, reason });
        }
        let (field, expected) = match (self.id, self.beir_id, self.order_field) {
            (true, _, _) => ("id", "a string or an integer"),
            (_, true, _) => ("_id", "a string or an integer"),
            (_, _, Some(field)) => (field, "a string, a number or a boolean"),
            _ => return Ok(()),
        };
        Err(bad_field(field, format!("found {what}, expected {expected}")))
    }

    fn take<'de>(
        &self,
        value: &Scalar<'de>,
        values: &mut Values<'_, 'de>,
    ) -> Result<(), RecordErrorKind> {
        if self.id || self.beir_id {
            let (field, id) = match self.id {
                true => ("id", &mut values.id),
                false => ("_id", &mut values.beir_id),
            };
            if matches!(value, Scalar::Float(_) | Scalar::Boolean(_)) {
                let reason = format!("found {value}, expected a string or an integer");
                return Err(bad_field(field, reason));
            }
            *id = Some(value.text());
        }
        if let Some(field) = self.static_field {
            values.static_score = Some(match *value {
                Scalar::Integer(number) => number as f64,
                Scalar::Unsigned(number) => number as f64,
                Scalar::Float(number) => number,
                Scalar::String(_) | Scalar::Boolean(_) => {
                    let (field, reason) = (field.to_owned(), format!("found {value}"));
                    return Err(RecordErrorKind::BadStaticScore { field, reason });
                }
            });
        }
        if self.order_field.is_some() {
            values.order_key = Some(value.text());
        }
        Ok(())
    }
}

/// The record as a whole.
struct Record<'r, 's, 'de> {
    static_field: Option<&'s str>,
    order_field: Option<&'s str>,
    values: &'r mut Values<'s, 'de>,
}

impl<'s> Record<'_, 's, '_> {
    fn meaning(&self, key: &str) -> Option<Meaning<'s>> {
        let meaning = Meaning {
            id: key == "id",
            beir_id: key == "_id",
            static_field: self.static_field.filter(|field| *field == key),
            order_field: self.order_field.filter(|field| *field == key),
        };
        let any = meaning.id || meaning.beir_id;
        let any = any || meaning.static_field.is_some() || meaning.order_field.is_some();
        any.then_some(meaning)
    }
}

impl<'de> DeserializeSeed<'de> for Record<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Record<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            let root = self.values.schema.root();
            let (meaning, route) = (self.meaning(&key), root.step(&key));
            if meaning.is_none() && route.is_none() {
                let met = self.values.meet_unknown(root, &key);
                self.values.refuse(met)?;
                map.next_value_seed(Skip)?;
            } else {
                let meaning = meaning.unwrap_or_default();
                map.next_value_seed(Value { meaning, route, values: self.values })?;
            }
        }
        Ok(())
    }
}

/// A value that has a role or that fields take.
struct Value<'r, 's, 'de> {
    meaning: Meaning<'s>,
    route: Option<&'s Route>,
    values: &'r mut Values<'s, 'de>,
}

impl<'de> Value<'_, '_, 'de> {
    fn take<E: Error>(self, value: &Scalar<'de>) -> Result<(), E> {
        let taken = self.meaning.take(value, self.values).and_then(|()| match self.route {
            Some(route) => self.values.take(route, value),
            None => Ok(()),
        });
        self.values.refuse(taken)
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.take(&Scalar::String(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.take(&Scalar::String(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.take(&Scalar::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.take(&i64::try_from(number).map_or(Scalar::Unsigned(number), Scalar::Integer))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.take(&Scalar::Float(number))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.take(&Scalar::Boolean(value))
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Value { meaning, route, values } = self;
        values.refuse(meaning.refuse_compound("an array"))?;
        while seq.next_element_seed(Value { meaning, route, values })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Value { meaning, route, values } = self;
        values.refuse(meaning.refuse_compound("an object"))?;
        // A value without a role has a route.
        let Some(route) = route else { return Ok(()) };
        if !route.is_object() {
            let fault = bad_field(
                route.path(),
                "found an object, expected a value; give the path of a value inside as \"source\"",
            );
            return values.refuse(Err(fault));
        }
        while let Some(key) = map.next_key_seed(Key)? {
            match route.step(&key) {
                Some(inner) => {
                    let (meaning, route) = (Meaning::default(), Some(inner));
                    map.next_value_seed(Value { meaning, route, values })?;
                }
                None => {
                    let met = values.meet_unknown(route, &key);
                    values.refuse(met)?;
                    map.next_value_seed(Skip)?;
                }
            }
        }
        Ok(())
    }
}
