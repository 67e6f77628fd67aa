//! Requests and chains of a log as Arrow tables.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, Int64Array, RecordBatch,
    RecordBatchIterator, StringArray,
};
use arrow_schema::{Field, Schema};
use headlong_chains::{Chain, FileInfo, Joiner, Request};
use headlong_trace::{IntakeResult, Names, PartitionsError, TableSchema, schemas, summary};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::errors::LogError;
use crate::log_source::{LogSource, rules};
use crate::raw::STREAM;

/// An Arrow table, for any library that takes the Arrow PyCapsule interface.
#[pyclass(frozen, module = "headlong")]
pub(crate) struct Table {
    batch: RecordBatch,
    notes: Vec<String>,
}

#[pymethods]
impl Table {
    /// The Arrow C stream of the table, as a capsule; no column is copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows to ignore it.
        let _ = requested_schema;
        let schema = self.batch.schema();
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, STREAM)
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// The unit of each column, and its meaning.
    #[getter]
    fn units(&self) -> HashMap<String, (String, String)> {
        let schema = self.batch.schema();
        let entry = |field: &Arc<Field>| {
            let of = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
            (field.name().clone(), (of("unit"), of("meaning")))
        };
        schema.fields().iter().map(entry).collect()
    }

    /// How the log was understood, for readers: lines read and dropped, what is missing.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        let names = self.column_names().join(", ");
        format!("<headlong.Table of {} rows: {names}>", self.num_rows())
    }
}

impl Table {
    fn of(
        schema: &TableSchema,
        columns: Vec<ArrayRef>,
        notes: Vec<String>,
    ) -> Result<Self, String> {
        let fields = schema.columns.iter().zip(&columns).map(|(meaning, array)| {
            let metadata = [("unit", meaning.unit), ("meaning", meaning.meaning)];
            let metadata = metadata.map(|(key, text)| (key.to_owned(), text.to_owned()));
            Field::new(meaning.name, array.data_type().clone(), true)
                .with_metadata(HashMap::from(metadata))
        });
        let metadata = [
            ("headlong.table".to_owned(), schema.name.to_owned()),
            ("headlong.version".to_owned(), schema.version.to_string()),
        ];
        let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata);
        let batch = RecordBatch::try_new(Arc::new(schema), columns);
        Ok(Self {
            batch: batch.map_err(|error| error.to_string())?,
            notes,
        })
    }
}

/// Reads requests; `headlong.read_log` documents it.
#[pyfunction]
#[pyo3(signature = (source, **options))]
pub(crate) fn read_log(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Table> {
    let source = LogSource::new(source, options)?.without_estimates();
    py.detach(|| {
        let taken = source.take_in()?;
        let requests = all_requests(&taken, source.threads()).map_err(not_loaded)?;
        let columns = request_columns(&taken, &requests);
        Table::of(&schemas::REQUESTS, columns, summary(&taken)).map_err(PyRuntimeError::new_err)
    })
}

/// Joins requests to chains; `headlong.chains` documents it.
#[pyfunction]
#[pyo3(signature = (source, gap="received", link="one-to-one", **options))]
pub(crate) fn chains(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    gap: &str,
    link: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Table> {
    let rules = rules(gap, link)?;
    let source = LogSource::new(source, options)?.without_estimates();
    py.detach(|| {
        let taken = source.take_in()?;
        let joined = taken.parts.each_unsorted(source.threads(), |_, requests| {
            let mut chains = Vec::new();
            Joiner::new(rules).join(requests, &mut chains);
            chains
        });
        let chains = joined.map_err(not_loaded)?.concat();
        let columns = chain_columns(&taken, &chains);
        Table::of(&schemas::CHAINS, columns, summary(&taken)).map_err(PyRuntimeError::new_err)
    })
}

fn not_loaded(error: PartitionsError) -> PyErr {
    LogError::new_err(error.to_string())
}

fn all_requests(taken: &IntakeResult, threads: usize) -> Result<Vec<Request>, PartitionsError> {
    let parts = taken.parts.each_unsorted(threads, |_, requests| {
        requests.sort_unstable_by_key(|r| (r.session, r.received_ms, r.line));
        requests.clone()
    })?;
    Ok(parts.concat())
}

/// In the order of [`schemas::REQUESTS`].
fn request_columns(taken: &IntakeResult, requests: &[Request]) -> Vec<ArrayRef> {
    let ints = |of: &dyn Fn(&Request) -> Option<i64>| -> ArrayRef {
        Arc::new(requests.iter().map(of).collect::<Int64Array>())
    };
    let sessions = |of: &Request| Some(of.session);
    vec![
        ints(&|r| Some(r.completed_ms)),
        ints(&|r| Some(r.completed_ms - r.received_ms)),
        named(&taken.session_names, requests.iter().map(sessions)),
        named(
            &taken.devices,
            requests.iter().map(|r| Some(r.device.into())),
        ),
        named(&taken.file_names, requests.iter().map(|r| Some(r.file))),
        ints(&|r| r.is_placed().then(|| whole(r.offset))),
        ints(&|r| r.asked_bytes.map(whole)),
        ints(&|r| Some(whole(r.sent_bytes))),
        ints(&|r| Some(r.disk.into())),
    ]
}

/// In the order of [`schemas::CHAINS`].
fn chain_columns(taken: &IntakeResult, chains: &[Chain]) -> Vec<ArrayRef> {
    let ints = |of: &dyn Fn(&Chain) -> Option<i64>| -> ArrayRef {
        Arc::new(chains.iter().map(of).collect::<Int64Array>())
    };
    let flags = |of: &dyn Fn(&Chain) -> bool| -> ArrayRef {
        Arc::new(BooleanArray::from_iter(chains.iter().map(|c| Some(of(c)))))
    };
    let file = |c: &Chain| -> Option<&FileInfo> { taken.files.get(c.file as usize) };
    let has_kbps = |c: &Chain| {
        taken
            .files_told
            .get(c.file as usize)
            .is_some_and(|f| f.kbps)
    };
    let sessions = |c: &Chain| Some(c.session);
    vec![
        named(&taken.session_names, chains.iter().map(sessions)),
        named(&taken.file_names, chains.iter().map(|c| Some(c.file))),
        named(
            &taken.title_names,
            chains.iter().map(|c| Some(file(c)?.title)),
        ),
        ints(&|c| Some(file(c)?.kind.number().into())),
        ints(&|c| file(c).filter(|_| has_kbps(c)).map(|f| f.kbps.into())),
        ints(&|c| Some(whole(c.start))),
        ints(&|c| Some(whole(c.length))),
        ints(&|c| Some(c.start_ms)),
        ints(&|c| Some(c.end_ms)),
        flags(&|c| c.is_open),
        flags(&|c| c.is_mixed),
        ints(&|c| Some(c.requests.into())),
        ints(&|c| Some(c.disk.into())),
    ]
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A column of names: numbers of a dictionary that has each name once.
fn named(names: &Names, numbers: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    let text = |number: u32| Some(names.get(number).to_string());
    let values: StringArray = (0..names.len() as u32).map(text).collect();
    let known = values_len(&values);
    let keys = numbers.map(|number| {
        number
            .and_then(|n| i32::try_from(n).ok())
            .filter(|n| *n < known)
    });
    let keys: Int32Array = keys.collect();
    Arc::new(DictionaryArray::new(keys, Arc::new(values)))
}

fn values_len(values: &StringArray) -> i32 {
    use arrow_array::Array as _;
    i32::try_from(values.len()).unwrap_or(i32::MAX)
}
