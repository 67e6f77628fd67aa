//! Sums over the sessions of a log or of its shards, and the splitting of logs.

use std::path::PathBuf;

use headlong_trace::{
    CharacteriseSettings, PartialSums, Shard, SplitSettings, characterise_sums, split as split_log,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};

use crate::errors::{of_characterise, of_shards};
use crate::log_source::{LogSource, rules};

/// Sums over the sessions of a log, or of some shards of one.
#[pyclass(frozen, module = "headlong")]
pub(crate) struct Sums(PartialSums);

#[pymethods]
impl Sums {
    /// The sums of both. Merging in any order gives the same report.
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let merged = py.detach(|| {
            let mut all = self.0.clone();
            all.merge(other.0.clone()).map(|()| all)
        });
        merged.map(Self).map_err(of_shards)
    }

    /// Numbers of the shards that are summed, from 0.
    #[getter]
    fn shards(&self) -> Vec<u32> {
        self.0.shards()
    }

    /// Number of shards of the whole log.
    #[getter]
    fn shards_total(&self) -> u32 {
        self.0.shards_total()
    }

    /// How the log was understood, for readers.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes().to_vec()
    }

    /// The report as JSON text.
    #[pyo3(signature = (title="", command="", thesis=false))]
    fn report_json(
        &self,
        py: Python<'_>,
        title: &str,
        command: &str,
        thesis: bool,
    ) -> PyResult<String> {
        py.detach(|| {
            let report = self.0.clone().report(title, command).map_err(of_shards)?;
            let report = match thesis {
                true => report.beside_thesis(),
                false => report,
            };
            serde_json::to_string_pretty(&report)
                .map_err(|error| PyRuntimeError::new_err(error.to_string()))
        })
    }

    /// The bytes of a file that `headlong trace merge` takes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.to_bytes()))
    }

    /// Reads such bytes; `name` is theirs in messages.
    #[classmethod]
    #[pyo3(signature = (data, name="the bytes"))]
    fn from_bytes(
        _: &Bound<'_, PyType>,
        py: Python<'_>,
        data: &[u8],
        name: &str,
    ) -> PyResult<Self> {
        let read = py.detach(|| PartialSums::from_bytes(name, data));
        read.map(Self).map_err(of_shards)
    }

    /// For pickle, and thus for Spark, Dask and Ray.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let make = slf.get_type().getattr("from_bytes")?;
        let bytes = slf.get().to_bytes(py);
        let arguments = PyTuple::new(py, [bytes])?;
        PyTuple::new(py, [make, arguments.into_any()])
    }

    fn __repr__(&self) -> String {
        let (have, total) = (self.0.shards().len(), self.0.shards_total());
        format!("<headlong.Sums of {have} of {total} shards>")
    }
}

/// Sums a log or a shard; `headlong.characterise` documents it.
#[pyfunction]
#[pyo3(signature = (source, gap="received", link="one-to-one", **options))]
pub(crate) fn characterise(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    gap: &str,
    link: &str,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Sums> {
    let rules = rules(gap, link)?;
    let source = LogSource::new(source, options)?;
    py.detach(|| {
        let threads = source.threads();
        if let Some(path) = source.shard()? {
            let shard = Shard::open(path, source.memory_bytes()).map_err(of_shards)?;
            let done = |requests| source.summed(requests, shard.requests());
            let sums = PartialSums::of(&shard, rules, threads, done);
            return sums.map(Sums).map_err(of_shards);
        }
        let taken = source.take_in()?;
        let settings = CharacteriseSettings {
            rules,
            threads,
            tables: None,
            title: String::new(),
            command: String::new(),
        };
        let done = |requests| source.summed(requests, taken.requests);
        let sums = characterise_sums(&taken, &settings, done);
        sums.map(Sums).map_err(of_characterise)
    })
}

/// Splits a log; `headlong.split` documents it.
#[pyfunction]
#[pyo3(signature = (source, folder, into, **options))]
pub(crate) fn split(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    folder: PathBuf,
    into: u32,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<PathBuf>> {
    let source = LogSource::new(source, options)?;
    py.detach(|| {
        let taken = source.take_in()?;
        std::fs::create_dir_all(&folder)?;
        let settings = SplitSettings {
            folder,
            shards: into,
            threads: source.threads(),
            words: Vec::new(),
        };
        split_log(&taken, &settings, |_| {}).map_err(of_shards)
    })
}
