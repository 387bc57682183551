//! The match of a hit and the text around it, as JSON.

use serde_json::{Value, json};
use warpseek::ngram::NgramResponse;
use warpseek_console::Failure;

/// Maximum number of characters in a snippet.
pub(super) const SNIPPET: usize = 220;

/// Adds the match, its position and the text around it to the JSON of a hit.
pub(super) fn add_snippet(
    entry: &mut Value,
    response: &NgramResponse,
    rank: usize,
) -> Result<(), Failure> {
    let found = response.alignment(rank)?;
    let snippet = found.snippet(SNIPPET);
    let highlights: Vec<_> = snippet.highlights.iter().map(|mark| [mark.start, mark.end]).collect();
    entry["matched"] = json!(found.matched());
    entry["position"] = json!({
        "title": [found.in_title.start, found.in_title.end],
        "text": [found.in_text.start, found.in_text.end],
    });
    entry["snippet"] = json!({ "text": snippet.text, "highlights": highlights });
    Ok(())
}
