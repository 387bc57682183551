//! Writing sorted sources of lists to a segment's dictionary, postings and positions.

use warpseek_codec::CodecId;
use warpseek_core::saturation::Saturation;

use super::config::Progress;
use super::jobs::Job;
use super::ordered::ordered_map;
use super::sorted::SortedList;
use super::sources::{ListSource, Merge};
use crate::error::{IndexError, Result};
use crate::files::container::{Sealed, SealedWriter};
use crate::files::dictionary::DictionaryWriter;
use crate::files::documents::DocumentTable;
use crate::files::parts::Parts;
use crate::files::positions::{PositionsWriter, encode_positions};
use crate::files::postings::{ListEncoder, MapListEncoder};

/// Encoded lists of some terms.
#[derive(Default)]
struct Encoded {
    /// End of each term in `term_bytes`, its df, and the length of its list in bytes.
    terms: Vec<(usize, u32, u64)>,
    term_bytes: Vec<u8>,
    bytes: Vec<u8>,
    /// End of each term's positions in `positions`; empty if the segment has no positions.
    position_ends: Vec<usize>,
    positions: Vec<u8>,
}

/// The files of dictionary, lists and positions.
pub(crate) struct ListFiles {
    pub(crate) dictionary: SealedWriter,
    pub(crate) postings: SealedWriter,
    /// The file of positions, if any text field has positions.
    pub(crate) positions: Option<SealedWriter>,
    /// A flag for each text field: true if it has positions. Empty if none has.
    pub(crate) positioned: Vec<bool>,
}

/// The files and counts that [`write_lists`] wrote.
pub(crate) struct Written {
    pub(crate) dictionary: Sealed,
    pub(crate) lists: Sealed,
    pub(crate) positions: Option<Sealed>,
    pub(crate) terms: u64,
    pub(crate) postings: u64,
}

/// The contents and coding of lists.
#[derive(Clone, Copy)]
pub(crate) enum Coding<'a> {
    /// Documents with frequencies, which become impacts if there is a saturation.
    Frequencies(CodecId, Option<Saturation>),
    /// Parts of documents with maps of segments.
    Maps(CodecId, &'a Parts),
}

/// Merges the sources, whose documents are ordinals, and writes dictionary, postings and
/// positions. Empty lists are left out with their terms.
pub(crate) fn write_lists<S: ListSource>(
    sources: Vec<S>,
    table: &DocumentTable,
    coding: Coding<'_>,
    threads: usize,
    files: ListFiles,
    progress: &Progress,
) -> Result<Written>
where
    S::Part: Send,
{
    let mut merge = Merge::new(sources)?;
    write_jobs(|| merge.next_job(), table, coding, threads, files, progress)
}

/// Writes dictionary, postings and positions from jobs, which must come in the order of terms.
pub(crate) fn write_jobs<J: Job>(
    mut next_job: impl FnMut() -> Result<Option<J>>,
    table: &DocumentTable,
    coding: Coding<'_>,
    threads: usize,
    files: ListFiles,
    progress: &Progress,
) -> Result<Written> {
    let ListFiles { dictionary, mut postings, positions, positioned } = files;
    let mut dictionary = DictionaryWriter::new(dictionary);
    let mut positions = positions.map(PositionsWriter::new);
    // A separate thread adds terms, so that the one that writes lists need not.
    let (send, terms) = std::sync::mpsc::channel::<Encoded>();
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| {
            terms.into_iter().try_for_each(|encoded| {
                let mut start = 0;
                encoded.terms.iter().try_for_each(|&(end, df, len)| {
                    let term = &encoded.term_bytes[start..end];
                    start = end;
                    dictionary.add(term, df, len)
                })
            })
        });
        let written = ordered_map(
            threads,
            || {
                progress.check()?;
                next_job()
            },
            || Worker {
                encoder: match coding {
                    Coding::Frequencies(codec, quantize) => {
                        let encoder = |lengths| ListEncoder::new(codec, lengths, &table.norms);
                        Encoder::Frequencies(table.fields().map(encoder).collect(), quantize)
                    }
                    Coding::Maps(codec, parts) => Encoder::Maps(MapListEncoder::new(codec, parts)),
                },
                lengths: &table.lengths,
                positions: table.positions(),
                positioned: &positioned,
                lists: Default::default(),
                word_positions: Default::default(),
            },
            Worker::encode,
            |mut encoded| {
                postings.write(&encoded.bytes)?;
                if let Some(positions) = &mut positions {
                    let mut start = 0;
                    for &end in &encoded.position_ends {
                        positions.add(&encoded.positions[start..end])?;
                        start = end;
                    }
                    (encoded.position_ends, encoded.positions) = Default::default();
                }
                progress.add_terms_written(encoded.terms.len() as u64);
                encoded.bytes = Vec::new();
                // Sending fails only if the other thread has failed, whose error takes
                // precedence.
                send.send(encoded).map_err(|_| IndexError::Cancelled)
            },
        );
        drop(send);
        let added = adding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        added.and(written)
    })?;
    let (terms, count) = (dictionary.terms(), dictionary.postings());
    Ok(Written {
        dictionary: dictionary.finish()?,
        lists: postings.finish()?,
        positions: positions.map(PositionsWriter::finish).transpose()?,
        terms,
        postings: count,
    })
}

enum Encoder<'a> {
    /// Encoders of frequencies, one for each text field.
    Frequencies(Vec<ListEncoder<'a>>, Option<Saturation>),
    Maps(MapListEncoder<'a>),
}

struct Worker<'a> {
    encoder: Encoder<'a>,
    lengths: &'a [u32],
    /// Position of each ordinal, if the segment is reordered.
    positions: Option<&'a [u32]>,
    /// A flag for each text field: true if it has positions of words. Empty if none has.
    positioned: &'a [bool],
    lists: (Vec<(u32, u32)>, Vec<u32>, Vec<u32>),
    word_positions: WordPositions,
}

/// The positions of the words of a list.
#[derive(Default)]
struct WordPositions {
    gaps: Vec<u32>,
    /// Postings with the start of their positions, for sorting.
    keyed: Vec<(u32, u32, usize)>,
    sorted: Vec<u32>,
}

impl WordPositions {
    /// Sorts postings by document, and their positions with them. There must be as many positions
    /// as the frequencies require.
    fn sort(&mut self, pairs: &mut [(u32, u32)]) {
        let mut start = 0;
        self.keyed.clear();
        self.keyed.extend(pairs.iter().map(|&(doc, freq)| {
            let keyed = (doc, freq, start);
            start += freq as usize;
            keyed
        }));
        self.keyed.sort_unstable();
        self.sorted.clear();
        for (pair, &(doc, freq, start)) in pairs.iter_mut().zip(&self.keyed) {
            *pair = (doc, freq);
            self.sorted.extend_from_slice(&self.gaps[start..][..freq as usize]);
        }
        std::mem::swap(&mut self.gaps, &mut self.sorted);
    }
}

impl Worker<'_> {
    fn encode<J: Job>(&mut self, job: J) -> Result<Encoded> {
        let mut out = Encoded::default();
        job.for_each_list(&mut |term, load, in_order| {
            let (pairs, docs, freqs) = &mut self.lists;
            docs.clear();
            freqs.clear();
            // With several text fields, a term begins with the number of its field.
            let field = |fields: usize| {
                term.first().filter(|_| fields > 1).map_or(0, |&field| usize::from(field))
            };
            let positioned = self.positioned.get(field(self.positioned.len())) == Some(&true);
            let blocks = in_order.as_ref().and_then(SortedList::blocks);
            match in_order.filter(|_| self.positions.is_none() && !positioned) {
                Some(list) => list.load(docs, freqs),
                None => {
                    let gaps = &mut self.word_positions.gaps;
                    pairs.clear();
                    gaps.clear();
                    load(pairs, positioned.then_some(gaps))?;
                    if let Some(positions) = self.positions {
                        pairs.iter_mut().for_each(|(doc, _)| *doc = positions[*doc as usize]);
                    }
                    // Runs of several workers interleave, and so do the documents of a reordered
                    // segment.
                    match pairs.is_sorted() {
                        true => {}
                        false if positioned => self.word_positions.sort(pairs),
                        false => pairs.sort(),
                    }
                    docs.extend(pairs.iter().map(|p| p.0));
                    freqs.extend(pairs.iter().map(|p| p.1));
                }
            }
            if docs.is_empty() {
                return Ok(());
            }
            if positioned {
                encode_positions(&self.word_positions.gaps, freqs, &mut out.positions);
            }
            if !self.positioned.is_empty() {
                out.position_ends.push(out.positions.len());
            }
            let before = out.bytes.len();
            match &mut self.encoder {
                Encoder::Frequencies(encoders, quantize) => {
                    let field = field(encoders.len());
                    for (freq, &doc) in freqs.iter_mut().zip(&*docs) {
                        let Some(saturation) = quantize else { break };
                        *freq = saturation.level(*freq, self.lengths[doc as usize]);
                    }
                    encoders[field].encode_with(docs, freqs, blocks, &mut out.bytes);
                }
                Encoder::Maps(encoder) => encoder.encode(docs, freqs, &mut out.bytes),
            }
            out.term_bytes.extend_from_slice(term);
            let len = (out.bytes.len() - before) as u64;
            out.terms.push((out.term_bytes.len(), docs.len() as u32, len));
            Ok(())
        })?;
        Ok(out)
    }
}
