//! Names of indexes, which are also names of folders.

use crate::error::{Failure, Kind, brief};

/// Maximum length of a name in bytes: that of a file name, less the suffixes of an index's files.
const MAX_NAME_BYTES: usize = 240;

/// First segments of the server's native routes.
const RESERVED: [&str; 10] = [
    "health",
    "livez",
    "readyz",
    "metrics",
    "retrieve",
    "ui",
    "mcp",
    "v1",
    "snapshots",
    "openapi.json",
];

/// Refuses invalid index names. A valid name is a single folder name and cannot lead out of the
/// data folder.
pub(crate) fn check(name: &str) -> Result<(), Failure> {
    let fault = if name.is_empty() || name.len() > MAX_NAME_BYTES {
        format!("it must have 1 to {MAX_NAME_BYTES} bytes")
    } else if let Some(first) = name.chars().next().filter(|c| "-_+.".contains(*c)) {
        format!("it starts with {first:?}, but must not start with '_', '-', '+', or '.'")
    } else if let Some(upper) = name.chars().find(|c| c.is_uppercase()) {
        format!("must be lowercase, but contains {upper:?}")
    } else if let Some(found) = name.chars().find(|&c| {
        matches!(c, '\\' | '/' | '*' | '?' | '"' | '<' | '>' | '|' | ',' | '#' | ':')
            || c.is_whitespace()
            || c.is_control()
    }) {
        format!(
            "must not contain {found:?}, nor other blanks, control characters or any of \\/*?\"<>|,#:"
        )
    } else if RESERVED.contains(&name) {
        "this name is reserved for a route of the server".to_owned()
    } else {
        return Ok(());
    };
    let reason = format!("Invalid index name [{}], {fault}", brief(name));
    Err(Failure::new(Kind::IndexName, reason).of_index(name))
}

/// Returns true if a path belongs to one of the server's native routes.
pub(crate) fn is_own(path: &str) -> bool {
    path.strip_prefix('/')
        .is_some_and(|rest| RESERVED.iter().any(|own| rest.split('/').next() == Some(own)))
}

/// Returns true if a name matches a pattern in which `*` matches any characters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_none() {
        for name in ["books", "a", "books-2024.01", "ü", "a_b", "a+b"] {
            assert!(check(name).is_ok(), "{name}");
        }
        let long = "a".repeat(MAX_NAME_BYTES);
        assert!(check(&long).is_ok() && check(&format!("{long}a")).is_err());
        for name in [
            "",
            ".",
            "..",
            "../a",
            "a/b",
            "a\\b",
            "Books",
            "_all",
            "-a",
            "+a",
            "a b",
            "a,b",
            "a*",
            "a\0",
            "a#b",
            "a:b",
            ".warpseek",
            "health",
            "v1",
            "openapi.json",
            "metrics",
        ] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_fault_is_named() {
        for (name, wanted) in [
            ("a#b", "'#'"),
            ("a b", "' '"),
            ("aBc", "'B'"),
            ("_a", "starts with '_'"),
            ("a\0", "'\\0'"),
        ] {
            let reason = check(name).unwrap_err().reason;
            assert!(reason.contains(wanted), "{reason}");
        }
        assert!(check(&"a".repeat(1 << 20)).unwrap_err().reason.len() < 300);
    }

    #[test]
    fn patterns() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*", "abc", true),
            ("a*", "bc", false),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("a*b*c", "axbxc", true),
            ("a*b*c", "axcxb", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_passes_is_one_plain_component(name in ".{0,12}") {
            if check(&name).is_ok() {
                let path = std::path::Path::new(&name);
                let parts: Vec<_> = path.components().collect();
                prop_assert_eq!(parts.len(), 1);
                prop_assert!(matches!(parts[0], std::path::Component::Normal(_)));
            }
        }
    }
}
