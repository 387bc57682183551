//! `warpseek synth --postings`: builds an index from the statistics of a collection, and a file of
//! queries for it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use warpseek::index::{Lists, ListsConfig};
use warpseek::{Index, Progress};
use warpseek_console::progress::Display;
use warpseek_console::terminal::{count, summary};
use warpseek_console::{Failure, Interrupt};
use warpseek_synth::{PostingsConfig, PostingsGenerator, PostingsQueries, word};

use super::Options;
use crate::outputs::refuse_file;
use crate::report::build::summarise_counts;

pub(super) fn run(
    options: &Options,
    postings: Option<u64>,
    dir: &Path,
) -> Result<ExitCode, Failure> {
    refuse_file(dir)?;
    let path = queries_path(dir);
    if path.exists() && !options.overwrite {
        let path = path.display();
        return Err(Failure::user(format!(
            "{path} already exists; remove it or pass `--overwrite`"
        )));
    }
    let config = config(options, postings);
    config.validate()?;
    let (progress, start) = (Arc::new(Progress::default()), Instant::now());
    Interrupt::listen(Some(progress.clone()))?;
    let display = Display::build(&progress, options.quiet);
    let threads = options.threads.get();
    let lists = SyntheticLists::new(PostingsGenerator::new(config, threads)?);
    let settings = ListsConfig { codec: options.codec, threads };
    let overwrite = options.overwrite;
    let built = Index::build_from_lists(dir, &lists, &settings, overwrite, &progress);
    drop(display);
    let (index, report) = built?;
    summarise_counts(&report, start, options.quiet);

    let log = PostingsQueries::new(&lists.generator, &lists.documents_by_rank(&index)?);
    write(&path, &log).map_err(|e| Failure::broken(format!("{}: {e}", path.display())))?;
    if !options.quiet {
        summary(format!(
            "{} queries of {:.2} terms and {} postings on average: {}",
            count(log.queries.len() as u64),
            log.mean_terms,
            count(log.mean_postings as u64),
            path.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn config(options: &Options, postings: Option<u64>) -> PostingsConfig {
    let mut config = options.preset.config();
    if let Some(documents) = options.docs {
        config = config.with_documents(documents);
    }
    config.seed = options.seed;
    config.postings = postings.unwrap_or(config.postings);
    config.queries = options.queries.unwrap_or(config.queries);
    config
}

/// Returns the path of the queries. They are beside the index, because its directory must have no
/// other files.
fn queries_path(dir: &Path) -> PathBuf {
    let mut path = dir.components().as_path().as_os_str().to_owned();
    path.push(".queries.tsv");
    PathBuf::from(path)
}

fn write(path: &Path, log: &PostingsQueries) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    for (i, query) in log.queries.iter().enumerate() {
        writeln!(out, "q{i}\t{query}")?;
    }
    out.flush()
}

/// The lists of a generator in the order of their words.
struct SyntheticLists {
    generator: PostingsGenerator,
    /// Words and ranks, by word.
    words: Vec<(Vec<u8>, u32)>,
}

impl SyntheticLists {
    fn new(generator: PostingsGenerator) -> Self {
        let spell = |rank| {
            let mut text = Vec::new();
            word(rank, &mut text);
            (text, rank)
        };
        let mut words: Vec<_> = (0..generator.terms()).map(spell).collect();
        words.sort_unstable();
        SyntheticLists { generator, words }
    }

    /// Returns the number of documents that contain each term, by rank.
    fn documents_by_rank(&self, index: &Index) -> Result<Vec<u32>, Failure> {
        let snapshot = index.snapshot()?;
        let mut documents = vec![0; self.words.len()];
        for (word, rank) in &self.words {
            documents[*rank as usize] = snapshot.document_frequency(word)? as u32;
        }
        Ok(documents)
    }
}

impl Lists for SyntheticLists {
    fn documents(&self) -> u32 {
        self.generator.documents()
    }

    fn count(&self) -> u32 {
        self.generator.terms()
    }

    fn term(&self, list: u32) -> &[u8] {
        &self.words[list as usize].0
    }

    fn weight(&self, list: u32) -> usize {
        self.generator.expected(self.words[list as usize].1) as usize
    }

    fn load(&self, list: u32, out: &mut Vec<(u32, u32)>) {
        self.generator.list(self.words[list as usize].1, out);
    }
}
