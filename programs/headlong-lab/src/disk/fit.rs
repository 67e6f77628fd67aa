//! `headlong disk fit`: a model of a disk from what was measured of it.

use std::io::stdin;

use headlong_drive::{DriveSpec, Measurements};

use super::mistake;
use crate::output::print;

/// What to fit.
#[derive(Debug, clap::Args)]
pub(crate) struct Fitting {
    /// What the model is called
    #[arg(value_name = "NAME")]
    name: String,
}

/// Reads and fits.
pub(crate) fn fit(fitting: &Fitting) -> anyhow::Result<()> {
    let measured = serde_json::from_reader(stdin().lock())
        .map_err(|error| mistake(format!("standard input: {error}")))?;
    print(&model(&fitting.name, &measured).unwrap_or_default())
}

/// The model as text.
pub(super) fn model(name: &str, measured: &Measurements) -> Option<String> {
    toml::to_string(&DriveSpec::HardDrive(headlong_drive::fit(name, measured))).ok()
}
