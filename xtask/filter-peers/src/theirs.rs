//! tantivy as a library.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use tantivy::collector::TopDocs;
use tantivy::indexer::NoMergePolicy;
use tantivy::query::{BooleanQuery, ConstScoreQuery, Occur, Query, TermQuery};
use tantivy::schema::{
    Field, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions,
};
use tantivy::{Index, ReloadPolicy, Searcher, TantivyDocument, Term};

use crate::{Case, Failure, K, SHARES, admits};

/// A tantivy index with one segment. Each document has a keyword for each filter that admits it.
pub struct Engine {
    searcher: Searcher,
    text: Field,
    filters: Field,
}

impl Engine {
    pub fn open(corpus: &Path, dir: &Path) -> Result<Self, Failure> {
        if !dir.join("meta.json").exists() {
            build(corpus, dir)?;
        }
        let index = Index::open_in_dir(dir)?;
        let (text, filters) = (index.schema().get_field("text")?, index.schema().get_field("filters")?);
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let searcher = reader.searcher();
        match searcher.segment_readers().len() {
            1 => Ok(Engine { searcher, text, filters }),
            n => Err(format!("{}: {n} segments", dir.display()).into()),
        }
    }

    pub fn search(&self, case: &Case<'_>) -> Result<Vec<u64>, Failure> {
        let occur = if case.and { Occur::Must } else { Occur::Should };
        let word = |word: &String| -> (Occur, Box<dyn Query>) {
            let term = Term::from_field_text(self.text, word);
            (occur, Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs)))
        };
        let mut clauses: Vec<_> = case.words.iter().map(word).collect();
        if case.filter + 1 < SHARES.len() {
            let term = Term::from_field_text(self.filters, &SHARES[case.filter].to_string());
            let filter = Box::new(TermQuery::new(term, IndexRecordOption::Basic));
            if !case.and {
                clauses = vec![(Occur::Must, Box::new(BooleanQuery::new(clauses)))];
            }
            clauses.push((Occur::Must, Box::new(ConstScoreQuery::new(filter, 0.0))));
        }
        let query: Box<dyn Query> = match clauses.len() {
            1 => clauses.remove(0).1,
            _ => Box::new(BooleanQuery::new(clauses)),
        };
        let found = self.searcher.search(&query, &TopDocs::with_limit(K).order_by_score())?;
        Ok(found.into_iter().map(|(_, address)| u64::from(address.doc_id)).collect())
    }
}

/// Builds the index. Documents keep their numbers: one thread writes them, and segments are
/// merged in their order.
fn build(corpus: &Path, dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)?;
    let mut schema = Schema::builder();
    let indexing = TextFieldIndexing::default()
        .set_tokenizer("whitespace")
        .set_index_option(IndexRecordOption::WithFreqs);
    let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
    let filters = schema.add_text_field("filters", STRING);
    let index = Index::create_in_dir(dir, schema.build())?;
    let mut writer = index.writer_with_num_threads::<TantivyDocument>(1, 2 << 30)?;
    writer.set_merge_policy(Box::new(NoMergePolicy));
    for (line, number) in BufReader::new(File::open(corpus)?).lines().zip(0..) {
        let value: Value = serde_json::from_str(&line?)?;
        let mut document = TantivyDocument::default();
        document.add_text(text, value["text"].as_str().unwrap_or_default());
        for share in SHARES.iter().filter(|&&share| admits(share, number)) {
            document.add_text(filters, share.to_string());
        }
        writer.add_document(document)?;
    }
    writer.commit()?;
    let segments = index.searchable_segment_ids()?;
    if segments.len() > 1 {
        writer.merge(&segments).wait()?;
    }
    writer.wait_merging_threads()?;
    Ok(())
}
