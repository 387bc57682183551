//! The name that somebody may have meant.

/// The one of `names` that differs least from `name`, if it differs by a third of its characters at most; the first of several.
pub(crate) fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = name.chars().count().div_ceil(3).max(1);
    let distances = names.into_iter().map(|other| (distance(name, other), other));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= most).then_some(nearest)
}

/// How many characters have to be inserted, removed or changed to turn one name into the other. Names are short, so a table row by row is enough.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = ["title", "text", "published", "tag"];
        for (name, want) in [
            ("titel", Some("title")),
            ("titl", Some("title")),
            ("tagg", Some("tag")),
            ("publishd", Some("published")),
            ("pulbished", Some("published")),
            ("body", None),
            ("tags", Some("tag")),
            ("", None),
        ] {
            assert_eq!(nearest(name, names), want, "{name}");
        }
        assert_eq!(nearest("x", []), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
