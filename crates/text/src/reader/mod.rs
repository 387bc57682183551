//! Readers of document collections, one file per format.
//!
//! [`Reader`] goes through the inputs and cuts them into records; the file of the format
//! (`jsonl`, `tsv`, `csv`, `parquet`, `trec`, `tree`, `words`) knows how. Each format has the
//! same two functions: `cut` appends the bytes of the next record to the batch and returns
//! whether there was one, and `parse` turns these bytes into a document. If records are lines,
//! many are cut at once (`chunk`, `lines`), and large files are read ahead (`read_ahead`). Cutting
//! only finds the ends of records, so that one thread can supply many that parse.
//!
//! `parse` chooses the parser of a record. The rows of tables become lines of JSON, by the names of
//! their columns (`columns`), and fields with unusual names are renamed (`names`). With a schema,
//! the values of JSON lines go to its fields (`with_schema`). Documents that a program passes in
//! are written as JSON (`memory`) and then treated like lines of JSONL.

mod batch;
mod chunk;
mod columns;
mod config;
mod csv;
mod field_names;
mod file_query;
mod format;
mod header;
mod input;
mod jsonl;
mod known;
mod line;
mod lines;
mod memory;
mod names;
mod pairs;
mod parquet;
mod parse;
mod queries;
mod read_ahead;
#[cfg(test)]
mod read_ahead_tests;
mod selection;
#[cfg(test)]
mod selection_tests;
mod signature;
mod source;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod topics;
mod trec;
mod tree;
mod tsv;
mod values;
mod with_schema;
#[cfg(test)]
mod with_schema_tests;
mod words;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::batch::RawBatch;
use self::chunk::Limits;
use self::columns::Columns;
pub use self::config::{ReaderConfig, check_static_field};
pub use self::field_names::FieldNames;
pub use self::file_query::FileQuery;
pub use self::format::Format;
use self::input::Input;
pub use self::queries::QueryReader;
pub use self::selection::Selection;
use self::selection::SelectionProgress;
use self::source::Source;
pub use self::topics::TopicPart;
use crate::{OwnedDocument, STATIC_FIELD, Schema, TextError};

/// A reader of a sequence of inputs, or of documents that a program creates.
///
/// Hidden files and links below a directory are not read. Compression (gzip, zstd) is recognised by
/// content, and a UTF-8 byte order mark is skipped.
pub struct Reader {
    config: Arc<ReaderConfig>,
    sources: std::vec::IntoIter<Source>,
    current: Option<(Input, Cutter)>,
    /// Documents to read instead of inputs.
    documents: Option<memory::Documents>,
    /// True if the field of static scores is only the default one for documents from memory,
    /// since the caller named none.
    usual_static_field: bool,
    /// The records to read, if not all of them.
    selecting: Option<SelectionProgress>,
    /// Number of records of each file that was read to its end.
    file_records: Vec<u64>,
    bytes_read: Arc<AtomicU64>,
    bytes_total: Option<u64>,
    /// Messages to the user about how the inputs are read.
    notices: Vec<String>,
}

/// The progress of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes taken from the inputs, before decompression; for documents from memory, the size of
    /// their JSON.
    pub bytes_read: u64,
    /// Total size of all inputs; `None` for documents from memory, or if the inputs include
    /// standard input or a pipe.
    pub bytes_total: Option<u64>,
}

/// The current format, with the state that it keeps between records.
enum Cutter {
    Lines(lines::Cutter),
    Csv(csv::Cutter),
    Parquet(parquet::Cutter),
    Trec(trec::Cutter),
    Tree,
    Words,
}

impl Cutter {
    fn new(format: Format) -> Self {
        match format {
            Format::Jsonl | Format::Tsv => Self::Lines(lines::Cutter::default()),
            Format::Csv => Self::Csv(csv::Cutter::default()),
            Format::Parquet => Self::Parquet(parquet::Cutter::default()),
            Format::Trec => Self::Trec(trec::Cutter::default()),
            Format::Tree => Self::Tree,
            Format::Words => Self::Words,
        }
    }

    /// Moves the next record of `input` to `batch`, or many if records are lines. Returns false
    /// if there is none.
    fn cut(
        &mut self,
        input: &mut Input,
        batch: &mut RawBatch,
        config: &ReaderConfig,
    ) -> Result<bool, TextError> {
        match self {
            Self::Csv(cutter) => cutter.cut(input, batch, config),
            Self::Parquet(cutter) => cutter.cut(input, batch, config),
            Self::Lines(cutter) => cutter.cut(input, batch),
            Self::Trec(cutter) => cutter.cut(input, batch),
            Self::Tree => tree::cut(input, batch),
            Self::Words => words::cut(input, batch),
        }
    }
}

impl Reader {
    /// Returns the files that `inputs` name, without reading them; `-` is standard input. It fails
    /// at once if an input does not exist or its format cannot be determined.
    pub fn open(inputs: &[PathBuf], config: ReaderConfig) -> Result<Self, TextError> {
        config.check()?;
        let mut notices = Vec::new();
        let sources =
            source::list(inputs, config.format, config.fields.id.as_deref(), &mut notices)?;
        Ok(Self {
            config: Arc::new(config),
            bytes_total: sources.iter().map(|source| source.size).sum(),
            bytes_read: Arc::new(AtomicU64::new(0)),
            sources: sources.into_iter(),
            current: None,
            documents: None,
            usual_static_field: false,
            selecting: None,
            file_records: Vec::new(),
            notices,
        })
    }

    /// Creates a reader of documents from the program. Each is indexed and stored like the line
    /// of JSON that [`OwnedDocument`] describes. The reader takes documents from the iterator as
    /// batches are requested. If `static_field` is not set, it becomes [`STATIC_FIELD`]; `format`
    /// is ignored.
    pub fn of_documents<I>(documents: I, mut config: ReaderConfig) -> Result<Self, TextError>
    where
        I: IntoIterator<Item = OwnedDocument>,
        I::IntoIter: Send + 'static,
    {
        let usual_static_field = config.static_field.is_none();
        config.static_field.get_or_insert_with(|| STATIC_FIELD.to_owned());
        config.check()?;
        Ok(Self {
            config: Arc::new(config),
            bytes_total: None,
            bytes_read: Arc::new(AtomicU64::new(0)),
            sources: Vec::new().into_iter(),
            current: None,
            documents: Some(memory::Documents::new(documents.into_iter())),
            usual_static_field,
            selecting: None,
            file_records: Vec::new(),
            notices: Vec::new(),
        })
    }

    /// Returns the configuration of the reader.
    pub fn config(&self) -> &ReaderConfig {
        &self.config
    }

    /// Returns the field of static scores, if the caller named one. Otherwise, documents from
    /// memory have their scores in [`STATIC_FIELD`], and documents of files have no scores.
    pub fn named_static_field(&self) -> Option<&str> {
        self.config.static_field.as_deref().filter(|_| !self.usual_static_field)
    }

    /// Takes the static scores of later batches from a field.
    pub fn with_static_field(mut self, field: impl Into<String>) -> Result<Self, TextError> {
        Arc::make_mut(&mut self.config).static_field = Some(field.into());
        self.usual_static_field = false;
        self.config.check()?;
        Ok(self)
    }

    /// Sets [`ReaderConfig::vector_scale`] for later batches, to that of an existing index to
    /// which the documents are added.
    pub fn with_vector_scale(mut self, vector_scale: u32) -> Result<Self, TextError> {
        Arc::make_mut(&mut self.config).vector_scale = vector_scale;
        self.config.check()?;
        Ok(self)
    }

    /// Sets the schema for later batches. Fails if the configuration names title or text fields,
    /// since the schema determines these.
    pub fn with_schema(mut self, schema: Arc<Schema>) -> Result<Self, TextError> {
        Arc::make_mut(&mut self.config).schema = Some(schema);
        self.config.check()?;
        Ok(self)
    }

    /// Restricts the reader to a part of the inputs. It has no effect on documents from memory,
    /// nor on earlier batches.
    pub fn within(mut self, selection: Selection) -> Self {
        let (selecting, skipped) = SelectionProgress::new(selection);
        for _ in 0..skipped {
            self.sources.next();
        }
        self.bytes_total = self.sources.as_slice().iter().map(|source| source.size).sum();
        self.selecting = Some(selecting);
        self
    }

    /// Returns the number of records of each file that was read to its end.
    pub fn file_records(&self) -> &[u64] {
        &self.file_records
    }

    /// Returns messages that tell the user how the inputs were read: in which ways the files of a
    /// directory were read if there are several, which first lines were read as names of columns,
    /// and which files have no records. The list is complete after the last batch.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns the next records, at least one; `None` at the end of the last input. An error ends
    /// the read: later calls return `None`.
    pub fn next_batch(&mut self) -> Result<Option<RawBatch>, TextError> {
        let mut batch = RawBatch::new(Arc::clone(&self.config));
        if let Err(error) = self.fill(&mut batch) {
            self.current = None;
            self.sources = Vec::new().into_iter();
            self.documents = None;
            return Err(error);
        }
        Ok(Some(batch).filter(|batch| !batch.is_empty()))
    }

    fn fill(&mut self, batch: &mut RawBatch) -> Result<(), TextError> {
        if let Some(documents) = &mut self.documents {
            while !batch.is_full() && documents.cut(&self.config, batch)? {}
            self.bytes_read.fetch_add(batch.bytes.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        loop {
            let Some((input, cutter)) = &mut self.current else {
                let Some(source) = self.sources.next() else { return Ok(()) };
                let cutter = Cutter::new(source.format);
                let limits = Limits::of(&self.config);
                let input = Input::open(Arc::new(source), limits, &self.bytes_read)?;
                let has_text = !matches!(input.source.format, Format::Tree | Format::Parquet);
                if let Some(what) = input.foreign.filter(|_| has_text) {
                    return Err(TextError::NotText { path: input.source.error_path(), what });
                }
                self.current = Some((input, cutter));
                continue;
            };
            // Lines come with their memory.
            if batch.is_empty() && !matches!(cutter, Cutter::Lines(_)) {
                batch.reserve();
            }
            let (before, begins) = (batch.len(), input.records == 0);
            let more = cutter.cut(input, batch, &self.config)?;
            let headless = begins && input.source.columns.get().is_none();
            if headless && batch.len() > before && input.source.format == Format::Tsv {
                header::take(input, batch, before, &self.config)?;
            }
            if !more {
                self.file_records.push(input.records);
                self.notices.extend(input.source.columns.get().and_then(Columns::notice));
                if input.records == 0 && input.source.path.is_some() {
                    self.notices.push(format!("{} has no documents", input.source.name));
                }
                self.current = None;
            } else if let Some(selecting) = &mut self.selecting {
                selecting.apply(batch, before);
                if selecting.is_over() {
                    self.current = None;
                    self.sources = Vec::new().into_iter();
                    return Ok(());
                }
            }
            if batch.is_full() {
                return Ok(());
            }
        }
    }

    /// Returns the progress so far.
    pub fn progress(&self) -> Progress {
        let bytes_read = self.bytes_read.load(Ordering::Relaxed);
        Progress { bytes_read, bytes_total: self.bytes_total }
    }
}
