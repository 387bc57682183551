//! Detection of query syntax in text that may be plain words.

/// Returns the first part of a text that the query syntax reads as more than words, such as
/// `-automation` or `title:library`; `None` if there is none. Parentheses, times, hyphens and
/// addresses also occur in plain text and do not count.
///
/// ```
/// use warpseek_exec::query::sign;
///
/// assert_eq!(sign("library -automation"), Some("-automation"));
/// assert_eq!(sign("well-known (at 10:30) http://example.org"), None);
/// ```
pub fn sign(text: &str) -> Option<&str> {
    if let Some((before, rest)) = text.split_once('"')
        && let Some((inside, _)) = rest.split_once('"')
        && before.chars().next_back().is_none_or(char::is_whitespace)
        && inside.trim().contains(char::is_whitespace)
    {
        return text.get(before.len()..before.len() + inside.len() + 2);
    }
    text.split_whitespace().find(|word| {
        let signed = word.strip_prefix(['+', '-']).is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_alphabetic() || c == '"' || c == '(')
        });
        signed || is_field(word) || is_prefix(word)
    })
}

/// Returns true for a name, a colon and a value.
fn is_field(word: &str) -> bool {
    let Some((name, value)) = word.split_once(':') else { return false };
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(is_name)
        && value.starts_with(|c: char| c.is_alphanumeric() || "\"([{<>*".contains(c))
}

/// Returns true for a word that ends with an asterisk.
fn is_prefix(word: &str) -> bool {
    let start = word.strip_suffix('*');
    start.is_some_and(|start| !start.is_empty() && start.chars().all(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_and_what_only_looks_like_them() {
        for (text, found) in [
            ("library -automation", "-automation"),
            ("+apple pie", "+apple"),
            ("title:library x", "title:library"),
            ("year:>=2000", "year:>=2000"),
            ("\"new ideas\" of", "\"new ideas\""),
            ("of \"new ideas", ""),
            ("autom*", "autom*"),
            ("-(a b)", "-(a"),
            ("-\"ab\"", "-\"ab\""),
        ] {
            assert_eq!(sign(text).unwrap_or_default(), found, "{text}");
        }
        for text in [
            "well-known x-ray",
            "10:30",
            "http://a.b/c",
            "std::vector",
            "Re: hello",
            "a - b",
            "1 + 2",
            "-40 degrees",
            "c++ and c#",
            "(fruit)",
            "\"quoted\" word",
            "what?",
            "5\" disks and 3\" ones",
            "apple^2 pie",
            "**",
            "",
        ] {
            assert_eq!(sign(text), None, "{text}");
        }
    }
}
