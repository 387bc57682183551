//! The first line of a TSV file, which may name its columns.

use super::batch::RawBatch;
use super::columns::{Columns, IDS, TEXTS};
use super::config::ReaderConfig;
use super::format::Format;
use super::input::Input;
use crate::TextError;

/// Returns true if a line of TSV names columns: the first is an id, and at least one other is
/// known.
fn is_header(cells: &[&str]) -> bool {
    let is_one_of = |known: &[&str], cell: &str| {
        known.iter().any(|name| name.eq_ignore_ascii_case(cell.trim()))
    };
    cells.len() > 1
        && is_one_of(&IDS, cells[0])
        && cells[1..]
            .iter()
            .any(|cell| is_one_of(&TEXTS, cell) || is_one_of(&["title", "url", "headline"], cell))
}

/// Removes the first line of a TSV file, which is record `first` of the batch, if it names
/// columns. If the user names any fields, it must name columns.
pub(super) fn take(
    input: &mut Input,
    batch: &mut RawBatch,
    first: usize,
    config: &ReaderConfig,
) -> Result<(), TextError> {
    debug_assert_eq!(input.source.format, Format::Tsv);
    let Ok(line) = str::from_utf8(batch.bytes_of(first)) else { return Ok(()) };
    let cells: Vec<&str> = line.split('\t').collect();
    if config.fields.is_empty() && !is_header(&cells) {
        return Ok(());
    }
    let header = cells.into_iter().map(str::to_owned).collect();
    let columns = Columns::new(header, config);
    let columns = columns.map_err(|reason| input.source.bad_table(reason))?;
    let columns = columns.noticed(&input.source.name, config, true);
    // Only this thread sets the columns.
    _ = input.source.columns.set(columns);
    batch.retain_from(first, |record| record > 0);
    input.records -= 1;
    Ok(())
}
