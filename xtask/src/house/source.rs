//! A parsed source file: its head comment, lines of code, functions, and the paths that it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A path, with the segments that the source gives, and its line.
pub(super) struct Named {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// A function and its size.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// A parsed source file. Items that only tests compile are left out.
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// The module's path within its crate; empty for the root.
    pub(super) module: Vec<String>,
    pub(super) has_head: bool,
    pub(super) is_test: bool,
    pub(super) code_lines: usize,
    pub(super) functions: Vec<Function>,
    /// Paths in code, and in imports that are not re-exports.
    pub(super) named: Vec<Named>,
    /// The path of each name that `use` declarations bring into the module.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Modules that only tests compile.
    test_modules: Vec<String>,
}

impl Source {
    /// Reads and parses a file of the crate whose source folder is `root`.
    pub(super) fn read(root: &Path, path: &Path) -> Result<Source, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = syn::parse_file(&text).map_err(|e| {
            let at = e.span().start().line;
            format!("{}:{at}: cannot be parsed: {e}", path.display())
        })?;
        let inside = path.strip_prefix(root).unwrap_or(path).with_extension("");
        let mut module: Vec<String> =
            inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
            module.pop();
        }
        let mut reader = Reader::default();
        reader.visit_file(&file);
        Ok(Source {
            path: path.to_owned(),
            module,
            has_head: text.starts_with("//!"),
            is_test: false,
            code_lines: reader.lines.len(),
            functions: reader.functions,
            named: reader.named,
            imports: reader.imports,
            test_modules: reader.test_modules,
        })
    }
}

/// Marks the files of modules that only tests compile.
pub(super) fn mark_tests(sources: &mut [Source]) {
    let tests: Vec<Vec<String>> = sources
        .iter()
        .flat_map(|source| {
            let path = |name: &String| {
                source.module.iter().cloned().chain([name.clone()]).collect::<Vec<_>>()
            };
            source.test_modules.iter().map(path).collect::<Vec<_>>()
        })
        .collect();
    for source in sources {
        source.is_test = tests.iter().any(|test| source.module.starts_with(test));
    }
}

/// Visits a file's items and collects the contents of a [`Source`].
#[derive(Default)]
struct Reader {
    lines: BTreeSet<usize>,
    functions: Vec<Function>,
    named: Vec<Named>,
    imports: BTreeMap<String, Vec<String>>,
    test_modules: Vec<String>,
    /// Number of inline modules around the current item.
    inside: usize,
}

impl Reader {
    fn add_function(&mut self, name: &syn::Ident, lines: &BTreeSet<usize>) {
        let line = name.span().start().line;
        self.functions.push(Function { name: name.to_string(), line, lines: lines.len() });
    }

    /// Adds the lines of an item's tokens, without its doc comments.
    fn add_lines(&mut self, tokens: TokenStream) {
        lines_of(tokens, &mut self.lines);
    }

    fn add_use(&mut self, before: &[String], tree: &syn::UseTree, is_reexport: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_use(&with(&path.ident), &path.tree, is_reexport),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(before, tree, is_reexport));
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last() {
                    self.import(last.clone(), before.to_vec(), name.span(), is_reexport);
                }
            }
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                self.import(name.ident.to_string(), path, name.span(), is_reexport);
            }
            syn::UseTree::Rename(rename) => {
                let path = with(&rename.ident);
                self.import(rename.rename.to_string(), path, rename.span(), is_reexport);
            }
            syn::UseTree::Glob(glob) => {
                let line = glob.span().start().line;
                let segments = [before, &["*".to_owned()]].concat();
                self.named.push(Named { segments, line });
            }
        }
    }

    fn import(
        &mut self,
        name: String,
        path: Vec<String>,
        span: proc_macro2::Span,
        is_reexport: bool,
    ) {
        if !is_reexport {
            self.named.push(Named { segments: path.clone(), line: span.start().line });
        }
        if self.inside == 0 {
            self.imports.insert(name, path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if attributes(item).iter().any(is_for_tests) {
            if let syn::Item::Mod(module) = item {
                self.test_modules.push(module.ident.to_string());
            }
            return;
        }
        if self.inside == 0 {
            self.add_lines(quote_of(item));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.inside += 1;
        visit::visit_item_mod(self, module);
        self.inside -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_reexport = !matches!(item.vis, syn::Visibility::Inherited);
        self.add_use(&[], &item.tree, is_reexport);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let mut lines = BTreeSet::new();
        lines_of(tokens_of(&function.sig), &mut lines);
        lines_of(tokens_of(&function.block), &mut lines);
        self.add_function(&function.sig.ident, &lines);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.attrs.iter().any(is_for_tests) {
            return;
        }
        let mut lines = BTreeSet::new();
        lines_of(tokens_of(&function.sig), &mut lines);
        lines_of(tokens_of(&function.block), &mut lines);
        self.add_function(&function.sig.ident, &lines);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> =
            path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.named.push(Named { segments, line: path.span().start().line });
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        paths_in(mac.tokens.clone(), &mut self.named);
        visit::visit_macro(self, mac);
    }
}

/// Finds paths of two or more segments among the tokens of a macro call.
fn paths_in(tokens: TokenStream, named: &mut Vec<Named>) {
    let mut segments: Vec<String> = Vec::new();
    let (mut line, mut colons) = (0, 0);
    let mut flush = |segments: &mut Vec<String>, line: usize| {
        if segments.len() > 1 {
            named.push(Named { segments: std::mem::take(segments), line });
        }
        segments.clear();
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    flush(&mut segments, line);
                    line = ident.span().start().line;
                }
                segments.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            other => {
                flush(&mut segments, line);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    flush(&mut segments, line);
    groups.into_iter().for_each(|group| paths_in(group, named));
}

/// Returns true if one of the attributes restricts its item to tests.
pub(crate) fn is_only_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(is_for_tests)
}

/// Returns true for attributes like `#[cfg(test)]` and `#[cfg(any(test, feature = "..."))]`.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let names_test = |list: &syn::MetaList| {
        let tokens = list.tokens.to_string();
        tokens == "test" || tokens.starts_with("any (test") || tokens.starts_with("all (test")
    };
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(names_test)
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn quote_of(item: &syn::Item) -> TokenStream {
    match item {
        // Inline modules may contain tests among other items.
        syn::Item::Mod(module) if module.content.is_some() => {
            let items = module.content.iter().flat_map(|(_, items)| items);
            let kept = items.filter(|item| !attributes(item).iter().any(is_for_tests));
            kept.map(quote_of).collect()
        }
        item => tokens_of(item),
    }
}

fn tokens_of(node: &impl quote::ToTokens) -> TokenStream {
    node.to_token_stream()
}

/// Adds the lines that have tokens, except doc comments.
fn lines_of(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut after_hash = false;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                after_hash = true;
                continue;
            }
            TokenTree::Punct(punct) if punct.as_char() == '!' && after_hash => continue,
            TokenTree::Group(group) if after_hash => {
                let text = group.stream().to_string();
                if !text.starts_with("doc") {
                    lines.insert(group.span_open().start().line);
                }
            }
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                lines.insert(group.span_close().start().line);
                lines_of(group.stream(), lines);
            }
            token => {
                let span = token.span();
                lines.extend(span.start().line..=span.end().line);
            }
        }
        after_hash = false;
    }
}
