//! Suggestions for messages about names that do not exist ("did you mean ...?").

use strsim::damerau_levenshtein;

/// Returns the name in `names` that is closest to `name`, or `None` if even that one differs in
/// more than a third of the characters of `name`, rounded up. Among equally close names the first
/// wins.
///
/// The distance is that of Damerau and Levenshtein: a missing, an additional or a different
/// character counts as one difference, and so do two swapped neighbours. Case is ignored.
///
/// ```
/// use warpseek_core::near;
///
/// assert_eq!(near("tga", ["title", "tag"]), Some("tag"));
/// assert_eq!(near("body", ["title", "tag"]), None);
/// ```
pub fn near<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let most = name.chars().count().div_ceil(3).max(1);
    let distance = |other: &str| damerau_levenshtein(&name, &other.to_lowercase());
    let distances = names.into_iter().map(|other| (distance(other), other));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= most && !name.is_empty()).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["title", "text", "published", "tag"];
        for (name, want) in [
            ("titel", Some("title")),
            ("Title", Some("title")),
            ("titl", Some("title")),
            ("tga", Some("tag")),
            ("tagg", Some("tag")),
            ("publishd", Some("published")),
            ("pulbished", Some("published")),
            ("body", None),
            ("tags", Some("tag")),
            ("", None),
        ] {
            assert_eq!(near(name, names), want, "{name}");
        }
        assert_eq!(near("bdy", ["id", "body"]), Some("body"));
        assert_eq!(near("x", []), None);
    }
}
