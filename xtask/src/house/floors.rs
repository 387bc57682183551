//! The floors of the workspace. A crate may depend only on crates of lower floors.

use std::collections::BTreeMap;

/// The crates by floor, lowest first. Crates of the same floor do not depend on each other.
const FLOORS: &[&[&str]] = &[
    // Foundations, which are independent of search.
    &["core", "cuda", "cuda-emulator", "eval", "front", "plan", "store", "synth"],
    &["text", "codec", "dictionary"],
    // The index on disk, which is independent of engines and devices.
    &["index"],
    &["exec"],
    // Engines, which implement the interface in `exec` independently of each other.
    &["exec-cpu", "exec-gpu", "ngram", "build-gpu", "sched", "testkit"],
    &["exec-gpu-papers"],
    // The library.
    &["warpseek"],
    // Interfaces to the library.
    &["server", "collection", "cluster", "python", "console"],
    &["bench"],
    &["reproduce"],
    &["cli"],
];

/// Finds dependencies on crates that are not on a lower floor, and crates without a floor.
pub(super) fn check() -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir("crates").map_err(|e| format!("crates: {e}"))?;
    let mut findings = Vec::new();
    for folder in entries.flatten().map(|entry| entry.path()) {
        let path = folder.join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let manifest: Manifest =
            toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let names = manifest.dependencies.keys().map(String::as_str);
        let finding = |what: String| format!("{}: {what}", path.display());
        findings.extend(wrong(&name, names).into_iter().map(finding));
    }
    Ok(findings)
}

#[derive(serde::Deserialize)]
struct Manifest {
    #[serde(default)]
    dependencies: BTreeMap<String, toml::Value>,
}

/// Describes the problems with the dependencies of a crate.
fn wrong<'a>(name: &str, dependencies: impl Iterator<Item = &'a str>) -> Vec<String> {
    let Some(own) = floor(name) else {
        return vec![format!("`{name}` has no floor in xtask/src/house/floors.rs")];
    };
    let ours = dependencies.filter_map(|dependency| match dependency {
        "warpseek" => Some("warpseek"),
        other => other.strip_prefix("warpseek-"),
    });
    let up = ours.filter(|dependency| floor(dependency).is_some_and(|floor| floor >= own));
    up.map(|dependency| format!("depends on `{dependency}`, which is not on a lower floor"))
        .collect()
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_lead_down() {
        assert!(wrong("exec", ["warpseek-index", "serde"].into_iter()).is_empty());
        let siblings = wrong("exec-cpu", ["warpseek-exec", "warpseek-exec-gpu"].into_iter());
        assert_eq!(siblings.len(), 1, "{siblings:?}");
        assert_eq!(wrong("index", ["warpseek"].into_iter()).len(), 1);
        assert_eq!(wrong("unknown", [].into_iter()).len(), 1);
    }
}
