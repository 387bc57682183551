//! From sorted sources of lists to a segment's dictionary and postings.

use warpseek_codec::CodecId;
use warpseek_core::saturation::Saturation;

use super::config::Progress;
use super::ordered::ordered_map;
use super::sources::{Job, ListSource, Merge, Part};
use crate::container::SealedWriter;
use crate::dictionary::DictionaryWriter;
use crate::documents::DocumentTable;
use crate::error::Result;
use crate::postings::ListEncoder;

/// Encoded lists of some terms.
struct Encoded {
    terms: Vec<(Vec<u8>, u32, u64)>,
    bytes: Vec<u8>,
}

/// Seals and counts of what [`write_lists`] wrote.
pub(crate) struct Written {
    pub(crate) dictionary_seal: u64,
    pub(crate) postings_seal: u64,
    pub(crate) terms: u64,
    pub(crate) postings: u64,
}

/// Merges the sources, whose documents are ordinals, and writes dictionary and postings; with `quantize`, frequencies become impacts. Lists that come out empty are left out with their term.
pub(crate) fn write_lists<S: ListSource>(
    sources: Vec<S>,
    table: &DocumentTable,
    (codec, quantize): (CodecId, Option<Saturation>),
    threads: usize,
    (dictionary, mut postings): (SealedWriter, SealedWriter),
    progress: &Progress,
) -> Result<Written>
where
    S::Part: Send,
{
    let mut merge = Merge::new(sources)?;
    let mut dictionary = DictionaryWriter::new(dictionary);
    ordered_map(
        threads,
        || {
            progress.check()?;
            merge.next_job()
        },
        || Worker {
            encoder: ListEncoder::new(codec, &table.lengths, &table.norms),
            quantize,
            lengths: &table.lengths,
            positions: table.positions(),
            lists: Default::default(),
        },
        Worker::encode,
        |encoded| {
            postings.write(&encoded.bytes)?;
            progress.add_terms_written(encoded.terms.len() as u64);
            encoded.terms.iter().try_for_each(|(term, df, len)| dictionary.add(term, *df, *len))
        },
    )?;
    let (terms, count) = (dictionary.terms(), dictionary.postings());
    Ok(Written {
        dictionary_seal: dictionary.finish()?,
        postings_seal: postings.finish()?,
        terms,
        postings: count,
    })
}

struct Worker<'a> {
    encoder: ListEncoder<'a>,
    quantize: Option<Saturation>,
    lengths: &'a [u32],
    /// The position of each ordinal, if the segment is reordered.
    positions: Option<&'a [u32]>,
    lists: (Vec<(u32, u32)>, Vec<u32>, Vec<u32>),
}

impl Worker<'_> {
    fn encode<P: Part>(&mut self, job: Job<P>) -> Result<Encoded> {
        let mut out = Encoded { terms: Vec::with_capacity(job.len()), bytes: Vec::new() };
        let (pairs, docs, freqs) = &mut self.lists;
        for (term, parts) in job {
            pairs.clear();
            parts.iter().try_for_each(|part| part.load(pairs))?;
            if pairs.is_empty() {
                continue;
            }
            if let Some(positions) = self.positions {
                pairs.iter_mut().for_each(|(doc, _)| *doc = positions[*doc as usize]);
            }
            // Runs of several workers interleave, and so do the documents of a reordered segment.
            if !pairs.is_sorted() {
                pairs.sort();
            }
            docs.clear();
            freqs.clear();
            docs.extend(pairs.iter().map(|p| p.0));
            freqs.extend(pairs.iter().map(|p| p.1));
            if let Some(saturation) = self.quantize {
                for (freq, &doc) in freqs.iter_mut().zip(&*docs) {
                    *freq = saturation.level(*freq, self.lengths[doc as usize]);
                }
            }
            let before = out.bytes.len();
            self.encoder.encode(docs, freqs, &mut out.bytes);
            out.terms.push((term, docs.len() as u32, (out.bytes.len() - before) as u64));
        }
        Ok(out)
    }
}
