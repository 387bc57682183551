//! Phrases that this project does not use, and what to write instead.

use std::path::Path;
use std::sync::OnceLock;

use regex::Regex;

use super::Finding;
use super::text::Passage;

/// Patterns of phrases, with advice.
const PHRASES: &[(&str, &str)] = &[
    (r"\b[Ww]hoever\b", "name the actor"),
    (r"\b[Ww]ho (does|asks|wants|looks|hands|reads|waits|is slower)\b", "name the actor"),
    (r"\b([Nn]obody|[Ss]omebody)\b", "name the actor, or say \"no one\" of people"),
    (r"\banew\b", "write \"again\""),
    (r"\b[Mm]eanwhile\b", "say what happens at the same time"),
    (r"\bbut for\b", "write \"except for\""),
    (r"\ball the same\b", "write \"nevertheless\" or \"equal\""),
    (r"\bsooner\b", "write \"earlier\" or \"faster\""),
    (r"\blittle by little\b", "write \"gradually\""),
    (r"\bby and by\b", "write \"gradually\""),
    (r"\bmakes? good\b", "write \"falls back\" or \"recovers\""),
    (r"\b(hands?|handed) (in|over|out)\b", "write \"passes\", \"submits\" or \"returns\""),
    (r"\bthose there are\b", "name them"),
    (r"\b(it|he|she|they|that|which|this) (is|are) no [a-z]+", "write \"is not a\""),
    (r"\bof one's own\b", "write \"own\""),
    (r"\b(is|are) (asked|told)\b", "name the actor"),
    (
        r"(^|[.:] )The same($|[,.:;]| (as|but|for|from|holds|in|of|on|with|without)\b)",
        "say what it does; the reader may not have read the item above",
    ),
    (r"\bWhat is not\b", "say what is unsupported, missing or unused"),
];

/// Words after "is no" that make it right, as in "is no longer".
const COMPARED: &[&str] = &[" no longer", " no more", " no earlier", " no later", " no faster"];

/// Finds the phrases in a passage that this project does not use.
pub(super) fn check(path: &Path, passage: &Passage) -> Vec<Finding> {
    static COMPILED: OnceLock<Vec<(Regex, &str)>> = OnceLock::new();
    let compiled = COMPILED.get_or_init(|| {
        let compile =
            |&(pattern, advice): &(&str, &'static str)| Some((Regex::new(pattern).ok()?, advice));
        PHRASES.iter().filter_map(compile).collect()
    });
    // A phrase may continue on the next line.
    let text = passage.text.replace('\n', " ");
    let mut findings = Vec::new();
    for (pattern, advice) in compiled {
        for found in pattern.find_iter(&text) {
            if COMPARED.iter().any(|word| found.as_str().ends_with(word)) {
                continue;
            }
            let line = passage.line + passage.text[..found.start()].matches('\n').count();
            let phrase = found.as_str().trim();
            let what = format!("\"{phrase}\": {advice}");
            findings.push(Finding { path: path.to_owned(), line, what });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_valid_and_lines_are_counted() {
        for (pattern, _) in PHRASES {
            assert!(Regex::new(pattern).is_ok(), "{pattern}");
        }
        let text = "One line\nand whoever reads\nit all the\nsame.".to_owned();
        let findings = check(Path::new("a.md"), &Passage { line: 7, text });
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [8, 9]);
    }
}
