//! Points of a grid that are evaluated apart, on any machine: a file each, collected to the rows of
//! the whole grid.
//!
//! Invariants: the name of a point depends on everything that its result depends on, and on its
//! values; rows of two builds are never mixed, and a missing point is an error.

use std::io;
use std::path::{Path, PathBuf};

use headlong_report::write_output;
use serde::{Deserialize, Serialize};

use crate::grid::{GridPoint, GridRow, Sweep};

/// Most missing points that an error names.
const NAMED_MAX: usize = 5;

/// The rows of one point, as its file has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PointFile {
    /// Name of the point.
    id: String,
    /// The build that evaluated it.
    build: String,
    rows: Vec<GridRow>,
}

/// Why points cannot be stored or collected.
#[derive(Debug, thiserror::Error)]
pub enum PointsError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not that of its point.
    #[error("{}: is not the result of this point; remove it and simulate the point again", .0.display())]
    Foreign(PathBuf),
    /// Some points are missing.
    #[error(
        "{}: {missing} of {of} points are missing, such as {names}; simulate each with --only",
        folder.display()
    )]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// Number of missing points.
        missing: usize,
        /// Number of all points.
        of: usize,
        /// The first missing ones.
        names: String,
    },
    /// Two files are of different builds.
    #[error(
        "{}: was simulated by headlong {build}, but {} by {first_build}; simulate all points with one \
         build", path.display(), first.display()
    )]
    Builds {
        /// The first file.
        first: PathBuf,
        /// Its build.
        first_build: String,
        /// The file that differs.
        path: PathBuf,
        /// Its build.
        build: String,
    },
}

fn path_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.json"))
}

/// The result of a point in a folder; `None` if there is no file.
fn read(folder: &Path, id: &str) -> Result<Option<PointFile>, PointsError> {
    let path = path_of(folder, id);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(PointsError::File { path, source }),
    };
    match serde_json::from_slice::<PointFile>(&text) {
        Ok(file) if file.id == id => Ok(Some(file)),
        _ => Err(PointsError::Foreign(path)),
    }
}

/// Whether the folder has the result of a point by this build.
///
/// # Errors
/// If its file cannot be read, or is another one.
pub fn has_point(folder: &Path, id: &str, build: &str) -> Result<bool, PointsError> {
    Ok(read(folder, id)?.is_some_and(|file| file.build == build))
}

/// Writes the rows of a point to its file, completely or not at all; the folder exists.
///
/// # Errors
/// If it cannot be written.
pub fn store_point(
    folder: &Path,
    id: &str,
    build: &str,
    rows: &[GridRow],
) -> Result<PathBuf, PointsError> {
    let file = PointFile {
        id: id.to_owned(),
        build: build.to_owned(),
        rows: rows.to_vec(),
    };
    let path = path_of(folder, id);
    let text = serde_json::to_vec_pretty(&file).map_err(io::Error::from);
    match text.and_then(|text| write_output(&path, &text)) {
        Ok(()) => Ok(path),
        Err(source) => Err(PointsError::File { path, source }),
    }
}

/// The rows of all points, in the order of the grid.
///
/// # Errors
/// If points are missing, or were simulated by different builds, or a file cannot be read.
pub fn collect_points(
    folder: &Path,
    sweep: &Sweep,
    points: &[GridPoint],
) -> Result<Vec<GridRow>, PointsError> {
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    let mut first: Option<(PathBuf, String)> = None;
    for point in points {
        let id = sweep.id(point);
        let Some(file) = read(folder, &id)? else {
            missing.push(id);
            continue;
        };
        let path = path_of(folder, &id);
        let (first, first_build) = first.get_or_insert_with(|| (path.clone(), file.build.clone()));
        if *first_build != file.build {
            return Err(PointsError::Builds {
                first: first.clone(),
                first_build: first_build.clone(),
                path,
                build: file.build,
            });
        }
        rows.extend(file.rows);
    }
    if !missing.is_empty() {
        return Err(PointsError::Missing {
            folder: folder.to_owned(),
            missing: missing.len(),
            of: points.len(),
            names: missing[..missing.len().min(NAMED_MAX)].join(", "),
        });
    }
    Ok(rows)
}
