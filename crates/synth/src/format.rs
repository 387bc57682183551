//! Documents as bytes.

use crate::word::word;

/// Words of a document that serve as its title.
const TITLE_WORDS: usize = 6;

/// Bytes a word takes with its separator, a guess to reserve by.
const WORD_BYTES: usize = 7;

/// How a collection is written. In both formats the bytes of documents, one after another in any
/// order, are a valid collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// One JSON object a line: `{"id":"d0","title":"..","text":".."}`, the title being the first
    /// words of the text.
    Jsonl,
    /// One word a line and an empty line after each document (document W, section 2).
    Words,
}

/// Appends one document to `out`.
pub fn write_document(format: TextFormat, ordinal: u64, ranks: &[u32], out: &mut Vec<u8>) {
    out.reserve(ranks.len() * WORD_BYTES);
    match format {
        TextFormat::Jsonl => {
            // Words are letters only: nothing needs escaping.
            out.extend_from_slice(format!("{{\"id\":\"d{ordinal}\",\"title\":\"").as_bytes());
            write_sentence(&ranks[..ranks.len().min(TITLE_WORDS)], out);
            out.extend_from_slice(b"\",\"text\":\"");
            write_sentence(ranks, out);
            out.extend_from_slice(b"\"}\n");
        }
        TextFormat::Words => {
            for &rank in ranks {
                word(rank, out);
                out.push(b'\n');
            }
            out.push(b'\n');
        }
    }
}

/// Appends words with single spaces between them.
pub(crate) fn write_sentence(ranks: &[u32], out: &mut Vec<u8>) {
    for (position, &rank) in ranks.iter().enumerate() {
        if position > 0 {
            out.push(b' ');
        }
        word(rank, out);
    }
}
