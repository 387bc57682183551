//! The clause `exists`, which matches documents with a value in a field.

use serde_json::Value;
use warpseek::query::{Filter, Node};

use super::{Translator, any, constant, unsearchable};
use crate::elasticsearch::mapping::{Field, Layout};
use crate::error::Failure;

impl Translator<'_> {
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
}
