//! Requests and chains of a log as Arrow tables.

use std::array::from_fn;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::{Int32Builder, Int64Builder};
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
        let columns = request_columns(&taken, source.threads()).map_err(not_loaded)?;
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

/// The requests, in the order of [`schemas::REQUESTS`].
fn request_columns(taken: &IntakeResult, threads: usize) -> Result<Vec<ArrayRef>, PartitionsError> {
    let all = Mutex::new(OrderedColumns::default());
    taken.parts.each_unsorted(threads, |number, requests| {
        let part = RequestColumns::of(requests, taken);
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(number, part, taken.requests as usize);
    })?;
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let [completed, service, offset, size, bytes, disk] = all
        .numbers
        .each_mut()
        .map(|column| Arc::new(column.finish()) as ArrayRef);
    let [session, device, file] = all.keys.each_mut().map(|column| column.finish());
    Ok(vec![
        completed,
        service,
        named(&taken.session_names, session),
        named(&taken.devices, device),
        named(&taken.file_names, file),
        offset,
        size,
        bytes,
        disk,
    ])
}

/// Columns of all partitions, in their order; those that are ready early wait.
#[derive(Default)]
struct OrderedColumns {
    numbers: [Int64Builder; 6],
    keys: [Int32Builder; 3],
    next: usize,
    waiting: BTreeMap<usize, RequestColumns>,
}

impl OrderedColumns {
    /// Adds the columns of a partition; there are `rows` in total.
    fn push(&mut self, number: usize, part: RequestColumns, rows: usize) {
        if self.next == 0 {
            self.numbers = from_fn(|_| Int64Builder::with_capacity(rows));
            self.keys = from_fn(|_| Int32Builder::with_capacity(rows));
        }
        self.waiting.insert(number, part);
        while let Some(part) = self.waiting.remove(&self.next) {
            self.next += 1;
            for (all, column) in self.numbers.iter_mut().zip(part.numbers) {
                all.append_array(&column);
            }
            for (all, column) in self.keys.iter_mut().zip(part.keys) {
                all.append_array(&column);
            }
        }
    }
}

/// Columns of some requests.
struct RequestColumns {
    /// Completion, service time, offset, size, bytes, disk.
    numbers: [Int64Array; 6],
    /// Numbers of session, device and file.
    keys: [Int32Array; 3],
}

impl RequestColumns {
    fn of(requests: &[Request], taken: &IntakeResult) -> Self {
        let order = in_order(requests);
        let rows = || order.iter().map(|at| &requests[*at as usize]);
        let all = |of: fn(&Request) -> i64| Int64Array::from_iter_values(rows().map(of));
        let known = |of: fn(&Request) -> Option<i64>| rows().map(of).collect();
        let keys = |names: &Names, of: fn(&Request) -> u32| {
            let key = keys_of(names);
            rows().map(|r| key(of(r))).collect()
        };
        Self {
            numbers: [
                all(|r| r.completed_ms),
                all(|r| r.completed_ms - r.received_ms),
                known(|r| r.is_placed().then(|| whole(r.offset))),
                known(|r| r.asked_bytes.map(whole)),
                all(|r| whole(r.sent_bytes)),
                all(|r| r.disk.into()),
            ],
            keys: [
                keys(&taken.session_names, |r| r.session),
                keys(&taken.devices, |r| r.device.into()),
                keys(&taken.file_names, |r| r.file),
            ],
        }
    }
}

/// Indexes of requests by session, arrival and line.
fn in_order(requests: &[Request]) -> Vec<u32> {
    // Keys of 16 bytes are moved faster than requests.
    let key = |(at, r): (usize, &Request)| {
        let received = r.received_ms.cast_unsigned() ^ (1 << 63);
        u128::from(r.session) << 96 | u128::from(received) << 32 | at as u128
    };
    let mut keys: Vec<u128> = requests.iter().enumerate().map(key).collect();
    keys.sort_unstable();
    let line = |key: &u128| requests[*key as u32 as usize].line;
    for at_once in keys.chunk_by_mut(|one, other| one >> 32 == other >> 32) {
        at_once.sort_unstable_by_key(line);
    }
    keys.iter().map(|key| *key as u32).collect()
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
    let names = |names: &Names, of: &dyn Fn(&Chain) -> Option<u32>| {
        let key = keys_of(names);
        named(names, chains.iter().map(|c| key(of(c)?)).collect())
    };
    vec![
        names(&taken.session_names, &|c| Some(c.session)),
        names(&taken.file_names, &|c| Some(c.file)),
        names(&taken.title_names, &|c| Some(file(c)?.title)),
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

/// Keys of the dictionary of these names, by number; none for a number without a name.
fn keys_of(names: &Names) -> impl Fn(u32) -> Option<i32> {
    let names = i32::try_from(names.len()).unwrap_or(i32::MAX);
    move |number| i32::try_from(number).ok().filter(|key| *key < names)
}

/// A column of names: keys of a dictionary that has each name once.
fn named(names: &Names, keys: Int32Array) -> ArrayRef {
    let text = |number: u32| names.get(number).to_string();
    let values = StringArray::from_iter_values((0..names.len() as u32).map(text));
    Arc::new(DictionaryArray::new(keys, Arc::new(values)))
}
