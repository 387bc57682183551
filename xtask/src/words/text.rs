//! The prose of a file: its comments, its messages, or its paragraphs.

use std::path::Path;

use syn::visit::Visit;

/// Extensions of files whose prose is checked.
pub(super) const EXTENSIONS: [&str; 7] = ["rs", "md", "py", "pyi", "cu", "cuh", "js"];

/// Consecutive lines of prose.
pub(super) struct Passage {
    /// Number of the first line.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Returns true if a line consists of a comment only.
pub(super) fn is_comment(path: &Path, line: &str) -> bool {
    let marker = match path.extension().and_then(|extension| extension.to_str()) {
        Some("py" | "pyi") => "#",
        _ => "//",
    };
    line.trim_start().starts_with(marker)
}

/// Returns the prose of a file. In Rust, messages follow the comments.
pub(super) fn passages(path: &Path, content: &str) -> Vec<Passage> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => paragraphs(content),
        Some("rs") => {
            let mut all = comments(path, content);
            // Strings of tests are data.
            if !is_of_tests(path) {
                all.extend(messages(content));
            }
            all
        }
        _ => comments(path, content),
    }
}

/// Returns the comments that take whole lines, one passage for each group of lines.
fn comments(path: &Path, content: &str) -> Vec<Passage> {
    let mut all: Vec<Passage> = Vec::new();
    let (mut is_open, mut in_code) = (false, false);
    for (line, text) in (1..).zip(content.lines()) {
        if !is_comment(path, text) {
            (is_open, in_code) = (false, false);
            continue;
        }
        let text = text.trim_start().trim_start_matches(['/', '!', '#']);
        let text = text.strip_prefix(' ').unwrap_or(text);
        if text.starts_with("```") {
            in_code = !in_code;
            is_open = false;
            continue;
        }
        if in_code || text.trim().is_empty() {
            is_open = false;
            continue;
        }
        match all.last_mut().filter(|_| is_open) {
            Some(passage) => {
                passage.text.push('\n');
                passage.text += text;
            }
            None => all.push(Passage { line, text: text.to_owned() }),
        }
        is_open = true;
    }
    all
}

/// Reports whether a file of Rust contains only tests, by its path.
fn is_of_tests(path: &Path) -> bool {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    path.components().any(|part| part.as_os_str() == "tests")
        || stem == "tests"
        || stem.ends_with("_tests")
}

/// Returns the paragraphs of a page, without code blocks.
fn paragraphs(content: &str) -> Vec<Passage> {
    let mut all: Vec<Passage> = Vec::new();
    let (mut is_open, mut in_code) = (false, false);
    for (line, text) in (1..).zip(content.lines()) {
        if text.trim_start().starts_with("```") {
            in_code = !in_code;
            is_open = false;
            continue;
        }
        if in_code || text.trim().is_empty() {
            is_open = false;
            continue;
        }
        match all.last_mut().filter(|_| is_open) {
            Some(passage) => {
                passage.text.push('\n');
                passage.text += text;
            }
            None => all.push(Passage { line, text: text.to_owned() }),
        }
        is_open = true;
    }
    all
}

/// Returns the string literals of three or more words, except in tests.
fn messages(content: &str) -> Vec<Passage> {
    let Ok(file) = syn::parse_file(content) else { return Vec::new() };
    let mut reader = Messages::default();
    reader.visit_file(&file);
    reader.0
}

#[derive(Default)]
struct Messages(Vec<Passage>);

impl Messages {
    fn add(&mut self, literal: &proc_macro2::Literal) {
        let text = literal.to_string();
        if text.starts_with('"') && text.split_whitespace().count() >= 3 {
            let text = text.trim_matches('"').to_owned();
            self.0.push(Passage { line: literal.span().start().line, text });
        }
    }

    fn add_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Literal(literal) => self.add(&literal),
                proc_macro2::TokenTree::Group(group) => self.add_tokens(group.stream()),
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Messages {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !crate::house::source::is_only_for_tests(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        // Doc comments are read as comments; other attributes hold messages and help texts.
        if !attribute.path().is_ident("doc")
            && let Ok(list) = attribute.meta.require_list()
        {
            self.add_tokens(list.tokens.clone());
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.add(&literal.token());
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.add_tokens(mac.tokens.clone());
    }
}
