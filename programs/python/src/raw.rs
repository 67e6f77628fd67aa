//! Imports an Arrow stream from its capsule, for which the library has no safe function.

#![expect(
    unsafe_code,
    reason = "a capsule of Python is a pointer to a struct of C; checked by its name"
)]

use std::ffi::CStr;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Name of the capsules.
pub(crate) const STREAM: &CStr = c"arrow_array_stream";

/// The stream in a capsule, which is empty afterwards.
pub(crate) fn stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let pointer = capsule.pointer_checked(Some(STREAM))?;
    let pointer = pointer.cast::<FFI_ArrowArrayStream>().as_ptr();
    // SAFETY: a capsule of this name has a valid `ArrowArrayStream` (the Arrow PyCapsule interface),
    // the capsule is alive, and Python's lock, held here, keeps others from taking the stream. It is
    // moved out, and the one in the capsule is marked as released.
    let read = unsafe { RecordBatchStreamReader::from_raw(pointer) };
    read.map_err(|error| super::errors::LogError::new_err(format!("the Arrow stream: {error}")))
}
