//! The parts of an index that are on a GPU, as text and as JSON, for `--explain-plan` and
//! `inspect --device`.

use serde_json::{Value, json};
use warpseek::gpu::Residency;
use warpseek_console::terminal::bytes;

/// Describes the residency in one line.
pub(crate) fn line(residency: &Residency) -> String {
    let limit = residency.limit.map_or(String::new(), |limit| format!(" of {}", bytes(limit)));
    format!("{}: {residency}; {}{limit} in use", residency.device, bytes(residency.used))
}

/// Returns the residency with all counters as JSON.
pub(crate) fn as_json(residency: &Residency) -> Value {
    let by_level = |[tiles, compressed, main_memory]: [u64; 3]| json!({ "tiles": tiles, "compressed": compressed, "main_memory": main_memory });
    let cache = residency.cache.map(|cache| {
        json!({
            "lists": by_level(cache.lists),
            "postings": by_level(cache.postings),
            "bytes_moved": cache.bytes_moved,
            "seconds_waited": cache.waited.as_secs_f64(),
            "rounds": cache.rounds,
            "slices": cache.slices,
            "bytes_held": cache.held,
            "bytes_for_lists": cache.room,
            "bytes_of_a_round": cache.scratch,
        })
    });
    json!({
        "device": residency.device,
        "form": residency.form(),
        "formulas": residency.formulas,
        "bytes_used": residency.used,
        "bytes_limit": residency.limit,
        "bytes_copied": residency.copied,
        "cache": cache,
    })
}
