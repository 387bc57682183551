//! Import and export of Arrow columns without copies, through Arrow's C data interface in Python
//! capsules.
//!
//! This module has the only unsafe code of the crate: it takes over the structures that capsules
//! point to. The name of a capsule says what it holds, and Python compares the name before it
//! returns the pointer.
#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayReader, ArrayRef, RecordBatch, RecordBatchIterator, make_array};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple};

use crate::error::{Failure, Result};

/// Names of capsules.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// A column of strings, in chunks.
pub(crate) struct Texts {
    chunks: Vec<ArrayRef>,
}

impl Texts {
    /// Returns the column of an object with Arrow's interface, or `None` if it lacks the
    /// interface or its values are not strings.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Result<Option<Self>> {
        let chunks = if object.hasattr("__arrow_c_stream__")? {
            of_stream(object)?
        } else if object.hasattr("__arrow_c_array__")? {
            of_array(object)?
        } else {
            None
        };
        let Some(chunks) = chunks else { return Ok(None) };
        for chunk in &chunks {
            // Later code relies on valid UTF-8, which the producer need not have checked.
            chunk.to_data().validate_full().map_err(broken)?;
        }
        Ok(Some(Texts { chunks }))
    }

    /// Returns all values. A missing value is an error.
    pub(crate) fn values(&self) -> Result<Vec<&str>> {
        let mut values = Vec::with_capacity(self.chunks.iter().map(Array::len).sum());
        for chunk in &self.chunks {
            match chunk.data_type() {
                DataType::Utf8 => extend(&mut values, chunk.as_string::<i32>().iter())?,
                DataType::LargeUtf8 => extend(&mut values, chunk.as_string::<i64>().iter())?,
                _ => extend(&mut values, chunk.as_string_view().iter())?,
            }
        }
        Ok(values)
    }
}

fn extend<'a>(
    values: &mut Vec<&'a str>,
    more: impl Iterator<Item = Option<&'a str>>,
) -> Result<()> {
    for value in more {
        let Some(value) = value else {
            let problem = format!("query {} is missing", values.len());
            return Err(PyTypeError::new_err(problem).into());
        };
        values.push(value);
    }
    Ok(())
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn of_stream(object: &Bound<'_, PyAny>) -> Result<Option<Vec<ArrayRef>>> {
    let Some(capsule) = asked(object, "__arrow_c_stream__")? else { return Ok(None) };
    let capsule = capsule.cast::<PyCapsule>().map_err(PyErr::from)?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds such a stream, which nothing else uses while this
    // thread is attached; the stream is moved out, and the structure left behind is marked as
    // released.
    let reader = unsafe { ArrayStreamReader::from_raw(pointer.as_ptr()) }.map_err(broken)?;
    if !is_text(reader.field().data_type()) {
        return Ok(None);
    }
    Ok(Some(reader.collect::<Result<_, _>>().map_err(broken)?))
}

fn of_array(object: &Bound<'_, PyAny>) -> Result<Option<Vec<ArrayRef>>> {
    let Some(capsules) = asked(object, "__arrow_c_array__")? else { return Ok(None) };
    let capsules = capsules.cast::<PyTuple>().map_err(PyErr::from)?;
    let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = capsules.extract()?;
    let schema = schema.cast::<PyCapsule>().map_err(PyErr::from)?;
    let array = array.cast::<PyCapsule>().map_err(PyErr::from)?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold such structures, which nothing else uses while this
    // thread is attached; they are moved out, and the structures left behind are marked as
    // released.
    let (schema, array) = unsafe {
        (FFI_ArrowSchema::from_raw(schema.as_ptr()), FFI_ArrowArray::from_raw(array.as_ptr()))
    };
    if array.is_released() || schema.release().is_none() {
        return Err(Failure::Argument("the Arrow column was already released".to_owned()));
    }
    if !is_text(&DataType::try_from(&schema).map_err(broken)?) {
        return Ok(None);
    }
    // SAFETY: both come from one call of the object, so the schema describes the array.
    let data = unsafe { from_ffi(array, &schema) }.map_err(broken)?;
    Ok(Some(vec![make_array(data)]))
}

/// Calls a method, and returns `None` if it raises an exception, for example because a package is
/// missing. The caller then reads the object in another way.
fn asked<'py>(object: &Bound<'py, PyAny>, method: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    match object.call_method0(method) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn broken(error: ArrowError) -> Failure {
    Failure::Argument(format!("the Arrow column cannot be read: {error}"))
}

/// Returns a stream of one record batch, which consumers read without copying it.
pub(crate) fn stream(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyCapsule>> {
    let schema = batch.schema();
    let reader = RecordBatchIterator::new(vec![Ok(batch)].into_iter(), schema);
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}
