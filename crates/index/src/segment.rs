//! An open, immutable segment.

mod norms;

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use warpseek_codec::CodecId;
use warpseek_text::{GramConfig, Schema};

use crate::error::{IndexError, Result};
use crate::files::attributes::Attributes;
use crate::files::container::{COMPACT, Kind, SealedFile};
use crate::files::damage::{Damage, Watch};
use crate::files::deletes::{Deletes, DocSet};
use crate::files::dictionary::{Dictionary, TermInfo};
use crate::files::documents::Documents;
use crate::files::ids::Ids;
use crate::files::length_table::Lengths;
use crate::files::lengths::FieldLengths;
use crate::files::manifest::{
    FieldCounts, Manifest, SegmentEntry, deletes_name, seal_text, segment_file_name,
};
use crate::files::parts::Parts;
use crate::files::positions::{PositionList, Positions};
use crate::files::postings::{List, ListError, MapList};
use crate::files::store::Store;
use crate::open_options::OpenOptions;

/// A segment of an index.
///
/// Lists and tables refer to a document by its position; ids, store and hits refer to it by its
/// ordinal. The two differ only in a reordered segment. [`Segment::base`] plus the ordinal is the
/// document id in the index.
pub struct Segment {
    base: u32,
    deletes: Option<Deletes>,
    files: Arc<SegmentFiles>,
}

/// The immutable part of a segment, which is shared by segments that differ in their deletions.
struct SegmentFiles {
    number: u64,
    codec: CodecId,
    grams: Option<GramConfig>,
    parts: Parts,
    dictionary: Dictionary,
    postings: SealedFile,
    documents: Documents,
    ids: Ids,
    store: Option<Store>,
    positions: Option<Positions>,
    /// A flag for each text field: true if it has positions.
    positioned: Vec<bool>,
    /// Data of text fields and attributes; `None` without a schema.
    fields: Option<Fields>,
    /// True if lists hold impacts, from which norms cannot be computed.
    has_impacts: bool,
    /// Norms of documents, if they are not stored; computed at first use.
    norms: OnceLock<Vec<[u8; 4]>>,
    /// Lock that is held while norms are computed.
    computing: Mutex<()>,
    /// Record of damage in any of the files.
    watch: Arc<Watch>,
}

/// Data that a segment has because of a schema.
struct Fields {
    /// Ordinal of the first term of each text field that the segment knows, or, if the field has
    /// no terms, of the first term after it.
    firsts: Vec<u32>,
    /// Lengths in all fields except the first, if there are more fields.
    lengths: Option<FieldLengths>,
    /// Lengths in fields that the segment does not know; computed at first use.
    zeros: OnceLock<Vec<u8>>,
    attributes: Option<Attributes>,
}

impl Segment {
    pub(crate) fn open(
        dir: &Path,
        manifest: &Manifest,
        entry: &SegmentEntry,
        base: u32,
        options: &OpenOptions,
    ) -> Result<Self> {
        let sealed = |name: String, kind: Kind| match options.mmap {
            true => SealedFile::open(&dir.join(name), kind),
            false => SealedFile::read(&dir.join(name), kind, u64::MAX),
        };
        let own = |kind| sealed(segment_file_name(entry.number, kind), kind);
        let segment = Self::from_files(manifest, entry, base, own)?;
        let Some(d) = &entry.deletes else { return Ok(segment) };
        let file = sealed(deletes_name(entry.number, d.generation), Kind::Deletes)?;
        let (documents, terms) = (segment.documents().count(), segment.dictionary().terms());
        let deletes = Deletes::read(&file, documents, terms)?;
        if d.seal != seal_text(file.seal())
            || !manifest.allows(file.version())
            || (deletes.docs.len(), deletes.tokens) != (d.documents, d.tokens)
            || segment.count_fields(&deletes.docs)? != d.fields
        {
            return Err(file.corrupt("it is not the file that the manifest names"));
        }
        Ok(segment.with(base, Some(deletes)))
    }

    /// Opens a segment without its deletions. `open` returns its file of a kind, from disk or
    /// from memory. All files must have the same format version, and the seals in `entry`.
    pub fn from_files(
        manifest: &Manifest,
        entry: &SegmentEntry,
        base: u32,
        mut open: impl FnMut(Kind) -> Result<SealedFile>,
    ) -> Result<Self> {
        let (mut version, watch) = (None, Arc::<Watch>::default());
        let mut open = |kind: Kind| -> Result<SealedFile> {
            let file = open(kind)?.watched_by(&watch);
            if entry.files.get(kind.name()) != Some(&seal_text(file.seal())) {
                return Err(file.corrupt("it is not the file that the manifest names"));
            }
            if *version.get_or_insert(file.version()) != file.version()
                || !manifest.allows(file.version())
            {
                return Err(file.corrupt("its format version differs from that of the segment"));
            }
            Ok(file)
        };
        let dictionary = Dictionary::new(open(Kind::Dict)?)?;
        let postings = open(Kind::Post)?;
        let documents = Documents::new(open(Kind::Docs)?)?;
        let ids = Ids::new(open(Kind::Ids)?)?;
        let has_store = entry.files.contains_key(Kind::Store.name());
        let store = has_store.then(|| open(Kind::Store).and_then(Store::new)).transpose()?;
        let lengths = documents.lengths()?;
        let parts = match &manifest.grams {
            None => Parts::of_documents(documents.count()),
            Some(grams) => {
                let words = (0..documents.count() as usize).map(|doc| lengths.get(doc as u32));
                Parts::of_words(grams, words)
                    .ok_or_else(|| documents.file().corrupt("its documents have too many parts"))?
            }
        };
        let fields = match &manifest.schema {
            None => None,
            Some(schema) => {
                let has = |kind: Kind| entry.files.contains_key(kind.name());
                let lengths = has(Kind::Lengths).then(|| open(Kind::Lengths)).transpose()?;
                let attributes = has(Kind::Attributes).then(|| open(Kind::Attributes));
                let attributes = attributes.transpose()?;
                let count = documents.count();
                let attributes = attributes.map(|file| columns(file, count, schema)).transpose()?;
                Some(Fields::new(entry, &dictionary, count, lengths, attributes)?)
            }
        };
        let has_positions = entry.files.contains_key(Kind::Positions.name());
        let positions = has_positions
            .then(|| open(Kind::Positions).and_then(|f| Positions::new(f, dictionary.terms())))
            .transpose()?;
        let files = SegmentFiles {
            number: entry.number,
            codec: manifest.codec,
            grams: manifest.grams,
            parts,
            dictionary,
            postings,
            documents,
            ids,
            store,
            positions,
            positioned: manifest.positioned(),
            fields,
            has_impacts: manifest.impacts.is_some(),
            norms: OnceLock::new(),
            computing: Mutex::new(()),
            watch,
        };
        files.check(entry)?;
        let segment = Segment { base, deletes: None, files: Arc::new(files) };
        let all = || DocSet::full(segment.documents().count());
        if manifest.schema.is_some() && segment.count_fields(&all())? != entry.fields {
            let what = "its lengths do not match the manifest's counts";
            return Err(segment.documents().file().corrupt(what));
        }
        Ok(segment)
    }

    /// Returns the segment at another base and with other deletions; the files are shared.
    ///
    /// # Panics
    /// Panics if a deleted document does not exist in the segment.
    pub fn with(&self, base: u32, deletes: Option<Deletes>) -> Self {
        let last = deletes.as_ref().and_then(|deletes| deletes.docs.iter().last());
        assert!(
            last.is_none_or(|doc| doc < self.documents().count()),
            "deletions of another segment"
        );
        Segment { base, deletes, files: self.files.clone() }
    }

    /// Iterates over the files of the segment, except its deletions.
    pub fn files(&self) -> impl Iterator<Item = (Kind, &SealedFile)> {
        let files = &*self.files;
        let own = [
            (Kind::Dict, files.dictionary.file()),
            (Kind::Post, &files.postings),
            (Kind::Docs, files.documents.file()),
            (Kind::Ids, files.ids.file()),
        ];
        let fields = files.fields.as_ref();
        let lengths = fields.and_then(|fields| fields.lengths.as_ref());
        own.into_iter()
            .chain(files.store.as_ref().map(|store| (Kind::Store, store.file())))
            .chain(lengths.map(|lengths| (Kind::Lengths, lengths.file())))
            .chain(self.attributes().map(|columns| (Kind::Attributes, columns.file())))
            .chain(files.positions.as_ref().map(|positions| (Kind::Positions, positions.file())))
    }

    /// Returns the first damage found in the segment's files since they were opened. Once there
    /// is any, searches of the segment fail.
    pub fn damage(&self) -> Option<&Damage> {
        self.files.watch.damage()
    }

    /// Returns the record of damage in the segment's files.
    pub(crate) fn watch(&self) -> &Watch {
        &self.files.watch
    }

    /// Identifies the segment's files: segments that differ only in their deletions return the
    /// same number.
    pub(crate) fn files_id(&self) -> usize {
        Arc::as_ptr(&self.files) as usize
    }

    /// Forgets which pages were verified if [`VERIFIED_FOR`](crate::VERIFIED_FOR) has passed.
    pub(crate) fn forget_if_due(&self, now: Instant) {
        if self.watch().is_due(now) {
            self.forget_verified();
        }
    }

    /// Forgets which pages were verified: each is verified again at its next read.
    ///
    /// Call it before copying documents to another index, so that damage is not copied with
    /// checksums that hide it.
    pub fn forget_verified(&self) {
        self.files().for_each(|(_, file)| file.forget(0..u64::MAX));
    }

    /// Returns the document id of the segment's first document.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Returns the number of the segment, the stem of its files' names.
    pub fn number(&self) -> u64 {
        self.files.number
    }

    /// Returns the dictionary, which maps terms to lists.
    pub fn dictionary(&self) -> &Dictionary {
        &self.files.dictionary
    }

    /// Returns the lengths, norms and static scores of documents.
    pub fn documents(&self) -> &Documents {
        &self.files.documents
    }

    /// Returns the external ids.
    pub fn ids(&self) -> &Ids {
        &self.files.ids
    }

    /// Returns the stored documents, if the index keeps them.
    pub fn store(&self) -> Option<&Store> {
        self.files.store.as_ref()
    }

    /// Returns the columns of attributes, or `None` if the schema had no attributes when the
    /// segment was written.
    pub fn attributes(&self) -> Option<&Attributes> {
        self.files.fields.as_ref()?.attributes.as_ref()
    }

    /// Returns the number of text fields that the segment knows; 1 without a schema.
    pub fn text_fields(&self) -> usize {
        self.files.fields.as_ref().map_or(1, |fields| fields.firsts.len())
    }

    /// Returns the lengths of all documents in a text field, which are 0 if the segment does not
    /// know the field. Without a schema, 0 is the only field.
    pub fn lengths(&self, field: u8) -> Result<Lengths<'_>> {
        if field == 0 {
            return self.documents().lengths();
        }
        let Some(fields) = &self.files.fields else { return self.documents().lengths() };
        let known = fields.lengths.as_ref().map(|lengths| lengths.get(field)).transpose()?;
        Ok(known.flatten().unwrap_or_else(|| {
            let zeros = || vec![0; self.documents().count() as usize];
            Lengths::U8(fields.zeros.get_or_init(zeros))
        }))
    }

    /// Returns the text field of the term with this ordinal; 0 without a schema.
    pub fn field_of(&self, ordinal: u32) -> u8 {
        let Some(fields) = &self.files.fields else { return 0 };
        fields.firsts.partition_point(|&first| first <= ordinal).saturating_sub(1) as u8
    }

    /// Splits a term of the segment's dictionary into its text field and the term without the
    /// field's number. Without a schema, the field is 0 and the term is unchanged.
    pub fn named<'a>(&self, term: &'a [u8]) -> (u8, &'a [u8]) {
        match (&self.files.fields, term) {
            (Some(_), [field, term @ ..]) => (*field, term),
            _ => (0, term),
        }
    }

    /// Returns the counts of these documents in each text field that the segment knows; empty
    /// without a schema.
    pub(crate) fn count_fields(&self, docs: &DocSet) -> Result<Vec<FieldCounts>> {
        let known = self.files.fields.as_ref().map_or(0, |fields| fields.firsts.len());
        let count = |field: usize| {
            let (lengths, mut counts) = (self.lengths(field as u8)?, FieldCounts::default());
            docs.iter().for_each(|doc| counts.add(lengths.get(doc)));
            Ok(counts)
        };
        (0..known).map(count).collect()
    }

    /// Returns the deletions, if there are any.
    pub fn deletes(&self) -> Option<&Deletes> {
        self.deletes.as_ref()
    }

    /// Returns true if the document at a position is deleted.
    #[inline]
    pub fn is_deleted(&self, position: u32) -> bool {
        self.deletes.as_ref().is_some_and(|d| d.docs.contains(position))
    }

    /// Returns the positions of this segment in a range of positions of the whole index, where a
    /// document has [`Segment::base`] plus its position.
    pub fn part(&self, range: &Range<u32>) -> Range<u32> {
        let position =
            |limit: u32| limit.saturating_sub(self.base).min(self.files.documents.count());
        position(range.start)..position(range.end).max(position(range.start))
    }

    /// Returns the ordinal of the live document with an external id.
    pub(crate) fn find_live(&self, id: &str) -> Result<Option<u32>> {
        for ordinal in self.ids().find(id)?.into_iter().rev() {
            if !self.is_deleted(self.documents().position(ordinal)?) {
                return Ok(Some(ordinal));
            }
        }
        Ok(None)
    }

    /// Returns ordinal and position of all live documents, by ordinal.
    pub(crate) fn live(&self) -> Result<Vec<(u32, u32)>> {
        let mut live = Vec::with_capacity(self.files.documents.count() as usize);
        for ordinal in 0..self.files.documents.count() {
            let position = self.files.documents.position(ordinal)?;
            if !self.is_deleted(position) {
                live.push((ordinal, position));
            }
        }
        Ok(live)
    }

    /// Returns the number of live documents that contain the term.
    pub fn live_df(&self, term: &TermInfo) -> u32 {
        let deleted = self.deletes.as_ref().map_or(0, |d| d.of_term(term.ordinal));
        term.df.saturating_sub(deleted)
    }

    /// Opens the list of a term of this segment's dictionary.
    pub fn list(&self, term: &TermInfo) -> Result<List<'_>> {
        let bytes = self.files.postings.bytes(term.offset, term.len)?;
        self.read_list(term, bytes).map_err(|what| self.bad_list(term, what))
    }

    fn read_list<'a>(&self, term: &TermInfo, bytes: &'a [u8]) -> Result<List<'a>, ListError> {
        let files = &*self.files;
        List::new(bytes, term.df, files.documents.count(), files.codec, files.postings.version())
    }

    /// Opens the positions of a term of this segment's dictionary, or returns `None` if its field
    /// has none.
    pub fn positions(&self, term: &TermInfo) -> Result<Option<PositionList<'_>>> {
        let Some(positions) = &self.files.positions else { return Ok(None) };
        let field = usize::from(self.field_of(term.ordinal));
        match self.files.positioned.get(field) {
            Some(true) => positions.list(term.ordinal, term.df).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the file of positions, if there is one.
    pub(crate) fn positions_file(&self) -> Option<&Positions> {
        self.files.positions.as_ref()
    }

    /// Opens the list of an n-gram.
    pub fn map_list(&self, term: &TermInfo) -> Result<MapList<'_>> {
        let bytes = self.files.postings.bytes(term.offset, term.len)?;
        MapList::new(bytes, term.df, &self.files.parts, self.files.codec)
            .map_err(|what| self.bad_list(term, what))
    }

    /// Returns the configuration of n-grams, if the segment has n-grams.
    pub fn grams(&self) -> Option<&GramConfig> {
        self.files.grams.as_ref()
    }

    /// Returns the parts of the segment's documents, to which lists of n-grams refer.
    pub fn parts(&self) -> &Parts {
        &self.files.parts
    }

    /// Opens the list of a term without checking its blocks for damage: call
    /// [`Segment::check_block`] before reading one. Reading a single block of a long list is thus
    /// cheap, since its other pages need not be read.
    pub(crate) fn list_by_blocks(&self, term: &TermInfo) -> Result<List<'_>> {
        let bytes = self.files.postings.unchecked(term.offset, term.len)?;
        match self.read_list(term, bytes).ok().map(|list| (list.head_len(bytes.len()), list)) {
            Some((Some(head), list)) => {
                self.files.postings.bytes(term.offset, head as u64)?;
                Ok(list)
            }
            // The list is short or malformed. If it is damaged, this call reports where.
            _ => self.list(term),
        }
    }

    /// Checks a block of a list from [`Segment::list_by_blocks`].
    pub(crate) fn check_block(&self, term: &TermInfo, list: &List<'_>, block: usize) -> Result<()> {
        let range = list.block_range(term.len as usize, block);
        let (start, len) = range.map_err(|what| self.bad_list(term, what))?;
        self.files.postings.bytes(term.offset.saturating_add(start as u64), len as u64)?;
        Ok(())
    }

    /// Creates an error about the list of a term.
    pub fn bad_list(&self, term: &TermInfo, what: impl std::fmt::Display) -> IndexError {
        self.files.postings.corrupt(format!("list of term {}: {what}", term.ordinal))
    }

    /// Returns the codec of the lists.
    pub fn codec(&self) -> CodecId {
        self.files.codec
    }

    /// Returns the file of lists.
    pub fn postings_file(&self) -> &SealedFile {
        &self.files.postings
    }
}

impl Fields {
    fn new(
        entry: &SegmentEntry,
        dictionary: &Dictionary,
        documents: u32,
        lengths: Option<SealedFile>,
        attributes: Option<Attributes>,
    ) -> Result<Self> {
        let known = entry.fields.len();
        let firsts: Result<Vec<u32>> =
            (0..known).map(|field| dictionary.rank(&[field as u8])).collect();
        if dictionary.rank(&[known as u8])? != dictionary.terms() {
            return Err(dictionary.file().corrupt("it has terms of fields that do not exist"));
        }
        Ok(Fields {
            firsts: firsts?,
            lengths: lengths
                .map(|file| FieldLengths::new(file, documents, known.saturating_sub(1)))
                .transpose()?,
            zeros: OnceLock::new(),
            attributes,
        })
    }
}

/// Opens a file of columns, which must match the schema.
fn columns(file: SealedFile, documents: u32, schema: &Schema) -> Result<Attributes> {
    let attributes = Attributes::new(file, documents)?;
    for (number, kind) in attributes.columns() {
        let wanted = schema.attributes().get(usize::from(number));
        if wanted.is_none_or(|attribute| attribute.kind != kind) {
            let what = format!("column {number} does not match the schema");
            return Err(attributes.file().corrupt(what));
        }
    }
    Ok(attributes)
}

impl SegmentFiles {
    /// Checks that the files agree with each other and with the manifest.
    fn check(&self, entry: &SegmentEntry) -> Result<()> {
        let docs = u64::from(self.documents.count());
        let tokens = entry.fields.first().map_or(entry.tokens, |field| field.tokens);
        let checks = [
            (docs == entry.documents, self.documents.file(), "documents"),
            (self.documents.tokens() == tokens, self.documents.file(), "tokens"),
            (self.dictionary.postings() == entry.postings, self.dictionary.file(), "postings"),
            (u64::from(self.dictionary.terms()) == entry.terms, self.dictionary.file(), "terms"),
            (self.dictionary.lists_len() == self.postings.body_len(), &self.postings, "bytes"),
            (u64::from(self.ids.count()) == docs, self.ids.file(), "documents"),
        ];
        for (holds, file, what) in checks {
            if !holds {
                return Err(
                    file.corrupt(format!("its number of {what} differs from the segment's"))
                );
            }
        }
        // Impacts do not determine norms, and before the current version all lists of words had
        // norms.
        let bare = self.grams.is_some() || self.fields.is_some();
        let must = !bare && (self.has_impacts || self.documents.file().version() < COMPACT);
        let has = self.documents.has_norms();
        if docs > 0 && ((has && bare) || (must && !has)) {
            let what = "it lacks norms, or has norms that it must not have";
            return Err(self.documents.file().corrupt(what));
        }
        match &self.store {
            Some(store) if u64::from(store.count()) != docs => {
                Err(store.file().corrupt("its number of documents differs from the segment's"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{Lists, ListsConfig, Progress};
    use crate::change::create::create_from_lists;
    use crate::snapshot::Snapshot;

    const DOCS: u32 = 200_000;

    /// A list of all documents, whose frequencies take some bits.
    struct One;

    impl Lists for One {
        fn documents(&self) -> u32 {
            DOCS
        }

        fn count(&self) -> u32 {
            1
        }

        fn term(&self, _: u32) -> &[u8] {
            b"x"
        }

        fn weight(&self, _: u32) -> usize {
            DOCS as usize
        }

        fn load(&self, _: u32, out: &mut Vec<(u32, u32)>) {
            out.extend((0..DOCS).map(|doc| (doc, 1 + doc.wrapping_mul(2_654_435_761) % 4000)));
        }
    }

    #[test]
    fn damage_shows_in_the_blocks_that_have_it_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let config = ListsConfig { threads: 1, ..ListsConfig::default() };
        create_from_lists(dir.path(), &One, &config, true, &Progress::default()).unwrap();
        let path = dir.path().join(segment_file_name(1, Kind::Post));
        let good = std::fs::read(&path).unwrap();
        let open = || {
            let snapshot = Snapshot::open(dir.path()).unwrap();
            let info = snapshot.segments()[0].dictionary().find(b"x").unwrap().unwrap();
            (snapshot, info)
        };
        let sound = |block: usize| {
            let (snapshot, info) = open();
            let segment = &snapshot.segments()[0];
            let list = segment.list_by_blocks(&info)?;
            assert_eq!(list.block_for(block as u32 * 128), block);
            segment.check_block(&info, &list, block)
        };
        let blocks = DOCS as usize / 128;
        assert!((0..=blocks).step_by(100).all(|block| sound(block).is_ok()));
        // The last bytes of the body belong to the last block and lie on a page of their own.
        let (_, info) = open();
        let mut bad = good.clone();
        bad[16 + info.len as usize - 1] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        assert!(sound(0).is_ok() && sound(blocks / 2).is_ok());
        assert!(sound(blocks).is_err());
        // The first bytes are the head of the list, without which no block can be found.
        let mut bad = good.clone();
        bad[16 + 100] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        assert!(sound(0).is_err() && sound(blocks).is_err());
    }
}
