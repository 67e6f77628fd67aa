//! Command lines common to all servers: generate the sessions, play them against the server.

use std::path::Path;

use crate::experiment::{Experiment, ExperimentCell};
use crate::rig;
use crate::servers::{CommandBuilder, PORT};

/// Mount point of a cache's file system, in the bench's working folder.
pub(crate) const SSD_POINT: &str = "ssd";

/// Offered rates and their durations, consecutively, in a run that begins with this rate.
pub(crate) fn stretches(
    experiment: &Experiment,
    rate: f64,
) -> Vec<(f64, headlong_units::Duration)> {
    match experiment.climb {
        Some(climb) => climb.starting_at(rate).stretches(),
        None => vec![(rate, experiment.phases.whole())],
    }
}

/// The command that writes the sessions of one period.
pub(crate) fn generate_words(
    headlong: &Path,
    cell: &ExperimentCell,
    (rate, length): (f64, headlong_units::Duration),
    seed: u64,
    file: &Path,
) -> Vec<String> {
    CommandBuilder::of(headlong, "workload generate")
        .word(&cell.workload.preset)
        .option("--rate", format_args!("{}B/s", rate.round()))
        .option("--duration", format_args!("{}ms", length.as_millis()))
        .option("--seed", seed)
        .option("-o", file.display())
        .changes(&cell.changes())
        .0
}

/// The command that plays the sessions.
pub(crate) fn load_words(
    experiment: &Experiment,
    headlong: &Path,
    trace: &Path,
    result: &Path,
    ends_at_failure: bool,
) -> Vec<String> {
    let phases = &experiment.phases;
    let mut words = CommandBuilder(rig::on_time())
        .word(headlong.display())
        .plain("load")
        .word(trace.display())
        .word(format_args!("http://127.0.0.1:{PORT}"))
        .option("--time-scale", experiment.time_scale)
        .option(
            "--ramp-up",
            format_args!("{}ms", phases.ramp_up.as_millis()),
        )
        .option(
            "--ramp-down",
            format_args!("{}ms", phases.ramp_down.as_millis()),
        )
        // Sessions last up to ten minutes after the last arrival, with decreasing load.
        .plain("--end-with-arrivals")
        .option("--json", result.display())
        .0;
    // A single failure ends the run only if the search allows none.
    if ends_at_failure && experiment.search.failures_max == 0.0 {
        words.push("--stop-at-failure".into());
    }
    words
}
