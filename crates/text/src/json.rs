//! Writes JSON.

/// Appends a string with its quotation marks.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    // A string always has a JSON form, and writing to a vector cannot fail.
    let written = serde_json::to_writer(out, text);
    debug_assert!(written.is_ok());
}
