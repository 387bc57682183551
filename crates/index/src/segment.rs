//! One immutable segment, opened.

use std::ops::Range;
use std::path::Path;

use warpseek_codec::CodecId;

use crate::container::{Kind, SealedFile};
use crate::deletes::Deletes;
use crate::dictionary::{Dictionary, TermInfo};
use crate::documents::Documents;
use crate::error::{IndexError, Result};
use crate::ids::Ids;
use crate::manifest::{Manifest, SegmentEntry, deletes_name, seal_text, segment_file_name};
use crate::postings::List;
use crate::snapshot::OpenOptions;
use crate::store::Store;

/// A segment. Documents have a place in its lists and tables, and an ordinal by which ids, store and hits know them; the two differ in a
/// reordered segment only. [`Segment::base`] plus the ordinal is the id of a document in the index.
pub struct Segment {
    base: u32,
    number: u64,
    codec: CodecId,
    dictionary: Dictionary,
    postings: SealedFile,
    documents: Documents,
    ids: Ids,
    store: Option<Store>,
    deletes: Option<Deletes>,
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
        let open = |kind: Kind| -> Result<SealedFile> {
            let file = sealed(segment_file_name(entry.number, kind), kind)?;
            if entry.files.get(kind.name()) != Some(&seal_text(file.seal())) {
                return Err(file.corrupt("it is not the file that the manifest names"));
            }
            Ok(file)
        };
        let dictionary = Dictionary::new(open(Kind::Dict)?)?;
        let postings = open(Kind::Post)?;
        let documents = Documents::new(open(Kind::Docs)?)?;
        let ids = Ids::new(open(Kind::Ids)?)?;
        let has_store = entry.files.contains_key(Kind::Store.name());
        let store = has_store.then(|| open(Kind::Store).and_then(Store::new)).transpose()?;
        let deletes = match &entry.deletes {
            None => None,
            Some(d) => {
                let file = sealed(deletes_name(entry.number, d.generation), Kind::Deletes)?;
                let deletes = Deletes::read(&file, documents.count(), dictionary.terms())?;
                if d.seal != seal_text(file.seal())
                    || (deletes.docs.len(), deletes.tokens) != (d.documents, d.tokens)
                {
                    return Err(file.corrupt("it is not the file that the manifest names"));
                }
                Some(deletes)
            }
        };
        let segment = Segment {
            base,
            number: entry.number,
            codec: manifest.codec,
            dictionary,
            postings,
            documents,
            ids,
            store,
            deletes,
        };
        segment.check(entry)?;
        Ok(segment)
    }

    /// Do the files agree with each other and with the manifest?
    fn check(&self, entry: &SegmentEntry) -> Result<()> {
        let docs = u64::from(self.documents.count());
        let checks = [
            (docs == entry.documents, self.documents.file(), "documents"),
            (self.documents.tokens() == entry.tokens, self.documents.file(), "tokens"),
            (self.dictionary.postings() == entry.postings, self.dictionary.file(), "postings"),
            (u64::from(self.dictionary.terms()) == entry.terms, self.dictionary.file(), "terms"),
            (self.dictionary.lists_len() == self.postings.body_len(), &self.postings, "bytes"),
            (u64::from(self.ids.count()) == docs, self.ids.file(), "documents"),
        ];
        for (holds, file, what) in checks {
            if !holds {
                return Err(file.corrupt(format!("its number of {what} is not the segment's")));
            }
        }
        match &self.store {
            Some(store) if u64::from(store.count()) != docs => {
                Err(store.file().corrupt("its number of documents is not the segment's"))
            }
            _ => Ok(()),
        }
    }

    /// Id of its first document in the index.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Its number, the stem of its files' names.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Terms to lists.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Lengths, norms, static scores.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// External ids.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The documents, if the index keeps them.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Deletions, if any.
    pub fn deletes(&self) -> Option<&Deletes> {
        self.deletes.as_ref()
    }

    /// Whether the document at a place is deleted.
    #[inline]
    pub fn is_deleted(&self, place: u32) -> bool {
        self.deletes.as_ref().is_some_and(|d| d.docs.contains(place))
    }

    /// The places that lie in a part of the index, whose places are counted through all segments: [`Segment::base`] plus place.
    pub fn part(&self, of: &Range<u32>) -> Range<u32> {
        let place = |limit: u32| limit.saturating_sub(self.base).min(self.documents.count());
        place(of.start)..place(of.end).max(place(of.start))
    }

    /// The places of all live documents, by ordinal, with it.
    pub(crate) fn live(&self) -> Result<Vec<(u32, u32)>> {
        let mut live = Vec::with_capacity(self.documents.count() as usize);
        for ordinal in 0..self.documents.count() {
            let place = self.documents.place(ordinal)?;
            if !self.is_deleted(place) {
                live.push((ordinal, place));
            }
        }
        Ok(live)
    }

    /// Live documents that have the term.
    pub fn live_df(&self, term: &TermInfo) -> u32 {
        let deleted = self.deletes.as_ref().map_or(0, |d| d.of_term(term.ordinal));
        term.df.saturating_sub(deleted)
    }

    /// The list of a term of this segment's dictionary.
    pub fn list(&self, term: &TermInfo) -> Result<List<'_>> {
        let bytes = self.postings.bytes(term.offset, term.len)?;
        List::new(bytes, term.df, self.documents.count(), self.codec)
            .map_err(|what| self.bad_list(term, what))
    }

    /// An error about a term's list.
    pub fn bad_list(&self, term: &TermInfo, what: impl std::fmt::Display) -> IndexError {
        self.postings.corrupt(format!("list of term {}: {what}", term.ordinal))
    }

    /// The file of lists.
    pub fn postings_file(&self) -> &SealedFile {
        &self.postings
    }
}
