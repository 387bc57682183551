//! Conversion of the occurrences of terms to lists.

use warpseek_index::{ListBatch, SortedLists};

use crate::terms::Terms;

/// The postings of consecutive documents, in the order of documents.
#[derive(Default)]
pub(crate) struct Postings {
    pub(crate) terms: Vec<u32>,
    pub(crate) docs: Vec<u32>,
    pub(crate) freqs: Vec<u32>,
    /// Positions, as many for each posting as its frequency says; empty if there are none.
    pub(crate) positions: Vec<u32>,
}

impl Postings {
    /// Returns the postings as a batch of lists, sorted by term number.
    pub(crate) fn batch(&self) -> ListBatch {
        let term = |i: &u32| self.terms[*i as usize];
        let mut order: Vec<u32> = (0..self.terms.len() as u32).collect();
        order.sort_by_key(term);
        let mut start = 0;
        let of_posting = |&freq: &u32| (start, start += freq as usize).0;
        let starts: Vec<usize> = match self.positions.is_empty() {
            true => Vec::new(),
            false => self.freqs.iter().map(of_posting).collect(),
        };
        let mut batch = ListBatch { starts: vec![0], ..ListBatch::default() };
        for list in order.chunk_by(|a, b| term(a) == term(b)) {
            batch.terms.push(term(&list[0]));
            batch.docs.extend(list.iter().map(|&i| self.docs[i as usize]));
            batch.freqs.extend(list.iter().map(|&i| self.freqs[i as usize]));
            batch.starts.push(batch.docs.len() as u32);
            for &i in list.iter().filter(|_| !starts.is_empty()) {
                let (start, freq) = (starts[i as usize], self.freqs[i as usize] as usize);
                batch.positions.extend_from_slice(&self.positions[start..start + freq]);
            }
        }
        batch
    }
}

/// Sorts the lists of some batches by term.
pub(crate) fn sorted(terms: &Terms, batches: Vec<ListBatch>) -> SortedLists {
    use rayon::slice::ParallelSliceMut;
    let mut order: Vec<u32> = (0..terms.len() as u32).collect();
    order.par_sort_unstable_by(|&a, &b| terms.get(a).cmp(terms.get(b)));
    SortedLists::new(&order, |number| terms.get(number), batches)
}
