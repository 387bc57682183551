//! What of an index is on a GPU: for `--explain-plan` and `inspect --device`.

use serde_json::{Value, json};
use warpseek::Residency;
use warpseek_console::terminal::bytes;

/// In a line.
pub(crate) fn line(of: &Residency) -> String {
    let limit = of.limit.map_or(String::new(), |limit| format!(" of {}", bytes(limit)));
    format!("{}: {of}; {}{limit} in use", of.device, bytes(of.used))
}

/// The same with all counters.
pub(crate) fn as_json(of: &Residency) -> Value {
    let by_level = |[tiles, compressed, main_memory]: [u64; 3]| json!({ "tiles": tiles, "compressed": compressed, "main_memory": main_memory });
    let cache = of.cache.map(|cache| {
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
        "device": of.device,
        "form": of.form(),
        "formulas": of.formulas,
        "bytes_used": of.used,
        "bytes_limit": of.limit,
        "bytes_copied": of.copied,
        "cache": cache,
    })
}
