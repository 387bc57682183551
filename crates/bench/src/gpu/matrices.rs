//! The `--matrices` part of `bench gpu`: writes a cohort and the lists it needs as sparse
//! matrices in CSR, for other programs to multiply (scripts/cusparse.py).
//!
//! `docs_*` has a row for each list and a column for each document, with the values of postings;
//! `queries_*` has a row for each query and a column for each list, with weights; `hits` and
//! `scores` have k entries for each query, which are 2^32 - 1 and 0 if there are fewer hits. All
//! are NumPy files.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::json;
use warpseek_console::Failure;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Answer, Factors, Plan};
use warpseek_index::Snapshot;

use super::times::Times;

/// A matrix in CSR, without the leading 0 of the row offsets.
#[derive(Default)]
struct Csr {
    rows: Vec<u64>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Csr {
    fn end_row(&mut self) {
        self.rows.push(self.columns.len() as u64);
    }

    fn write(&self, folder: &Path, name: &str) -> Result<(), Failure> {
        let ends = [0].iter().chain(&self.rows);
        npy(&folder.join(format!("{name}_rows.npy")), "<i8", ends.map(|n| n.to_le_bytes()))?;
        let columns = self.columns.iter().map(|n| n.to_le_bytes());
        npy(&folder.join(format!("{name}_columns.npy")), "<i4", columns)?;
        let values = self.values.iter().map(|n| n.to_le_bytes());
        npy(&folder.join(format!("{name}_values.npy")), "<f4", values)
    }
}

/// Writes the matrices of plans, the answers to them, and the times of the answers.
pub(super) fn write(
    folder: &Path,
    snapshot: &Snapshot,
    plans: &[Plan],
    answers: &[Answer],
    times: Times,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let (mut docs, mut queries) = (Csr::default(), Csr::default());
    let mut known: HashMap<&str, u32> = HashMap::new();
    for plan in plans {
        for term in &plan.terms {
            let next = known.len() as u32;
            let list = *known.entry(&term.term).or_insert(next);
            if list == next {
                add_list(snapshot, plan, term, &mut docs)?;
            }
            queries.columns.push(list);
            queries.values.push((f64::from(term.weight) * plan.real(1)) as f32);
        }
        queries.end_row();
    }
    docs.write(folder, "docs")?;
    queries.write(folder, "queries")?;
    let k = plans.first().map_or(0, |plan| plan.k);
    let hits = |i: usize| {
        let hits = answers.get(i).map_or(&[][..], |answer| &answer.hits);
        (0..k).map(|rank| hits.get(rank)).collect::<Vec<_>>()
    };
    let all = || (0..plans.len()).flat_map(|i| hits(i).into_iter().map(move |hit| (i, hit)));
    let found = all().map(|(_, hit)| hit.map_or(u32::MAX, |hit| hit.doc).to_le_bytes());
    npy(&folder.join("hits.npy"), "<u4", found.collect::<Vec<_>>())?;
    let score = |(i, hit): (usize, Option<&warpseek_core::Hit>)| {
        (hit.map_or(0.0, |hit| plans[i].real(hit.score)) as f32).to_le_bytes()
    };
    npy(&folder.join("scores.npy"), "<f4", all().map(score).collect::<Vec<_>>())?;
    let about = json!({
        "documents": snapshot.doc_limit(), "queries": plans.len(), "lists": known.len(), "k": k,
        "postings": docs.columns.len(), "seconds": times.whole.as_secs_f64(),
        "kernel_seconds": times.kernels.map(|time| time.as_secs_f64()),
    });
    std::fs::write(folder.join("about.json"), format!("{about:#}\n"))?;
    Ok(())
}

/// Adds a row with the live documents of a list.
fn add_list(
    snapshot: &Snapshot,
    plan: &Plan,
    term: &warpseek_exec::PlanTerm,
    docs: &mut Csr,
) -> Result<(), Failure> {
    for (segment, info) in snapshot.segments().iter().zip(&term.lists) {
        let Some(info) = info else { continue };
        let (list, formula) = (segment.list(info)?, plan.formulas.of(term.field));
        let factors = Factors::new(segment, term.field, formula)?;
        let ordinals = segment.documents().ordinals()?;
        let (mut block_docs, mut freqs) = ([0; BLOCK], [0; BLOCK]);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut block_docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            for (&doc, &freq) in block_docs[..n].iter().zip(&freqs) {
                if segment.is_deleted(doc) {
                    continue;
                }
                let ordinal = ordinals.as_ref().map_or(doc, |table| table.get(doc));
                docs.columns.push(segment.base() + ordinal);
                docs.values.push(formula.value(freq, factors.get(doc)));
            }
        }
    }
    docs.end_row();
    Ok(())
}

/// Writes an array in the NumPy format, version 1.
fn npy<const N: usize>(
    path: &Path,
    kind: &str,
    values: impl IntoIterator<Item = [u8; N]>,
) -> Result<(), Failure> {
    let bytes: Vec<[u8; N]> = values.into_iter().collect();
    let mut head =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({},), }}", bytes.len());
    // The header ends with a newline, and the values begin at a multiple of 64 bytes.
    let fixed = 10;
    let whole = (fixed + head.len() + 1).next_multiple_of(64);
    head.push_str(&" ".repeat(whole - fixed - head.len() - 1));
    head.push('\n');
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(head.len() as u16).to_le_bytes())?;
    out.write_all(head.as_bytes())?;
    out.write_all(bytes.as_flattened())?;
    out.flush()?;
    Ok(())
}
