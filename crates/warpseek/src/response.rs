use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use warpseek_core::{DocId, Hit};
use warpseek_exec::gather::{FacetCounts, SortValue, SortValues};
use warpseek_exec::{Answer, Coverage, Explanation, Plan, Work, explain};
use warpseek_index::Snapshot;
use warpseek_text::{FieldAnalyzer, Snippet, first_words, snippet};

use crate::error::{Error, Result};

/// The answer to a request.
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
    pub(crate) answer: Answer,
    pub(crate) took: Duration,
}

impl Response {
    /// Its hits, best first: score down, then document id up; or in the order of [`Request::sort`](crate::Request::sort). Scores are integers in units of the query; [`Response::score`] has them as numbers.
    pub fn hits(&self) -> &[Hit] {
        &self.answer.hits
    }

    /// How many documents match, if that was asked for or came out anyway.
    pub fn matches(&self) -> Option<u64> {
        self.answer.matches
    }

    /// How many documents of the index match at the least, if they were not counted.
    pub fn least_matches(&self) -> u64 {
        let known = self.answer.matches.unwrap_or_else(|| self.plan.least_matches());
        known.max(self.answer.hits.len() as u64)
    }

    /// Which documents were searched. The response is exact over these.
    pub fn coverage(&self) -> &Coverage {
        &self.answer.coverage
    }

    /// How many live documents were searched, and how many there are.
    pub fn documents_searched(&self) -> (u64, u64) {
        let all = self.snapshot.statistics().documents;
        (self.answer.coverage.documents(&self.snapshot), all)
    }

    /// What it took, if the engine counts that. What a batch asks for several times takes work once.
    pub fn work(&self) -> Option<Work> {
        self.answer.work
    }

    /// How long it took, planning included; in a batch, how long the batch took.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The plan that was answered: terms with their statistics, and the words that no document has.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The snapshot that was searched.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The generation of the index that was searched; each commit has a higher one.
    pub fn generation(&self) -> u64 {
        self.snapshot.generation()
    }

    /// The score of a hit as a number.
    ///
    /// # Panics
    /// As the other methods of a hit, it panics if there is no hit of this rank, counted from 0.
    pub fn score(&self, rank: usize) -> f64 {
        self.plan.real(self.answer.hits[rank].score)
    }

    /// Where a hit is in the order of the request: its value for each key, or its score if there is no key, and the document. [`Request::after`](crate::Request::after) continues from there.
    pub fn sort_values(&self, rank: usize) -> SortValues {
        let doc = Some(self.answer.hits[rank].doc);
        let values = match &self.answer.gathered {
            Some(gathered) => gathered.values[rank].clone(),
            None => vec![SortValue::Score(self.score(rank))],
        };
        SortValues { values, doc }
    }

    /// The counts of the request's facets, in their order, over all matches among the documents that were searched.
    pub fn facets(&self) -> &[FacetCounts] {
        self.answer.gathered.as_ref().map_or(&[], |gathered| &gathered.facets)
    }

    /// The id that the user gave the document.
    pub fn id(&self, rank: usize) -> Result<String> {
        Ok(self.snapshot.external_id(self.answer.hits[rank].doc)?)
    }

    /// The stored document; none if the index keeps ids alone.
    pub fn document(&self, rank: usize) -> Result<Option<Value>> {
        stored(&self.snapshot, self.answer.hits[rank].doc)
    }

    /// How the score came about.
    pub fn explain(&self, rank: usize) -> Result<Explanation> {
        self.explain_document(self.answer.hits[rank].doc)
    }

    /// How the score of any document comes about, a hit or not.
    pub fn explain_document(&self, doc: DocId) -> Result<Explanation> {
        Ok(explain(&self.snapshot, &self.plan, doc)?)
    }

    /// The words of the query that are in no document, as they stand in `text`, which is what was asked for; terms of a query that is no text as they are.
    pub fn unknown_words(&self, text: &str) -> Vec<String> {
        // What the syntax has between words, with blanks of the same length in its place.
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

    /// The analyzer of a text field.
    fn analyzer(&self, field: u8) -> FieldAnalyzer {
        let manifest = self.snapshot.manifest();
        let of_schema = manifest.schema.as_ref().map(|schema| schema.analyzer(field).clone());
        of_schema.unwrap_or_else(|| manifest.analyzer.into())
    }

    /// A part of a text of at most `width` characters that shows the query's words, and where they stand in it. If the index has a schema, the text is taken for one of
    /// its first text field; [`Response::snippets`] has those of all.
    pub fn snippet(&self, text: &str, width: usize) -> Snippet {
        self.snippet_in(0, text, width)
    }

    /// The same for a text field, which must be one of the index: with its analyzer, and the words that the query has for it.
    ///
    /// # Panics
    /// If the index has no such field.
    pub fn snippet_in(&self, field: u8, text: &str, width: usize) -> Snippet {
        let terms = self.plan.terms.iter().filter(|term| term.field == field);
        let terms: Vec<&str> = terms.map(|term| term.term.as_str()).collect();
        snippet(text, &self.analyzer(field), &terms, width)
    }

    /// The text fields of a hit, in the order of the schema, with the part of each that shows the query's words. Fields that the document does not have are left out; there are
    /// none if the index keeps ids alone or has no schema.
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

/// A part of a hit's text field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSnippet {
    /// The name of the field.
    pub field: String,
    /// The part.
    pub snippet: Snippet,
}

/// Appends the strings at a path of a document, each on a line of its own. Dots in a path and in keys mean the same, as they do to readers.
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

/// A stored document; none if the index keeps ids alone.
pub(crate) fn stored(snapshot: &Snapshot, doc: DocId) -> Result<Option<Value>> {
    let Some(json) = snapshot.document(doc)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&json);
    parsed.map(Some).map_err(|e| Error::Document { doc, problem: e.to_string() })
}

/// The hits of many queries as flat arrays, for those who go on with numbers.
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
    /// Where the hits of each query begin, and at the end how many there are in all.
    pub offsets: Vec<usize>,
    /// Documents, by number.
    pub docs: Vec<DocId>,
    /// Their scores, rounded to single precision; [`Response::hits`] has the exact integers.
    pub scores: Vec<f32>,
    /// Queries that failed, and why; they have no hits.
    pub errors: Vec<(usize, Error)>,
    /// Queries that were searched in part because their time was up.
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

    /// The id that the user gave a document. Numbers are those of the snapshot that was searched, and mean nothing in another one.
    pub fn id(&self, doc: DocId) -> Result<String> {
        Ok(self.snapshot.external_id(doc)?)
    }

    /// Where the hits of a query are.
    pub fn range(&self, query: usize) -> Range<usize> {
        self.offsets[query]..self.offsets[query + 1]
    }
}
