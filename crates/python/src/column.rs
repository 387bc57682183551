//! Arrays of results, which NumPy and Arrow share without copying.

use arrow_buffer::{ArrowNativeType, Buffer, ScalarBuffer};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A number type that NumPy has a name for.
pub(crate) trait Number: ArrowNativeType {
    /// Kind and size of the type in NumPy's notation.
    const KIND: &'static str;
}

impl Number for i64 {
    const KIND: &'static str = "i8";
}

impl Number for u32 {
    const KIND: &'static str = "u4";
}

impl Number for f64 {
    const KIND: &'static str = "f8";
}

/// A read-only array. `numpy.asarray` creates a view of it, which keeps it alive.
#[pyclass(frozen, module = "warpseek._warpseek")]
pub(crate) struct NativeColumn {
    values: Buffer,
    length: usize,
    kind: &'static str,
}

impl NativeColumn {
    pub(crate) fn of<T: Number>(values: &ScalarBuffer<T>) -> Self {
        NativeColumn { values: values.inner().clone(), length: values.len(), kind: T::KIND }
    }
}

#[pymethods]
impl NativeColumn {
    fn __len__(&self) -> usize {
        self.length
    }

    /// Returns the address and type of the values, for NumPy.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        const READ_ONLY: bool = true;
        let order = if cfg!(target_endian = "big") { '>' } else { '<' };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.length,))?;
        interface.set_item("typestr", format!("{order}{}", self.kind))?;
        interface.set_item("data", (self.values.as_ptr() as usize, READ_ONLY))?;
        Ok(interface)
    }
}
