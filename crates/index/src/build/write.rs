//! From sorted sources of lists to a segment's dictionary and postings.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use warpseek_codec::CodecId;

use super::config::Progress;
use super::ordered::ordered_map;
use crate::container::SealedWriter;
use crate::dictionary::DictionaryWriter;
use crate::documents::DocumentTable;
use crate::error::Result;
use crate::postings::ListEncoder;

/// Bytes of lists, or number of terms, that make a job for a worker.
const JOB_BYTES: usize = 256 << 10;
const JOB_TERMS: usize = 8192;

/// Lists in term order.
pub(crate) trait ListSource {
    /// A list, still to be loaded.
    type Part: Part;
    /// Steps to the next term; false at the end. Must be called before the first.
    fn advance(&mut self) -> Result<bool>;
    /// The term stepped to.
    fn term(&self) -> &[u8];
    /// Its list.
    fn part(&self) -> Self::Part;
}

/// A list, or a part of one, that a worker loads.
pub(crate) trait Part: Send {
    /// Roughly its bytes.
    fn weight(&self) -> usize;
    /// Appends its postings, document and frequency, documents ascending.
    fn load(&self, out: &mut Vec<(u32, u32)>) -> Result<()>;
}

/// A source in the heap of a merge: smallest term first, then by number.
struct Head<S: ListSource>(S, usize);

impl<S: ListSource> Head<S> {
    fn key(&self) -> (&[u8], usize) {
        (self.0.term(), self.1)
    }
}

impl<S: ListSource> PartialEq for Head<S> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<S: ListSource> Eq for Head<S> {}

impl<S: ListSource> PartialOrd for Head<S> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<S: ListSource> Ord for Head<S> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

struct Merge<S: ListSource> {
    heap: BinaryHeap<Reverse<Head<S>>>,
}

type Job<P> = Vec<(Vec<u8>, Vec<P>)>;

impl<S: ListSource> Merge<S> {
    fn new(sources: Vec<S>) -> Result<Self> {
        let mut heap = BinaryHeap::new();
        for (i, mut source) in sources.into_iter().enumerate() {
            if source.advance()? {
                heap.push(Reverse(Head(source, i)));
            }
        }
        Ok(Merge { heap })
    }

    /// The next few terms with all their parts.
    fn next_job(&mut self) -> Result<Option<Job<S::Part>>> {
        let (mut job, mut bytes) = (Job::new(), 0);
        while job.len() < JOB_TERMS && bytes < JOB_BYTES {
            let Some(Reverse(head)) = self.heap.peek() else { break };
            let (term, mut parts) = (head.0.term().to_vec(), Vec::new());
            while let Some(mut head) = self.heap.peek_mut() {
                if head.0.0.term() != term {
                    break;
                }
                let part = head.0.0.part();
                bytes += part.weight();
                parts.push(part);
                if !head.0.0.advance()? {
                    PeekMut::pop(head);
                }
            }
            job.push((term, parts));
        }
        Ok(if job.is_empty() { None } else { Some(job) })
    }
}

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

/// Merges the sources and writes dictionary and postings. Lists that come out empty are left out with their term.
pub(crate) fn write_lists<S: ListSource>(
    sources: Vec<S>,
    table: &DocumentTable,
    codec: CodecId,
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
            // Runs of several workers interleave; the sort merges their ascending stretches.
            if !pairs.is_sorted() {
                pairs.sort();
            }
            docs.clear();
            freqs.clear();
            docs.extend(pairs.iter().map(|p| p.0));
            freqs.extend(pairs.iter().map(|p| p.1));
            let before = out.bytes.len();
            self.encoder.encode(docs, freqs, &mut out.bytes);
            out.terms.push((term, docs.len() as u32, (out.bytes.len() - before) as u64));
        }
        Ok(out)
    }
}
