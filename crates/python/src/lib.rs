//! The native part of the Python package `warpseek`. It converts arrays, documents and errors
//! between Python and the library `warpseek`.
//!
//! The public classes are written in Python (python/warpseek), on top of the few classes and
//! functions of this module.

mod arrow;
mod bm25s;
mod build;
mod column;
mod describe;
mod documents;
mod error;
mod evaluation;
mod hits;
mod index;
mod interrupt;
mod json;
mod ngrams;
mod options;
mod queries;
mod results;
mod search;

use pyo3::prelude::*;

/// The module `warpseek._warpseek`. Its types are in python/warpseek/_warpseek.pyi.
#[pymodule]
mod _warpseek {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::bm25s::retrieve_tokens;
    #[pymodule_export]
    use crate::build::{build_documents, build_files, build_rows};
    #[pymodule_export]
    use crate::column::NativeColumn;
    #[pymodule_export]
    use crate::evaluation::{evaluate, read_qrels, read_run};
    #[pymodule_export]
    use crate::hits::NativeHits;
    #[pymodule_export]
    use crate::index::NativeIndex;
    #[pymodule_export]
    use crate::options::{names, names_file};
    #[pymodule_export]
    use crate::results::NativeResults;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
