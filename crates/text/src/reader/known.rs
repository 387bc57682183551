//! Removes unknown fields from a record, for schemas that ignore these. Known fields are copied
//! verbatim, so that no number changes.

use serde_json::value::RawValue;

use super::config::ReaderConfig;
use super::pairs::Pairs;
use crate::Schema;
use crate::json::write_string;
use crate::schema::Route;

/// Returns the known fields of a line that has been parsed before.
pub(super) fn copy(line: &str, config: &ReaderConfig, schema: &Schema) -> String {
    let mut out = Vec::with_capacity(line.len());
    let fields = [config.static_field.as_deref(), config.order_field.as_deref()];
    let named = |key: &str| matches!(key, "id" | "_id") || fields.contains(&Some(key));
    copy_known(line, schema.root(), &named, &mut out);
    // All parts that were written came from strings.
    String::from_utf8(out).unwrap_or_default()
}

/// Copies the known parts of a value at a route. `named` selects further keys to keep.
fn copy_known(value: &str, route: &Route, named: &dyn Fn(&str) -> bool, out: &mut Vec<u8>) {
    let value = value.trim_ascii();
    let start = out.len();
    if let Ok(Pairs(pairs)) = serde_json::from_str(value) {
        out.push(b'{');
        for (key, value) in pairs {
            let inner = route.step(&key);
            if inner.is_none() && !named(&key) {
                continue;
            }
            if out.len() > start + 1 {
                out.push(b',');
            }
            write_string(out, &key);
            out.push(b':');
            match inner.filter(|route| route.is_object()) {
                Some(inner) => copy_known(value.get(), inner, &|_| false, out),
                None => out.extend_from_slice(value.get().as_bytes()),
            }
        }
        out.push(b'}');
    } else if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(value) {
        out.push(b'[');
        for (i, element) in elements.into_iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            copy_known(element.get(), route, named, out);
        }
        out.push(b']');
    } else {
        out.extend_from_slice(value.as_bytes());
    }
}
