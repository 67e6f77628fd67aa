//! Logs that several processes read in pieces; `headlong.spark` passes the bytes between them.

use headlong_trace::{
    Intake, LogSurvey, PieceSettings, PiecesError, ShardRequests, SumPlan, read_piece as read,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{ShardError, of_intake, of_shards};
use crate::log_source::{LogSource, rules};

/// A piece as bytes: its head, and the part that it has of each shard.
type PieceBytes<'py> = (Bound<'py, PyBytes>, Vec<(u32, Bound<'py, PyBytes>)>);

fn of_pieces(error: PiecesError) -> PyErr {
    match error {
        PiecesError::Intake(error) => of_intake(error),
        PiecesError::Shard(error) => of_shards(error),
        error => ShardError::new_err(error.to_string()),
    }
}

fn slices(parts: &[PyBackedBytes]) -> impl Iterator<Item = &[u8]> {
    parts.iter().map(|part| &**part)
}

/// Reads a piece of a log of this name: its number, its lines, the number of shards, and for texts
/// the first lines of the log.
#[pyfunction]
#[pyo3(signature = (source, piece, name, head=None, **options))]
pub(crate) fn read_piece<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    piece: (u32, u64, u32),
    name: String,
    head: Option<PyBackedBytes>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<PieceBytes<'py>> {
    let source = LogSource::new(source, options)?;
    let (number, lines, shards) = piece;
    let settings = PieceSettings {
        number,
        lines,
        shards,
    };
    let read = py.detach(|| {
        let intake = Intake {
            name: Some(name),
            head: head.map(|head| head.to_vec()),
            ..source.intake().clone()
        };
        read(&intake, settings).map_err(of_intake)
    })?;
    let shards = read.shards.iter();
    let shards = shards.map(|(shard, bytes)| (*shard, PyBytes::new(py, bytes)));
    Ok((PyBytes::new(py, &read.head), shards.collect()))
}

/// Facts about the log of this name from the heads of all pieces.
#[pyfunction]
pub(crate) fn survey<'py>(
    py: Python<'py>,
    name: String,
    heads: Vec<PyBackedBytes>,
) -> PyResult<Bound<'py, PyBytes>> {
    let survey = py.detach(|| LogSurvey::of(&name, slices(&heads)).map(|all| all.to_bytes()));
    Ok(PyBytes::new(py, &survey.map_err(of_pieces)?))
}

/// How the sessions of a shard use files, from its parts in all pieces.
#[pyfunction]
#[pyo3(signature = (survey, number, parts, **options))]
pub(crate) fn shard_usage<'py>(
    py: Python<'py>,
    survey: PyBackedBytes,
    number: u32,
    parts: Vec<PyBackedBytes>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let source = LogSource::without_log(options)?;
    let usage = py.detach(|| {
        let survey = LogSurvey::from_bytes(&survey)?;
        ShardRequests::of(&survey, source.intake(), number, slices(&parts))?.usage()
    });
    Ok(PyBytes::new(py, &usage.map_err(of_pieces)?))
}

/// Needs of the sums of all shards, from the usage by each of them.
#[pyfunction]
#[pyo3(signature = (survey, usages, **options))]
pub(crate) fn sum_plan<'py>(
    py: Python<'py>,
    survey: PyBackedBytes,
    usages: Vec<PyBackedBytes>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let source = LogSource::without_log(options)?;
    let plan = py.detach(|| {
        let survey = LogSurvey::from_bytes(&survey).map_err(of_shards)?;
        let planned = survey.plan(source.intake(), slices(&usages));
        let (plan, log) = planned.map_err(of_pieces)?;
        source.check(&log)?;
        Ok::<_, PyErr>(plan.to_bytes())
    })?;
    Ok(PyBytes::new(py, &plan))
}

/// Sums a shard, from its parts in all pieces; the rules for chains are those of gap and link.
#[pyfunction]
#[pyo3(signature = (survey, plan, number, parts, chain_rules, **options))]
pub(crate) fn shard_sums<'py>(
    py: Python<'py>,
    survey: PyBackedBytes,
    plan: PyBackedBytes,
    number: u32,
    parts: Vec<PyBackedBytes>,
    chain_rules: (String, String),
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let (gap, link) = chain_rules;
    let rules = rules(&gap, &link)?;
    let source = LogSource::without_log(options)?;
    let sums = py.detach(|| {
        let survey = LogSurvey::from_bytes(&survey)?;
        let plan = SumPlan::from_bytes(&plan)?;
        let shard = ShardRequests::of(&survey, source.intake(), number, slices(&parts))?;
        Ok::<_, PiecesError>(shard.sums(&plan, rules)?.to_bytes())
    });
    Ok(PyBytes::new(py, &sums.map_err(of_pieces)?))
}
