//! `headlong disk probe`: what a drive can do, measured from outside.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use headlong_drive::{DriveSpec, Measurements, Phase, fit};
use headlong_stats::Cdf;
use headlong_units::Bytes;
use headlong_vdisk::probe::{
    BlockSizes, DeviceTarget, ModelTarget, ProbeError, SeekTest, Target, WritePlan,
    find_block_size, test_seeks,
};
use serde_json::{Value, json};

use super::emulate::drive_spec;
use super::layout::people;
use super::{check_folder, mistake, print, probe_page};
use crate::mistake::Mistakes;

/// What a label most often says, for a drive that does not tell.
const RPM_USUAL: u32 = 7200;
/// Reads from one end of the addresses to the other that take less than this, in microseconds, moved
/// no arm, whatever the kernel says of a disk that is a file or somebody else's machine.
const ARM_US: f64 = 1_500.0;

/// What to measure, and what to make of it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk probe /dev/sdb --report sdb.html -o sdb.toml
  headlong disk probe wd-red-wd10efrx
  headlong disk probe sdb.toml --json
  headlong disk probe /dev/nvme1n1 --write --yes-destroy-data --region 64GiB --writes 200")]
pub(crate) struct Probing {
    /// A block device, a file on one, the name of a preset, or a file that describes a drive (its
    /// name ends in .toml)
    #[arg(value_name = "DEV|PRESET|FILE.toml")]
    drive: String,
    /// Turns per minute, as on the drive's label [default: what the drive says, else 7200]
    #[arg(long, value_name = "RPM", value_parser = clap::value_parser!(u32).range(60..=100_000))]
    rpm: Option<u32>,
    /// Also find the optimal block size for writing; destroys what is on a real device
    #[arg(long)]
    write: bool,
    /// Yes, what is on the device may be destroyed
    #[arg(long, requires = "write")]
    yes_destroy_data: bool,
    /// How much of the device to write to, from its start [default: all of it]
    #[arg(long, value_name = "SIZE")]
    region: Option<Bytes>,
    /// Writes of each size, in order and again at random; at least 200, or chance alone makes a
    /// divergence of the threshold's size
    #[arg(long, value_name = "N", default_value = "640", value_parser = clap::value_parser!(u32).range(200..=100_000))]
    writes: u32,
    /// Before each run, writes of its own kind over this share of what is written to: how an SSD with
    /// flash to spare comes into the state that lasts [default: 1 for a model, 0 for a device, as in
    /// the paper]
    #[arg(long, value_name = "SHARE")]
    settle: Option<f64>,
    /// Distributions with a divergence below this are alike, in nats
    #[arg(long, value_name = "NATS", default_value = "0.1")]
    threshold: f64,
    /// Print figures and model as one JSON object
    #[arg(long)]
    json: bool,
    /// Write a page with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the fitted model to this file
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) name: String,
    /// What it is, in words.
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
    pub(super) turns: bool,
    /// Whether nobody knew how often it turns.
    is_rpm_guessed: bool,
    pub(super) seeks: SeekTest,
    pub(super) blocks: Option<BlockSizes>,
    pub(super) threshold: f64,
    /// The model, and as text.
    pub(super) model: Option<(DriveSpec, String)>,
}

/// Something to be measured, and what is known of it before.
struct Subject {
    name: String,
    kind: &'static str,
    target: Box<dyn Target>,
    rotational: Option<bool>,
    rpm: Option<u32>,
    finds_blocks: bool,
    settle: f64,
}

/// Measures and tells.
pub(crate) fn probe(probing: &Probing) -> anyhow::Result<()> {
    let subject = subject(probing)?;
    let probe = measure(probing, subject).map_err(told)?;
    if let Some(path) = &probing.report {
        probe_page::page(&probe).write(path).map_err(mistake)?;
    }
    print(&match probing.json {
        true => format!("{}\n", to_json(&probe)),
        false => tell(&probe, probing.output.is_none()),
    })?;
    // Last, so that what was measured is not lost with a model that cannot be had.
    match &probing.output {
        Some(path) => write_model(&probe, path),
        None => Ok(()),
    }
}

fn write_model(probe: &Probe, path: &Path) -> anyhow::Result<()> {
    let Some((_, text)) = &probe.model else {
        return Err(mistake(format!(
            "--output: only models of disks that turn can be fitted; {} was not written",
            path.display()
        )));
    };
    fs::write(path, text).map_err(|error| mistake(format!("{}: {error}", path.display())))
}

fn told(error: ProbeError) -> anyhow::Error {
    match error.is_mistake() {
        true => mistake(error),
        false => error.into(),
    }
}

/// What the name stands for. A path is a device or a file; anything else is a preset.
fn subject(probing: &Probing) -> anyhow::Result<Subject> {
    let name = probing.drive.as_str();
    check_arguments(probing)?;
    let path = Path::new(name);
    if name.ends_with(".toml") || !(name.contains('/') || path.exists()) {
        return match drive_spec(name) {
            Ok(spec) => Ok(modelled(&spec, probing)),
            Err(error) if name.ends_with(".toml") => Err(mistake(error)),
            Err(error) => Err(mistake(format!(
                "{error}; a device is named by its path, such as /dev/sdb"
            ))),
        };
    }
    if probing.write && !probing.yes_destroy_data {
        return Err(mistake(format!(
            "--write destroys what is on {name}; if that is meant, say so with --yes-destroy-data"
        )));
    }
    let opened = match probing.write {
        true => DeviceTarget::open_for_writing(path),
        false => DeviceTarget::open(path),
    };
    let target = opened.map_err(told)?;
    let facts = target.facts().clone();
    Ok(Subject {
        name: match &facts.model {
            Some(model) => format!("{name} ({model})"),
            None => name.to_string(),
        },
        kind: "measured by the clock",
        target: Box::new(target),
        rotational: facts.rotational,
        rpm: probing.rpm.or(facts.rpm),
        finds_blocks: probing.write,
        settle: probing.settle.unwrap_or(0.0),
    })
}

fn check_arguments(probing: &Probing) -> anyhow::Result<()> {
    let mut mistakes = Vec::new();
    if !(probing.threshold > 0.0 && probing.threshold.is_finite()) {
        mistakes.push(format!("--threshold: {} is not above 0", probing.threshold));
    }
    if let Some(settle) = probing.settle
        && !(0.0..=100.0).contains(&settle)
    {
        mistakes.push(format!("--settle: {settle} is not between 0 and 100"));
    }
    // Before a minute of measuring, and not behind it.
    for (flag, path) in [("--report", &probing.report), ("--output", &probing.output)] {
        mistakes.extend(path.as_deref().and_then(|path| check_folder(flag, path)));
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Mistakes(mistakes).into()),
    }
}

fn modelled(spec: &DriveSpec, probing: &Probing) -> Subject {
    let rpm = probing.rpm.or(spec.rpm());
    Subject {
        name: spec.name().to_string(),
        kind: "a model, in virtual time",
        target: Box::new(ModelTarget::new(spec)),
        rotational: Some(spec.rpm().is_some()),
        rpm,
        // Nothing is lost, and for what does not turn it is the question.
        finds_blocks: probing.write || spec.rpm().is_none(),
        settle: probing.settle.unwrap_or(1.0),
    }
}

fn measure(probing: &Probing, mut subject: Subject) -> Result<Probe, ProbeError> {
    let (name, target) = (subject.name, &mut *subject.target);
    let bytes = target.sectors() * headlong_drive::SECTOR_BYTES;
    let rpm = subject.rpm.unwrap_or(RPM_USUAL);
    let mut seeks = test_seeks(target, &name, rpm, &mut |phase| {
        eprintln!("headlong: {name}: {}", phase_name(phase));
    })?;
    let has_arm = seeks.measured.full_stroke_us > ARM_US;
    let turns = has_arm && subject.rotational != Some(false);
    if !turns {
        seeks.measured.rpm = 0;
    }
    let blocks = match subject.finds_blocks {
        true => Some(blocks(probing, target, &name, subject.settle)?),
        false => None,
    };
    let model = turns.then(|| DriveSpec::HardDrive(fit(&name, &seeks.measured)));
    let as_text = |spec| toml::to_string(&spec).ok().map(|text| (spec, text));
    Ok(Probe {
        name,
        kind: subject.kind,
        bytes,
        turns,
        is_rpm_guessed: turns && subject.rpm.is_none(),
        seeks,
        blocks,
        threshold: probing.threshold,
        model: model.and_then(as_text),
    })
}

fn blocks(
    probing: &Probing,
    target: &mut dyn Target,
    name: &str,
    settle: f64,
) -> Result<BlockSizes, ProbeError> {
    let bytes = target.sectors() * headlong_drive::SECTOR_BYTES;
    let region_bytes = probing.region.map_or(bytes, |region| region.0.min(bytes));
    let plan = WritePlan {
        writes: probing.writes,
        threshold: probing.threshold,
        settle,
        ..WritePlan::of_paper(region_bytes)
    }
    .within(bytes);
    eprintln!("headlong: {name}: {} will be written", people(plan.bytes()));
    find_block_size(target, name, &plan, &mut |bytes| match bytes {
        0 => eprintln!("headlong: {name}: filling {}", people(plan.region_bytes)),
        bytes => eprintln!("headlong: {name}: writes of {}", Bytes(bytes)),
    })
}

pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::FullStroke => "full stroke",
        Phase::HalfStroke => "half stroke",
        Phase::QuarterStroke => "quarter stroke",
        Phase::ShortForward => "short steps forward",
        Phase::ShortBackward => "short steps backward",
        Phase::Outer => "rate at the start",
        Phase::Middle => "rate in the middle",
        Phase::Inner => "rate at the end",
    }
}

/// Each time of the seek test with its name, in milliseconds.
pub(super) fn times_ms(measured: &Measurements) -> Vec<(&'static str, f64)> {
    let short = |time: Option<f64>| time.unwrap_or(f64::NAN);
    let times = [
        (Phase::FullStroke, measured.full_stroke_us),
        (Phase::HalfStroke, measured.half_stroke_us),
        (Phase::QuarterStroke, measured.quarter_stroke_us),
        (Phase::ShortForward, short(measured.short_forward_us)),
        (Phase::ShortBackward, short(measured.short_backward_us)),
    ];
    let named = times
        .into_iter()
        .map(|(phase, us)| (phase_name(phase), us / 1000.0));
    named.filter(|(_, ms)| ms.is_finite()).collect()
}

/// Each rate of the test with its name, in MB/s of 10^6 bytes.
pub(super) fn rates_mb(measured: &Measurements) -> [(&'static str, f64); 3] {
    let rates = &measured.rates;
    [
        (phase_name(Phase::Outer), rates.outer_bytes_per_s),
        (phase_name(Phase::Middle), rates.middle_bytes_per_s),
        (phase_name(Phase::Inner), rates.inner_bytes_per_s),
    ]
    .map(|(name, rate)| (name, rate as f64 / 1e6))
}

/// The figures; and, if the model goes to the same place, as comments above it, so that the whole
/// is a file that describes the drive.
fn tell(probe: &Probe, with_model: bool) -> String {
    let mut text = format!("{}: {}, {}", probe.name, probe.kind, people(probe.bytes));
    let rpm = probe.seeks.measured.rpm;
    // Writing to a String cannot fail, here and below.
    let _ = match (probe.turns, probe.is_rpm_guessed) {
        (false, _) => writeln!(text, ", does not turn"),
        (true, false) => writeln!(text, ", {rpm} rpm"),
        (true, true) => writeln!(text, ", taken to turn at {rpm} rpm; --rpm says better"),
    };
    for (name, rate) in rates_mb(&probe.seeks.measured) {
        let _ = writeln!(text, "  {name:<22}{rate:>9.1} MB/s");
    }
    for (name, ms) in times_ms(&probe.seeks.measured) {
        let _ = writeln!(text, "  {name:<22}{ms:>9.2} ms");
    }
    if let Some(blocks) = &probe.blocks {
        for size in &blocks.sizes {
            let name = format!("writes of {}", Bytes(size.bytes));
            let _ = writeln!(text, "  {name:<22}{:>9.3} nats", size.divergence);
        }
        let _ = match blocks.optimal_bytes {
            Some(bytes) => writeln!(
                text,
                "  {:<22}{:>9}",
                "optimal block size",
                Bytes(bytes).to_string()
            ),
            None => writeln!(
                text,
                "  {:<22}no size has random writes like sequential ones (below {} nats)",
                "optimal block size", probe.threshold
            ),
        };
    }
    let Some((_, model)) = probe.model.as_ref().filter(|_| with_model) else {
        return text;
    };
    let comments: Vec<String> = text.lines().map(|line| format!("# {line}\n")).collect();
    format!("{}\n{model}", comments.concat())
}

fn to_json(probe: &Probe) -> Value {
    let quantiles = |times: &[f64]| match Cdf::of(times.iter().copied()) {
        Ok(cdf) => json!({
            "mean_s": cdf.mean(), "p50_s": cdf.quantile(0.5), "p90_s": cdf.quantile(0.9),
            "p99_s": cdf.quantile(0.99), "max_s": cdf.max(),
        }),
        Err(_) => Value::Null,
    };
    let size = |size: &headlong_vdisk::probe::BlockSize| {
        json!({
            "bytes": size.bytes,
            "divergence_nats": size.divergence,
            "sequential": quantiles(&size.sequential_s),
            "random": quantiles(&size.random_s),
        })
    };
    let blocks = probe.blocks.as_ref().map(|blocks| {
        json!({
            "optimal_bytes": blocks.optimal_bytes,
            "threshold_nats": probe.threshold,
            "sizes": blocks.sizes.iter().map(size).collect::<Vec<_>>(),
        })
    });
    json!({
        "name": probe.name,
        "kind": probe.kind,
        "capacity_bytes": probe.bytes,
        "turns": probe.turns,
        "is_rpm_guessed": probe.is_rpm_guessed,
        "measured": probe.seeks.measured,
        "blocks": blocks,
        "model": probe.model.as_ref().map(|(spec, _)| spec),
    })
}
