//! Sources of chains other than a log: a table of chains, or the output of `headlong trace
//! characterise`.
//!
//! After the characterisation the log itself is not needed: the folder of `--tables` contains its
//! chains; the JSON and the specification contain the parameters of a similar generated log. The
//! kind of source is detected from its first bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use headlong_chains::{Chain, Joiner};
use headlong_characterise::SCHEMA;
use headlong_trace::{CatalogueBytes, PartitionsError, TableLines};
use headlong_units::BitRate;
use headlong_workload::phased::{BytesKnown, PhasedCatalogue, PhasedSessions, PhasedSpecification};
use serde_json::Value;

use crate::load::present_ms;
use crate::read::{
    DroppedLines, FileFacts, FilesTable, ParsedTable, ReadError, read_chains, read_files,
};
use crate::table::{ChainRow, ChainTable};

/// Seed of a log generated from a characterisation; fixed, for reproducible results.
const SEED: u64 = 1;
/// Passes of [`stretch`]: overlaps and gaps make a session's time a nonlinear function of its
/// chains' times.
const STRETCHES: usize = 4;
/// Table of chains in the folder of `trace characterise --tables`.
const CHAINS: &str = "chains.parquet";

/// Kind of a source.
enum SourceForm {
    Table,
    Characterisation,
    Specification,
}

/// Why there are no chains.
#[derive(Debug, thiserror::Error)]
pub enum ChainsError {
    /// The source is invalid; one mistake per line.
    #[error("{0}")]
    Wrong(String),
    /// The intake of a log cannot be read again.
    #[error(transparent)]
    Log(#[from] PartitionsError),
}

impl ChainsError {
    fn of(name: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Wrong(format!("{name}: {error}"))
    }
}

/// Reads chains from `path`, and data on their files: from the files table at `files`, or from
/// `path` itself if it contains them.
///
/// # Errors
/// If either cannot be read, or has no chains.
pub fn open(
    path: &Path,
    files: Option<&Path>,
) -> Result<(ParsedTable, Option<FilesTable>), ChainsError> {
    let listed = files.map(|path| {
        let name = path.display().to_string();
        let input = table(path).map_err(|error| ChainsError::of(&name, &error))?;
        read_files(&name, input).map_err(|error| ChainsError::Wrong(error.to_string()))
    });
    chains(path, listed.transpose()?)
}

fn chains(
    path: &Path,
    files: Option<FilesTable>,
) -> Result<(ParsedTable, Option<FilesTable>), ChainsError> {
    let name = path.display().to_string();
    if path.is_dir() {
        let inside = path.join(CHAINS);
        return match inside.is_file() {
            true => chains(&inside, files),
            false => Err(ChainsError::Wrong(format!(
                "{name}: {CHAINS} is missing; `headlong trace characterise LOG --tables DIR` \
                 writes one"
            ))),
        };
    }
    let wrong = |error: std::io::Error| ChainsError::of(&name, &error);
    match form(path).map_err(wrong)? {
        SourceForm::Table => {
            let read = read_chains(&name, table(path).map_err(wrong)?, files.as_ref());
            let read = read.map_err(|error| {
                let remedy = match error {
                    ReadError::Column { .. } => "; if it is a request log, write --log before it",
                    _ => "",
                };
                ChainsError::Wrong(format!("{error}{remedy}"))
            })?;
            Ok((read, files))
        }
        SourceForm::Characterisation => {
            let text = std::fs::read(path).map_err(wrong)?;
            let text = specification_in(&text);
            generated(
                &name,
                &text.map_err(|error| ChainsError::of(&name, &error))?,
            )
        }
        SourceForm::Specification => {
            generated(&name, &std::fs::read_to_string(path).map_err(wrong)?)
        }
    }
}

/// Opens a table as text, from CSV or Parquet.
fn table(path: &Path) -> std::io::Result<Box<dyn std::io::Read>> {
    Ok(match TableLines::open(path)? {
        Some(lines) => Box::new(lines),
        None => Box::new(File::open(path)?),
    })
}

fn form(path: &Path) -> std::io::Result<SourceForm> {
    // A pipe can be read only once.
    if !std::fs::metadata(path)?.is_file() {
        return Ok(SourceForm::Table);
    }
    let mut first = Vec::new();
    File::open(path)?.take(512).read_to_end(&mut first)?;
    let is_toml = path
        .extension()
        .is_some_and(|extension| extension == "toml");
    Ok(if first.trim_ascii_start().starts_with(b"{") {
        SourceForm::Characterisation
    } else if is_toml {
        SourceForm::Specification
    } else {
        SourceForm::Table
    })
}

/// The specification in a characterisation.
fn specification_in(json: &[u8]) -> Result<String, String> {
    let told: Value =
        serde_json::from_slice(json).map_err(|error| format!("it is not valid JSON: {error}"))?;
    let schema = told["schema"].as_str().unwrap_or_default();
    if schema != SCHEMA {
        return Err(format!(
            "its `schema` is `{schema}`, not `{SCHEMA}`, which `headlong trace characterise --json` \
             writes"
        ));
    }
    let text = told["specification"].as_str();
    text.map(str::to_owned).ok_or_else(|| {
        "it has no `specification`; create it with `headlong trace characterise LOG --json \
             --spec FILE`"
            .to_owned()
    })
}

/// Stretches the times of chains until their sessions read as many bytes in a second as those of
/// the log that the specification was fitted to: memory and viewers of a plan depend on it, and the
/// fit of buffers does not aim at it. Chains of a session are consecutive.
fn stretch(rows: &mut [ChainRow], bytes_per_s: f64) {
    for _ in 0..STRETCHES {
        let (mut bytes, mut present) = (0_u64, 0_u64);
        for session in rows.chunk_by(|one, other| one.session == other.session) {
            bytes += session.iter().map(|row| row.length).sum::<u64>();
            present += present_ms(session.iter().map(|row| (row.start_ms, row.end_ms)));
        }
        let factor = bytes as f64 * 1000.0 / present.max(1) as f64 / bytes_per_s;
        for row in &mut *rows {
            let lasts_ms = (row.end_ms - row.start_ms) as f64 * factor;
            row.end_ms = row.start_ms + lasts_ms.round() as i64;
        }
    }
}

/// The chains of a log generated from a specification.
fn generated(name: &str, text: &str) -> Result<(ParsedTable, Option<FilesTable>), ChainsError> {
    let specification = PhasedSpecification::read(name, text, &[]);
    let specification = specification.map_err(|error| ChainsError::Wrong(error.to_string()))?;
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let bit_rate = |file: u32| BitRate::from_kbps(u64::from(catalogue.files[file as usize].kbps));
    let mut joiner = Joiner::new(headlong_chains::ChainRules::default());
    let (mut lines, mut chains, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let mut sessions = PhasedSessions::new(&specification, &catalogue, SEED);
    while let Some(session) = sessions.next() {
        session.logged(&catalogue, &mut lines);
        joiner.join(&lines, &mut chains);
        let row = |chain: &Chain| ChainRow::of(chain, Some(bit_rate(chain.file)));
        rows.extend(chains.iter().map(row));
        sessions.recycle(session);
    }
    if let Some(pace) = Some(specification.sessions.read_bytes_per_s).filter(|pace| *pace > 0.0) {
        stretch(&mut rows, pace);
    }
    let table = ChainTable::new(rows).map_err(|error| ChainsError::of(name, &error))?;
    let facts = (0..).zip(&catalogue.files).map(|(number, file)| {
        let facts = FileFacts {
            bit_rate: Some(bit_rate(number)),
            disk: Some(file.disk),
            size_bytes: Some(file.size),
        };
        (number.to_string(), facts)
    });
    let files = FilesTable {
        files: facts.collect(),
        dropped: DroppedLines::default(),
    };
    let at_least = specification.catalogue.bytes_are == BytesKnown::AtLeast;
    let read = ParsedTable {
        table,
        has_sessions: true,
        is_generated: true,
        scattered: None,
        catalogue: (specification.catalogue.bytes > 0).then_some(CatalogueBytes {
            bytes: specification.catalogue.bytes,
            is_least: at_least,
        }),
        files: (0..catalogue.files.len())
            .map(|file| file.to_string())
            .collect(),
        unlisted: 0,
        dropped: DroppedLines::default(),
    };
    Ok((read, Some(files)))
}
