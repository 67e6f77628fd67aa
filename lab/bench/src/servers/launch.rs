//! Where a server is to run, and how it is started there.

use std::path::{Path, PathBuf};

use crate::experiment::Front;

/// Where a server is to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    /// The folder to serve.
    pub(crate) root: PathBuf,
    /// A folder of its own, for its configuration and what it leaves behind.
    pub(crate) folder: PathBuf,
    /// The port for viewers.
    pub(crate) port: u16,
    /// A port for what else it offers.
    pub(crate) admin_port: u16,
    /// Most memory it may use, page cache included.
    pub(crate) memory: Option<u64>,
    /// How many times faster than usual its clocks must run.
    pub(crate) time_scale: u32,
    /// The program `headlong`.
    pub(crate) headlong: PathBuf,
    /// What viewers ask in the server's place, which then listens behind it.
    pub(crate) front: Option<Front>,
}

/// How to start a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Launch {
    /// Words of the command.
    pub(crate) command: Vec<String>,
    /// Files to write before, with their text.
    pub(crate) files: Vec<(PathBuf, String)>,
    /// Where it tells about itself in JSON, at its admin port.
    pub(crate) status_path: Option<&'static str>,
    /// Where it listens.
    pub(crate) port: u16,
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// A time of so many seconds of the model, in milliseconds of the wall clock.
pub(super) fn scaled_ms(seconds: f64, place: &Place) -> u64 {
    ((seconds * 1000.0 / f64::from(place.time_scale)).round() as u64).max(1)
}
