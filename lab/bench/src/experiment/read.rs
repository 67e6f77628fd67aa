//! From a file to an [`Experiment`].

use std::collections::BTreeMap;
use std::path::Path;

use headlong_serve::config::{Config, Flags};
use headlong_units::{BitRate, Duration};
use headlong_workload::{Form, preset};

use super::mistake::{Mistakes, suggestion};
use super::section::{RATE, Reader, Section, number_of, rate_of, texts_of};
use super::{
    Apache, Baseline, DriveSpec, Experiment, FileSet, Kernel, KernelChange, Network, Nginx, Phases,
    SearchRules, Server, ServerKind, Workload,
};
use crate::quality::Quality;

/// The kernel's own default.
const READ_AHEAD_KB: u32 = 128;
/// Beyond it, a millisecond of lateness is a tenth of a second of the model's time.
const TIME_SCALE_MAX: u32 = 100;
const SCHEDULERS: &[(&str, &str)] = &[
    ("none", "none"),
    ("mq-deadline", "mq-deadline"),
    ("bfq", "bfq"),
    ("kyber", "kyber"),
];
const FILE_SYSTEMS: &[(&str, &str)] = &[("ext4", "ext4"), ("xfs", "xfs")];
/// Less than this, and a step of the search is lost in the scatter of single runs.
const RESOLUTION_MIN: f64 = 0.005;

impl Experiment {
    /// Reads a file; `is_quick` takes what its table `[quick]` says instead of the rest.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn load(file: &Path, is_quick: bool) -> Result<Self, Mistakes> {
        match std::fs::read_to_string(file) {
            Ok(text) => Self::from_text(file, &text, is_quick),
            Err(error) => Err(Mistakes::one(file, format!("cannot be read: {error}"))),
        }
    }

    /// As [`Experiment::load`] with a file of that name that holds `text`.
    ///
    /// # Errors
    /// Everything that is wrong with it, at once.
    pub fn from_text(file: &Path, text: &str, is_quick: bool) -> Result<Self, Mistakes> {
        let reader = Reader::new(file, text);
        let document = reader.parse();
        let mut top = Section::top(&reader, document.get_ref());
        let experiment = experiment(&mut top, is_quick);
        top.finish();
        reader.finish(experiment)
    }
}

fn experiment(top: &mut Section<'_, '_>, is_quick: bool) -> Experiment {
    let name = top.text("name");
    if name.as_deref() == Some("") || !top.has("name") {
        top.wrong("name", "is missing; write what the experiment is called");
    }
    let mut experiment = Experiment {
        name: name.unwrap_or_default(),
        about: top.text("about").unwrap_or_default(),
        time_scale: time_scale(top).unwrap_or(1),
        seed: top.whole("seed").unwrap_or(1),
        repeats: at_least_one(top, "repeats").unwrap_or(1),
        memory: top.bytes("memory"),
        drive: drive(top),
        files: files(top),
        kernel: kernel(top),
        network: network(top),
        phases: phases(top),
        search: search(top),
        warm_metadata: top.flag("warm_metadata").unwrap_or(true),
        workloads: BTreeMap::new(),
        servers: BTreeMap::new(),
        pairs: BTreeMap::new(),
        baselines: Vec::new(),
    };
    experiment.workloads = workloads(top);
    experiment.servers = servers(top, &experiment.workloads);
    if experiment.workloads.is_empty() {
        top.wrong(
            "workload",
            "there is none; write [workload.NAME] with a preset",
        );
    }
    if experiment.servers.is_empty() {
        top.wrong("server", "there is none; write [server.NAME] with its kind");
    }
    let mut compare = top.section("compare");
    experiment.pairs = pairs(&mut compare, &experiment);
    compare.finish();
    experiment.baselines = baselines(top, &experiment);
    quick(top, &mut experiment, is_quick);
    experiment
}

/// A whole number, as `headlong serve` takes it.
fn time_scale(section: &mut Section<'_, '_>) -> Option<u32> {
    let scale = section.whole("time_scale")?;
    let fits = (1..=TIME_SCALE_MAX).contains(&scale);
    if !fits {
        let text = format!("is {scale}; write a whole number from 1 to {TIME_SCALE_MAX}");
        section.wrong("time_scale", text);
    }
    fits.then_some(scale)
}

fn at_least_one(section: &mut Section<'_, '_>, key: &'static str) -> Option<u32> {
    let number = section.whole(key)?;
    if number == 0 {
        section.wrong(key, "is 0; write at least 1");
    }
    (number > 0).then_some(number)
}

fn drive(top: &mut Section<'_, '_>) -> DriveSpec {
    let mut section = top.section("drive");
    let preset = section.text("preset");
    let presets = || headlong_drive::presets().iter().map(|preset| preset.name);
    match preset.as_deref() {
        None => section.wrong("preset", "is missing; `headlong disk presets` lists them"),
        Some(name) if !presets().any(|known| known == name) => {
            let hint = suggestion(name, presets());
            section.wrong("preset", format!("`{name}` is no drive; {hint}"));
        }
        Some(_) => {}
    }
    let spec = DriveSpec {
        preset: preset.unwrap_or_default(),
        size_bytes: section.bytes("size"),
        queue_depth: at_least_one(&mut section, "queue_depth"),
    };
    section.finish();
    spec
}

fn files(top: &mut Section<'_, '_>) -> FileSet {
    let mut section = top.section("files");
    let catalogue = section.text("catalogue");
    match &catalogue {
        None => section.wrong(
            "catalogue",
            "is missing; write the workload whose titles are stored",
        ),
        Some(name) => check_workload(&section, "catalogue", name),
    }
    let file_system = section.one_of("file_system", FILE_SYSTEMS);
    let files = FileSet {
        catalogue: catalogue.unwrap_or_default(),
        set: section.flat("set"),
        form: form(&mut section).unwrap_or_default(),
        file_system: file_system.unwrap_or("ext4").to_owned(),
    };
    section.finish();
    files
}

fn form(section: &mut Section<'_, '_>) -> Option<Form> {
    let form = section.form("chunk");
    if form == Some(Form::Chunks(0)) {
        section.wrong("chunk", "is 0; leave it out for one file a title");
    }
    form.filter(|form| *form != Form::Chunks(0))
}

/// A workload is named by a preset or by a file; a file is read when everything is.
fn check_workload(section: &Section<'_, '_>, key: &str, name: &str) {
    if !is_file(name) && !preset::names().any(|known| known == name) {
        let hint = suggestion(name, preset::names());
        let text = format!("`{name}` is no workload; {hint}, or write the path of a .toml file");
        section.wrong(key, text);
    }
}

fn is_file(name: &str) -> bool {
    name.contains(['/', '.'])
}

fn kernel(top: &mut Section<'_, '_>) -> Kernel {
    let mut section = top.section("kernel");
    let change = kernel_change(&mut section);
    section.finish();
    Kernel {
        scheduler: change.scheduler.unwrap_or_else(|| "mq-deadline".to_owned()),
        read_ahead_kb: change.read_ahead_kb.unwrap_or(READ_AHEAD_KB),
        max_sectors_kb: change.max_sectors_kb,
    }
}

fn kernel_change(section: &mut Section<'_, '_>) -> KernelChange {
    let scheduler = section.one_of("scheduler", SCHEDULERS);
    KernelChange {
        scheduler: scheduler.map(str::to_owned),
        read_ahead_kb: section.whole("read_ahead_kb"),
        max_sectors_kb: at_least_one(section, "max_sectors_kb"),
    }
}

fn network(top: &mut Section<'_, '_>) -> Network {
    let mut section = top.section("network");
    let said = section.text("congestion_control");
    let link = bit_rate(&mut section, "link", "the rate of a link, such as 1Gbps");
    section.finish();
    Network {
        congestion_control: said.unwrap_or_else(|| "reno".to_owned()),
        link,
    }
}

/// A rate in bits of a second that may be left out; `what` is what to write.
fn bit_rate(section: &mut Section<'_, '_>, key: &'static str, what: &str) -> Option<BitRate> {
    let text = section.text(key)?;
    match text.parse() {
        Ok(BitRate(0)) | Err(_) => {
            let wrong = format!("`{text}` is no rate; write {what}, or leave it out");
            section.wrong(key, wrong);
            None
        }
        Ok(rate) => Some(rate),
    }
}

fn phases(top: &mut Section<'_, '_>) -> Phases {
    let mut section = top.section("phases");
    let mut duration = |key, seconds| {
        let said = section.duration(key);
        said.unwrap_or(Duration::from_secs(seconds))
    };
    let phases = Phases {
        ramp_up: duration("ramp_up", 300),
        measured: duration("measured", 300),
        ramp_down: duration("ramp_down", 60),
    };
    if phases.measured == Duration(0) {
        section.wrong("measured", "is no time at all");
    }
    section.finish();
    phases
}

fn search(top: &mut Section<'_, '_>) -> SearchRules {
    let mut section = top.section("search");
    let quality = Quality {
        stalled_max: section.share("stalled"),
        bit_rate_min: bit_rate(
            &mut section,
            "bit_rate",
            "what viewers should see, such as 2500kbps",
        ),
    };
    let mut share = |key, default: f64| section.share(key).unwrap_or(default);
    let rules = SearchRules {
        failures_max: share("failures", 0.0),
        quality,
        step: share("step", 0.2),
        resolution: share("resolution", 0.04),
        confirm: at_least_one(&mut section, "confirm").unwrap_or(1),
        probes_max: at_least_one(&mut section, "probes_max").unwrap_or(16),
    };
    check_search(&section, &rules);
    section.finish();
    rules
}

fn check_search(section: &Section<'_, '_>, rules: &SearchRules) {
    if rules.resolution < RESOLUTION_MIN {
        section.wrong(
            "resolution",
            "is finer than single runs can tell; write at least 0.5%",
        );
    }
    if rules.step < rules.resolution {
        section.wrong("step", "is smaller than `resolution`");
    }
}

fn workloads(top: &mut Section<'_, '_>) -> BTreeMap<String, Workload> {
    let mut all = BTreeMap::new();
    for (name, mut section) in top.named("workload") {
        let preset = section.text("preset");
        match &preset {
            None => section.wrong("preset", "is missing; write a workload's name or file"),
            Some(preset) => check_workload(&section, "preset", preset),
        }
        let workload = Workload {
            preset: preset.unwrap_or_default(),
            set: section.flat("set"),
            rate: section.rate("rate"),
            form: form(&mut section),
        };
        section.finish();
        all.insert(name, workload);
    }
    all
}

fn servers(
    top: &mut Section<'_, '_>,
    workloads: &BTreeMap<String, Workload>,
) -> BTreeMap<String, Server> {
    let mut all = BTreeMap::new();
    for (name, mut section) in top.named("server") {
        let Some(kind) = server_kind(&mut section) else {
            continue;
        };
        let mut kernel = section.section("kernel");
        let change = kernel_change(&mut kernel);
        kernel.finish();
        let starts = section.pairs("rate_start", RATE, rate_of);
        known(
            &section,
            "rate_start",
            starts.iter().map(|(name, _)| name),
            workloads,
        );
        let server = Server {
            kind,
            kernel: change,
            rate_start: starts.into_iter().collect(),
            about: section.text("about").unwrap_or_default(),
        };
        section.finish();
        all.insert(name, server);
    }
    all
}

#[derive(Clone, Copy)]
enum KindName {
    Headlong,
    Nginx,
    Apache,
    Command,
}

fn server_kind(section: &mut Section<'_, '_>) -> Option<ServerKind> {
    let kinds = [
        ("headlong", KindName::Headlong),
        ("nginx", KindName::Nginx),
        ("apache", KindName::Apache),
        ("command", KindName::Command),
    ];
    let kind = section.one_of("kind", &kinds);
    if kind.is_none() && section.text("kind").is_none() {
        section.wrong(
            "kind",
            "is missing; write headlong, nginx, apache or command",
        );
    }
    Some(match kind? {
        KindName::Headlong => headlong(section),
        KindName::Nginx => ServerKind::Nginx(nginx(section)),
        KindName::Apache => ServerKind::Apache(Apache {
            mmap: section.flag("mmap").unwrap_or(true),
            sendfile: section.flag("sendfile").unwrap_or(false),
            workers: at_least_one(section, "workers").unwrap_or(2048),
            directives: section.text("directives").unwrap_or_default(),
        }),
        KindName::Command => {
            let words = section.texts("command").unwrap_or_default();
            if !words.iter().any(|word| word.contains("{port}")) {
                let text = "must name its port: write {port} where it belongs, and {root}";
                section.wrong("command", text);
            }
            ServerKind::Command { words }
        }
    })
}

/// The server's own check, before anything is started.
fn headlong(section: &mut Section<'_, '_>) -> ServerKind {
    let config = section.foreign("config").unwrap_or_default();
    let flags = Flags {
        roots: vec!["/".into()],
        ..Flags::default()
    };
    if let Err(errors) = Config::from_text(Path::new("config"), &config, &flags) {
        for error in errors.iter() {
            section.wrong("config", format!("{}: {}", error.key, error.text));
        }
    }
    ServerKind::Headlong { config }
}

fn nginx(section: &mut Section<'_, '_>) -> Nginx {
    let aio = section.one_of("aio", &[("threads", true), ("off", false)]);
    let buffers = section.section("output_buffers");
    let output_buffers = output_buffers(buffers);
    let aio_threads = aio.unwrap_or(true);
    Nginx {
        aio_threads,
        threads: at_least_one(section, "threads").unwrap_or(64),
        workers: at_least_one(section, "workers").unwrap_or(if aio_threads { 2 } else { 64 }),
        sendfile: section.flag("sendfile").unwrap_or(true),
        output_buffers,
        directio_bytes: section.bytes("directio"),
        directives: section.text("directives").unwrap_or_default(),
    }
}

fn output_buffers(mut section: Section<'_, '_>) -> Option<(u32, u64)> {
    let is_there = section.is_there();
    let number = at_least_one(&mut section, "number");
    let size = section.bytes("size");
    if is_there && (number.is_none() || size.is_none()) {
        section.wrong("", "write both: { number = 2, size = \"512KiB\" }");
    }
    section.finish();
    Some((number?, size?))
}

/// Complains of names that are none of `all`.
fn known<'n, T>(
    section: &Section<'_, '_>,
    key: &str,
    names: impl Iterator<Item = &'n String>,
    all: &BTreeMap<String, T>,
) {
    for name in names.filter(|name| !all.contains_key(*name)) {
        let hint = suggestion(name, all.keys().map(String::as_str));
        section.wrong(key, format!("`{name}` is not in this experiment; {hint}"));
    }
}

fn pairs(section: &mut Section<'_, '_>, experiment: &Experiment) -> BTreeMap<String, Vec<String>> {
    let what = "for each workload a list of servers";
    let pairs = section.pairs("servers", what, texts_of);
    let workloads = pairs.iter().map(|(workload, _)| workload);
    known(section, "servers", workloads, &experiment.workloads);
    let servers = pairs.iter().flat_map(|(_, servers)| servers);
    known(section, "servers", servers, &experiment.servers);
    pairs.into_iter().collect()
}

fn baselines(top: &mut Section<'_, '_>, experiment: &Experiment) -> Vec<Baseline> {
    let mut all = Vec::new();
    for (name, mut section) in top.named("baseline") {
        let servers = section.texts("servers").unwrap_or_default();
        if servers.is_empty() {
            section.wrong(
                "servers",
                "is missing; name one, or several whose best counts",
            );
        }
        known(&section, "servers", servers.iter(), &experiment.servers);
        let subject = section.text("subject");
        if subject.is_none() {
            section.wrong("subject", "is missing; name the server whose ratio is told");
        }
        known(&section, "subject", subject.iter(), &experiment.servers);
        let ratio = "a ratio such as 2.5";
        let at_least = section.pairs("at_least", ratio, number_of);
        let aim = section.pairs("aim", ratio, number_of);
        let named = at_least.iter().chain(&aim).map(|(name, _)| name);
        known(&section, "at_least", named, &experiment.workloads);
        section.finish();
        all.push(Baseline {
            name,
            servers,
            subject: subject.unwrap_or_default(),
            at_least: at_least.into_iter().collect(),
            aim: aim.into_iter().collect(),
        });
    }
    all
}

/// What is different in the quick form; read, and so checked, even if it is not wanted.
fn quick(top: &mut Section<'_, '_>, experiment: &mut Experiment, is_wanted: bool) {
    let mut section = top.section("quick");
    let mut quick = experiment.clone();
    quick.time_scale = time_scale(&mut section).unwrap_or(quick.time_scale);
    quick.repeats = at_least_one(&mut section, "repeats").unwrap_or(quick.repeats);
    let phases = &mut quick.phases;
    phases.ramp_up = section.duration("ramp_up").unwrap_or(phases.ramp_up);
    phases.measured = section.duration("measured").unwrap_or(phases.measured);
    phases.ramp_down = section.duration("ramp_down").unwrap_or(phases.ramp_down);
    let rules = &mut quick.search;
    rules.step = section.share("step").unwrap_or(rules.step);
    rules.resolution = section.share("resolution").unwrap_or(rules.resolution);
    rules.confirm = at_least_one(&mut section, "confirm").unwrap_or(rules.confirm);
    rules.probes_max = at_least_one(&mut section, "probes_max").unwrap_or(rules.probes_max);
    if section.has("step") || section.has("resolution") {
        check_search(&section, rules);
    }
    let pairs = pairs(&mut section, experiment);
    quick.pairs.extend(pairs);
    section.finish();
    if is_wanted {
        *experiment = quick;
    }
}
