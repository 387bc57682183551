//! Serialization of documents.

use crate::word::word;

/// The number of words of a document that make up its title.
const TITLE_WORDS: usize = 6;

/// The approximate number of bytes of a word with its separator, used to reserve memory.
const WORD_BYTES: usize = 7;

/// The format of a collection. In both formats, the bytes of documents concatenated in any order
/// are a valid collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// A JSON object per line: `{"id":"d0","title":"..","text":".."}`. The title consists of the
    /// first words of the text.
    Jsonl,
    /// A word per line, and an empty line after each document (Wakatsuki 2016, section 2).
    Words,
}

/// Appends one document to `out`.
pub fn write_document(format: TextFormat, ordinal: u64, ranks: &[u32], out: &mut Vec<u8>) {
    out.reserve(ranks.len() * WORD_BYTES);
    match format {
        TextFormat::Jsonl => {
            // Words consist only of letters, so nothing needs escaping.
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

/// Appends words separated by single spaces.
pub(crate) fn write_sentence(ranks: &[u32], out: &mut Vec<u8>) {
    for (position, &rank) in ranks.iter().enumerate() {
        if position > 0 {
            out.push(b' ');
        }
        word(rank, out);
    }
}
