//! Files of weights: Arrow IPC, or tab-separated values.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Float32Array, Int32Array, RecordBatch, UInt32Array,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema};
use warpseek::Progress;
use warpseek::research::weights::{Method, Weights};
use warpseek_console::Failure;

/// Number of rows in an Arrow batch.
const BATCH: usize = 1 << 20;

/// Writes weights to a file atomically: after a failure there is no new file.
pub(super) fn write(
    path: &Path,
    weights: &Weights<'_>,
    text: &[u8],
    method: Method<'_>,
    progress: &Progress,
) -> Result<(), Failure> {
    let problem =
        |error: &dyn std::fmt::Display| Failure::user(format!("{}: {error}", path.display()));
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::Builder::new();
    // Temporary files are private by default; this one gets the permissions that other files have,
    // limited by the user's mask.
    #[cfg(unix)]
    new.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = new.tempfile_in(dir).map_err(|error| problem(&error))?;
    let out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
    match path.extension().is_some_and(|name| name == "arrow") {
        true => arrow(out, weights, text, method, progress).map_err(|error| problem(&error)),
        false => tsv(out, weights, text, method, progress).map_err(|error| problem(&error)),
    }?;
    progress.check()?;
    file.as_file().sync_all().map_err(|error| problem(&error))?;
    file.persist(path).map_err(|error| problem(&error.error))?;
    Ok(())
}

fn tsv(
    mut out: BufWriter<&mut File>,
    weights: &Weights<'_>,
    text: &[u8],
    method: Method<'_>,
    progress: &Progress,
) -> std::io::Result<()> {
    for list in 0..weights.terms.len() {
        if progress.check().is_err() {
            return Ok(());
        }
        let term = weights.term(list, text, method).unwrap_or_default();
        let range = weights.starts[list] as usize..weights.starts[list + 1] as usize;
        for (doc, weight) in weights.docs[range.clone()].iter().zip(&weights.weights[range]) {
            out.write_all(&term)?;
            // Display writes the shortest digits that parse to the same float.
            writeln!(out, "\t{doc}\t{weight}")?;
        }
    }
    out.flush()
}

fn arrow(
    out: BufWriter<&mut File>,
    weights: &Weights<'_>,
    text: &[u8],
    method: Method<'_>,
    progress: &Progress,
) -> Result<(), Box<dyn std::error::Error>> {
    let terms: BinaryArray = (0..weights.terms.len())
        .map(|list| Some(weights.term(list, text, method).unwrap_or_default()))
        .collect();
    let terms: ArrayRef = Arc::new(terms);
    let kind = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Binary));
    let schema = Arc::new(Schema::new(vec![
        Field::new("term", kind, false),
        Field::new("document", DataType::UInt32, false),
        Field::new("weight", DataType::Float32, false),
    ]));
    let mut writer = FileWriter::try_new(out, &schema)?;
    let (mut list, all) = (0, weights.docs.len());
    for from in (0..all).step_by(BATCH) {
        if progress.check().is_err() {
            return Ok(());
        }
        let to = (from + BATCH).min(all);
        let keys: Int32Array = (from..to)
            .map(|row| {
                while weights.starts[list + 1] as usize <= row {
                    list += 1;
                }
                list as i32
            })
            .collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(DictionaryArray::<Int32Type>::try_new(keys, terms.clone())?),
            Arc::new(UInt32Array::from_iter_values(weights.docs[from..to].iter().copied())),
            Arc::new(Float32Array::from_iter_values(weights.weights[from..to].iter().copied())),
        ];
        writer.write(&RecordBatch::try_new(schema.clone(), columns)?)?;
    }
    writer.finish()?;
    Ok(())
}
