//! Parses a file into an [`Experiment`]: one row per setting, then checks across settings.

use std::collections::BTreeMap;
use std::path::Path;

use headlong_settings::{
    Document, Mistakes, Rows, ValueKind, ValueLocation, bit_rate, flag, number, parsed, rate,
    share, size, suggestion, text, time, whole,
};
use headlong_units::{BitRate, Duration};
use headlong_workload::{TitleForm, preset};

use super::changes::{KeyChange, change};
use super::drive::{drive_rows, flash, is_file};
use super::servers::{by_name, kernel_rows, known, one_of, servers, some};
use super::simulation::simulation;
use super::step_load;
use super::{
    Baseline, BlockQueueOverrides, BlockQueueSettings, Cache, CacheKind, Experiment,
    ExperimentDrive, PhaseDurations, SearchRules, ServerKind, ServerSpec, WorkloadSpec,
};

/// The manual page that lists all settings.
const MANUAL: &str = "docs/lab/bench.md";

/// Above this scale, a millisecond of lateness is a tenth of a second of model time.
const TIME_SCALE_MAX: u32 = 100;
const FILE_SYSTEMS: &[&str] = &["ext4", "xfs"];
/// Below this, a step of the search is lost in the scatter of single runs.
const RESOLUTION_MIN: f64 = 0.005;

impl Experiment {
    /// Reads a file; with `is_quick`, values of its table `[quick]` replace the others.
    ///
    /// # Errors
    /// All mistakes in the file.
    pub fn load(file: &Path, is_quick: bool) -> Result<Self, Mistakes> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::from_text(file, &text, is_quick),
            Err(error) => {
                let whole = ValueLocation::File(file.display().to_string());
                Err(Mistakes::at(&whole, [format!("cannot be read: {error}")]))
            }
        }
    }

    /// Like [`Experiment::load`], with `text` as the content of `file`.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn from_text(file: &Path, text: &str, is_quick: bool) -> Result<Self, Mistakes> {
        Self::of_text(file, text, is_quick, &[])
    }

    /// The same, with changed keys.
    pub(super) fn of_text(
        file: &Path,
        text: &str,
        is_quick: bool,
        changes: &[KeyChange],
    ) -> Result<Self, Mistakes> {
        let mut document = Document::new(&file.display().to_string(), MANUAL, text);
        change(&mut document, text, changes);
        let experiment = experiment(&mut document, is_quick);
        document.finish(experiment.clone()).map_err(|mut mistakes| {
            // For a valid experiment, `check_workloads` reports them.
            let others = experiment.wrong_specifications(&mistakes);
            let whole = ValueLocation::File(file.display().to_string());
            mistakes.extend(Mistakes::at(&whole, others));
            mistakes
        })
    }
}

/// All settings except tables with user-chosen names.
#[rustfmt::skip]
fn rows() -> Rows<Experiment> {
    let mut rows = Rows::<Experiment>::default();
    rows.add("name", text(), |e| &mut e.name, "");
    rows.add("about", text(), |e| &mut e.about, "");
    rows.add("seed", whole(), |e| &mut e.seed, "");
    rows.add("memory", size().optional(), |e| &mut e.memory, "");
    rows.add("warm_metadata", flag(), |e| &mut e.warm_metadata, "");
    rows.add("files.catalogue", text(), |e| &mut e.files.catalogue, "");
    rows.add("files.chunk", form(), |e| &mut e.files.form, "");
    rows.add("files.file_system", one_of(FILE_SYSTEMS), |e| &mut e.files.file_system, "");
    let network = "network.congestion_control";
    rows.add(network, text(), |e| &mut e.network.congestion_control, "");
    rows.add("search.stalled", share().optional(), |e| &mut e.search.quality.stalled_max, "");
    rows.add("search.bit_rate", some_rate().optional(), |e| &mut e.search.quality.bit_rate_min, "");
    rows.add("search.failures", share(), |e| &mut e.search.failures_max, "");
    rows.add("search.step", share(), |e| &mut e.search.step, "");
    rows.add("search.resolution", resolution(), |e| &mut e.search.resolution, "");
    rows.add("search.grain", rate().optional(), |e| &mut e.search_grain, "");
    rows.add("search.confirm", some(), |e| &mut e.search.confirm, "");
    rows.add("search.probes_max", some(), |e| &mut e.search.probes_max, "");
    rows.add("phases.ramp_up", time(), |e| &mut e.phases.ramp_up, "");
    rows.add("phases.measured", measured(), |e| &mut e.phases.measured, "");
    rows.add("phases.ramp_down", time(), |e| &mut e.phases.ramp_down, "");
    rows.add("time_scale", time_scale(), |e| &mut e.time_scale, "");
    rows.add("repeats", some(), |e| &mut e.repeats, "");
    rows
}

/// Settings allowed in `[quick]`.
fn quick_rows() -> Rows<Experiment> {
    let mut rows = Rows::<Experiment>::default();
    rows.add("time_scale", time_scale(), |e| &mut e.time_scale, "");
    rows.add("repeats", some(), |e| &mut e.repeats, "");
    rows.add("ramp_up", time(), |e| &mut e.phases.ramp_up, "");
    rows.add("measured", measured(), |e| &mut e.phases.measured, "");
    rows.add("ramp_down", time(), |e| &mut e.phases.ramp_down, "");
    rows.add("step", share(), |e| &mut e.search.step, "");
    rows.add("resolution", resolution(), |e| &mut e.search.resolution, "");
    rows.add("confirm", some(), |e| &mut e.search.confirm, "");
    rows.add("probes_max", some(), |e| &mut e.search.probes_max, "");
    rows
}

fn workload_rows() -> Rows<WorkloadSpec> {
    let mut rows = Rows::<WorkloadSpec>::default();
    rows.add("preset", text(), |w| &mut w.preset, "");
    rows.add("rate", rate().optional(), |w| &mut w.rate, "");
    rows.add("chunk", form().optional(), |w| &mut w.form, "");
    rows
}

/// A whole number, as in `headlong serve`.
fn time_scale() -> ValueKind<u32> {
    whole().between(1, TIME_SCALE_MAX)
}

fn measured() -> ValueKind<Duration> {
    time().at_least(Duration::from_millis(1))
}

/// With a finer resolution, a step of the search is lost in the scatter of single runs.
fn resolution() -> ValueKind<f64> {
    share().between(RESOLUTION_MIN, 1.0)
}

fn some_rate() -> ValueKind<BitRate> {
    bit_rate().at_least(BitRate::from_kbps(1))
}

/// Division of a title into files.
fn form() -> ValueKind<TitleForm> {
    let kind = parsed("a size such as \"512KiB\", or \"segment\", or \"off\"");
    kind.check(|form, _| match form {
        TitleForm::Chunks(0) => Err("is 0; leave it out for one file per title".to_owned()),
        _ => Ok(()),
    })
}

fn experiment(document: &mut Document, is_quick: bool) -> Experiment {
    let mut experiment = Experiment::default();
    rows().read(document, "", &mut experiment);
    drive_rows().read(document, "drive", &mut experiment.drive);
    experiment.flash = flash(document);
    experiment.simulation = simulation(document);
    experiment.climb = step_load::climb(document);
    let kernel = &mut BlockQueueOverrides::default();
    kernel_rows().read(document, "kernel", kernel);
    experiment.kernel = BlockQueueSettings::default().with(kernel);
    experiment.files.set = words(document, "files.set");
    check_named(document, &experiment);
    check_search(document, "search", &experiment.search);
    for name in document.children("workload") {
        let table = format!("workload.{name}");
        let mut workload = WorkloadSpec::default();
        workload_rows().read(document, &table, &mut workload);
        workload.drive = experiment.drive.clone();
        let drive = format!("{table}.drive");
        drive_rows().read(document, &drive, &mut workload.drive);
        if workload.drive.device != experiment.drive.device {
            document.wrong_too(&format!("{drive}.device"), "belongs into [drive]");
        }
        if workload.drive.preset != experiment.drive.preset {
            check_drive(document, &format!("{drive}.preset"), &workload.drive.preset);
        }
        workload.set = words(document, &format!("{table}.set"));
        check_workload(document, &format!("{table}.preset"), &workload.preset);
        experiment.workloads.insert(name, workload);
    }
    experiment.servers = servers(document, &experiment.workloads);
    if experiment.workloads.is_empty() {
        document.wrong(
            "workload",
            "there is none; write [workload.NAME] with a preset",
        );
    }
    if experiment.servers.is_empty() && document.children("server").is_empty() {
        document.wrong("server", "there is none; write [server.NAME] with its kind");
    }
    experiment.pairs = pairs(document, "compare.servers", &experiment);
    experiment.baselines = baselines(document, &experiment);
    let mut quick = experiment.clone();
    quick_rows().read(document, "quick", &mut quick);
    step_load::quick(document, &mut quick.climb);
    for experiment in [&mut experiment, &mut quick] {
        if let Some(climb) = experiment.climb {
            // The fill phase replaces the ramp.
            experiment.phases = PhaseDurations {
                ramp_up: climb.fill,
                measured: climb.step_time.times(u64::from(climb.steps)),
                ramp_down: Duration::ZERO,
            };
        }
    }
    let run = if is_quick { &quick } else { &experiment };
    run.simulation.check(document, run.phases.whole());
    if document.is_written("quick.step") || document.is_written("quick.resolution") {
        check_search(document, "quick", &quick.search);
    }
    quick
        .pairs
        .extend(pairs(document, "quick.servers", &experiment));
    for (key, scale) in [
        ("time_scale", experiment.time_scale),
        ("quick.time_scale", quick.time_scale),
    ] {
        check_pools(document, key, scale, &experiment);
        check_device_scale(document, key, scale, &experiment.drive);
    }
    check_drives(document, &experiment);
    check_device(document, &experiment);
    match is_quick {
        true => quick,
        false => experiment,
    }
}

/// A pool's clocks cannot be accelerated.
fn check_pools(document: &mut Document, key: &str, time_scale: u32, experiment: &Experiment) {
    let is_pool = |server: &&ServerSpec| {
        server
            .cache
            .is_some_and(|cache| cache.kind == CacheKind::Zfs)
    };
    if time_scale != 1 && experiment.servers.values().any(|server| is_pool(&server)) {
        let text = "must be 1 with a cache of kind zfs, which works once a second of the clock";
        document.wrong_too(key, text);
    }
}

/// A real drive has one speed.
fn check_device_scale(
    document: &mut Document,
    key: &str,
    time_scale: u32,
    drive: &ExperimentDrive,
) {
    if time_scale != 1 && drive.device.is_some() {
        document.wrong_too(key, "must be 1 with a block device as the drive");
    }
}

/// A block device is one drive with an ordinary file system.
fn check_device(document: &mut Document, experiment: &Experiment) {
    let drive = &experiment.drive;
    if drive.device.is_none() {
        return;
    }
    if drive.drives() > 1 {
        document.wrong_too("drive.count", "must be 1 with a block device as the drive");
    }
    let is_zfs = |cache: Cache| cache.kind == CacheKind::Zfs;
    let mut servers = experiment.servers.iter();
    if let Some((name, _)) = servers.find(|(_, server)| server.cache.is_some_and(is_zfs)) {
        let key = format!("server.{name}.cache.kind");
        document.wrong_too(&key, "cannot be zfs with a block device as the drive");
    }
}

/// A server that does not follow symbolic links reads from one drive.
fn check_drives(document: &mut Document, experiment: &Experiment) {
    let reads_one = |server: &ServerSpec| {
        let is_headlong = matches!(server.kind, ServerKind::Headlong { .. });
        let is_zfs = |cache: Cache| cache.kind == CacheKind::Zfs;
        is_headlong || server.mount || server.cache.is_some_and(is_zfs)
    };
    let mut one = experiment.servers.iter().filter(|(_, s)| reads_one(s));
    let Some((server, _)) = one.next() else {
        return;
    };
    let text = format!(
        "cannot be with [server.{server}]: each title is a link to one of several drives, which \
         headlong, a mount and a pool do not follow; leave out that server"
    );
    if experiment.drive.drives() > 1 {
        document.wrong_too("drive.count", text);
        return;
    }
    for (name, workload) in &experiment.workloads {
        if workload.drive.drives() > 1 {
            document.wrong_too(&format!("workload.{name}.drive.count"), text.clone());
        }
    }
}

/// The settings of a table that another program defines, as command line arguments.
fn words(document: &mut Document, table: &str) -> Vec<(String, String)> {
    let all = document.below(table).into_iter();
    all.map(|(key, value)| (key, value.to_word())).collect()
}

fn check_named(document: &mut Document, experiment: &Experiment) {
    if experiment.name.is_empty() {
        document.wrong_too("name", "is missing; write a name for the experiment");
    }
    check_drive(document, "drive.preset", &experiment.drive.preset);
    check_workload(document, "files.catalogue", &experiment.files.catalogue);
}

fn check_drive(document: &mut Document, key: &str, preset: &str) {
    let presets = || headlong_drive::presets().iter().map(|preset| preset.name);
    if preset.is_empty() {
        let all: Vec<&str> = presets().collect();
        document.wrong_too(key, format!("is missing; write one of {}", all.join(", ")));
    } else if !is_file(preset) && headlong_drive::named_drive(preset).is_err() {
        let hint = suggestion(preset, presets());
        document.wrong(key, format!("`{preset}` is not a drive; {hint}"));
    }
}

/// A workload is a preset or a file; files are read later, by `check_workloads`.
fn check_workload(document: &mut Document, key: &str, name: &str) {
    if name.is_empty() {
        let text = "is missing; write the name of a workload, or the path of a .toml file";
        document.wrong_too(key, text);
    } else if !is_file(name) && !preset::names().any(|known| known == name) {
        let hint = suggestion(name, preset::names());
        let text = format!("`{name}` is not a workload; {hint}, or write the path of a .toml file");
        document.wrong(key, text);
    }
}

fn check_search(document: &mut Document, table: &str, rules: &SearchRules) {
    if rules.step < rules.resolution {
        document.wrong_too(&format!("{table}.step"), "is smaller than `resolution`");
    }
}

fn pairs(
    document: &mut Document,
    key: &str,
    experiment: &Experiment,
) -> BTreeMap<String, Vec<String>> {
    let pairs = by_name(document, key, &text().list());
    known(document, key, pairs.keys(), &experiment.workloads);
    known(document, key, pairs.values().flatten(), &experiment.servers);
    pairs
}

fn baselines(document: &mut Document, experiment: &Experiment) -> Vec<Baseline> {
    let mut all = Vec::new();
    let mut names = document.children("baseline");
    names.sort();
    for name in names {
        let key = |key: &str| format!("baseline.{name}.{key}");
        let servers = document.get(&key("servers"), &text().list());
        let servers = servers.unwrap_or_default();
        if servers.is_empty() {
            let text = "is missing; name one, or several whose best counts";
            document.wrong_too(&key("servers"), text);
        }
        known(
            document,
            &key("servers"),
            servers.iter(),
            &experiment.servers,
        );
        let subject = document.get(&key("subject"), &text());
        if subject.is_none() {
            let text = "is missing; name the server whose ratio is reported";
            document.wrong_too(&key("subject"), text);
        }
        known(
            document,
            &key("subject"),
            subject.iter(),
            &experiment.servers,
        );
        let at_least = by_name(document, &key("at_least"), &number());
        let aim = by_name(document, &key("aim"), &number());
        for (table, ratios) in [("at_least", &at_least), ("aim", &aim)] {
            known(document, &key(table), ratios.keys(), &experiment.workloads);
        }
        all.push(Baseline {
            servers,
            subject: subject.unwrap_or_default(),
            at_least,
            aim,
            name,
        });
    }
    all
}
