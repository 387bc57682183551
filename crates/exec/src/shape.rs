//! The shape of an index's lists by density: the properties of a collection that matter to
//! codecs, skipping and bounds. Two collections of the same shape behave alike in an engine.

use serde::Serialize;
use warpseek_core::limits::BLOCK;
use warpseek_index::{Segment, Snapshot, TermInfo};

use crate::error::ExecError;
use crate::formula::Formula;
use crate::ranking::Ranking;

/// Minimum number of blocks of a list whose block maxima are counted. Shorter lists say little
/// about how far block maxima lie below the list's maximum.
const FEWEST_BLOCKS: usize = 4;

/// Statistics of the lists that contain about the same share of the documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ShapeClass {
    /// Number of lists in the class.
    pub lists: u64,
    /// Number of postings in these lists.
    pub postings: u64,
    /// Mean binary logarithm of gaps. It is at most the logarithm of the mean gap, and the more
    /// documents cluster, the lower it is.
    pub log_gap: f64,
    /// Share of gaps of 1.
    pub adjacent: f64,
    /// Mean number of bits of a document in the codec.
    pub bits_per_doc: f64,
    /// Share of postings with frequency 1.
    pub once: f64,
    /// Mean frequency.
    pub mean_freq: f64,
    /// Mean over blocks of the block's largest score divided by the list's, for lists of several
    /// blocks; 0 if there are none.
    pub block_maximum: f64,
    #[serde(skip)]
    gaps: u64,
    #[serde(skip)]
    blocks: u64,
}

/// Reads every list and classifies it by density: class i has the lists that contain at most one
/// in 4^i documents and more than one in 4^(i+1). Deleted documents count.
pub fn shape(snapshot: &Snapshot, ranking: &Ranking) -> Result<Vec<ShapeClass>, ExecError> {
    ranking.check(snapshot.manifest())?;
    let fields = ranking.of_fields(snapshot, |field| snapshot.field_statistics(field));
    let mut classes: Vec<ShapeClass> = Vec::new();
    for segment in snapshot.segments() {
        let mut terms = segment.dictionary().iter();
        while let Some(info) = terms.next_term()? {
            let class = (segment.documents().count() / info.df).ilog2() as usize / 2;
            if classes.len() <= class {
                classes.resize_with(class + 1, ShapeClass::default);
            }
            let formula = fields[usize::from(segment.field_of(info.ordinal))].formula;
            classes[class].add(segment, &info, formula)?;
        }
    }
    classes.iter_mut().for_each(ShapeClass::divide);
    Ok(classes)
}

impl ShapeClass {
    /// Adds the sums of a list.
    fn add(
        &mut self,
        segment: &Segment,
        info: &TermInfo,
        formula: Formula,
    ) -> Result<(), ExecError> {
        let list = segment.list(info)?;
        let (mut docs, mut freqs, mut last) = ([0; BLOCK], [0; BLOCK], None);
        let mut bytes = list.shared_bytes().0;
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| segment.bad_list(info, what))?;
            bytes += list.block_bytes(block).map_err(|what| segment.bad_list(info, what))?.0;
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                if let Some(last) = last.replace(doc) {
                    self.gaps += 1;
                    self.log_gap += libm::log2(f64::from(doc - last));
                    self.adjacent += f64::from(u8::from(doc - last == 1));
                }
                self.once += f64::from(u8::from(freq == 1));
                self.mean_freq += f64::from(freq);
            }
        }
        self.lists += 1;
        self.postings += u64::from(info.df);
        self.bits_per_doc += 8.0 * bytes as f64;
        if list.blocks() >= FEWEST_BLOCKS {
            let most = list.bounds().map_or(1.0, |bounds| formula.most_value(bounds));
            for bounds in list.block_bounds() {
                let bounds = bounds.map_err(|what| segment.bad_list(info, what))?;
                self.block_maximum += f64::from(formula.most_value(&bounds) / most);
                self.blocks += 1;
            }
        }
        Ok(())
    }

    /// Divides sums to get means.
    fn divide(&mut self) {
        let over = |sum: &mut f64, n: u64| *sum /= n.max(1) as f64;
        over(&mut self.log_gap, self.gaps);
        over(&mut self.adjacent, self.gaps);
        over(&mut self.bits_per_doc, self.postings);
        over(&mut self.once, self.postings);
        over(&mut self.mean_freq, self.postings);
        over(&mut self.block_maximum, self.blocks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpseek_testkit::{Doc, Fixture};

    #[test]
    fn the_shape_of_a_small_index_equals_that_counted_by_hand() {
        // `all` is in each of 8 documents, twice in the first; `pair` is in documents 1 and 5;
        // `one` is in document 2.
        let text = |doc| match doc {
            0 => "all all",
            1 | 5 => "all pair",
            2 => "all one",
            _ => "all",
        };
        let docs: Vec<Doc> = (0..8).map(|doc| Doc::text(doc, text(doc))).collect();
        let snapshot = Fixture::of(&docs).snapshot();
        let classes = shape(&snapshot, &Ranking::default()).unwrap();
        let all = classes[0];
        assert_eq!((all.lists, all.postings, all.log_gap, all.adjacent), (1, 8, 0.0, 1.0));
        assert_eq!((all.once, all.mean_freq, all.block_maximum), (7.0 / 8.0, 9.0 / 8.0, 0.0));
        // One in 4 and one in 8 documents fall into the same class.
        let rest = classes[1];
        assert_eq!((rest.lists, rest.postings, rest.log_gap, rest.adjacent), (2, 3, 2.0, 0.0));
        assert_eq!((rest.once, rest.mean_freq, classes.len()), (1.0, 1.0, 2));
    }

    #[test]
    fn block_maxima_are_below_list_maxima() {
        // One of four blocks has a document with a higher frequency.
        let text = |doc| if doc == 200 { "word word word" } else { "word fill fill" };
        let docs: Vec<Doc> = (0..512).map(|doc| Doc::text(doc, text(doc))).collect();
        let snapshot = Fixture::of(&docs).snapshot();
        let ranking = Ranking::default();
        let formula =
            ranking.of_fields(&snapshot, |field| snapshot.field_statistics(field))[0].formula;
        let value = |freq| f64::from(formula.value(freq, formula.factor(3, 0.0)));
        let classes = shape(&snapshot, &ranking).unwrap();
        // `fill` has frequency 2 in all blocks: they reach the list's maximum.
        let wanted = (1.0 + 3.0 * value(1) / value(3) + 4.0) / 8.0;
        assert!((classes[0].block_maximum - wanted).abs() < 1e-6, "{classes:?}");
    }
}
