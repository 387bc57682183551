//! The manifest, which names the segments of the index and records its settings
//! (docs/reference/formats/README.md).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpseek_codec::CodecId;
use warpseek_core::limits::MAX_DOCS;
use warpseek_text::{Analyzer, GramConfig, ReaderConfig, Schema, Unknown};

use crate::error::Result;
use crate::files::as_text;
use crate::files::container::{COMPACT, Kind, SealedFile, VERSION};
use crate::files::impacts::Impacts;

const MAX_BYTES: u64 = 64 << 20;

/// Meaning of the frequencies in posting lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// Number of occurrences of a term in a document.
    Text,
    /// Weight of a term from a learned sparse model, as an integer.
    Vector,
    /// Segments of a document that contain an n-gram, as a bitmap of 32 bits.
    Grams,
}

/// Extent of the stored documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreMode {
    /// The id and the document itself.
    #[default]
    All,
    /// Only the id.
    Ids,
}

/// Counts of a text field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldCounts {
    /// Documents with at least one token in the field.
    pub documents: u64,
    /// Number of tokens in the field.
    pub tokens: u64,
}

impl FieldCounts {
    /// Adds a document with this many tokens.
    pub(crate) fn add(&mut self, tokens: u32) {
        self.documents += u64::from(tokens > 0);
        self.tokens += u64::from(tokens);
    }

    /// Returns the counts without `other`, which must be a part of them.
    fn less(self, other: FieldCounts) -> FieldCounts {
        FieldCounts {
            documents: self.documents.saturating_sub(other.documents),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }

    /// Returns true if `documents` documents can have these counts: at least one token for each
    /// counted document, and no more tokens than lengths can express.
    fn is_possible(self, documents: u64) -> bool {
        let most = self.documents.saturating_mul(u64::from(u32::MAX));
        self.documents <= documents && (self.documents..=most).contains(&self.tokens)
    }
}

/// The entry of a file of deletions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletesEntry {
    /// Generation that wrote the file.
    pub generation: u64,
    /// Number of deleted documents.
    pub documents: u64,
    /// Number of tokens of the deleted documents, in all fields.
    pub tokens: u64,
    /// Counts of each text field that the segment knows; empty without a schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldCounts>,
    /// Seal of the file, in hexadecimal.
    pub seal: String,
}

/// The entry of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentEntry {
    /// Number of the segment, the stem of its files' names.
    pub number: u64,
    /// Number of documents, deleted ones included.
    pub documents: u64,
    /// Number of tokens in all fields, those of deleted documents included.
    pub tokens: u64,
    /// Counts of each text field that the segment knows, deleted documents included; empty
    /// without a schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldCounts>,
    /// Number of postings, those of deleted documents included.
    pub postings: u64,
    /// Number of distinct terms.
    pub terms: u64,
    /// Seal of each file, in hexadecimal, by kind.
    pub files: BTreeMap<String, String>,
    /// Deletions, if any.
    pub deletes: Option<DeletesEntry>,
}

impl SegmentEntry {
    /// Returns the number of documents that are not deleted.
    pub fn live_documents(&self) -> u64 {
        self.documents - self.deletes.as_ref().map_or(0, |d| d.documents)
    }

    /// Returns the number of tokens of documents that are not deleted.
    pub fn live_tokens(&self) -> u64 {
        self.tokens - self.deletes.as_ref().map_or(0, |d| d.tokens)
    }

    /// Returns the counts of live documents in a text field, which are 0 if the segment does not
    /// know the field.
    pub fn live_field(&self, field: u8) -> FieldCounts {
        let counts = |fields: &[FieldCounts]| fields.get(usize::from(field)).copied();
        let deleted = self.deletes.as_ref().and_then(|deletes| counts(&deletes.fields));
        counts(&self.fields).unwrap_or_default().less(deleted.unwrap_or_default())
    }

    /// Iterates over the names of the segment's files.
    pub fn file_names(&self) -> impl Iterator<Item = String> + '_ {
        let own = self.files.keys().map(|kind| format!("{:06}.{kind}", self.number));
        own.chain(self.deletes.as_ref().map(|d| deletes_name(self.number, d.generation)))
    }
}

/// The entry of a log. Logs with larger numbers continue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogEntry {
    /// Number of the log, the stem of its file's name. Segments and logs are numbered in a common
    /// sequence.
    pub number: u64,
    /// Sequence number of its first record.
    pub sequence: u64,
}

/// Returns the file name of a log.
pub(crate) fn log_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// Returns the name of a segment's file.
pub(crate) fn segment_file_name(number: u64, kind: Kind) -> String {
    format!("{number:06}.{}", kind.name())
}

/// Returns the name of a segment's file of deletions.
pub(crate) fn deletes_name(number: u64, generation: u64) -> String {
    format!("{number:06}.{generation}.del")
}

/// Formats a seal as in the manifest.
pub(crate) fn seal_text(seal: u64) -> String {
    format!("{seal:016x}")
}

/// The manifest of an index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Number of commits so far, this one included.
    pub generation: u64,
    /// Number of the next segment or log.
    pub next_segment: u64,
    /// Meaning of frequencies.
    pub content: Content,
    /// Integer that represents the weight 1.0; only used for vectors.
    pub vector_scale: u32,
    /// Analyzer that turns text into terms.
    #[serde(with = "as_text")]
    pub analyzer: Analyzer,
    /// Version of the analyzer that produced the terms.
    pub analyzer_version: u32,
    /// Codec of blocks.
    #[serde(with = "as_text")]
    pub codec: CodecId,
    /// Extent of the stored documents.
    pub store: StoreMode,
    /// Parameters of quantized impacts, if lists hold these instead of frequencies. Text only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impacts: Option<Impacts>,
    /// Configuration of n-grams, in an index of n-grams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grams: Option<GramConfig>,
    /// Text fields and attributes, if the index has a schema. Fields may be added at the end;
    /// none is changed or removed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "shared")]
    pub schema: Option<Arc<Schema>>,
    /// True if the positions of words are kept. With a schema it is false, because text fields
    /// have individual settings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub positions: bool,
    /// True if the norms of documents are kept, and bounds of their weights, so that ranking by
    /// cosine is faster. Text and vectors only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub norms: bool,
    /// Field of documents that holds their static scores, if they have any. Every writer takes
    /// scores from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub static_field: Option<String>,
    /// First log whose writes no segment contains, if the index was open for single writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogEntry>,
    /// Segments in document order.
    pub segments: Vec<SegmentEntry>,
}

impl Manifest {
    /// Maximum size of a file that holds a manifest, container included.
    pub(crate) const MAX_FILE: u64 = MAX_BYTES + (1 << 20);

    /// Reads and checks a manifest.
    pub fn read(file: &SealedFile) -> Result<Self> {
        if file.body_len() > MAX_BYTES {
            return Err(file.corrupt("a manifest is at most 64 MiB"));
        }
        let manifest: Manifest =
            serde_json::from_slice(file.all()?).map_err(|e| file.corrupt(e.to_string()))?;
        manifest.check().map_err(|what| file.corrupt(what))?;
        let compact = file.version() >= COMPACT;
        if !manifest.allows(file.version()) || (manifest.norms && !compact) {
            return Err(file.corrupt("its contents do not match its format version"));
        }
        Ok(manifest)
    }

    /// Returns the settings for parsing documents that are written to the index.
    pub(crate) fn writing_config(&self) -> ReaderConfig {
        ReaderConfig {
            vector_scale: self.vector_scale,
            schema: self.schema.clone(),
            static_field: self.static_field.clone(),
            ..ReaderConfig::default()
        }
    }

    /// Returns the settings for parsing stored documents again. Fields that the schema refuses in
    /// new documents are accepted, and static scores, which are not stored, are ignored.
    pub(crate) fn reader_config(&self) -> ReaderConfig {
        let schema = self.schema.as_ref().map(|schema| match schema.unknown() {
            Unknown::Refuse => Arc::new(schema.with_unknown(Unknown::Store)),
            _ => schema.clone(),
        });
        ReaderConfig { vector_scale: self.vector_scale, schema, ..ReaderConfig::default() }
    }

    /// Returns true if a file of the index can have this format version: the current one, or the
    /// earlier one of an index with (2) or without (1) a schema.
    pub(crate) fn allows(&self, version: u32) -> bool {
        version == VERSION || version == if self.schema.is_some() { 2 } else { 1 }
    }

    /// Returns true if the norms of new documents are stored. An index of impacts stores them
    /// too: its lists do not determine norms, which serve to check that a stored document is the
    /// one that was indexed.
    pub(crate) fn keeps_norms(&self) -> bool {
        self.norms || self.impacts.is_some()
    }

    /// Returns, for each text field, whether it has positions. Without a schema there is one
    /// field.
    pub fn positioned(&self) -> Vec<bool> {
        match &self.schema {
            Some(schema) => schema.text().iter().map(|field| field.positions).collect(),
            None => vec![self.positions],
        }
    }

    /// Returns true if any text field has positions.
    pub fn has_positions(&self) -> bool {
        self.positioned().contains(&true)
    }

    /// Returns the body of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Serialising plain structs with text keys cannot fail.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// Returns an upper bound of the entries of a list in a segment: its documents, or their
    /// parts, each of which has at least one word.
    fn most_parts(&self, segment: &SegmentEntry) -> u64 {
        let parts = self.grams.is_some_and(|grams| grams.parts);
        segment.documents.saturating_add(if parts { segment.tokens } else { 0 })
    }

    fn check(&self) -> Result<(), String> {
        if self.analyzer_version != self.analyzer.version() {
            return Err(format!(
                "its terms were made by version {} of analyzer `{}`, this program has version {}; rebuild the index",
                self.analyzer_version,
                self.analyzer,
                self.analyzer.version()
            ));
        }
        if self.vector_scale == 0 {
            return Err("vector scale is zero".into());
        }
        if let Some(impacts) = &self.impacts {
            impacts.check()?;
            if self.content != Content::Text {
                return Err("it has vectors and quantized impacts".into());
            }
            if impacts.documents == 0 && !self.segments.is_empty() {
                return Err("its impacts have no mean length".into());
            }
        }
        if self.grams.is_some() != (self.content == Content::Grams) {
            return Err(
                "it has n-grams without their configuration, or a configuration without n-grams"
                    .into(),
            );
        }
        if let Some(grams) = &self.grams {
            grams.check()?;
        }
        if self.schema.is_some() && (self.content != Content::Text || self.impacts.is_some()) {
            return Err("it has a schema together with vectors, n-grams or impacts".into());
        }
        let plain = self.content == Content::Text && self.impacts.is_none();
        if self.positions && (self.schema.is_some() || !plain) {
            return Err(
                "it has positions together with a schema, vectors, n-grams or impacts".into()
            );
        }
        let weighed = self.schema.is_none() && self.grams.is_none() && self.impacts.is_none();
        if self.norms && !weighed {
            return Err("it has norms together with a schema, n-grams or impacts".into());
        }
        if self.static_field.is_some() && self.grams.is_some() {
            return Err("it has n-grams and a field of static scores".into());
        }
        // The next commit increments both.
        if self.generation == u64::MAX || self.next_segment == u64::MAX {
            return Err("its generation or next segment number is the largest possible".into());
        }
        if self.log.is_some_and(|log| log.number >= self.next_segment) {
            return Err("its log has a number that has not been assigned yet".into());
        }
        let (mut total, mut numbers) = (0u64, std::collections::BTreeSet::new());
        for segment in &self.segments {
            let n = segment.number;
            if n >= self.next_segment || !numbers.insert(n) {
                return Err(format!(
                    "segment number {n} is used twice or has not been assigned yet"
                ));
            }
            let deleted = segment.deletes.as_ref().map_or((0, 0), |d| (d.documents, d.tokens));
            if deleted.0 > segment.documents || deleted.1 > segment.tokens {
                return Err(format!("segment {n} has more deletions than documents"));
            }
            // This check also ensures that sums over all segments cannot overflow.
            let most_tokens = |documents: u64| documents.saturating_mul(u64::from(u32::MAX));
            if segment.terms > u64::from(u32::MAX)
                || segment.tokens > most_tokens(segment.documents)
                || segment.live_tokens() > most_tokens(segment.live_documents())
                || segment.postings > segment.terms.saturating_mul(self.most_parts(segment))
            {
                return Err(format!("segment {n} has impossibly many terms, tokens or postings"));
            }
            if segment.deletes.as_ref().is_some_and(|d| d.generation > self.generation) {
                return Err(format!("segment {n} has deletions of a later generation"));
            }
            self.check_fields(segment)?;
            let mut kinds = 0;
            for kind in Kind::SEGMENT {
                let has = segment.files.contains_key(kind.name());
                if has != self.wants(kind, segment).unwrap_or(has) {
                    return Err(format!(
                        "segment {n} lacks a `{}` file, or has one that it must not have",
                        kind.name()
                    ));
                }
                kinds += usize::from(has);
            }
            if segment.files.len() > kinds {
                return Err(format!("segment {n} has files of unknown kinds"));
            }
            total = total.saturating_add(segment.documents);
        }
        if total > MAX_DOCS {
            return Err(format!("{total} documents are more than an index can hold"));
        }
        Ok(())
    }

    /// Returns true if a segment must have a file of a kind, false if it must not, and `None` if
    /// the file is optional.
    fn wants(&self, kind: Kind, segment: &SegmentEntry) -> Option<bool> {
        match kind {
            Kind::Store => Some(self.store == StoreMode::All),
            Kind::Positions => {
                let fields = self.positioned();
                let known = if self.schema.is_some() { segment.fields.len() } else { 1 };
                Some(fields.iter().take(known).any(|&has| has))
            }
            Kind::Lengths => Some(segment.fields.len() > 1),
            // The schema may have got its first attributes after the segment was written.
            Kind::Attributes => {
                let possible = self.schema.as_ref().is_some_and(|s| !s.attributes().is_empty());
                if possible { None } else { Some(false) }
            }
            _ => Some(true),
        }
    }

    /// Checks the counts of a segment's text fields.
    fn check_fields(&self, segment: &SegmentEntry) -> Result<(), String> {
        let most = self.schema.as_ref().map_or(0, |schema| schema.text().len());
        let known = segment.fields.len();
        let deleted = segment.deletes.as_ref();
        let sum = |fields: &[FieldCounts]| {
            fields.iter().fold(0u64, |sum, field| sum.saturating_add(field.tokens))
        };
        let mut holds = known <= most && (known > 0) == self.schema.is_some();
        if holds && known > 0 {
            holds = sum(&segment.fields) == segment.tokens
                && segment.fields.iter().all(|field| field.is_possible(segment.documents));
        }
        if holds && let Some(deleted) = deleted {
            let mut pairs = segment.fields.iter().zip(&deleted.fields);
            holds = deleted.fields.len() == known
                && (known == 0 || sum(&deleted.fields) == deleted.tokens)
                && deleted.fields.iter().all(|field| field.is_possible(deleted.documents))
                && pairs.all(|(all, gone)| {
                    gone.documents <= all.documents
                        && gone.tokens <= all.tokens
                        && all.less(*gone).is_possible(segment.live_documents())
                });
        }
        let n = segment.number;
        let what = || format!("segment {n} has impossible counts of text fields");
        if holds { Ok(()) } else { Err(what()) }
    }
}

/// Serialization of a schema that many manifests share.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use warpseek_text::Schema;

    pub(super) fn serialize<S: Serializer>(
        schema: &Option<Arc<Schema>>,
        s: S,
    ) -> Result<S::Ok, S::Error> {
        schema.as_deref().serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        d: D,
    ) -> Result<Option<Arc<Schema>>, D::Error> {
        Ok(Option::<Schema>::deserialize(d)?.map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::container::{seal_bytes, seal_bytes_as};

    fn read(manifest: &Manifest) -> Result<Manifest> {
        let bytes = seal_bytes(Kind::Manifest, &manifest.to_bytes());
        Manifest::read(&SealedFile::from_bytes("m", Kind::Manifest, bytes).unwrap())
    }

    const IMPACTS: Impacts = Impacts { k1: 0.9, b: 0.4, tokens: 9, documents: 3 };

    fn sound() -> Manifest {
        let kinds = [Kind::Dict, Kind::Post, Kind::Docs, Kind::Ids];
        let deletes = DeletesEntry {
            generation: 3,
            documents: 2,
            tokens: 5,
            fields: Vec::new(),
            seal: seal_text(7),
        };
        let segment = SegmentEntry {
            number: 1,
            documents: 3,
            tokens: 9,
            fields: Vec::new(),
            postings: 8,
            terms: 4,
            files: kinds.iter().map(|kind| (kind.name().to_owned(), seal_text(7))).collect(),
            deletes: Some(deletes),
        };
        Manifest {
            generation: 3,
            next_segment: 2,
            content: Content::Text,
            vector_scale: 256,
            analyzer: Analyzer::English,
            analyzer_version: Analyzer::English.version(),
            codec: CodecId::BitPack,
            store: StoreMode::Ids,
            impacts: None,
            grams: None,
            schema: None,
            positions: false,
            norms: false,
            static_field: None,
            log: None,
            segments: vec![segment],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(read(&sound()).unwrap(), sound());
        // Parameters keep every bit.
        let impacts = Impacts { k1: 0.1 + 0.2, b: 1.0 / 3.0, tokens: 9, documents: 3 };
        let quantized = Manifest { impacts: Some(impacts), ..sound() };
        assert_eq!(read(&quantized).unwrap(), quantized);
        let live = Manifest { log: Some(LogEntry { number: 1, sequence: 7 }), ..sound() };
        assert_eq!(read(&live).unwrap(), live);
        let with_norms = Manifest { norms: true, ..sound() };
        assert_eq!(read(&with_norms).unwrap(), with_norms);
        let scored = Manifest { static_field: Some("größe \"x\"".into()), ..sound() };
        assert_eq!(read(&scored).unwrap(), scored);
    }

    /// Version 2 is only for schemas, and only the latest version has optional norms.
    #[test]
    fn versions_and_contents_agree() {
        let read = |version: u32, manifest: &Manifest| {
            let bytes = seal_bytes_as(Kind::Manifest, version, &manifest.to_bytes());
            Manifest::read(&SealedFile::from_bytes("m", Kind::Manifest, bytes).unwrap()).is_ok()
        };
        assert_eq!([1, 2, 3].map(|version| read(version, &sound())), [true, false, true]);
        let with_norms = Manifest { norms: true, ..sound() };
        assert_eq!([1, 2, 3].map(|version| read(version, &with_norms)), [false, false, true]);
    }

    /// A manifest from before impacts and logs does not mention them, and a new one without them
    /// does not either.
    #[test]
    fn without_impacts_and_log_nothing_is_written() {
        let text = String::from_utf8(sound().to_bytes()).unwrap();
        let names = ["impacts", "log", "positions", "norms", "static_field"];
        assert!(!names.iter().any(|name| text.contains(name)));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let forgeries: [fn(&mut Manifest); 20] = [
            |m| {
                (m.content, m.grams) = (Content::Grams, Some(GramConfig::default()));
                m.static_field = Some("rank".into());
            },
            // A segment without its file of positions, and a file of positions without the
            // setting.
            |m| m.positions = true,
            |m| drop(m.segments[0].files.insert("pos".into(), seal_text(7))),
            |m| m.log = Some(LogEntry { number: 2, sequence: 1 }),
            |m| m.generation = u64::MAX,
            |m| m.next_segment = u64::MAX,
            |m| m.next_segment = 1,
            |m| m.vector_scale = 0,
            |m| m.segments[0].documents = MAX_DOCS + 1,
            |m| m.segments[0].tokens = u64::MAX,
            |m| m.segments[0].postings = 13,
            |m| m.segments[0].terms = u64::MAX,
            // Tokens without a document that could have them.
            |m| m.segments[0].deletes.as_mut().unwrap().documents = 3,
            |m| m.impacts = Some(Impacts { k1: -1.0, ..IMPACTS }),
            |m| m.impacts = Some(Impacts { b: f64::NAN, ..IMPACTS }),
            |m| m.impacts = Some(Impacts { tokens: u64::MAX, ..IMPACTS }),
            |m| m.impacts = Some(Impacts { tokens: 0, documents: 0, ..IMPACTS }),
            |m| (m.impacts, m.content) = (Some(IMPACTS), Content::Vector),
            |m| (m.impacts, m.norms) = (Some(IMPACTS), true),
            |m| drop(m.segments[0].files.insert("../x".into(), seal_text(7))),
        ];
        for (i, forge) in forgeries.into_iter().enumerate() {
            let mut manifest = sound();
            forge(&mut manifest);
            assert!(read(&manifest).is_err(), "forgery {i}");
        }
    }
}
