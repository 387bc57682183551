//! The field of documents that holds their static scores: an index has one, which its manifest records.

use crate::error::{IndexError, Result};
use crate::snapshot::Snapshot;

/// Finds the field of static scores for documents that are added to an index: that of the index, or, as long as it has none, the one that is `given`.
///
/// An index that was made before the field was recorded has scores and no field. Documents added to it would have no scores unless the field is named, so that is an error.
pub fn static_field_for(snapshot: &Snapshot, given: Option<&str>) -> Result<Option<String>> {
    match (snapshot.manifest().static_field.as_deref(), given) {
        // Without a score yet, the name may have been wrong.
        (Some(known), Some(given)) if known != given && snapshot.statistics().max_static > 0.0 => {
            Err(IndexError::StaticField {
                what: format!(
                    "the static scores of the index are in the field `{known}`, not `{given}`; leave out the static field, or build the index anew with `{given}`"
                ),
            })
        }
        (None, None) if snapshot.has_statics() => Err(unrecorded_static_field()),
        (known, given) => Ok(given.or(known).map(str::to_owned)),
    }
}

/// What is said of an index whose documents have static scores of a field that it does not record.
pub(crate) fn unrecorded_static_field() -> IndexError {
    let what = "documents of the index have static scores, and it does not record their field, as it was made by an earlier version; name the field once, by `warpseek add --static-field FIELD` or `Index::set_static_field`";
    IndexError::StaticField { what: what.into() }
}
