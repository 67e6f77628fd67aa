//! What makes two runs the same one, so that a record is taken for the run that would be made.

use serde_json::{Value, json};

use crate::experiment::{Cell, Experiment};
use crate::quality::Quality;
use crate::record::Key;

/// What makes two runs of an experiment the same one.
pub(crate) fn key(experiment: &Experiment, cell: &Cell, rate: f64, seed: u64) -> Key {
    Key {
        server: cell.server_name.clone(),
        workload: cell.workload_name.clone(),
        rate,
        seed,
        experiment: settings(experiment, cell),
    }
}

/// Everything that decides a run but its rate and seed, as it stands in records.
pub(crate) fn settings(experiment: &Experiment, cell: &Cell) -> Value {
    let mut settings = json!({
        "drive": cell.workload.drive,
        "files": cell.files,
        "kernel": cell.kernel,
        "network": experiment.network,
        "memory_bytes": experiment.memory,
        "time_scale": experiment.time_scale,
        "warm_metadata": experiment.warm_metadata,
        "ramp_up_s": experiment.phases.ramp_up.as_secs_f64(),
        "measured_s": experiment.phases.measured.as_secs_f64(),
        "ramp_down_s": experiment.phases.ramp_down.as_secs_f64(),
        "failures_max": experiment.search.failures_max,
        "workload": cell.workload.preset,
        "set": cell.workload.set,
        "server": format!("{:?}", cell.server.kind),
    });
    if experiment.search.quality != Quality::default() {
        settings["quality"] = json!(experiment.search.quality);
    }
    if let Some(flash) = &cell.flash {
        settings["flash"] = json!(flash);
    }
    if let Some(cache) = cell.server.cache {
        settings["cache"] = json!(cache);
    }
    if let Some(climb) = experiment.climb {
        settings["climb"] = json!(climb);
    }
    if let Some(front) = cell.server.front {
        settings["front"] = json!(front.name());
    }
    if cell.server.preload {
        settings["preload"] = json!(true);
    }
    if cell.server.mount {
        settings["mount"] = json!(true);
    }
    if !cell.server.reader.is_empty() {
        settings["reader"] = json!(cell.server.reader);
    }
    settings
}
