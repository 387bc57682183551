//! Lookup of fields by name, and parsing of values by type.

use warpseek_core::near;
use warpseek_text::{AttributeKind, AttributeValue, FieldId, Schema};

use super::values;
use crate::error::ExecError;

/// The name under which the syntax addresses the ids of documents.
pub(super) const ID: &str = "_id";

/// Returns the names of all fields.
pub(super) fn names(schema: &Schema) -> impl Iterator<Item = &str> {
    let text = schema.text().iter().map(|field| field.name.as_str());
    text.chain(schema.attributes().iter().map(|attribute| attribute.name.as_str())).chain([ID])
}

/// Returns the field with this name, or an error that suggests a similar name.
pub(crate) fn field(schema: Option<&Schema>, name: &str) -> Result<FieldId, ExecError> {
    let known = schema.and_then(|schema| schema.find(name));
    known.ok_or_else(|| {
        let near = schema.and_then(|schema| near(name, names(schema)));
        ExecError::UnknownField { name: name.to_owned(), near: near.map(str::to_owned) }
    })
}

/// Returns the number and the type of an attribute.
pub(crate) fn attribute(
    schema: Option<&Schema>,
    name: &str,
) -> Result<(u16, AttributeKind), ExecError> {
    match (field(schema, name)?, schema) {
        (FieldId::Attribute(number), Some(schema)) => {
            Ok((number, schema.attributes()[usize::from(number)].kind))
        }
        _ => Err(ExecError::NotAttribute { name: name.to_owned() }),
    }
}

/// Parses the value of an attribute.
pub(crate) fn read(
    field: &str,
    kind: AttributeKind,
    value: &str,
) -> Result<AttributeValue<'static>, ExecError> {
    values::read(kind, value).ok_or_else(|| ExecError::Value {
        name: field.to_owned(),
        value: value.to_owned(),
        expected: values::expected(kind),
    })
}
