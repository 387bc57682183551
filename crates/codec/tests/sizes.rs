//! Compares the sizes that codecs reach for documents and frequencies with random gaps, as (Ding
//! 2009, figure 3) does.
//!
//! `cargo test -p warpseek-codec --test sizes -- --nocapture` prints the table.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use warpseek_codec::varint::Cursor;
use warpseek_codec::{Block, CodecId};

const BLOCK: usize = 128;

/// Bytes per posting for the document and for the frequency.
type Sizes = BTreeMap<&'static str, (f64, f64)>;

/// Generates a list whose gaps and frequencies are geometrically distributed. The mean gap of
/// posting i is `mean_gap(i)`; the mean frequency is 2.
fn list(n: usize, mean_gap: impl Fn(usize) -> f64) -> (Vec<u32>, Vec<u32>) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut geometric = move |mean: f64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = ((state >> 11) + 1) as f64 / (1u64 << 53) as f64;
        1 + (uniform.ln() / (1.0 - 1.0 / mean).ln()) as u32
    };
    let mut last = u32::MAX;
    let docs = (0..n).map(|i| {
        last = last.wrapping_add(geometric(mean_gap(i)));
        last
    });
    let docs = docs.collect();
    (docs, (0..n).map(|_| geometric(2.0)).collect())
}

fn sizes(docs: &[u32], freqs: &[u32]) -> Sizes {
    let per_posting = |bytes: usize| bytes as f64 / docs.len() as f64;
    let size = |id: CodecId| {
        let (codec, mut header) = (id.codec(), Vec::new());
        let list = codec.encode_list(u32::MAX, docs, freqs, &mut header);
        let n = docs.len();
        let state = codec.open(&mut Cursor::new(&header), n, n).unwrap();
        let (mut doc_bytes, mut freq_bytes) = state.bytes();
        let (mut prev, mut bytes) = (u32::MAX, Vec::new());
        for (index, (docs, freqs)) in docs.chunks(BLOCK).zip(freqs.chunks(BLOCK)).enumerate() {
            bytes.clear();
            codec.encode(&list, prev, docs, freqs, &mut bytes);
            prev = docs[docs.len() - 1];
            let (docs, freqs) = (docs.len(), freqs.len());
            let block = Block { bytes: &bytes, list: &state, index, docs, freqs };
            let docs = codec.docs_len(block).unwrap();
            doc_bytes += docs;
            freq_bytes += bytes.len() - docs;
        }
        (id.name(), (per_posting(doc_bytes), per_posting(freq_bytes)))
    };
    CodecId::ALL.into_iter().map(size).collect()
}

#[test]
fn codecs_rank_by_size_as_in_figure_3() {
    type Mean = fn(usize) -> f64;
    let kinds: [(&str, Mean); 4] = [
        ("mean gap 10", |_| 10.0),
        ("mean gap 100", |_| 100.0),
        ("mean gap 3000", |_| 3000.0),
        ("mean gap 20 or 200, alternating every 20,000 postings", |i| {
            [20.0, 200.0][i / 20_000 % 2]
        }),
    ];
    for (kind, mean) in kinds {
        let (docs, freqs) = list(200_000, mean);
        let sizes = sizes(&docs, &freqs);
        println!("{kind}\n  codec    B/doc  B/freq");
        for id in CodecId::ALL {
            let (doc, freq) = sizes[id.name()];
            println!("  {:8} {doc:.3}  {freq:.3}", id.name());
        }
        let even = !kind.contains("alternating");
        for part in [|s: &(f64, f64)| s.0, |s: &(f64, f64)| s.1] {
            let size = |name: &str| part(&sizes[name]);
            assert!(
                sizes.values().all(|s| part(s) >= size("rice")),
                "{kind}: rice is not the smallest"
            );
            assert!(
                !even || size("pfor") < 1.03 * size("pfd"),
                "{kind}: pfor is much larger than pfd"
            );
            assert!(size("pfor0") > size("pfor"), "{kind}: recursion does not pay");
            for (less, more) in [("pfor", "pfor2"), ("pfor2", "pfor3"), ("pfor3", "pfor4")] {
                assert!(size(more) < 1.001 * size(less), "{kind}: {more} is larger than {less}");
            }
            assert!(size("pfd") < size("bitpack"), "{kind}: exceptions do not pay");
        }
    }
}
