//! Command lines common to all servers: generate the sessions, play them against the server.

use std::path::Path;

use crate::experiment::{Experiment, ExperimentCell, StepLoad};
use crate::rig;
use crate::servers::{CommandBuilder, PORT};

/// Mount point of a cache's file system, in the bench's working folder.
pub(crate) const SSD_POINT: &str = "ssd";

/// The command that writes the sessions of a run that begins with this rate.
pub(crate) fn generate_words(
    experiment: &Experiment,
    headlong: &Path,
    cell: &ExperimentCell,
    (rate, seed): (f64, u64),
    file: &Path,
) -> Vec<String> {
    let climb = experiment.climb.map(|climb| climb.starting_at(rate));
    let rate = climb.map_or(rate, |climb| climb.fill_rate);
    let mut words = CommandBuilder::of(headlong, "workload generate")
        .word(&cell.workload.preset)
        .option("--rate", format_args!("{}B/s", rate.round()))
        .option(
            "--duration",
            format_args!("{}ms", experiment.phases.whole().as_millis()),
        )
        .option("--seed", seed)
        .option("-o", file.display());
    let mut from = headlong_units::Duration::ZERO;
    for (step, length) in climb.iter().flat_map(StepLoad::stretches) {
        if from != headlong_units::Duration::ZERO {
            words = words.option("--step", format_args!("{from}={}", step / rate));
        }
        from += length;
    }
    words.changes(&cell.changes()).0
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
