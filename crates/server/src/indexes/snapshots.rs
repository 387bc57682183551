//! Snapshots of indexes in a separate store, and their restoration: `/v1/snapshots`.
//!
//! Each snapshot has a folder in the store: `0/`, `1/` and so on hold the files of its indexes,
//! and `snapshot.json` lists them with sizes and checksums. That file is written last and removed
//! first, so a snapshot exists completely or not at all.

mod store;

use std::collections::BTreeMap;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use warpseek::{Index, Progress};

use crate::app::{App, write};
use crate::error::{Failure, Kind};
use crate::http::exchange::{Answer, Call, Reply};
use crate::indexes::aliases::{Alias, Change};
use crate::indexes::names;
use crate::indexes::open_index::Collection;
use crate::json::only;
pub(crate) use store::Store;

/// Format version of `snapshot.json`.
const FORMAT: u32 = 1;
/// Name of the file, among those of an index, with the data that the engine does not store.
const DECLARATION: &str = "declaration.json";

/// The contents of `snapshot.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contents {
    format: u32,
    pub(crate) name: String,
    /// Creation time in milliseconds since 1970.
    created: u64,
    /// Version of the server that took the snapshot.
    version: String,
    pub(crate) indexes: Vec<Part>,
    /// Aliases of the indexes: by alias, then by index.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    aliases: BTreeMap<String, BTreeMap<String, Alias>>,
}

/// An index of a snapshot.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Part {
    pub(crate) name: String,
    documents: u64,
    bytes: u64,
    files: Vec<File>,
}

/// A file of an index.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    name: String,
    bytes: u64,
    /// Hexadecimal 128-bit xxh3 hash.
    checksum: String,
}

impl Contents {
    /// Refuses contents that a server would not have written. This matters because names of files
    /// become paths.
    fn check(&self, name: &str) -> Result<(), Failure> {
        let damaged = |what: String| Failure::damaged(format!("snapshot [{name}]: {what}"));
        if self.format != FORMAT {
            let what = format!("its format is {}, but this server reads {FORMAT}", self.format);
            return Err(damaged(what));
        }
        if self.name != name {
            return Err(damaged(format!("snapshot.json gives its name as [{}]", self.name)));
        }
        for part in &self.indexes {
            names::check(&part.name)?;
            if let Some(file) = part.files.iter().find(|file| !is_plain(&file.name)) {
                return Err(damaged(format!(
                    "[{}] is not a valid name for a file of an index",
                    file.name
                )));
            }
        }
        let aliases = self.aliases.keys().map(|alias| names::check(alias));
        aliases.collect::<Result<(), Failure>>().map_err(|failure| damaged(failure.reason))
    }

    fn summary(&self) -> Value {
        let indexes: Vec<Value> = self
            .indexes
            .iter()
            .map(
                |part| json!({"name": part.name, "documents": part.documents, "bytes": part.bytes}),
            )
            .collect();
        json!({"name": self.name, "created": self.created, "version": self.version, "indexes": indexes, "aliases": self.aliases.keys().collect::<Vec<_>>()})
    }
}

/// Returns true if a name is that of a single plain file.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.chars().all(plain)
}

fn check_name(name: &str) -> Result<(), Failure> {
    match is_plain(name) && !name.chars().any(|c| c.is_ascii_uppercase()) {
        true => Ok(()),
        false => Err(Failure::illegal(format!(
            "[{name}] cannot be the name of a snapshot; use up to 128 characters of a-z, 0-9, '.', '_' and '-', without a dot at the start"
        ))),
    }
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/snapshots", post(create).get(list))
        .route("/v1/snapshots/{name}", get(about).delete(delete))
        .route("/v1/snapshots/{name}/restore", post(restore))
}

fn store(app: &App) -> Result<&Store, Failure> {
    app.snapshots.as_ref().ok_or_else(|| {
        Failure::illegal(
            "this server has no snapshot store; set snapshots.url, for example to file:///folder",
        )
    })
}

fn strings(value: &Value, key: &str) -> Result<Option<Vec<String>>, Failure> {
    match &value[key] {
        Value::Null => Ok(None),
        list => serde_json::from_value(list.clone())
            .map(Some)
            .map_err(|_| Failure::parsing(format!("[{key}] must be an array of strings"))),
    }
}

/// Takes a snapshot. `name` and `indexes` are optional; the defaults are a name with the current
/// time and all indexes.
async fn create(State(app): State<Arc<App>>, call: Call) -> Reply {
    let made = write(&app, move |app| {
        let body = call.json()?;
        only(&body, &["name", "indexes"])?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let created = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let name = match &body["name"] {
            Value::Null => format!("snapshot-{created}"),
            Value::String(name) => name.clone(),
            _ => return Err(Failure::parsing("[name] must be a string")),
        };
        check_name(&name)?;
        let selected = match strings(&body, "indexes")? {
            None => app.catalogue().all(),
            Some(names) if names.is_empty() => {
                return Err(Failure::illegal("[indexes] is empty; omit it to include all indexes"));
            }
            Some(names) => {
                let names = names.join(",");
                let found = app.catalogue().select(&names, false)?;
                // A misspelled pattern must not produce an empty backup.
                if found.is_empty() {
                    let reason =
                        format!("no index matches [{names}], so the snapshot would be empty");
                    return Err(Failure::new(Kind::IndexMissing, reason));
                }
                found
            }
        };
        take(app, name, created, &selected)
    })
    .await?;
    Ok(Answer::json(made.summary()).status(201))
}

fn take(
    app: &App,
    name: String,
    created: u64,
    selected: &[Arc<Collection>],
) -> Result<Contents, Failure> {
    let store = store(app)?;
    let _busy = store.begin()?;
    if Handle::current().block_on(store.contents(&name))?.is_some() {
        let reason = format!("snapshot [{name}] already exists");
        return Err(Failure::new(Kind::SnapshotExists, reason));
    }
    let scratch = Scratch::new(app, &format!("snapshot-{name}"))?;
    let mut staged = Vec::new();
    for (i, index) in selected.iter().enumerate() {
        let dir = scratch.folder(&i.to_string())?;
        index.export(&dir, &dir.join(DECLARATION))?;
        staged.push((index.name.clone(), dir));
    }
    let mut indexes = Vec::new();
    for (i, (index, dir)) in staged.into_iter().enumerate() {
        let documents = Index::at(&dir).snapshot()?.statistics().documents;
        let mut files = Vec::new();
        for path in files_of(&dir)? {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let sent =
                Handle::current().block_on(store.upload(&path, &format!("{name}/{i}/{file}")))?;
            files.push(File { name: file, bytes: sent.bytes, checksum: sent.checksum });
        }
        let bytes = files.iter().map(|file| file.bytes).sum();
        indexes.push(Part { name: index, documents, bytes, files });
    }
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let aliases = app.catalogue().aliases();
    let aliases = aliases.of_indexes(|index| indexes.iter().any(|part| part.name == index));
    let contents = Contents { format: FORMAT, name, created, version, indexes, aliases };
    Handle::current().block_on(store.publish(&contents))?;
    tracing::info!(snapshot = contents.name, indexes = contents.indexes.len(), "snapshot taken");
    Ok(contents)
}

fn files_of(dir: &FilePath) -> Result<Vec<PathBuf>, Failure> {
    let broken = |e: std::io::Error| Failure::broken(format!("{}: {e}", dir.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(broken)? {
        let entry = entry.map_err(broken)?;
        if entry.file_type().map_err(broken)?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

async fn list(State(app): State<Arc<App>>) -> Reply {
    write(&app, move |app| {
        let all = Handle::current().block_on(store(app)?.all())?;
        let all: Vec<Value> = all.iter().map(Contents::summary).collect();
        Ok(Answer::json(json!({"snapshots": all})))
    })
    .await
}

fn find(store: &Store, name: &str) -> Result<Contents, Failure> {
    check_name(name)?;
    let found = Handle::current().block_on(store.contents(name))?;
    found.ok_or_else(|| {
        Failure::new(Kind::SnapshotMissing, format!("there is no snapshot [{name}]"))
    })
}

async fn about(State(app): State<Arc<App>>, Path(name): Path<String>) -> Reply {
    write(&app, move |app| {
        let found = find(store(app)?, &name)?;
        serde_json::to_value(&found).map(Answer::json).map_err(|e| Failure::broken(e.to_string()))
    })
    .await
}

async fn delete(State(app): State<Arc<App>>, Path(name): Path<String>) -> Reply {
    write(&app, move |app| {
        let store = store(app)?;
        check_name(&name)?;
        let _busy = store.begin()?;
        // This also removes the remains of an unfinished snapshot.
        match Handle::current().block_on(store.remove(&name))? {
            true => Ok(Answer::json(json!({"deleted": true}))),
            false => {
                Err(Failure::new(Kind::SnapshotMissing, format!("there is no snapshot [{name}]")))
            }
        }
    })
    .await
}

/// Restores indexes of a snapshot. `indexes` selects them (default: all), `as` maps old names to
/// new ones, and `aliases` says whether they get their aliases back (default: those that keep
/// their names do).
async fn restore(State(app): State<Arc<App>>, Path(name): Path<String>, call: Call) -> Reply {
    write(&app, move |app| {
        let body = call.json()?;
        only(&body, &["indexes", "as", "aliases"])?;
        let aliases = match &body["aliases"] {
            Value::Null => None,
            Value::Bool(aliases) => Some(*aliases),
            _ => return Err(Failure::parsing("[aliases] must be true or false")),
        };
        let contents = find(store(app)?, &name)?;
        let wanted = match strings(&body, "indexes")? {
            None => contents.indexes.iter().map(|part| part.name.clone()).collect(),
            Some(wanted) => wanted,
        };
        let renamed = match &body["as"] {
            Value::Null => serde_json::Map::new(),
            Value::Object(renamed) => renamed.clone(),
            _ => return Err(Failure::parsing("[as] must be an object of new names by old ones")),
        };
        if let Some(old) = renamed.keys().find(|old| !wanted.contains(old)) {
            let reason = format!("[as] renames [{old}], which is not restored");
            return Err(Failure::illegal(reason));
        }
        let mut targets = Vec::new();
        for old in wanted {
            let new = match renamed.get(&old) {
                None => old.clone(),
                Some(Value::String(new)) => new.clone(),
                Some(_) => return Err(Failure::parsing("names in [as] must be strings")),
            };
            targets.push((old, new));
        }
        let aliases = bring_back(app, &contents, &targets, aliases)?;
        let names: Vec<&String> = targets.iter().map(|(_, new)| new).collect();
        Ok(Answer::json(json!({"restored": names, "aliases": aliases})))
    })
    .await
}

/// Restores the missing indexes of a snapshot at start.
pub(crate) fn restore_missing(app: &App, name: &str) -> Result<(), Failure> {
    let contents = find(store(app)?, name)?;
    let missing = contents.indexes.iter().filter(|part| app.catalogue().get(&part.name).is_err());
    let targets: Vec<(String, String)> =
        missing.map(|part| (part.name.clone(), part.name.clone())).collect();
    bring_back(app, &contents, &targets, None).map(|_| ())
}

/// Returns the aliases to restore. An alias whose name is now that of an index is an error,
/// reported before anything is changed.
fn aliases_back(
    app: &App,
    contents: &Contents,
    targets: &[(String, String)],
    wanted: Option<bool>,
) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    for (alias, indexes) in &contents.aliases {
        let writes_elsewhere =
            app.catalogue().aliases().pairs().into_iter().any(|(known, index, writes)| {
                known == *alias && writes == Some(true) && app.catalogue().is_index(&index)
            });
        for (old, new) in targets.iter().filter(|(old, new)| wanted.unwrap_or(old == new)) {
            let Some(options) = indexes.get(old) else { continue };
            if app.catalogue().is_index(alias) || targets.iter().any(|(_, new)| new == alias) {
                return Err(Failure::illegal(format!(
                    "alias [{alias}] of the snapshot has the name of an index; restore with \"aliases\": false"
                )));
            }
            // An alias that already has a write index keeps it.
            let options = if writes_elsewhere { options.without_writes() } else { *options };
            changes.push(Change::Add { alias: alias.clone(), index: new.clone(), of: options });
        }
    }
    Ok(changes)
}

/// Restores indexes and returns the restored aliases. All files are fetched and verified before
/// the first index appears.
fn bring_back(
    app: &App,
    contents: &Contents,
    targets: &[(String, String)],
    aliases: Option<bool>,
) -> Result<Vec<String>, Failure> {
    let store = store(app)?;
    let aliases = aliases_back(app, contents, targets, aliases)?;
    for (i, (_, new)) in targets.iter().enumerate() {
        app.catalogue().check_free(new)?;
        if targets[..i].iter().any(|(_, other)| other == new) {
            return Err(Failure::illegal(format!("two indexes would be restored as [{new}]")));
        }
    }
    let _busy = store.begin()?;
    let scratch = Scratch::new(app, &format!("restore-{}", contents.name))?;
    let mut ready = Vec::new();
    for (old, new) in targets {
        let found = contents.indexes.iter().enumerate().find(|(_, part)| part.name == *old);
        let Some((i, part)) = found else { return Err(Failure::no_index(old)) };
        let dir = scratch.folder(&i.to_string())?;
        for file in &part.files {
            let path = format!("{}/{i}/{}", contents.name, file.name);
            let got = Handle::current().block_on(store.download(
                &path,
                &dir.join(&file.name),
                file.bytes,
            ))?;
            if got.checksum != file.checksum {
                return Err(Failure::damaged(format!(
                    "snapshot [{}] is damaged: {path} has checksum {}, but must have {}",
                    contents.name, got.checksum, file.checksum
                )));
            }
        }
        let declaration = dir.join(DECLARATION);
        let declared = scratch.path.join(format!("{i}.json"));
        let declared = match std::fs::rename(&declaration, &declared) {
            Ok(()) => Some(declared),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(Failure::broken(format!("{}: {e}", declaration.display()))),
        };
        verify(&dir, old)?;
        ready.push((new, dir, declared));
    }
    for (new, dir, declared) in ready {
        app.catalogue().adopt(new, &dir, declared.as_deref())?;
        tracing::info!(index = new, snapshot = contents.name, "restored");
    }
    if !aliases.is_empty() {
        app.catalogue().change_aliases(&aliases)?;
    }
    let mut names: Vec<String> = aliases.into_iter().filter_map(Change::added).collect();
    names.dedup();
    Ok(names)
}

/// Verifies every checksum, order, bound and count of an index.
pub(crate) fn verify(dir: &FilePath, name: &str) -> Result<(), Failure> {
    let found = Index::at(dir).verify(&Progress::default())?;
    match found.problems.first() {
        None => Ok(()),
        Some(problem) => {
            let (file, what) = (problem.file.file_name().unwrap_or_default(), &problem.what);
            let reason = format!("index [{name}] is damaged: {}: {what}", file.display());
            Err(Failure::damaged(reason))
        }
    }
}

/// A scratch folder next to the indexes, removed on drop. The next start removes what a crash
/// leaves behind.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(app: &App, name: &str) -> Result<Self, Failure> {
        let path = app.catalogue().scratch(name);
        let _ = std::fs::remove_dir_all(&path);
        let scratch = Scratch { path };
        scratch.folder("")?;
        Ok(scratch)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path)
            .map_err(|e| Failure::broken(format!("{}: {e}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_never_lead_out_of_a_folder() {
        for name in ["a", "2024-01.x_y", &"a".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".a", "a/b", "a\\b", "A", "ü", "a b", "a\0", &"a".repeat(129)]
        {
            assert!(check_name(name).is_err(), "{name}");
        }
        let file = |name: &str| File { name: name.into(), bytes: 1, checksum: String::new() };
        let contents = |file: File| Contents {
            format: FORMAT,
            name: "s".into(),
            created: 0,
            version: String::new(),
            indexes: vec![Part { name: "a".into(), documents: 0, bytes: 0, files: vec![file] }],
            aliases: BTreeMap::new(),
        };
        assert!(contents(file("000001.dict")).check("s").is_ok());
        assert!(contents(file("000001.dict")).check("t").is_err());
        assert!(contents(file("../manifest")).check("s").is_err());
        assert!(Contents { format: 2, ..contents(file("a")) }.check("s").is_err());
        let aliases = BTreeMap::from([("../a".to_owned(), BTreeMap::new())]);
        assert!(Contents { aliases, ..contents(file("a")) }.check("s").is_err());
    }
}
