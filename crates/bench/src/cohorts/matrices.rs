//! A cohort and the lists it needs as sparse matrices in CSR, for other programs to multiply
//! (scripts/spmm.py).
//!
//! `docs_*` has a row for each list and a column for each document, with the contributions of
//! postings in units; `queries_*` has a row for each query and a column for each list, with ones;
//! `hits` and `scores` have k entries for each query, which are 2^32 - 1 and 0 if there are fewer
//! hits. All are NumPy files.
//!
//! The plans of the cohort are first given the same, coarser unit ([`in_one_unit`]). All values and
//! sums are then whole numbers below 2^24, so a program that adds single-precision numbers in any
//! order must find exactly our scores.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::json;
use warpseek_console::Failure;
use warpseek_core::limits::BLOCK;
use warpseek_exec::{Answer, Factors, Mode, Plan, PlanTerm};
use warpseek_index::Snapshot;

use crate::times::Times;

/// Binary logarithm of the factor by which units grow, so that scores below 2^31 become scores
/// below 2^23, and 2^23 is left for rounding up.
const COARSER: i32 = 8;

/// Returns the plans with the same unit, which is so large that all scores stay below 2^24. Other
/// scores may have other hits, so engines answer these plans instead of the original ones.
pub(crate) fn in_one_unit(plans: &[Plan]) -> Result<Vec<Plan>, Failure> {
    let Some(scale) = plans.iter().map(|plan| plan.scale - COARSER).min() else {
        return Ok(Vec::new());
    };
    let coarser = |plan: &Plan| {
        let is_sum = plan.mode == Mode::Or && plan.mask.is_none() && plan.tree.is_none();
        if !is_sum || plan.static_weight != 0.0 {
            return Err(Failure::user(
                "only OR queries of words, without static scores, are products of matrices; leave out --static-weight",
            ));
        }
        // A product with a power of two is exact.
        let factor = 2f32.powi(scale - plan.scale);
        let mut plan = Plan { scale, ..plan.clone() };
        for term in &mut plan.terms {
            term.weight *= factor;
            term.most = plan.formulas.of(term.field).most(term.weight) as u32;
        }
        Ok(plan)
    };
    plans.iter().map(coarser).collect()
}

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

/// Writes the matrices of plans with the same unit, the answers to them, and the times of the
/// answers.
pub(crate) fn write(
    folder: &Path,
    snapshot: &Snapshot,
    plans: &[Plan],
    answers: &[Answer],
    times: Times,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    let (mut docs, mut queries) = (Csr::default(), Csr::default());
    // The contributions of a term depend on its weight, which differs between queries only if they
    // repeat words.
    let mut known: HashMap<(u8, &str, u32), u32> = HashMap::new();
    for plan in plans {
        for term in &plan.terms {
            let next = known.len() as u32;
            let key = (term.field, term.term.as_str(), term.weight.to_bits());
            let list = *known.entry(key).or_insert(next);
            if list == next {
                add_list(snapshot, plan, term, &mut docs)?;
            }
            queries.columns.push(list);
            queries.values.push(1.0);
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
    let score = |(_, hit): (usize, Option<&warpseek_core::Hit>)| {
        (hit.map_or(0, |hit| hit.score) as f32).to_le_bytes()
    };
    npy(&folder.join("scores.npy"), "<f4", all().map(score).collect::<Vec<_>>())?;
    let about = json!({
        "documents": snapshot.doc_limit(), "queries": plans.len(), "lists": known.len(), "k": k,
        "postings": docs.columns.len(), "scale": plans.first().map(|plan| plan.scale), "seconds": times.whole.as_secs_f64(),
        "kernel_seconds": times.kernels.map(|time| time.as_secs_f64()),
    });
    std::fs::write(folder.join("about.json"), format!("{about:#}\n"))?;
    Ok(())
}

/// Adds a row with the live documents of a list.
fn add_list(
    snapshot: &Snapshot,
    plan: &Plan,
    term: &PlanTerm,
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
                let units = formula.contribution(term.weight, freq, factors.get(doc));
                docs.values.push(units as f32);
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use warpseek::{Document, Index, Ranking};
    use warpseek_exec::{Context, Planner, Query, Reference};

    use super::*;
    use crate::answers::search_all;

    /// Reads the values of a NumPy file, each of N bytes.
    fn values<const N: usize>(folder: &Path, name: &str) -> Vec<[u8; N]> {
        let bytes = std::fs::read(folder.join(format!("{name}.npy"))).unwrap();
        let head = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        bytes[head..].as_chunks::<N>().0.to_vec()
    }

    /// The product of the matrices has the scores of the reference, as whole numbers below 2^24,
    /// and so its best documents, also in an index with several segments and deleted documents.
    #[test]
    fn the_product_of_the_matrices_has_the_references_hits() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::create(dir.path().join("idx")).unwrap();
        let words = ["apple", "pie", "tart", "cream", "nut"];
        for segment in 0..2 {
            let mut writer = index.writer().unwrap();
            for i in 0..150 {
                let text = |j: usize| words[(i * i + j * j + segment) % (1 + (i + j) % 5)];
                let text: Vec<&str> = (0..1 + i % 7).map(text).collect();
                writer.add(Document::new(format!("{segment}.{i}"), "", text.join(" "))).unwrap();
            }
            writer.delete(format!("{}.3", 1 - segment));
            writer.commit().unwrap();
        }
        let snapshot = index.snapshot().unwrap();
        let manifest = snapshot.manifest();
        for ranking in ["bm25", "cosine"] {
            let ranking =
                Ranking { function: ranking.parse().unwrap(), ..Ranking::suited(manifest) };
            let planner = Planner::new(snapshot.clone(), ranking).unwrap();
            let plan = |text: &&str| {
                let query = Query::for_index(text, manifest).unwrap();
                planner.plan(&query, Mode::Or, 20).unwrap()
            };
            let plans = ["apple pie", "tart tart nut", "cream", "nut apple tart pie", "missing"];
            let plans = in_one_unit(&plans.iter().map(plan).collect::<Vec<_>>()).unwrap();
            let reference = Reference::new(Arc::clone(&snapshot));
            let answers = search_all(&reference, &plans, &Context::new(1)).unwrap();
            let times = Times { whole: Duration::from_secs(1), kernels: None };
            write(dir.path(), &snapshot, &plans, &answers, times).unwrap();
            let whole = |name: &str| values::<4>(dir.path(), name);
            let rows = |name: &str| {
                values::<8>(dir.path(), name)
                    .iter()
                    .map(|n| i64::from_le_bytes(*n) as usize)
                    .collect::<Vec<_>>()
            };
            let columns =
                |name: &str| whole(name).iter().map(|n| u32::from_le_bytes(*n)).collect::<Vec<_>>();
            let reals =
                |name: &str| whole(name).iter().map(|n| f32::from_le_bytes(*n)).collect::<Vec<_>>();
            let (docs, queries) = (rows("docs_rows"), rows("queries_rows"));
            let (docs_columns, docs_values) = (columns("docs_columns"), reals("docs_values"));
            let lists = columns("queries_columns");
            assert!(reals("queries_values").iter().all(|&value| value == 1.0));
            let (hits, scores) = (columns("hits"), reals("scores"));
            for (i, answer) in answers.iter().enumerate() {
                let mut sums = vec![0f32; snapshot.doc_limit() as usize];
                for &list in &lists[queries[i]..queries[i + 1]] {
                    for at in docs[list as usize]..docs[list as usize + 1] {
                        sums[docs_columns[at] as usize] += docs_values[at];
                    }
                }
                assert!(sums.iter().all(|sum| sum.fract() == 0.0 && *sum < 16_777_216.0));
                let mut found: Vec<(u32, u32)> = (0..)
                    .zip(&sums)
                    .filter(|(_, sum)| **sum > 0.0)
                    .map(|(d, s)| (*s as u32, d))
                    .collect();
                found.sort_unstable_by_key(|&(score, doc)| (std::cmp::Reverse(score), doc));
                found.truncate(20);
                let expected: Vec<(u32, u32)> =
                    answer.hits.iter().map(|hit| (hit.score, hit.doc)).collect();
                assert_eq!(found, expected, "query {i}");
                let written = (i * 20..).zip(&expected);
                for (at, (score, doc)) in written {
                    assert_eq!((scores[at] as u32, hits[at]), (*score, *doc));
                }
                assert!(hits[i * 20 + expected.len()..(i + 1) * 20].iter().all(|&n| n == u32::MAX));
            }
        }
    }

    #[test]
    fn only_sums_of_words_are_products() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::create(dir.path().join("idx")).unwrap();
        let mut writer = index.writer().unwrap();
        writer.add(Document::new("a", "", "apple")).unwrap();
        writer.commit().unwrap();
        let snapshot = index.snapshot().unwrap();
        let planner = Planner::new(snapshot.clone(), Ranking::suited(snapshot.manifest())).unwrap();
        let query = Query::for_index("apple", snapshot.manifest()).unwrap();
        let and = planner.plan(&query, Mode::And, 1).unwrap();
        assert!(in_one_unit(&[and]).unwrap_err().message().contains("only OR queries"));
        assert!(in_one_unit(&[]).unwrap().is_empty());
    }
}
