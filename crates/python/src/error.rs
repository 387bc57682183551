//! Conversion of errors to the exceptions of warpseek/errors.py, with their fields.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use warpseek::Error;
use warpseek::eval::EvalError;
use warpseek::index::IndexError;
use warpseek::ngram::NgramError;
use warpseek::options::OptionsError;
use warpseek::plan::ExecError;
use warpseek::text::TextError;

use crate::describe::{Description, of_evaluation, of_library};

/// The reason why a call ended early: an error of the library, or an exception of Python.
pub(crate) enum Failure {
    Library(Box<Error>),
    Evaluation(EvalError),
    /// An invalid argument, for which the library has no error type.
    Argument(String),
    Python(PyErr),
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Library(Box::new(error))
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        Error::from(error).into()
    }
}

impl From<TextError> for Failure {
    fn from(error: TextError) -> Self {
        Error::from(error).into()
    }
}

impl From<OptionsError> for Failure {
    fn from(error: OptionsError) -> Self {
        Error::from(error).into()
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Failure::Python(error)
    }
}

impl From<EvalError> for Failure {
    fn from(error: EvalError) -> Self {
        Failure::Evaluation(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let (message, description) = match failure {
            Failure::Python(error) => return error,
            Failure::Argument(message) => (
                message,
                Description { class: "OptionsError", kind: "Argument".to_owned(), fields: vec![] },
            ),
            Failure::Evaluation(error) => (with_causes(&error), of_evaluation(&error)),
            Failure::Library(error) => (in_python(&error), of_library(&error)),
        };
        Python::attach(|py| raised(py, message, description).unwrap_or_else(|error| error))
    }
}

fn raised(py: Python<'_>, message: String, description: Description) -> PyResult<PyErr> {
    let class = py.import("warpseek.errors")?.getattr(description.class)?.cast_into::<PyType>()?;
    let values = PyDict::new(py);
    for (name, value) in description.fields {
        values.set_item(name, value)?;
    }
    Ok(PyErr::from_value(class.call1((message, description.kind, values))?))
}

/// Returns the exception for a thread that panicked: a bug, but not a reason to end the
/// interpreter.
pub(crate) fn panicked() -> PyErr {
    PyRuntimeError::new_err("warpseek has a bug: a thread panicked; please report it")
}

/// Returns the message, with advice in terms of the Python package.
fn in_python(error: &Error) -> String {
    let text = match error {
        Error::Index(IndexError::NotAnIndex { dir }) => {
            format!("{} holds no index; create one with Index.build", dir.display())
        }
        Error::Index(IndexError::Exists { dir }) => {
            let dir = dir.display();
            format!("{dir} holds an index already; open it, or replace it with overwrite=True")
        }
        Error::NoText => format!("{error}; build it with store=\"all\""),
        Error::Query(ExecError::Grams) => format!("{error}; use Index.ngram_search"),
        Error::Ngram(NgramError::NotGrams) => {
            format!("{error}; use Index.search, or build an index with ngrams=3")
        }
        Error::Query(ExecError::Syntax(syntax)) => {
            format!("{}\n  {}", syntax.kind, syntax.caret(72).replace('\n', "\n  "))
        }
        error => error.to_string(),
    };
    let words = [
        (
            "the id is empty; give each record an id of at least one character",
            "the id is missing or empty; give each document an \"id\", or name the field that has it with id_field",
        ),
        ("`--on-error skip`", "on_error=\"skip\""),
        ("`--positions`", "positions=True"),
        ("`--norms`", "norms=True"),
        ("`--quantize`", "quantize"),
        ("--format", "format"),
        ("`warpseek verify`", "Index.verify"),
        ("`warpseek index`", "Index.build"),
    ];
    words.into_iter().fold(text, |text, (command, python)| text.replace(command, python))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
