//! Verification of a whole index: every checksum, order, bound and count.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use warpseek_core::cosine;
use warpseek_core::limits::BLOCK;
use warpseek_core::saturation::MAX_LEVEL;
use xxhash_rust::xxh3::xxh3_128;

use crate::build::Progress;
use crate::error::{IndexError, Result};
use crate::files::attributes::Attributes;
use crate::files::container::{Kind, SealedFile};
use crate::files::dictionary::TermInfo;
use crate::files::documents::Floats;
use crate::files::manifest::{deletes_name, segment_file_name};
use crate::files::positions::PositionReader;
use crate::files::postings::{BIN, Bounds};
use crate::segment::Segment;
use crate::snapshot::Snapshot;

/// Maximum number of problems that are listed.
const MOST: usize = 100;

/// A problem found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// A description of the problem.
    pub what: String,
}

/// The extent of a verification, and the problems found.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// Number of files whose checksums were checked.
    pub files: u64,
    /// Size of these files in bytes.
    pub bytes: u64,
    /// Number of live documents.
    pub documents: u64,
    /// Number of lists checked.
    pub lists: u64,
    /// Number of postings checked.
    pub postings: u64,
    /// The first hundred problems.
    pub problems: Vec<Problem>,
    /// Total number of problems. Each damaged page of a file is one.
    pub problems_found: u64,
}

impl Verification {
    fn note(&mut self, error: IndexError) -> Result<()> {
        let (file, what) = match error {
            IndexError::Corrupt { path, what } => (path, what),
            IndexError::Io { path, source } => (path, source.to_string()),
            other => return Err(other),
        };
        let problem = Problem { file, what };
        // The problem that kept the index from being opened is found again when its files are
        // checked individually.
        if self.problems.contains(&problem) {
            return Ok(());
        }
        self.problems_found += 1;
        if self.problems.len() < MOST {
            self.problems.push(problem);
        }
        Ok(())
    }

    /// Checks every page of a file and records damaged ones. Returns true if all pages are
    /// intact.
    fn check_pages(&mut self, file: &SealedFile, progress: &Progress) -> Result<bool> {
        let before = self.problems_found;
        self.files += 1;
        self.bytes += file.file_len();
        for page in 0..file.pages() {
            progress.check()?;
            let result = file.verify_page(page);
            self.check(result)?;
        }
        Ok(self.problems_found == before)
    }

    fn check(&mut self, result: Result<()>) -> Result<()> {
        result.or_else(|error| self.note(error))
    }
}

/// Checks the index in `dir`. The result lists the problems found; an error means that the check
/// itself failed, or that there is no index.
pub fn verify(dir: &Path, progress: &Progress) -> Result<Verification> {
    let mut found = Verification::default();
    let snapshot = match Snapshot::open(dir) {
        Ok(snapshot) => snapshot,
        Err(error @ IndexError::NotAnIndex { .. }) => return Err(error),
        Err(error) => {
            found.note(error)?;
            check_files_alone(dir, &mut found, progress)?;
            return Ok(found);
        }
    };
    found.documents = snapshot.statistics().documents;
    let mut seen = HashMap::new();
    for segment in snapshot.segments() {
        progress.add_terms_total(u64::from(segment.dictionary().terms()));
    }
    for segment in snapshot.segments() {
        let mut sound = true;
        for (_, file) in segment.files() {
            sound &= found.check_pages(file, progress)?;
        }
        if !sound {
            continue;
        }
        let result = check_documents(segment);
        found.check(result)?;
        let result = check_ids(segment, &mut seen);
        found.check(result)?;
        let result = check_store(segment, progress);
        found.check(result)?;
        let result = segment.attributes().map_or(Ok(()), Attributes::verify);
        found.check(result)?;
        let impacts = snapshot.manifest().impacts.is_some();
        let result = check_lists(segment, impacts, &mut found, progress);
        found.check(result)?;
    }
    Ok(found)
}

/// Checks at least that each file is intact, for an index that cannot be opened.
fn check_files_alone(dir: &Path, found: &mut Verification, progress: &Progress) -> Result<()> {
    let Ok(manifest) = crate::directory::read_manifest(dir) else { return Ok(()) };
    for entry in &manifest.segments {
        let own = Kind::SEGMENT.into_iter().filter(|kind| entry.files.contains_key(kind.name()));
        let mut files: Vec<_> =
            own.map(|kind| (segment_file_name(entry.number, kind), kind)).collect();
        if let Some(deletes) = &entry.deletes {
            files.push((deletes_name(entry.number, deletes.generation), Kind::Deletes));
        }
        for (name, kind) in files {
            match SealedFile::open(&dir.join(name), kind) {
                Ok(file) => {
                    found.check_pages(&file, progress)?;
                }
                Err(error) => {
                    found.files += 1;
                    found.note(error)?;
                }
            }
        }
    }
    Ok(())
}

fn check_documents(segment: &Segment) -> Result<()> {
    let documents = segment.documents();
    let (lengths, statics) = (documents.lengths()?, documents.statics()?);
    let norms = norms(segment)?;
    let mut tokens = 0;
    for doc in 0..documents.count() {
        tokens += u64::from(lengths.get(doc));
        let sane = norms.is_none_or(|norms| {
            let norm = norms.get(doc);
            norm.is_finite() && norm >= 0.0 && (norm > 0.0) == (lengths.get(doc) > 0)
        });
        let fixed = statics.map_or(0.0, |s| s.get(doc));
        if !sane || !fixed.is_finite() || fixed < 0.0 {
            let what = format!("length, norm or static score of document {doc} is malformed");
            return Err(documents.file().corrupt(what));
        }
    }
    if tokens != documents.tokens() {
        return Err(documents.file().corrupt("its lengths do not add up to its tokens"));
    }
    Ok(())
}

fn check_ids(segment: &Segment, seen: &mut HashMap<u128, u64>) -> Result<()> {
    let ids = segment.ids();
    ids.verify_order()?;
    for ordinal in 0..ids.count() {
        let id = ids.get(ordinal)?;
        let hash = xxh3_128(id.as_bytes());
        let deleted = segment.is_deleted(segment.documents().position(ordinal)?);
        if !deleted && seen.insert(hash, segment.number()).is_some() {
            return Err(ids.file().corrupt(format!("id `{id}` belongs to two live documents")));
        }
    }
    Ok(())
}

fn check_store(segment: &Segment, progress: &Progress) -> Result<()> {
    let Some(store) = segment.store() else { return Ok(()) };
    for block in 0..store.blocks() {
        progress.check()?;
        store.block(block)?;
    }
    Ok(())
}

fn check_lists(
    segment: &Segment,
    impacts: bool,
    found: &mut Verification,
    progress: &Progress,
) -> Result<()> {
    let dictionary = segment.dictionary();
    let (mut terms, mut last) = (dictionary.iter(), Vec::new());
    let (mut lists, mut postings) = (0, 0);
    let mut checker = ListChecker::new(segment, impacts)?;
    while let Some(info) = terms.next_term()? {
        progress.check()?;
        if lists > 0 && terms.term() <= &last[..] {
            let what = format!("term {} is out of order", info.ordinal);
            return Err(dictionary.file().corrupt(what));
        }
        last.clear();
        last.extend_from_slice(terms.term());
        let (field, word) = segment.named(terms.term());
        if word.is_empty() || usize::from(field) >= segment.text_fields() {
            let what = format!("term {} belongs to no field", info.ordinal);
            return Err(dictionary.file().corrupt(what));
        }
        checker.check(&info, field)?;
        check_positions(segment, &info)?;
        lists += 1;
        postings += u64::from(info.df);
        progress.add_terms_written(1);
    }
    found.lists += lists;
    found.postings += postings;
    if let Some(positions) = segment.positions_file() {
        (0..positions.groups()).try_for_each(|group| positions.verify_group(group))?;
    }
    if postings != dictionary.postings() {
        return Err(dictionary.file().corrupt("its lists do not add up to its postings"));
    }
    checker.finish()
}

/// Checks that every posting has as many positions as its frequency, and that the list has
/// nothing else.
fn check_positions(segment: &Segment, info: &TermInfo) -> Result<()> {
    let Some(positions) = segment.positions(info)? else { return Ok(()) };
    let (list, mut reader) = (segment.list(info)?, PositionReader::new(positions));
    let (mut freqs, mut out) = ([0; BLOCK], Vec::new());
    for block in 0..list.blocks() {
        let n =
            list.decode_freqs(block, &mut freqs).map_err(|what| segment.bad_list(info, what))?;
        out.clear();
        reader.read_block(block, &freqs[..n], &mut out)?;
        for i in 0..n {
            reader.read(block, &freqs[..n], i, &mut out)?;
        }
    }
    Ok(())
}

/// A checker of lists, which also adds up the lengths and norms of documents.
struct ListChecker<'a> {
    segment: &'a Segment,
    /// True if lists hold impacts, from which lengths and norms cannot be checked.
    impacts: bool,
    /// Lengths of documents in each text field, as counted in the lists.
    lengths: Vec<Vec<u64>>,
    squares: Vec<u64>,
}

impl<'a> ListChecker<'a> {
    fn new(segment: &'a Segment, impacts: bool) -> Result<Self> {
        let n = segment.documents().count() as usize;
        let lengths = vec![vec![0; n]; segment.text_fields()];
        Ok(ListChecker { segment, impacts, lengths, squares: vec![0; n] })
    }

    /// Checks the list of a term of a field.
    fn check(&mut self, info: &TermInfo, field: u8) -> Result<()> {
        let segment = self.segment;
        let bad = |what: String| segment.bad_list(info, what);
        if segment.grams().is_some() {
            return self.check_maps(info);
        }
        let list = segment.list(info)?;
        let (lengths, norms) = (segment.lengths(field)?, norms(segment)?);
        let mut block_bounds = list.block_bounds();
        let (mut docs, mut freqs, mut deleted) = ([0; BLOCK], [0; BLOCK], 0);
        for block in 0..list.blocks() {
            let n = list
                .decode_docs(block, &mut docs)
                .and_then(|_| list.decode_freqs(block, &mut freqs))
                .map_err(|what| bad(what.to_string()))?;
            let bounds = block_bounds.next().transpose().map_err(|what| bad(what.to_string()))?;
            // Without norms, a search by cosine computes them, and bounds must permit any of
            // them.
            let open = |b: &Bounds| norms.is_some() || b.cosine() >= 1.0;
            if !bounds.as_ref().is_none_or(open) || !list.bounds().is_none_or(open) {
                return Err(bad(format!("block {block} bounds cosine, but there are no norms")));
            }
            for (&doc, &freq) in docs[..n].iter().zip(&freqs[..n]) {
                let norm = norms.map_or(f32::INFINITY, |norms| norms.get(doc));
                let length = lengths.get(doc);
                let within = bounds.as_ref().is_none_or(|b| b.covers(freq, length, norm))
                    && list.bounds().is_none_or(|b| b.covers(freq, length, norm));
                if !within {
                    return Err(bad(format!("document {doc} exceeds the bounds of block {block}")));
                }
                if self.impacts && freq > MAX_LEVEL {
                    return Err(bad(format!("document {doc} has an impact of more than 8 bits")));
                }
                deleted += u32::from(segment.is_deleted(doc));
                self.lengths[usize::from(field)][doc as usize] += u64::from(freq);
                let squares = &mut self.squares[doc as usize];
                *squares = squares.saturating_add(cosine::square(freq));
            }
        }
        if deleted != segment.deletes().map_or(0, |d| d.of_term(info.ordinal)) {
            return Err(bad(format!(
                "{deleted} of its documents are deleted, which is not what the file of deletions says"
            )));
        }
        Ok(())
    }

    /// Checks that a list of maps decodes and that its documents are in order.
    fn check_maps(&self, info: &TermInfo) -> Result<()> {
        let list = self.segment.map_list(info)?;
        let (mut docs, mut maps, mut count, mut last) = ([0; BIN], [0; BIN], 0, None);
        for block in 0..list.blocks() {
            let n = list
                .decode(block, &mut docs, &mut maps)
                .map_err(|what| self.segment.bad_list(info, what))?;
            if n > 0 && last >= Some(docs[0]) {
                return Err(self.segment.bad_list(info, "its documents are out of order"));
            }
            last = docs[..n].last().copied().or(last);
            count += n as u64;
        }
        if count != u64::from(info.df) {
            let what = format!("it has {count} entries, and the dictionary says {}", info.df);
            return Err(self.segment.bad_list(info, what));
        }
        Ok(())
    }

    /// Checks that lengths and norms match the postings.
    fn finish(self) -> Result<()> {
        if self.impacts || self.segment.grams().is_some() {
            return Ok(());
        }
        let (documents, norms) = (self.segment.documents(), norms(self.segment)?);
        for (field, counted) in (0..).zip(&self.lengths) {
            let lengths = self.segment.lengths(field)?;
            for (doc, &counted) in (0..).zip(counted) {
                let length = u32::try_from(counted).unwrap_or(u32::MAX);
                let squares = self.squares[doc as usize];
                let same = norms.is_none_or(|norms| cosine::norm(squares) == norms.get(doc));
                if length != lengths.get(doc) || !same {
                    let what =
                        format!("length or norm of document {doc} does not match its postings");
                    return Err(documents.file().corrupt(what));
                }
            }
        }
        Ok(())
    }
}

/// Returns the norms of a segment's documents, if they are stored.
fn norms(segment: &Segment) -> Result<Option<Floats<'_>>> {
    let documents = segment.documents();
    documents.has_norms().then(|| documents.norms()).transpose()
}
