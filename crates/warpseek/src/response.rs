//! Responses: the hits of a request with everything that can be shown of them, and hits of many
//! requests as flat arrays.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use warpseek_exec::gather::{FacetCounts, SortValue, SortValues};
use warpseek_exec::{Answer, Plan, Work, explain};
use warpseek_index::Snapshot;
use warpseek_text::{FieldAnalyzer, Snippet, first_words, snippet};

use crate::error::{Error, Result};

pub use warpseek_core::{DocId, Hit, Score};
pub use warpseek_exec::{Coverage, Explanation, FieldExplanation, ScorePart, TermExplanation};

/// The response to a request.
///
/// ```
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("a", "Apples", "An apple a day keeps the doctor away."))?;
/// writer.commit()?;
/// let response = index.searcher()?.search(&Request::new("apple doctor").count(true))?;
/// assert_eq!((response.hits().len(), response.matches()), (1, Some(1)));
/// assert_eq!(response.id(0)?, "a");
/// assert_eq!(response.document(0)?.unwrap()["title"], "Apples");
/// assert_eq!(response.explain(0)?.score, response.hits()[0].score);
/// assert!(response.coverage().is_complete());
/// # Ok::<(), warpseek::Error>(())
/// ```
#[derive(Clone)]
pub struct Response {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) answer: Arc<Answer>,
    pub(crate) took: Duration,
}

impl Response {
    /// Returns the hits, best first: by descending score, then by ascending document id, or in
    /// the order of [`Request::sort`](crate::Request::sort). Scores are integers in units of the
    /// query; [`Response::score`] converts them.
    pub fn hits(&self) -> &[Hit] {
        &self.answer.hits
    }

    /// Returns the number of matching documents, if the request asked for it or the search
    /// determined it anyway.
    pub fn matches(&self) -> Option<u64> {
        self.answer.matches
    }

    /// Returns a lower bound of the number of matching documents. It is the exact number if they
    /// were counted.
    pub fn least_matches(&self) -> u64 {
        let known = self.answer.matches.unwrap_or_else(|| self.plan.least_matches());
        known.max(self.answer.hits.len() as u64)
    }

    /// Returns the set of documents that were searched. The response is exact for these.
    pub fn coverage(&self) -> &Coverage {
        &self.answer.coverage
    }

    /// Returns the number of live documents that were searched, and the number of all live
    /// documents.
    pub fn documents_searched(&self) -> (u64, u64) {
        let all = self.snapshot.statistics().documents;
        (self.answer.coverage.documents(&self.snapshot), all)
    }

    /// Returns the work that the search took, if the engine counts it. In a batch, only the first
    /// of several equal requests takes work.
    pub fn work(&self) -> Option<Work> {
        self.answer.work
    }

    /// Returns the duration of the search, including planning; in a batch, the duration of the
    /// batch.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Returns the plan of the request: its terms with their statistics, and the words that no
    /// document contains.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the snapshot that was searched.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Returns the generation of the index that was searched. Each commit increases it.
    pub fn generation(&self) -> u64 {
        self.snapshot.generation()
    }

    /// Returns the score of the hit at `rank`, which counts from 0.
    ///
    /// # Panics
    /// Panics if there is no hit at this rank, as all methods that take a rank do.
    pub fn score(&self, rank: usize) -> f64 {
        self.plan.real(self.answer.hits[rank].score)
    }

    /// Returns the position of a hit in the order of the request: its value for each sort key, or
    /// its score if there are no keys, and the document.
    /// [`Request::after`](crate::Request::after) continues from there.
    pub fn sort_values(&self, rank: usize) -> SortValues {
        let doc = Some(self.answer.hits[rank].doc);
        let values = match &self.answer.gathered {
            Some(gathered) => gathered.values[rank].clone(),
            None => vec![SortValue::Score(self.score(rank))],
        };
        SortValues { values, doc }
    }

    /// Returns the counts of the request's facets, in the order of the request. They cover all
    /// matches among the documents that were searched.
    pub fn facets(&self) -> &[FacetCounts] {
        self.answer.gathered.as_ref().map_or(&[], |gathered| &gathered.facets)
    }

    /// Returns the external id of a hit.
    pub fn id(&self, rank: usize) -> Result<String> {
        Ok(self.snapshot.external_id(self.answer.hits[rank].doc)?)
    }

    /// Returns the stored document of a hit, or `None` if the index stores only ids.
    pub fn document(&self, rank: usize) -> Result<Option<Value>> {
        stored(&self.snapshot, self.answer.hits[rank].doc)
    }

    /// Explains the score of a hit.
    pub fn explain(&self, rank: usize) -> Result<Explanation> {
        self.explain_document(self.answer.hits[rank].doc)
    }

    /// Explains the score of any document, whether it is a hit or not.
    pub fn explain_document(&self, doc: DocId) -> Result<Explanation> {
        Ok(explain(&self.snapshot, &self.plan, doc)?)
    }

    /// Returns the words of the query that occur in no document, spelt as in `text`, the text of
    /// the query. Words that cannot be found in `text` are returned as terms of the index.
    pub fn unknown_words(&self, text: &str) -> Vec<String> {
        // Operators of the query syntax separate words: replace them with blanks of the same
        // length.
        let signs = |c: char| {
            matches!(
                c,
                ':' | '('
                    | ')'
                    | '"'
                    | '+'
                    | '^'
                    | '~'
                    | '*'
                    | '<'
                    | '>'
                    | '='
                    | '['
                    | ']'
                    | '{'
                    | '}'
            )
        };
        let apart = text.replace(signs, " ");
        let unknown = self.plan.unknown_words();
        let mut fields: HashMap<&str, u8> = HashMap::new();
        for (field, word) in &self.plan.missing {
            fields.entry(word).or_insert(*field);
        }
        let mut typed: HashMap<&str, &str> = HashMap::new();
        let field_of = |term: &str| fields.get(term).copied().unwrap_or(0);
        let mut all: Vec<u8> = unknown.iter().map(|term| field_of(term)).collect();
        all.sort_unstable();
        all.dedup();
        for field in all {
            let terms = unknown.iter().copied().filter(|term| field_of(term) == field);
            let terms: Vec<&str> = terms.collect();
            let analyzer = self.analyzer(field);
            for text in [text, &apart] {
                for (term, word) in terms.iter().zip(first_words(text, &analyzer, &terms)) {
                    if let Some(word) = word {
                        typed.entry(term).or_insert(word);
                    }
                }
            }
        }
        let mut known = HashSet::new();
        let words = unknown.into_iter().map(|term| *typed.get(term).unwrap_or(&term));
        words.filter(|word| known.insert(*word)).map(str::to_owned).collect()
    }

    /// Returns the analyzer of a text field.
    fn analyzer(&self, field: u8) -> FieldAnalyzer {
        let manifest = self.snapshot.manifest();
        let of_schema = manifest.schema.as_ref().map(|schema| schema.analyzer(field).clone());
        of_schema.unwrap_or_else(|| manifest.analyzer.into())
    }

    /// Returns a part of `text` of at most `width` characters that shows words of the query, and
    /// the positions of these words. With a schema, the text is treated as one of the first text
    /// field; [`Response::snippets`] covers all fields.
    pub fn snippet(&self, text: &str, width: usize) -> Snippet {
        self.snippet_in(0, text, width)
    }

    /// Returns a snippet of `text` for a text field of the index, using its analyzer and the
    /// words that the query searches for in it.
    ///
    /// # Panics
    /// Panics if the index has no such field.
    pub fn snippet_in(&self, field: u8, text: &str, width: usize) -> Snippet {
        let terms = self.plan.terms.iter().filter(|term| term.field == field);
        let terms: Vec<&str> = terms.map(|term| term.term.as_str()).collect();
        snippet(text, &self.analyzer(field), &terms, width)
    }

    /// Returns a snippet for each text field of a hit, in the order of the schema. Fields that
    /// the document lacks are omitted. The result is empty if the index stores only ids or has no
    /// schema.
    pub fn snippets(&self, rank: usize, width: usize) -> Result<Vec<FieldSnippet>> {
        let (Some(schema), Some(document)) =
            (&self.snapshot.manifest().schema, self.document(rank)?)
        else {
            return Ok(Vec::new());
        };
        let mut snippets = Vec::new();
        for (field, known) in (0..).zip(schema.text()) {
            let mut text = String::new();
            collect_text(&document, known.source(), &mut text);
            if !text.is_empty() {
                let snippet = self.snippet_in(field, &text, width);
                snippets.push(FieldSnippet { field: known.name.clone(), snippet });
            }
        }
        Ok(snippets)
    }
}

/// A snippet of a text field of a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSnippet {
    /// The name of the field.
    pub field: String,
    /// The snippet.
    pub snippet: Snippet,
}

/// Appends the strings at a path of a document to `out`, one per line. As in readers, a dot in a
/// path may be a level of nesting or a part of a key.
fn collect_text(value: &Value, path: &str, out: &mut String) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let inner = path.strip_prefix(key.as_str()).and_then(|rest| rest.strip_prefix('.'));
                if key == path {
                    collect_text(value, "", out);
                } else if let Some(inner) = inner {
                    collect_text(value, inner, out);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect_text(value, path, out)),
        Value::String(text) if path.is_empty() => {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(text);
        }
        _ => {}
    }
}

/// Returns a stored document, or `None` if the index stores only ids.
pub(crate) fn stored(snapshot: &Snapshot, doc: DocId) -> Result<Option<Value>> {
    let Some(json) = snapshot.document(doc)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&json);
    parsed.map(Some).map_err(|e| Error::Document { doc, problem: e.to_string() })
}

/// The hits of many requests as flat arrays, for numerical code.
///
/// ```
/// use warpseek::{Document, Index, Request};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let index = Index::create(folder.path().join("index"))?;
/// let mut writer = index.writer()?;
/// writer.add(Document::new("a", "", "apple pie"))?;
/// writer.add(Document::new("b", "", "apple"))?;
/// writer.commit()?;
/// let requests = ["apple", "pie", "plum"].map(Request::new);
/// let arrays = index.searcher()?.search_arrays(&requests);
/// assert_eq!(arrays.offsets, [0, 2, 3, 3]);
/// assert_eq!(arrays.docs[arrays.range(1)], [0]);
/// assert_eq!(arrays.id(0)?, "a");
/// assert!(arrays.errors.is_empty());
/// # Ok::<(), warpseek::Error>(())
/// ```
pub struct Arrays {
    snapshot: Arc<Snapshot>,
    /// The position at which the hits of each query begin, followed by the total number of hits.
    pub offsets: Vec<usize>,
    /// The document numbers of the hits.
    pub docs: Vec<DocId>,
    /// The scores of the hits in single precision. [`Response::hits`] has exact integers.
    pub scores: Vec<f32>,
    /// The queries that failed, and their errors. They have no hits.
    pub errors: Vec<(usize, Error)>,
    /// The queries that were searched only in part because their time was up.
    pub partial: Vec<usize>,
}

impl Arrays {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        Arrays {
            snapshot,
            offsets: vec![0],
            docs: Vec::new(),
            scores: Vec::new(),
            errors: Vec::new(),
            partial: Vec::new(),
        }
    }

    /// Returns the external id of a document. Document numbers are valid only within the snapshot
    /// that was searched.
    pub fn id(&self, doc: DocId) -> Result<String> {
        Ok(self.snapshot.external_id(doc)?)
    }

    /// Returns the range of a query's hits in the arrays.
    pub fn range(&self, query: usize) -> Range<usize> {
        self.offsets[query]..self.offsets[query + 1]
    }
}
