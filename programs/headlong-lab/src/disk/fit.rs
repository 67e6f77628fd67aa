//! `headlong disk fit`: fits a model to the measurements of a disk.

use std::io::stdin;

use headlong_drive::{DriveSpec, Measurements};

use super::mistake;
use crate::output::print;

/// Arguments of `disk fit`.
#[derive(Debug, clap::Args)]
pub(crate) struct FitArgs {
    /// Name of the model
    #[arg(value_name = "NAME")]
    name: String,
}

/// Reads measurements and prints the model.
pub(crate) fn fit(fitting: &FitArgs) -> anyhow::Result<()> {
    let measured = serde_json::from_reader(stdin().lock())
        .map_err(|error| mistake(format!("standard input: {error}")))?;
    print(&model(&fitting.name, &measured).unwrap_or_default())
}

/// The model of a drive that is itself a model, as text; its sources do not claim a real drive.
pub(super) fn model_of_model(name: &str, measured: &Measurements) -> Option<String> {
    let mut fitted = headlong_drive::fit(name, measured);
    fitted.sources = format!(
        "Fitted to the model {name} in virtual time, not to a drive: a start for a drive file, \
         which says here where each figure is from."
    );
    toml::to_string(&DriveSpec::HardDrive(fitted)).ok()
}

/// The model as text.
pub(super) fn model(name: &str, measured: &Measurements) -> Option<String> {
    toml::to_string(&DriveSpec::HardDrive(headlong_drive::fit(name, measured))).ok()
}
