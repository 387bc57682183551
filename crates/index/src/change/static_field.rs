//! The field of documents that holds their static scores. An index has at most one, which its
//! manifest records.

use crate::error::{IndexError, Result};
use crate::snapshot::Snapshot;

/// Returns the field of static scores for documents that are added to an index: that of the
/// index, or, while it has none, the one that is `given`.
///
/// An index written before the manifest recorded the field has scores but no field. Documents
/// added to it would have no scores unless the field is named, so a missing name is an error.
pub fn static_field_for(snapshot: &Snapshot, given: Option<&str>) -> Result<Option<String>> {
    match (snapshot.manifest().static_field.as_deref(), given) {
        // While no document has a score, the name may still be corrected.
        (Some(known), Some(given)) if known != given && snapshot.statistics().max_static > 0.0 => {
            Err(IndexError::StaticField {
                what: format!(
                    "the static scores of the index are in the field `{known}`, not `{given}`; leave out the static field, or rebuild the index with `{given}`"
                ),
            })
        }
        (None, None) if snapshot.has_statics() => Err(unrecorded_static_field()),
        (known, given) => Ok(given.or(known).map(str::to_owned)),
    }
}

/// Returns the error for an index whose documents have static scores from a field that it does
/// not record.
pub(crate) fn unrecorded_static_field() -> IndexError {
    let what = "the index has static scores but does not record their field, because an earlier version built it; name the field once, with `warpseek add --static-field FIELD` or `Index::set_static_field`";
    IndexError::StaticField { what: what.into() }
}
