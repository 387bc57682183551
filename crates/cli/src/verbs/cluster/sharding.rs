//! The assignment of documents to shards, which begins a version.

use std::sync::Arc;

use warpseek::Progress;
use warpseek_collection::{Collection, Cut};
use warpseek_console::Failure;
use warpseek_console::progress::Display;
use warpseek_console::terminal::{counted, note, summary};

use super::Settings;
use crate::failures::collection_failure;

/// Assigns documents to shards, and reports skipped records.
pub(super) fn assign_documents(
    settings: &Settings,
    collection: &Collection,
    shards: usize,
    progress: &Arc<Progress>,
) -> Result<(u64, Cut), Failure> {
    let options = settings.options()?;
    let display = Display::build(progress, settings.is_quiet());
    let done = collection.cut(settings.inputs(), shards, &options, progress);
    drop(display);
    let (version, cut, survey) = done.map_err(collection_failure)?;
    for reason in &survey.reasons {
        note(format!("skipped {reason}"));
    }
    if survey.skipped > 0 {
        let were = if survey.skipped == 1 { "was" } else { "were" };
        note(format!("{} {were} skipped", counted(survey.skipped, "record")));
    }
    if !settings.is_quiet() {
        let documents = counted(cut.documents, "document");
        let shards = counted(cut.shards.len() as u64, "shard");
        summary(format!("version {version}: {documents} in {shards}"));
    }
    Ok((version, cut))
}
