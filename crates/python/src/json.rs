//! Conversion between Python values and JSON.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// Maximum nesting depth of a value, which is that of reading JSON.
const MAX_DEPTH: usize = 127;

/// Converts a Python value to JSON. Numbers and dates of NumPy and pandas are converted by their
/// values.
pub(crate) fn to_json(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    convert(value, MAX_DEPTH)
}

fn convert(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.to_cow()?.into_owned()));
    }
    // In Python, a bool is also an integer.
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract::<i64>().map(Number::from);
        let number = number.or_else(|_| value.extract::<u64>().map(Number::from));
        return number.map(Value::Number).map_err(|_| {
            PyValueError::new_err(format!("{value} has more than 64 bits; store it as text"))
        });
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Number::from_f64(number.value()).map(Value::Number).ok_or_else(|| {
            PyValueError::new_err(format!("{value} is not a finite number; leave it out"))
        });
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Err(PyValueError::new_err("a value is nested more than 127 times"));
    };
    if let Ok(list) = value.cast::<PyList>() {
        return list.iter().map(|value| convert(&value, depth)).collect();
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return tuple.iter().map(|value| convert(&value, depth)).collect();
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut map = Map::new();
        for (key, value) in dict {
            let key = key.cast::<PyString>()?.to_cow()?.into_owned();
            map.insert(key, convert(&value, depth)?);
        }
        return Ok(Value::Object(map));
    }
    // NumPy scalars, then arrays, then dates.
    for method in ["item", "tolist", "isoformat"] {
        if let Ok(converted) = value.call_method0(method) {
            return convert(&converted, depth);
        }
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("a value of type {kind} cannot be stored as JSON")))
}

/// Converts JSON to a Python value.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(to_python(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}
