//! Errors of the library as exceptions of warpseek/errors.py, with their fields.

use std::fmt::{self, Debug, Write};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use warpseek::eval::EvalError;
use warpseek::{Error, ExecError, IndexError, NgramError, OptionsError, TextError};

/// Why a call ends early: the library refuses, or Python raised an exception.
pub(crate) enum Failure {
    Library(Box<Error>),
    Evaluation(EvalError),
    /// An argument that the library has no type for.
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
        let (class, message, kind, fields) = match failure {
            Failure::Python(error) => return error,
            Failure::Argument(message) => ("OptionsError", message, "Argument".to_owned(), vec![]),
            Failure::Evaluation(error) => {
                ("EvaluationError", with_causes(&error), variant(&error), vec![])
            }
            Failure::Library(error) => {
                let (class, kind, fields) = describe(&error);
                (class, in_python(&error), kind, fields)
            }
        };
        Python::attach(|py| raised(py, class, message, kind, fields).unwrap_or_else(|error| error))
    }
}

type Fields = Vec<(&'static str, String)>;

fn raised(
    py: Python<'_>,
    class: &str,
    message: String,
    kind: String,
    fields: Fields,
) -> PyResult<PyErr> {
    let class = py.import("warpseek.errors")?.getattr(class)?.cast_into::<PyType>()?;
    let values = PyDict::new(py);
    for (name, value) in fields {
        values.set_item(name, value)?;
    }
    Ok(PyErr::from_value(class.call1((message, kind, values))?))
}

/// What a thread that panicked leaves: it is a bug, and no reason to end the interpreter.
pub(crate) fn panicked() -> PyErr {
    PyRuntimeError::new_err("warpseek has a bug: a thread panicked; please report it")
}

/// The class of the exception, the name of the error and its fields.
fn describe(error: &Error) -> (&'static str, String, Fields) {
    match error {
        Error::Index(error) => index(error),
        Error::Query(error) => query(error),
        Error::Ngram(NgramError::Index(error)) => index(error),
        Error::Ngram(NgramError::Device(error)) => ("DeviceError", variant(error), vec![]),
        Error::Ngram(error) => ("QueryError", variant(error), vec![]),
        Error::Text(error) => ("DocumentError", variant(error), vec![]),
        Error::Device(error) => ("DeviceError", variant(error), vec![]),
        Error::Options(OptionsError::NeedsGpu { algorithm, .. }) => {
            ("DeviceError", "NeedsGpu".to_owned(), vec![("algorithm", (*algorithm).to_owned())])
        }
        Error::Options(error) => ("OptionsError", variant(error), vec![]),
        Error::NoText => ("QueryError", variant(error), vec![]),
        error => ("Error", variant(error), vec![]),
    }
}

fn index(error: &IndexError) -> (&'static str, String, Fields) {
    let (class, fields): (_, Fields) = match error {
        IndexError::NotAnIndex { dir } => ("NotFoundError", vec![("path", shown(dir.display()))]),
        IndexError::Exists { dir } | IndexError::NotEmpty { dir } => {
            ("ExistsError", vec![("path", shown(dir.display()))])
        }
        IndexError::Locked { dir } => ("LockedError", vec![("path", shown(dir.display()))]),
        IndexError::Io { path, source } => {
            ("StorageError", vec![("path", shown(path.display())), ("reason", shown(source))])
        }
        IndexError::Corrupt { path, what } => {
            ("DamagedError", vec![("path", shown(path.display())), ("reason", what.clone())])
        }
        IndexError::Version { path, found, known } => {
            let versions = [("found", shown(found)), ("known", shown(known))];
            (
                "DamagedError",
                [("path", shown(path.display()))].into_iter().chain(versions).collect(),
            )
        }
        IndexError::Record(error) => (
            "DocumentError",
            vec![("location", shown(&error.location)), ("reason", shown(&error.kind))],
        ),
        IndexError::DuplicateId { location, id }
        | IndexError::MixedContent { location, id, .. }
        | IndexError::QuantizedVector { location, id }
        | IndexError::PositionsOfVector { location, id }
        | IndexError::GramsOfVector { location, id } => {
            ("DocumentError", vec![("location", shown(location)), ("id", id.clone())])
        }
        IndexError::Conflict { id } => ("DocumentError", vec![("id", id.clone())]),
        IndexError::Input(_) | IndexError::Attribute { .. } | IndexError::Refused { .. } => {
            ("DocumentError", vec![])
        }
        IndexError::Impacts { .. }
        | IndexError::Grams { .. }
        | IndexError::Schema { .. }
        | IndexError::Positions { .. } => ("OptionsError", vec![]),
        _ => ("Error", vec![]),
    };
    (class, variant(error), fields)
}

fn query(error: &ExecError) -> (&'static str, String, Fields) {
    let fields = match error {
        ExecError::Index(error) => return index(error),
        ExecError::Device { .. } => return ("DeviceError", variant(error), vec![]),
        ExecError::Syntax(error) => {
            vec![("query", error.query.clone()), ("column", shown(error.column))]
        }
        ExecError::UnknownField { name, near } => {
            let near = near.iter().map(|near| ("near", near.clone()));
            [("field", name.clone())].into_iter().chain(near).collect()
        }
        ExecError::NotText { name } | ExecError::NotAttribute { name } => {
            vec![("field", name.clone())]
        }
        ExecError::Value { name, value, .. } => {
            vec![("field", name.clone()), ("value", value.clone())]
        }
        ExecError::Weight { term, weight } => {
            vec![("term", term.clone()), ("weight", shown(weight))]
        }
        _ => vec![],
    };
    ("QueryError", variant(error), fields)
}

fn shown(value: impl fmt::Display) -> String {
    value.to_string()
}

/// The message, with what to do about it in Python.
fn in_python(error: &Error) -> String {
    let text = match error {
        Error::Index(IndexError::NotAnIndex { dir }) => {
            format!("{} holds no index; make one with Index.build", dir.display())
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
        ("`--on-error skip`", "on_error=\"skip\""),
        ("`--positions`", "positions=True"),
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

/// The name of an error's variant, which is how its `Debug` begins.
fn variant(error: &dyn Debug) -> String {
    struct Name(String);
    impl Write for Name {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            self.0.push_str(name);
            if name.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut name = Name(String::new());
    // It ends with an error as soon as the name is known.
    let _ = write!(name, "{error:?}");
    name.0
}
