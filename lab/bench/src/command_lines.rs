//! The commands of a run that every server has: sessions are generated, and played against it.

use std::path::Path;

use crate::experiment::{Cell, Experiment};
use crate::rig;
use crate::words::Words;

/// Of the server, in a network of its own.
pub(crate) const PORT: u16 = 8080;
pub(crate) const ADMIN_PORT: u16 = 8081;
/// Where a cache's file system is mounted, in the bench's folder.
pub(crate) const SSD_POINT: &str = "ssd";

/// What is offered for how long, one after the other, in a run that begins with this rate.
pub(crate) fn stretches(
    experiment: &Experiment,
    rate: f64,
) -> Vec<(f64, headlong_units::Duration)> {
    match experiment.climb {
        Some(climb) => climb.starting_at(rate).stretches(),
        None => vec![(rate, experiment.phases.whole())],
    }
}

/// The command that writes the sessions of one stretch.
pub(crate) fn generate_words(
    headlong: &Path,
    cell: &Cell,
    (rate, length): (f64, headlong_units::Duration),
    seed: u64,
    file: &Path,
) -> Vec<String> {
    Words::of(headlong, "workload generate")
        .word(&cell.workload.preset)
        .option("--rate", format_args!("{}B/s", rate.round()))
        .option("--duration", format_args!("{}ms", length.as_millis()))
        .option("--seed", seed)
        .option("-o", file.display())
        .changes(&cell.changes())
        .0
}

/// The command that plays them.
pub(crate) fn load_words(
    experiment: &Experiment,
    headlong: &Path,
    trace: &Path,
    result: &Path,
    ends_at_failure: bool,
) -> Vec<String> {
    let phases = &experiment.phases;
    let mut words = Words(rig::on_time())
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
        // Sessions go on for up to ten minutes after the last has come, under less and less load.
        .plain("--end-with-arrivals")
        .option("--json", result.display())
        .0;
    // One failure decides only under the strict rule.
    if ends_at_failure && experiment.search.failures_max == 0.0 {
        words.push("--stop-at-failure".into());
    }
    words
}
