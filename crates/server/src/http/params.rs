//! The options of a query string.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Failure, brief};

/// The options of a query string. `+` and `%20` both denote a blank. Clones share the record of
/// which options were read, so that the others can be reported as ignored.
#[derive(Clone, Debug)]
pub(crate) struct Params(Arc<[Param]>);

#[derive(Debug)]
struct Param {
    name: String,
    value: String,
    /// True once the option was read.
    read: AtomicBool,
}

/// Options of Elasticsearch that need no warning because they change no result: the format of
/// answers, the treatment of shards and nodes, and time limits for waiting on a cluster.
const QUIET: [&str; 29] = [
    "pretty",
    "human",
    "error_trace",
    "format",
    "search_type",
    "request_cache",
    "allow_no_indices",
    "expand_wildcards",
    "ignore_throttled",
    "ccs_minimize_roundtrips",
    "max_concurrent_shard_requests",
    "max_concurrent_searches",
    "pre_filter_shard_size",
    "batched_reduce_size",
    "wait_for_active_shards",
    "wait_for_status",
    "wait_for_no_relocating_shards",
    "master_timeout",
    "cluster_manager_timeout",
    "timeout",
    "local",
    "include_type_name",
    "realtime",
    "force",
    "wait_if_ongoing",
    "scroll_size",
    "slices",
    "conflicts",
    "retry_on_conflict",
];

impl Default for Params {
    fn default() -> Self {
        Params::parse(None)
    }
}

impl Params {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Param { name: decode(key), value: decode(value), read: AtomicBool::new(false) }
        });
        Params(pairs.collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|param| param.name == key)?;
        found.read.store(true, Ordering::Relaxed);
        Some(&found.value)
    }

    /// Returns true if an option is `true` or given without a value.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.get(key), Some("" | "true"))
    }

    /// Returns all names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|param| (param.name.as_str(), param.value.as_str()))
    }

    /// Returns warnings about options that had no effect because nothing read them.
    pub(crate) fn ignored(&self) -> impl Iterator<Item = String> {
        let ignored = self.0.iter().filter(|param| {
            let (name, value) = (param.name.as_str(), param.value.as_str());
            // Values that would change a result, of options that otherwise do not.
            let acts = [
                ("realtime", "false"),
                ("allow_no_indices", "false"),
                ("expand_wildcards", "none"),
            ];
            !param.read.load(Ordering::Relaxed)
                && (acts.contains(&(name, value)) || !QUIET.contains(&name))
        });
        ignored.map(|param| format!("[{}] is ignored", brief(&param.name)))
    }
}

/// Refuses paths that do not decode to UTF-8.
pub(crate) fn check_path(path: &str) -> Result<(), Failure> {
    if !path.contains('%') || String::from_utf8(decoded(path)).is_ok() {
        return Ok(());
    }
    let path = brief(path);
    Err(Failure::illegal(format!("the path [{path}] is not UTF-8 once it is decoded")))
}

/// Decodes `%41` and `+`; an invalid code is kept as text.
fn decode(text: &str) -> String {
    String::from_utf8_lossy(&decoded(text)).into_owned()
}

fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = || {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            // A number may have a sign, a code has none.
            let code = u8::from_str_radix(digits, 16).ok()?;
            (!digits.starts_with('+')).then_some(code)
        };
        match (bytes[at], code) {
            (b'+', _) => out.push(b' '),
            (b'%', code) if code().is_some() => {
                out.extend(code());
                at += 2;
            }
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings() {
        let params = Params::parse(Some("q=a+b%20c%2Fd&pretty&x=%zz&y=%+1&size=3&="));
        assert_eq!(
            (params.get("q"), params.get("size"), params.get("x"), params.get("y")),
            (Some("a b c/d"), Some("3"), Some("%zz"), Some("% 1"))
        );
        assert!(params.flag("pretty") && !params.flag("size") && !params.flag("none"));
        assert!(Params::parse(None).get("a").is_none());
        // Options that were read are not reported, nor are those that change no result.
        let params = Params::parse(Some("size=1&routing=a&human&typed_keys=true"));
        assert_eq!(params.clone().get("size"), Some("1"));
        let ignored: Vec<String> = params.ignored().collect();
        assert_eq!(ignored, ["[routing] is ignored", "[typed_keys] is ignored"]);
        let ignored = |query: &str| Params::parse(Some(query)).ignored().count();
        assert_eq!((ignored("realtime=true"), ignored("realtime=false")), (0, 1));
        assert_eq!(ignored("allow_no_indices=false&expand_wildcards=open"), 1);
    }
}
