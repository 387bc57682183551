//! Restoration of snapshots: files are downloaded to a scratch folder and verified, and the
//! catalogue adopts the folders.

use tokio::runtime::Handle;

use super::scratch::Scratch;
use super::{Contents, DECLARATION, Store, find};
use crate::error::Failure;
use crate::indexes::aliases::Change;
use crate::indexes::catalogue::Catalogue;
use crate::indexes::verification::verify;

/// Restores the missing indexes of a snapshot at start.
pub(crate) fn restore_missing(
    store: &Store,
    catalogue: &Catalogue,
    name: &str,
) -> Result<(), Failure> {
    let contents = find(store, name)?;
    let missing = contents.indexes.iter().filter(|part| catalogue.get(&part.name).is_err());
    let targets: Vec<(String, String)> =
        missing.map(|part| (part.name.clone(), part.name.clone())).collect();
    restore(store, catalogue, &contents, &targets, None).map(|_| ())
}

/// Returns the aliases to restore. An alias whose name is now that of an index is an error,
/// reported before anything is changed.
fn aliases_back(
    catalogue: &Catalogue,
    contents: &Contents,
    targets: &[(String, String)],
    with_aliases: Option<bool>,
) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    for (alias, indexes) in &contents.aliases {
        let writes_elsewhere =
            catalogue.aliases().pairs().into_iter().any(|(known, index, writes)| {
                known == *alias && writes == Some(true) && catalogue.is_index(&index)
            });
        for (old, new) in targets.iter().filter(|(old, new)| with_aliases.unwrap_or(old == new)) {
            let Some(options) = indexes.get(old) else { continue };
            if catalogue.is_index(alias) || targets.iter().any(|(_, new)| new == alias) {
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

/// Restores indexes, given by their old and new names, and returns the restored aliases. Without
/// `with_aliases`, those indexes get their aliases back that keep their names. All files are
/// fetched and verified before the first index appears.
pub(crate) fn restore(
    store: &Store,
    catalogue: &Catalogue,
    contents: &Contents,
    targets: &[(String, String)],
    with_aliases: Option<bool>,
) -> Result<Vec<String>, Failure> {
    let aliases = aliases_back(catalogue, contents, targets, with_aliases)?;
    for (i, (_, new)) in targets.iter().enumerate() {
        catalogue.check_free(new)?;
        if targets[..i].iter().any(|(_, other)| other == new) {
            return Err(Failure::illegal(format!("two indexes would be restored as [{new}]")));
        }
    }
    let _busy = store.begin()?;
    let scratch = Scratch::new(catalogue, &format!("restore-{}", contents.name))?;
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
        catalogue.adopt(new, &dir, declared.as_deref())?;
        tracing::info!(index = new, snapshot = contents.name, "restored");
    }
    if !aliases.is_empty() {
        catalogue.change_aliases(&aliases)?;
    }
    let mut names: Vec<String> = aliases.into_iter().filter_map(Change::added).collect();
    names.dedup();
    Ok(names)
}
