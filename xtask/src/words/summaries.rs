//! Summaries of public items: the first sentence of a doc comment.
//!
//! The summary of a function starts with a verb ("Returns", "Opens"), that of another item with a
//! noun. All summaries end with a full stop.

use std::path::Path;

use syn::visit::{self, Visit};

use super::Finding;

/// Words that no summary starts with.
const NO_OPENINGS: &[&str] = &[
    "What", "Where", "How", "Whether", "Who", "Whoever", "The same", "It", "Its", "They", "Their",
    "This", "That", "These", "Those", "As", "By", "For", "In", "Until", "Of", "From", "To", "With",
    "And", "Or", "But", "Also", "Likewise", "So", "Such",
];

/// Words that end like a verb in the third person but are not verbs.
const NO_VERBS: &[&str] = &[
    "This",
    "Its",
    "Words",
    "Documents",
    "Lists",
    "Terms",
    "Bytes",
    "Bits",
    "Queries",
    "Hits",
    "Scores",
    "Names",
    "Ids",
    "Numbers",
    "Values",
    "Files",
    "Always",
    "As",
];

/// Finds public items of a file whose summaries do not have this form.
pub(super) fn check(path: &Path, content: &str) -> Result<Vec<Finding>, String> {
    let file = syn::parse_file(content)
        .map_err(|e| format!("{}:{}: {e}", path.display(), e.span().start().line))?;
    let mut reader = Reader { path, findings: Vec::new() };
    reader.visit_file(&file);
    Ok(reader.findings)
}

struct Reader<'a> {
    path: &'a Path,
    findings: Vec<Finding>,
}

impl Reader<'_> {
    fn check(&mut self, attributes: &[syn::Attribute], is_function: bool) {
        let Some((line, summary)) = summary(attributes) else { return };
        if let Some(what) = wrong(&summary, is_function) {
            let shown: String = summary.chars().take(60).collect();
            let what = format!("summary \"{shown}\" {what}");
            self.findings.push(Finding { path: self.path.to_owned(), line, what });
        }
    }

    fn check_public(&mut self, vis: &syn::Visibility, attributes: &[syn::Attribute], is_fn: bool) {
        if matches!(vis, syn::Visibility::Public(_)) {
            self.check(attributes, is_fn);
        }
    }
}

/// Returns the first paragraph of a doc comment, and its line.
fn summary(attributes: &[syn::Attribute]) -> Option<(usize, String)> {
    let docs = attributes.iter().filter(|attribute| attribute.path().is_ident("doc"));
    let lines = docs.filter_map(|attribute| {
        let value = &attribute.meta.require_name_value().ok()?.value;
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = value else {
            return None;
        };
        Some((text.span().start().line, text.value().trim().to_owned()))
    });
    let mut first = None;
    let mut text = String::new();
    for (line, part) in lines {
        if part.is_empty() {
            break;
        }
        first.get_or_insert(line);
        text += &part;
        text.push(' ');
    }
    Some((first?, text.trim().to_owned()))
}

/// Describes the problem with a summary, if there is one.
fn wrong(summary: &str, is_function: bool) -> Option<String> {
    let starts = |word: &&&str| {
        summary.strip_prefix(**word).is_some_and(|rest| rest.starts_with([' ', ',']))
    };
    if let Some(word) = NO_OPENINGS.iter().find(starts) {
        return Some(format!("starts with \"{word}\""));
    }
    if !summary.ends_with(['.', ':', '!', '?', ')']) {
        return Some("is not a sentence: it has no full stop".to_owned());
    }
    let word = summary.split([' ', ',', '.']).next().unwrap_or_default();
    let is_verb =
        word.starts_with(char::is_uppercase) && word.ends_with('s') && !NO_VERBS.contains(&word);
    if is_function && !is_verb && !word.starts_with(['`', '[']) {
        return Some("does not start with a verb, as in \"Returns\"".to_owned());
    }
    None
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !crate::house::source::is_only_for_tests(&item.attrs) {
            self.check_public(&item.vis, &item.attrs, false);
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check_public(&item.vis, &item.attrs, true);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check_public(&item.vis, &item.attrs, true);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.check_public(&item.vis, &item.attrs, false);
        for field in &item.fields {
            self.check_public(&field.vis, &field.attrs, false);
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check_public(&item.vis, &item.attrs, false);
        if matches!(item.vis, syn::Visibility::Public(_)) {
            item.variants.iter().for_each(|variant| self.check(&variant.attrs, false));
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.check_public(&item.vis, &item.attrs, false);
        if matches!(item.vis, syn::Visibility::Public(_)) {
            for part in &item.items {
                if let syn::TraitItem::Fn(function) = part {
                    self.check(&function.attrs, true);
                }
            }
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.check_public(&item.vis, &item.attrs, false);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.check_public(&item.vis, &item.attrs, false);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.check_public(&item.vis, &item.attrs, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_start_with_a_verb_and_all_end_with_a_full_stop() {
        let source = "/// Opens an index\n/// for reading.\npub fn a() {}\n\
                      /// The index.\npub fn b() {}\n/// An index\npub struct C;\n\
                      /// What it is.\npub const D: u8 = 0;\n/// no matter\nfn e() {}\n";
        let findings = check(Path::new("a.rs"), source).unwrap();
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 6, 8]);
    }
}
