//! Identity of runs: decides whether a record can be used in place of a new run.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};
use xxhash_rust::xxh3::Xxh3;

use crate::experiment::{Experiment, ExperimentCell, Simulation, is_file};
use crate::load_result::QualityRules;
use crate::record::RunKey;

/// This program, even if its file was replaced since the start.
const OWN: &str = "/proc/self/exe";

/// The identity of a run; `settings` is the result of [`of_run`].
pub(crate) fn key(cell: &ExperimentCell, rate: f64, seed: u64, settings: Value) -> RunKey {
    RunKey {
        server: cell.server_name.clone(),
        workload: cell.workload_name.clone(),
        rate,
        seed,
        experiment: settings,
    }
}

/// Identifies the build that makes real runs: this program, and the one that it starts. Two builds
/// of one version may differ as much as two versions.
pub(crate) fn build(headlong: &Path) -> io::Result<String> {
    let started = hash_of(headlong)?;
    Ok(format!("{} {started}", own_build()))
}

/// Identifies the build that makes virtual runs.
pub(crate) fn own_build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        // Linux always permits a process to read its own program.
        let hash = hash_of(Path::new(OWN)).unwrap_or_default();
        format!("{} {hash}", env!("CARGO_PKG_VERSION"))
    })
}

/// A hash of a file's content.
fn hash_of(file: &Path) -> io::Result<String> {
    let mut file = File::open(file)?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:016x}", hash.digest())),
            count => hash.update(&buffer[..count]),
        }
    }
}

/// Settings that determine a run besides its rate and seed, and whether it ends at the first
/// failure. A run that did contains no data after the failure.
pub(crate) fn of_run(mut settings: Value, ends_at_failure: bool) -> Value {
    settings["ends_at_failure"] = json!(ends_at_failure);
    settings
}

/// All settings that determine the runs of a pair with this build, as stored in records.
pub(crate) fn settings(experiment: &Experiment, cell: &ExperimentCell, build: &str) -> Value {
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
        // Accepted lateness of a drive, and so the error of a rate, depends on the resolution.
        "resolution": experiment.search.resolution,
        "build": build,
        "workload": cell.workload.preset,
        "set": cell.workload.set,
        "server": format!("{:?}", cell.server.kind),
    });
    // Presets are part of the build; files may be edited.
    for (key, name) in [
        ("workload_hash", &cell.workload.preset),
        ("catalogue_hash", &cell.files.catalogue),
        ("drive_hash", &cell.workload.drive.preset),
    ] {
        if is_file(name) {
            settings[key] = json!(hash_of(Path::new(name)).ok());
        }
    }
    if experiment.search.quality != QualityRules::default() {
        settings["quality"] = json!(experiment.search.quality);
    }
    if let Some(grain) = experiment.search_grain {
        settings["grain"] = json!(grain);
    }
    if experiment.simulation != Simulation::default() {
        settings["simulation"] = json!(format!("{:?}", experiment.simulation));
    }
    if !cell.server.engine.is_empty() {
        settings["engine"] = json!(cell.server.engine);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_build_and_resolution_identify_a_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("own.toml");
        std::fs::write(&file, "first").expect("written");
        let text = format!(
            "name = \"x\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n[files]\ncatalogue = \"{0}\"\n\
             [workload.own]\npreset = \"{0}\"\n[server.a]\nkind = \"nginx\"\n",
            file.display()
        );
        let experiment = Experiment::from_text(Path::new("x.toml"), &text, false);
        let mut experiment = experiment.expect("right");
        let cell = experiment.cell(None, None).expect("one");
        let first = settings(&experiment, &cell, "1.0 a");
        assert_eq!(first, settings(&experiment, &cell, "1.0 a"));
        assert_ne!(first, settings(&experiment, &cell, "1.0 b"));
        assert_ne!(of_run(first.clone(), true), of_run(first.clone(), false));
        std::fs::write(&file, "second").expect("written");
        let second = settings(&experiment, &cell, "1.0 a");
        for key in ["workload_hash", "catalogue_hash"] {
            assert!(first[key].is_string() && first[key] != second[key], "{key}");
        }
        experiment.search.resolution *= 2.0;
        assert_ne!(second, settings(&experiment, &cell, "1.0 a"));
    }

    #[test]
    fn build_is_identified_by_program_content() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("headlong");
        let named = |content: &[u8]| {
            std::fs::write(&program, content).expect("written");
            build(&program).expect("the program exists")
        };
        let (one, two) = (named(b"one"), named(b"two"));
        assert_ne!(one, two);
        assert_eq!(one, named(b"one"));
        assert!(one.starts_with(own_build()), "{one}");
        assert!(build(&folder.path().join("nobody")).is_err());
    }
}
