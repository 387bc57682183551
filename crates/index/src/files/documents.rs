//! Lengths, norms, static scores and ordinals of documents (docs/reference/formats/documents.md).
//!
//! Lists and tables refer to a document by its position. Ids, the store and hits refer to it by
//! its ordinal, its number in the order of the input. The two differ only in a reordered segment,
//! which has a table of ordinals.

use std::sync::OnceLock;

use warpseek_codec::varint::Cursor;
use warpseek_core::limits::MAX_DOCS;
use warpseek_text::GramConfig;

use crate::error::Result;
use crate::files::bits::{self, Bits};
use crate::files::container::{COMPACT, Sealed, SealedFile, SealedWriter};
use crate::files::deletes::DocSet;
use crate::files::length_table::{self, LengthTable, Lengths, tokens_of};
use crate::files::parts::Parts;

const HEADER: u64 = 24;

/// The document table of a segment that is being built.
#[derive(Clone, Debug, Default)]
pub(crate) struct DocumentTable {
    pub(crate) lengths: Vec<u32>,
    /// Lengths in text fields from 1 on; empty without a schema.
    pub(crate) more: Vec<Vec<u32>>,
    /// Norms of documents; empty unless the index keeps them.
    pub(crate) norms: Vec<f32>,
    pub(crate) statics: Vec<f32>,
    /// Ordinal of each position; empty unless the segment is reordered.
    ordinals: Vec<u32>,
    /// Position of each ordinal; empty unless the segment is reordered.
    positions: Vec<u32>,
}

impl DocumentTable {
    /// Creates a table with lengths in this many text fields besides the first.
    pub(crate) fn with_more(fields: usize) -> Self {
        DocumentTable { more: vec![Vec::new(); fields], ..DocumentTable::default() }
    }

    /// Moves the documents from the order of the input to a new order: document
    /// `ordinals[position]` moves to `position`.
    pub(crate) fn reorder(&mut self, ordinals: Vec<u32>) {
        // Documents that are already in order need no table.
        if ordinals.is_sorted() {
            return;
        }
        for lengths in std::iter::once(&mut self.lengths).chain(&mut self.more) {
            *lengths = ordinals.iter().map(|&o| lengths[o as usize]).collect();
        }
        if !self.norms.is_empty() {
            self.norms = ordinals.iter().map(|&o| self.norms[o as usize]).collect();
        }
        self.statics = ordinals.iter().map(|&o| self.statics[o as usize]).collect();
        self.positions = inverse(ordinals.iter().copied());
        self.ordinals = ordinals;
    }

    /// Returns the position of each ordinal, or `None` if positions equal ordinals.
    pub(crate) fn positions(&self) -> Option<&[u32]> {
        (!self.positions.is_empty()).then_some(&self.positions)
    }

    /// Returns the parts that lists refer to: documents, or parts of documents in an index of
    /// n-grams. Returns `None` if there are too many parts.
    pub(crate) fn parts(&self, grams: Option<&GramConfig>) -> Option<Parts> {
        match grams {
            None => Some(Parts::of_documents(self.lengths.len() as u32)),
            Some(grams) => Parts::of_words(grams, self.lengths.iter().copied()),
        }
    }

    /// Returns the number of tokens in all fields.
    pub(crate) fn tokens(&self) -> u64 {
        self.fields().map(tokens_of).sum()
    }

    /// Iterates over the lengths in each text field. Without a schema there is only one field.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &[u32]> {
        std::iter::once(&self.lengths[..]).chain(self.more.iter().map(Vec::as_slice))
    }

    /// Writes the file.
    pub(crate) fn write(&self, mut file: SealedWriter) -> Result<Sealed> {
        let has_statics = self.statics.iter().any(|&s| s != 0.0);
        let (reordered, bare) = (!self.ordinals.is_empty(), self.norms.len() < self.lengths.len());
        let mut body = Vec::new();
        length_table::write(&mut body, &self.lengths, [has_statics, reordered, bare].map(u8::from));
        body.resize(body.len().next_multiple_of(4), 0);
        file.write(&body)?;
        for norm in self.norms.iter().filter(|_| !bare) {
            file.write(&norm.to_le_bytes())?;
        }
        for score in self.statics.iter().filter(|_| has_statics) {
            file.write(&score.to_le_bytes())?;
        }
        if reordered {
            body.clear();
            let ordinals = self.ordinals.iter().map(|&ordinal| u64::from(ordinal));
            bits::write(&mut body, ordinal_width(self.ordinals.len() as u64), ordinals);
            file.write(&body)?;
        }
        file.finish()
    }
}

/// Returns the number of bits per ordinal if there are this many documents.
pub(crate) fn ordinal_width(documents: u64) -> u8 {
    bits::width_of(documents.saturating_sub(1))
}

/// Returns the inverse of a permutation.
fn inverse(permutation: impl ExactSizeIterator<Item = u32>) -> Vec<u32> {
    let mut inverse = vec![0; permutation.len()];
    permutation.zip(0..).for_each(|(from, to)| inverse[from as usize] = to);
    inverse
}

/// A table with a number for each document.
#[derive(Clone, Copy, Debug)]
pub struct Floats<'a>(pub(crate) &'a [[u8; 4]]);

impl Floats<'_> {
    /// Returns the table as little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    /// Returns the number of the document at a position.
    #[inline]
    pub fn get(&self, doc: u32) -> f32 {
        f32::from_le_bytes(self.0[doc as usize])
    }
}

/// The ordinals of a reordered segment's documents, which are a permutation.
#[derive(Clone, Copy, Debug)]
pub struct Ordinals<'a>(&'a [[u8; 4]]);

impl Ordinals<'_> {
    /// Returns the ordinal of the document at a position.
    #[inline]
    pub fn get(&self, position: u32) -> u32 {
        u32::from_le_bytes(self.0[position as usize])
    }

    /// Iterates over all ordinals by position.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.0.iter().map(|&ordinal| u32::from_le_bytes(ordinal))
    }
}

/// A document table on disk.
pub struct Documents {
    file: SealedFile,
    count: u32,
    tokens: u64,
    lengths: StoredLengths,
    /// Offset of the tables of four bytes per document.
    tables: u64,
    has_statics: bool,
    has_norms: bool,
    ordinals: StoredOrdinals,
    /// Position of each ordinal, computed at first use.
    positions: OnceLock<Vec<u32>>,
}

enum StoredLengths {
    /// Lengths in the file, at this width in bytes.
    Bytes(u8),
    /// Lengths that are packed in the file and unpacked here.
    Packed(LengthTable),
}

enum StoredOrdinals {
    /// No table: ordinals equal positions.
    None,
    /// Ordinals in the file, four bytes each.
    Words,
    /// Ordinals that are packed in the file and unpacked here.
    Packed(Vec<[u8; 4]>),
}

impl Documents {
    /// Opens a table and checks its layout and every page, since engines read it without further
    /// checks.
    pub fn new(file: SealedFile) -> Result<Self> {
        let compact = file.version() >= COMPACT;
        let documents = if compact { Self::packed(file) } else { Self::of_bytes(file) }?;
        documents.check_ordinals()?;
        Ok(documents)
    }

    fn packed(file: SealedFile) -> Result<Self> {
        let mut cursor = Cursor::new(file.all()?);
        let Some(table) = length_table::read(&mut cursor) else {
            return Err(file.corrupt("its lengths are malformed"));
        };
        let [statics, reordered, bare] = table.flags;
        if statics | reordered | bare > 1 {
            return Err(file.corrupt("its header is malformed"));
        }
        let len = file.body_len();
        let count = u64::from(table.count);
        let tables = (len - cursor.rest().len() as u64).next_multiple_of(4);
        let ordinals = tables + 4 * count * u64::from(1 - bare + statics);
        let mut unpacked = StoredOrdinals::None;
        let mut end = Some(ordinals);
        if reordered == 1 {
            let width = ordinal_width(count);
            end = bits::len_of(count, width).map(|len| ordinals + len);
            // A table that reaches beyond the end of the file is refused below.
            let bytes = file.all()?.get(ordinals as usize..).unwrap_or_default();
            if let Some((packed, _)) = Bits::split(bytes, count, width) {
                let ordinal = |position| (packed.get(position) as u32).to_le_bytes();
                unpacked = StoredOrdinals::Packed((0..count).map(ordinal).collect());
            }
        }
        if end != Some(len) {
            return Err(file.corrupt("its size does not match its tables"));
        }
        Ok(Documents {
            file,
            count: table.count,
            tokens: table.tokens,
            lengths: StoredLengths::Packed(table.lengths),
            tables,
            has_statics: statics == 1,
            has_norms: bare == 0,
            ordinals: unpacked,
            positions: OnceLock::new(),
        })
    }

    /// Opens a table of version 1 or 2, where a length has whole bytes and an ordinal four.
    fn of_bytes(file: SealedFile) -> Result<Self> {
        let mut header = Cursor::new(file.all()?);
        let (Some(count), Some(tokens), Some(flags)) = (header.u64(), header.u64(), header.u64())
        else {
            return Err(file.corrupt("it is too short for its header"));
        };
        let [width, statics, reordered, bare, padding @ ..] = flags.to_le_bytes();
        let flags = statics | reordered | bare;
        if !matches!(width, 1 | 2 | 4) || flags > 1 || padding != [0; 4] {
            return Err(file.corrupt("its header is malformed"));
        }
        if count > MAX_DOCS {
            return Err(file.corrupt(format!("{count} documents are too many")));
        }
        let lengths = (HEADER + count * u64::from(width)).next_multiple_of(4);
        if file.body_len() != lengths + 4 * count * u64::from(1 - bare + statics + reordered) {
            return Err(file.corrupt("its size does not match its tables"));
        }
        Ok(Documents {
            file,
            count: count as u32,
            tokens,
            lengths: StoredLengths::Bytes(width),
            tables: lengths,
            has_statics: statics == 1,
            has_norms: bare == 0,
            ordinals: if reordered == 1 { StoredOrdinals::Words } else { StoredOrdinals::None },
            positions: OnceLock::new(),
        })
    }

    /// Checks that each ordinal occurs exactly once, since every hit gets its document id through
    /// this table.
    fn check_ordinals(&self) -> Result<()> {
        let Some(ordinals) = self.ordinals()? else { return Ok(()) };
        let mut seen = DocSet::new(self.count);
        match ordinals.iter().find(|&ordinal| ordinal >= self.count || !seen.insert(ordinal)) {
            None => Ok(()),
            Some(bad) => {
                Err(self.file.corrupt(format!("ordinal {bad} is too large or occurs twice")))
            }
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    /// Returns the number of documents, deleted ones included.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the sum of all lengths in this table.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the lengths of all documents; with a schema, those in the first text field.
    pub fn lengths(&self) -> Result<Lengths<'_>> {
        match &self.lengths {
            StoredLengths::Packed(table) => Ok(table.view()),
            &StoredLengths::Bytes(width) => {
                let bytes = self.file.bytes(HEADER, u64::from(self.count) * u64::from(width))?;
                Ok(Lengths::new(bytes, width))
            }
        }
    }

    /// Returns true if the norms of documents are stored.
    pub fn has_norms(&self) -> bool {
        self.has_norms
    }

    /// Returns the stored norms, or an error if there are [none](Self::has_norms).
    /// [`Segment::norms`](crate::Segment::norms) returns those of any segment of words.
    pub fn norms(&self) -> Result<Floats<'_>> {
        if !self.has_norms {
            return Err(self.file.corrupt("it has no norms"));
        }
        self.table(0).map(Floats)
    }

    /// Returns true if a document has a static score other than 0.
    pub fn has_statics(&self) -> bool {
        self.has_statics
    }

    /// Returns the static scores of all documents, or `None` if all are 0.
    pub fn statics(&self) -> Result<Option<Floats<'_>>> {
        let table = u64::from(self.has_norms);
        self.has_statics.then(|| self.table(table).map(Floats)).transpose()
    }

    /// Returns the ordinals of all documents by position, or `None` unless the segment is
    /// reordered.
    pub fn ordinals(&self) -> Result<Option<Ordinals<'_>>> {
        match &self.ordinals {
            StoredOrdinals::None => Ok(None),
            StoredOrdinals::Packed(ordinals) => Ok(Some(Ordinals(ordinals))),
            StoredOrdinals::Words => {
                let table = u64::from(self.has_norms) + u64::from(self.has_statics);
                self.table(table).map(Ordinals).map(Some)
            }
        }
    }

    /// Returns the position of an ordinal, which must be below [`Documents::count`].
    pub fn position(&self, ordinal: u32) -> Result<u32> {
        if let Some(positions) = self.positions.get() {
            return Ok(positions[ordinal as usize]);
        }
        let Some(ordinals) = self.ordinals()? else { return Ok(ordinal) };
        Ok(self.positions.get_or_init(|| inverse(ordinals.iter()))[ordinal as usize])
    }

    /// Returns the table of this number, which has four bytes per document.
    fn table(&self, number: u64) -> Result<&[[u8; 4]]> {
        let count = u64::from(self.count);
        Ok(self.file.bytes(self.tables + 4 * count * number, 4 * count)?.as_chunks().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::container::{Kind, seal_bytes_as};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reordered_and_read(order in Just((0..300u32).collect::<Vec<_>>()).prop_shuffle(), statics: bool, norms: bool) {
            let mut table = DocumentTable {
                lengths: (0..300).map(|i| i * 3).collect(),
                norms: (0..300).map(|i| i as f32).filter(|_| norms).collect(),
                statics: vec![if statics { 0.5 } else { 0.0 }; 300],
                ..DocumentTable::default()
            };
            table.reorder(order.clone());
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("d");
            table.write(SealedWriter::create(&path, Kind::Docs).unwrap()).unwrap();
            let read = Documents::new(SealedFile::open(&path, Kind::Docs).unwrap()).unwrap();
            prop_assert_eq!(read.ordinals().unwrap().unwrap().iter().collect::<Vec<_>>(), &order[..]);
            prop_assert_eq!(read.statics().unwrap().map(|all| all.get(299)), statics.then_some(0.5));
            prop_assert_eq!(read.has_norms(), norms);
            for (position, &ordinal) in order.iter().enumerate() {
                prop_assert_eq!(read.position(ordinal).unwrap(), position as u32);
                prop_assert_eq!(read.lengths().unwrap().get(position as u32), ordinal * 3);
                if norms {
                    prop_assert_eq!(read.norms().unwrap().get(position as u32), ordinal as f32);
                }
            }
        }
    }

    #[test]
    fn what_is_in_order_has_no_table() {
        let mut table =
            DocumentTable { lengths: vec![1, 2], norms: vec![1.0; 2], ..Default::default() };
        table.statics = vec![0.0; 2];
        table.reorder(vec![0, 1]);
        assert!(table.positions().is_none() && table.ordinals.is_empty());
    }

    fn open(version: u32, body: &[u8]) -> Result<Documents> {
        let bytes = seal_bytes_as(Kind::Docs, version, body);
        Documents::new(SealedFile::from_bytes("d", Kind::Docs, bytes).unwrap())
    }

    #[test]
    fn ordinals_that_are_no_permutation_are_refused() {
        for (ordinals, sound) in
            [([0u32, 1], true), ([1, 0], true), ([1, 1], false), ([0, 2], false)]
        {
            let mut body = [2u64, 2].map(u64::to_le_bytes).concat();
            body.extend([1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
            body.extend([1f32, 1.0].map(f32::to_le_bytes).concat());
            body.extend(ordinals.map(u32::to_le_bytes).concat());
            let read = open(1, &body);
            assert_eq!(read.is_ok(), sound, "{ordinals:?}");
            if let Some(error) = read.err() {
                assert!(error.to_string().contains("ordinal"), "{error}");
            }
        }
        // Packed ordinals of three documents: all combinations of three numbers of two bits.
        for bits in 0..64u8 {
            let mut body = Vec::new();
            length_table::write(&mut body, &[1, 1, 1], [0, 1, 1]);
            body.resize(body.len().next_multiple_of(4), 0);
            body.extend([&[bits][..], &[0; 15]].concat());
            let ordinals = [bits & 3, bits >> 2 & 3, bits >> 4];
            let sound = (0..3).all(|ordinal| ordinals.contains(&ordinal));
            let read = open(3, &body);
            assert_eq!(read.is_ok(), sound, "{ordinals:?}");
            if let Some(error) = read.err() {
                assert!(error.to_string().contains("ordinal"), "{error}");
            }
        }
    }

    /// Flags and sizes must match the tables of lengths, norms, static scores and ordinals.
    #[test]
    fn forged_headers_are_refused() {
        let mut table = DocumentTable {
            lengths: vec![3, 500, 2, 1],
            norms: vec![1.5; 4],
            statics: vec![0.25; 4],
            ..DocumentTable::default()
        };
        table.reorder(vec![1, 3, 0, 2]);
        let file = table.write(SealedWriter::in_memory("d", Kind::Docs).unwrap()).unwrap();
        let file = SealedFile::from_bytes("d", Kind::Docs, file.bytes.unwrap()).unwrap();
        let good = file.all().unwrap().to_vec();
        let read = open(3, &good).unwrap();
        assert!(read.lengths().unwrap().iter().eq([500, 1, 3, 2]));
        assert_eq!(
            (read.norms().unwrap().get(3), read.statics().unwrap().unwrap().get(3)),
            (1.5, 0.25)
        );
        for flag in 17..20 {
            for byte in [0, 1, 2, 0xff] {
                let mut bad = good.clone();
                bad[flag] = byte;
                assert_eq!(open(3, &bad).is_ok(), byte == good[flag], "byte {flag} is {byte}");
            }
        }
        for end in 0..good.len() {
            assert!(open(3, &good[..end]).is_err(), "cut at {end}");
        }
        assert!(open(3, &[&good[..], &[0]].concat()).is_err());
    }
}
