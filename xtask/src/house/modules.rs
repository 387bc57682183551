//! Cycles between the modules of a crate: files that use each other, directly or through others.
//!
//! A file uses another if one of its paths, or an import that is not a re-export, leads to an item
//! that the other file defines. Re-exports are followed, so that a use through the crate's root
//! counts as a use of the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::source::Source;

/// The line and the path of the first use of one module by another, by the numbers of both.
type Edges = BTreeMap<(usize, usize), (usize, String)>;

/// Describes each cycle, with the uses that form it.
///
/// Uses between a module and the modules inside it are not counted: the outer module combines the
/// inner ones, and these use the items that it declares.
pub(super) fn cycles(folder: &Path, sources: &[Source]) -> Vec<String> {
    let edges: Edges = Tree::new(sources)
        .edges()
        .into_iter()
        .filter(|((from, to), _)| {
            let (a, b) = (&sources[*from].module, &sources[*to].module);
            !a.starts_with(b) && !b.starts_with(a)
        })
        .collect();
    let components = components(sources.len(), &edges);
    components.iter().map(|component| describe(folder, sources, component, &edges)).collect()
}

/// The modules of a crate by their paths.
struct Tree<'a> {
    sources: &'a [Source],
    modules: BTreeMap<&'a [String], usize>,
}

impl<'a> Tree<'a> {
    fn new(sources: &'a [Source]) -> Self {
        let numbered = sources.iter().enumerate().filter(|(_, source)| !source.is_test);
        let modules = numbered.map(|(number, source)| (&source.module[..], number)).collect();
        Tree { sources, modules }
    }

    fn edges(&self) -> Edges {
        let mut edges = Edges::new();
        for (&module, &from) in &self.modules {
            for named in &self.sources[from].named {
                let Some(path) = self.absolute(module, &named.segments) else { continue };
                let Some(to) = self.definer(&path, 0) else { continue };
                if to != from {
                    let shown = named.segments.join("::");
                    edges.entry((from, to)).or_insert((named.line, shown));
                }
            }
        }
        edges
    }

    /// Converts a path in a module to a path from the crate's root. Returns `None` if it leads out
    /// of the crate.
    fn absolute(&self, module: &[String], segments: &[String]) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let (_, parent) = module.split_last()?;
                if rest.first().is_some_and(|next| next == "super") {
                    return self.absolute(parent, rest);
                }
                Some([parent, rest].concat())
            }
            name => {
                let child = [module, std::slice::from_ref(first)].concat();
                if self.modules.contains_key(&child[..]) {
                    return Some([module, segments].concat());
                }
                let source = &self.sources[*self.modules.get(module)?];
                let import = source.imports.get(name)?;
                // Imports of items of other crates are not followed.
                let is_own = ["crate", "self", "super"].contains(&import.first()?.as_str());
                let path = is_own.then(|| self.absolute(module, import)).flatten()?;
                Some([&path[..], rest].concat())
            }
        }
    }

    /// Returns the module that defines the item at a path, or `None` if the path is that of a
    /// module.
    fn definer(&self, path: &[String], depth: usize) -> Option<usize> {
        let longest = (0..=path.len()).rev().find(|&n| self.modules.contains_key(&path[..n]))?;
        let number = self.modules[&path[..longest]];
        let name = path.get(longest)?;
        let source = &self.sources[number];
        match source.imports.get(name) {
            Some(import) if depth < 16 => {
                let target = self.absolute(&source.module, import)?;
                let target = [&target[..], &path[longest + 1..]].concat();
                self.definer(&target, depth + 1)
            }
            _ => Some(number),
        }
    }
}

/// Returns the sets of two or more modules that reach each other.
fn components(count: usize, edges: &Edges) -> Vec<BTreeSet<usize>> {
    let reach = |start: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(next) = open.pop() {
            let nexts = edges.range((next, 0)..=(next, usize::MAX)).map(|((_, to), _)| *to);
            open.extend(nexts.filter(|&to| seen.insert(to)));
        }
        seen
    };
    let reach: Vec<BTreeSet<usize>> = (0..count).map(reach).collect();
    let mut left: BTreeSet<usize> = (0..count).filter(|&n| reach[n].contains(&n)).collect();
    let mut all = Vec::new();
    while let Some(first) = left.pop_first() {
        let (mut together, others): (BTreeSet<usize>, BTreeSet<usize>) = left
            .into_iter()
            .partition(|&other| reach[first].contains(&other) && reach[other].contains(&first));
        left = others;
        together.insert(first);
        all.push(together);
    }
    all
}

/// Describes a cycle: its modules, and the first place of each use among them.
fn describe(
    folder: &Path,
    sources: &[Source],
    component: &BTreeSet<usize>,
    edges: &Edges,
) -> String {
    let name = |number: usize| match sources[number].module.is_empty() {
        true => "the root".to_owned(),
        false => sources[number].module.join("::"),
    };
    let names: Vec<String> = component.iter().map(|&number| name(number)).collect();
    let mut text = format!("{}: modules use each other: {}", folder.display(), names.join(", "));
    for (&(from, to), (line, shown)) in edges {
        if component.contains(&from) && component.contains(&to) {
            let path = sources[from].path.display();
            text += &format!("\n  {path}:{line}: uses {} (`{shown}`)", name(to));
        }
    }
    text
}
