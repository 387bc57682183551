//! Conversion of Python documents, and the channel that sends them to the thread that builds an
//! index.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyIterator, PyString};
use warpseek::{Document, Progress};

use crate::error::{Failure, Result, panicked};
use crate::json::to_json;

/// Maximum number of documents in a batch for the builder, and number of bytes of text that
/// complete a batch early.
const BATCH: usize = 1024;
const BATCH_BYTES: usize = 1 << 20;

/// Number of batches that can wait for the builder.
const AHEAD: usize = 4;

/// Pause before trying again to send to a busy builder.
const PAUSE: Duration = Duration::from_millis(2);

/// Names of the fields with a special meaning.
pub(crate) struct Fields {
    pub(crate) id: String,
    pub(crate) static_score: String,
    /// True if items are vectors themselves: dicts of tokens with weights.
    pub(crate) vectors: bool,
}

impl Fields {
    /// Converts an item to a document. `number` is its position, which is the id of strings and
    /// vectors.
    pub(crate) fn document(&self, item: &Bound<'_, PyAny>, number: u64) -> PyResult<Document> {
        if let Ok(text) = item.cast::<PyString>() {
            let text = text.to_cow()?.into_owned();
            return Ok(Document { id: number.to_string(), text, ..Document::default() });
        }
        let Ok(dict) = item.cast::<PyDict>() else {
            let kind = item.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "document {number} is of type {kind}; documents must be dicts or strings"
            )));
        };
        if self.vectors {
            let (id, vector) = (number.to_string(), Some(weights(dict)?));
            return Ok(Document { id, vector, ..Document::default() });
        }
        let mut document = Document::default();
        for (key, value) in dict {
            let key = key.cast::<PyString>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "document {number} has a field whose name is not a string"
                ))
            })?;
            self.set(&mut document, &key.to_cow()?, &value).map_err(|error| {
                let py = value.py();
                let told = format!("document {number}, field {key}: {}", error.value(py));
                match error.is_instance_of::<PyTypeError>(py) {
                    true => PyTypeError::new_err(told),
                    false => PyValueError::new_err(told),
                }
            })?;
        }
        Ok(document)
    }

    fn set(&self, document: &mut Document, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            return Ok(());
        }
        match key {
            key if key == self.id => document.id = id(value)?,
            key if key == self.static_score => document.static_score = Some(value.extract()?),
            "title" => match value.cast::<PyString>() {
                Ok(title) => document.title = title.to_cow()?.into_owned(),
                Err(_) => return self.keep(document, key, value),
            },
            "text" => match value.cast::<PyString>() {
                Ok(text) => document.text = text.to_cow()?.into_owned(),
                Err(_) => return self.keep(document, key, value),
            },
            "vector" => {
                let dict = value.cast::<PyDict>().map_err(|_| {
                    PyTypeError::new_err("a vector must be a dict of tokens and weights")
                })?;
                document.vector = Some(weights(dict)?);
            }
            key => return self.keep(document, key, value),
        }
        Ok(())
    }

    fn keep(&self, document: &mut Document, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        document.fields.insert(key.to_owned(), to_json(value)?);
        Ok(())
    }
}

/// Converts an id, which may be an integer.
pub(crate) fn id(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_cow()?.into_owned());
    }
    if value.is_instance_of::<PyInt>() || value.hasattr("__index__")? {
        return Ok(value.str()?.to_cow()?.into_owned());
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("an id must be a string or an integer, not of type {kind}")))
}

/// Converts tokens with weights, without those of weight zero.
pub(crate) fn weights(dict: &Bound<'_, PyDict>) -> PyResult<Vec<(String, f64)>> {
    let mut weights = Vec::with_capacity(dict.len());
    for (token, weight) in dict {
        let weight = match weight.cast::<PyFloat>() {
            Ok(weight) => weight.value(),
            Err(_) => weight.extract().map_err(|_| not_a_weight(&token, &weight))?,
        };
        if weight != 0.0 {
            weights.push((id(&token)?, weight));
        }
    }
    Ok(weights)
}

fn not_a_weight(token: &Bound<'_, PyAny>, weight: &Bound<'_, PyAny>) -> PyErr {
    let kind = weight.get_type();
    PyTypeError::new_err(format!("the weight of {token:?} must be a number, not of type {kind:?}"))
}

/// Messages to the builder.
enum Message {
    Documents(Vec<Document>),
    End,
}

/// The documents that the builder receives. If they end without [`Message::End`], something went
/// wrong, and the build is cancelled.
pub(crate) struct Feed {
    messages: Receiver<Message>,
    batch: std::vec::IntoIter<Document>,
    progress: Arc<Progress>,
    over: bool,
}

impl Iterator for Feed {
    type Item = Document;

    fn next(&mut self) -> Option<Document> {
        loop {
            if let Some(document) = self.batch.next() {
                return Some(document);
            }
            if self.over {
                return None;
            }
            match self.messages.recv() {
                Ok(Message::Documents(documents)) => self.batch = documents.into_iter(),
                Ok(Message::End) => self.over = true,
                Err(_) => {
                    self.over = true;
                    self.progress.cancel();
                    // The builder refuses or skips this document and then notices the
                    // cancellation. Without it, a build without any documents would write an
                    // empty index.
                    return Some(Document::default());
                }
            }
        }
    }
}

/// Builds an index from the items of an iterator. The iterator runs in this thread, the build in
/// another one.
pub(crate) fn feed<T: Send>(
    iterator: &Bound<'_, PyIterator>,
    fields: &Fields,
    progress: &Arc<Progress>,
    report: &(dyn Fn(Python<'_>) -> PyResult<()> + Sync),
    build: impl FnOnce(Feed) -> Result<T> + Send,
) -> Result<T> {
    let (send, messages) = sync_channel(AHEAD);
    let (batch, over) = (Vec::new().into_iter(), false);
    let feed = Feed { messages, batch, progress: progress.clone(), over };
    let py = iterator.py();
    std::thread::scope(|scope| {
        let builder = scope.spawn(move || build(feed));
        let fed = push(py, iterator, fields, report, &send);
        // Without an end message, the builder cancels.
        drop(send);
        let ended = py.detach(|| wait(builder, progress, report));
        fed?;
        ended
    })
}

/// Waits for the builder after its last document.
fn wait<T>(
    builder: ScopedJoinHandle<'_, Result<T>>,
    progress: &Progress,
    report: &(dyn Fn(Python<'_>) -> PyResult<()> + Sync),
) -> Result<T> {
    let mut interrupted = Ok(());
    let mut rounds = 0u32;
    while !builder.is_finished() {
        std::thread::sleep(PAUSE);
        rounds += 1;
        if interrupted.is_ok() && rounds.is_multiple_of(25) {
            interrupted = Python::attach(|py| py.check_signals().and_then(|()| report(py)));
            if interrupted.is_err() {
                progress.cancel();
            }
        }
    }
    let ended = builder.join().map_err(|_| panicked())?;
    interrupted?;
    ended
}

/// Sends all documents. If the builder has ended early, its result has the reason.
fn push(
    py: Python<'_>,
    iterator: &Bound<'_, PyIterator>,
    fields: &Fields,
    report: &(dyn Fn(Python<'_>) -> PyResult<()> + Sync),
    send: &SyncSender<Message>,
) -> PyResult<()> {
    let mut number = 0;
    let mut items = iterator.clone();
    loop {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH && bytes < BATCH_BYTES {
            let Some(item) = items.next() else { break };
            let document = fields.document(&item?, number)?;
            bytes += document.text.len();
            number += 1;
            batch.push(document);
        }
        py.check_signals()?;
        report(py)?;
        let last = batch.is_empty();
        let mut message = if last { Message::End } else { Message::Documents(batch) };
        loop {
            match send.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return Ok(()),
                Err(TrySendError::Full(back)) => {
                    message = back;
                    py.detach(|| std::thread::sleep(PAUSE));
                    py.check_signals()?;
                }
            }
        }
        if last {
            return Ok(());
        }
    }
}

/// Rows of a sparse matrix in SciPy's CSR format.
pub(crate) struct Rows {
    starts: Vec<i64>,
    columns: Vec<i64>,
    values: Vec<f64>,
    /// Tokens of the columns, if they are not represented by their numbers.
    tokens: Option<Vec<String>>,
}

impl Rows {
    /// Reads the rows of a matrix from NumPy arrays.
    pub(crate) fn read(
        starts: &PyReadonlyArray1<'_, i64>,
        columns: &PyReadonlyArray1<'_, i64>,
        values: &PyReadonlyArray1<'_, f64>,
        tokens: Option<Vec<String>>,
    ) -> Result<Self> {
        let rows = Rows {
            starts: starts.as_array().to_vec(),
            columns: columns.as_array().to_vec(),
            values: values.as_array().to_vec(),
            tokens,
        };
        rows.checked()
    }

    /// Checks that rows are inside the arrays, and that columns have tokens.
    fn checked(self) -> Result<Self> {
        let bad = |what: &str| Err(Failure::Argument(format!("this is not a CSR matrix: {what}")));
        if self.columns.len() != self.values.len() {
            return bad("the numbers of column indices and values differ");
        }
        if !self.starts.is_sorted()
            || self.starts.first().is_some_and(|&start| start != 0)
            || self.starts.last().is_some_and(|&end| end != self.columns.len() as i64)
        {
            return bad("the row offsets do not cover the values");
        }
        let most = self.tokens.as_ref().map_or(i64::MAX, |tokens| tokens.len() as i64);
        match self.columns.iter().max().filter(|&&column| column >= most) {
            Some(column) => Err(Failure::Argument(format!(
                "vocabulary has {most} tokens, but the matrix has weights in column {column}; give a token for each column"
            ))),
            None if self.columns.iter().any(|&column| column < 0) => {
                bad("a column index is negative")
            }
            None => Ok(self),
        }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Returns the tokens and weights of a row, without those of weight zero.
    pub(crate) fn row(&self, row: usize) -> Vec<(String, f64)> {
        let range = self.starts[row] as usize..self.starts[row + 1] as usize;
        let token = |column: i64| match &self.tokens {
            Some(tokens) => tokens[column as usize].clone(),
            None => column.to_string(),
        };
        let pairs = range.map(|i| (self.columns[i], self.values[i]));
        pairs.filter(|&(_, weight)| weight != 0.0).map(|(c, weight)| (token(c), weight)).collect()
    }
}
