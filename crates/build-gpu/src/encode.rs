//! Encoding of full blocks of long lists on the device, from the postings that batches left
//! there.
#![allow(unsafe_code)]

use rayon::prelude::*;
use warpseek_core::cosine;
use warpseek_core::limits::BLOCK;
use warpseek_cuda::{Buffer, DeviceError};
use warpseek_index::{BlockChunk, DocumentFacts, EncodedBlocks, FRONT_PAIRS, Front, SortedLists};

use crate::kernels::encode_blocks::{Documents, EncodeBlocks, FrontWords, Lists, Start};
use crate::worker::{DevicePostings, Worker};

/// Number of blocks that are encoded at a time; their bytes are counted in 32 bits.
const PER_CHUNK: usize = 1 << 20;
/// Number of ranks of terms that a thread lays out at a time.
const RANKS: usize = 1 << 14;
/// Number of frequencies whose logarithms the device has; the host finds the bounds of blocks
/// with larger frequencies.
const LOGS: u32 = 4096;

/// The postings of a list in one batch. Addresses are those of the device.
#[derive(Clone, Copy)]
struct Piece {
    docs: u64,
    freqs: u64,
    len: u32,
}

/// The pieces of the long lists of some terms, and the number of full blocks of each term's list.
#[derive(Default)]
struct Layout {
    pieces: Vec<Piece>,
    /// Numbers of full blocks by term, of postings if there are full blocks, and the field.
    terms: Vec<(u32, u32, u32)>,
}

impl Layout {
    fn of(
        lists: &SortedLists,
        ranks: std::ops::Range<usize>,
        postings: &[DevicePostings],
        fields: usize,
    ) -> Layout {
        let mut layout = Layout::default();
        for rank in ranks {
            let count = lists.count(rank);
            if count <= BLOCK {
                layout.terms.push((0, 0, 0));
                continue;
            }
            // With several fields, a term begins with the number of its field.
            let field = lists.term(rank).first().filter(|_| fields > 1);
            let field = field.map_or(0, |&field| u32::from(field));
            layout.terms.push(((count / BLOCK) as u32, count as u32, field));
            layout.pieces.extend(lists.pieces(rank).map(|(batch, range)| {
                let address = |buffer: &Buffer<u32>| buffer.address() + 4 * range.start as u64;
                let DevicePostings { docs, freqs } = &postings[batch];
                Piece { docs: address(docs), freqs: address(freqs), len: range.len() as u32 }
            }));
        }
        layout
    }
}

/// Encodes the full blocks of all lists of more than one block, or returns `None` if there are
/// too many postings. `postings` are those of the lists' batches.
pub(crate) fn encode(
    worker: &Worker,
    lists: &SortedLists,
    postings: &[DevicePostings],
    facts: &DocumentFacts,
    fields: usize,
) -> Result<Option<EncodedBlocks>, DeviceError> {
    let ranks: Vec<usize> = (0..lists.terms()).step_by(RANKS).collect();
    let layout = |&from: &usize| {
        Layout::of(lists, from..(from + RANKS).min(lists.terms()), postings, fields)
    };
    let layouts: Vec<Layout> = ranks.par_iter().map(layout).collect();

    let mut encoded = EncodedBlocks { firsts: vec![0], per_chunk: PER_CHUNK, chunks: Vec::new() };
    let (mut starts, mut docs, mut freqs) = (vec![0], Vec::new(), Vec::new());
    let (mut blocks, mut before, mut all) = (Vec::new(), 0u32, 0u32);
    for layout in layouts {
        for piece in layout.pieces {
            let Some(end) = all.checked_add(piece.len) else { return Ok(None) };
            all = end;
            starts.push(all);
            docs.push(piece.docs);
            freqs.push(piece.freqs);
        }
        for (count, postings, field) in layout.terms {
            let at = |i| before + BLOCK as u32 * i;
            let start = |i| Start { at: at(i), is_first: u32::from(i == 0), field };
            blocks.extend((0..count).map(start));
            encoded.firsts.push(blocks.len() as u32);
            before += postings;
        }
    }
    if blocks.is_empty() {
        return Ok(Some(encoded));
    }

    let (stream, device) = (worker.stream(), worker.stream().device());
    let logs: Vec<f32> = (0..LOGS).map(|freq| cosine::log_tf(freq.max(1))).collect();
    let lengths = device.upload(stream, &facts.lengths)?;
    let norms = match facts.norms.is_empty() {
        // With a schema, weights of cosine are not used.
        true => device.upload(stream, &vec![1.0; facts.lengths.len() / fields])?,
        false => device.upload(stream, &facts.norms)?,
    };
    let logs = device.upload(stream, &logs)?;
    let documents = Documents { lengths: &lengths, fields, norms: &norms, logs: &logs };
    let (starts, docs) = (device.upload(stream, &starts)?, device.upload(stream, &docs)?);
    let freqs = device.upload(stream, &freqs)?;
    let kernels = EncodeBlocks::new(device)?;
    for chunk in blocks.chunks(PER_CHUNK) {
        let blocks = device.upload(stream, chunk)?;
        let lists = Lists { starts: &starts, docs: &docs, freqs: &freqs, blocks: &blocks };
        encoded.chunks.push(encode_chunk(worker, &kernels, &lists, &documents)?);
    }
    Ok(Some(encoded))
}

fn encode_chunk(
    worker: &Worker,
    kernels: &EncodeBlocks,
    lists: &Lists<'_>,
    documents: &Documents<'_>,
) -> Result<BlockChunk, DeviceError> {
    let (stream, device) = (worker.stream(), worker.stream().device());
    let count = lists.blocks.len();
    let sizes: Buffer<u32> = device.buffer(count)?;
    // SAFETY: blocks lie within the pieces, and pieces within the postings of their batch. All of
    // them stay on the device until `encode` returns, and the kernel has ended by then.
    unsafe { kernels.measure(stream, lists, &sizes) }?;
    stream.synchronize()?;
    let mut ends = worker.fetcher.fetch(&sizes)?;
    let mut end = 0;
    for size in &mut ends {
        end += *size;
        *size = end;
    }
    stream.upload(&ends, &sizes)?;
    let bytes: Buffer<u8> = device.buffer(end as usize)?;
    let fronts: Buffer<FrontWords> = device.buffer(count)?;
    // SAFETY: as above. Each block has the measured number of bytes, and documents have lengths
    // and norms.
    unsafe { kernels.encode(stream, lists, &sizes, documents, &bytes, &fronts) }?;
    stream.synchronize()?;
    let bytes = worker.fetcher.fetch(&bytes)?;
    let front = |front: FrontWords| {
        let mut pairs = [[0; 2]; FRONT_PAIRS];
        for (pair, found) in pairs.iter_mut().zip(front[2..].chunks_exact(2)) {
            *pair = [found[0], found[1]];
        }
        Front { count: front[0], cosine: f32::from_bits(front[1]), pairs }
    };
    let fronts = worker.fetcher.fetch(&fronts)?.into_par_iter().map(front).collect();
    Ok(BlockChunk { ends, bytes, fronts })
}
