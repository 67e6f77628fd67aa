//! `headlong disk probe`: measures the performance of a drive from outside.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use headlong_disk::{Measurements, Phase, SECTOR_BYTES};
use headlong_stats::Cdf;
use headlong_units::Bytes;
use serde_json::{Value, json};

use crate::decimal_bytes::decimal_bytes;
use crate::error::SurveyError;
use crate::output::{check_folder, print};
use crate::probe::{
    BlockSize, BlockSizes, DeviceTarget, ProbeError, SeekTest, Target, WritePlan, find_block_size,
    test_seeks,
};
use headlong_report::say;

/// The commonest label, for a drive that does not report its speed.
const RPM_USUAL: u32 = 7200;
/// Full-stroke reads below this, in microseconds, moved no arm, whatever the kernel reports about a
/// disk that is a file or a virtual machine's.
const ARM_US: f64 = 1_500.0;
/// Default number of writes of each size.
const WRITES: u32 = 640;
/// Default threshold below which distributions count as alike, in nats.
const THRESHOLD: f64 = 0.1;

/// Options of the probe.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk probe /dev/sdb --report sdb.html -o sdb.toml
  headlong disk probe wd-red-wd10efrx
  headlong disk probe sdb.toml --json
  headlong disk probe /dev/nvme1n1 --write --yes-destroy-data --region 64GiB --writes 200")]
pub struct ProbeOptions {
    /// A block device, a file on one, the name of a preset, or a file that describes a drive (its
    /// name ends in .toml)
    #[arg(value_name = "DEV|PRESET|FILE.toml")]
    drive: String,
    /// Turns per minute, as on the drive's label [default: what the drive says, else 7200]
    #[arg(long, value_name = "RPM", value_parser = clap::value_parser!(u32).range(60..=100_000))]
    rpm: Option<u32>,
    /// Also find the optimal block size for writing; destroys the content of a real device
    #[arg(long)]
    write: bool,
    /// Confirm that the content of the device may be destroyed
    #[arg(long, requires = "write")]
    yes_destroy_data: bool,
    /// Size of the region to write to, from the device's start [default: all of it]
    #[arg(long, value_name = "SIZE")]
    region: Option<Bytes>,
    /// Writes of each size, sequential and again random; with fewer than 200, chance alone causes a
    /// divergence as large as the threshold
    #[arg(long, value_name = "N", default_value_t = WRITES, value_parser = clap::value_parser!(u32).range(200..=100_000))]
    writes: u32,
    /// Preceding writes of the same kind before each run, as a share of the region: they bring an
    /// SSD with spare flash into its steady state [default: 1 for a model, 0 for a device, as in
    /// the paper]
    #[arg(long, value_name = "SHARE")]
    settle: Option<f64>,
    /// Divergence below which distributions count as alike, in nats
    #[arg(long, value_name = "NATS", default_value_t = THRESHOLD)]
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

/// Result of a probe.
#[derive(Debug)]
pub struct ProbeReport {
    pub(crate) name: String,
    /// Description of its kind.
    pub(crate) kind: &'static str,
    pub(crate) bytes: u64,
    pub(crate) turns: bool,
    /// Whether its speed of rotation is unknown, and assumed.
    is_rpm_guessed: bool,
    /// Whether the kernel says that it rotates, and no seek shows that.
    is_flag_wrong: bool,
    pub(crate) seeks: SeekTest,
    pub(crate) blocks: Option<BlockSizes>,
    pub(crate) threshold: f64,
    /// A fitted model, in TOML.
    pub(crate) model: Option<String>,
}

/// A drive to measure, with what is known before.
pub struct ProbedDrive {
    /// Its name.
    pub name: String,
    /// Description of its kind.
    pub kind: &'static str,
    /// The target of the requests.
    pub target: Box<dyn Target>,
    /// Whether it rotates, if that is known.
    pub rotational: Option<bool>,
    /// Rotations per minute, if known.
    pub rpm: Option<u32>,
    /// Whether the block size for writing is always determined.
    pub finds_blocks: bool,
    /// Default of `--settle`, as a share of the region.
    pub settle: f64,
}

/// Fits a model of a disk, in TOML, to its name and measurements. `None` if no model can be made.
pub type ModelFit<'a> = &'a dyn Fn(&str, &Measurements) -> Option<String>;

impl ProbeOptions {
    /// The drive to measure, as given.
    pub fn drive(&self) -> &str {
        &self.drive
    }

    /// Whether a model is meant: a path is a device or a file; anything else is a preset.
    pub fn is_of_model(&self) -> bool {
        let name = self.drive.as_str();
        name.ends_with(".toml") || !(name.contains('/') || Path::new(name).exists())
    }

    /// Opens the device.
    ///
    /// # Errors
    /// If it may not be opened, or written to without `--yes-destroy-data`.
    pub fn device(&self) -> Result<ProbedDrive, SurveyError> {
        let name = self.drive.as_str();
        if self.write && !self.yes_destroy_data {
            return Err(SurveyError::mistake(format!(
                "--write destroys the content of {name}; confirm with --yes-destroy-data"
            )));
        }
        let path = Path::new(name);
        let target = match self.write {
            true => DeviceTarget::open_for_writing(path),
            false => DeviceTarget::open(path),
        }?;
        target.check()?;
        let facts = target.facts().clone();
        Ok(ProbedDrive {
            name: match &facts.model {
                Some(model) => format!("{name} ({model})"),
                None => name.to_string(),
            },
            kind: "measured by the clock",
            target: Box::new(target),
            rotational: facts.rotational,
            rpm: facts.rpm,
            finds_blocks: false,
            settle: 0.0,
        })
    }

    /// The planned writes, if there are any.
    fn writes(&self, subject: &ProbedDrive) -> Result<Option<WritePlan>, SurveyError> {
        if !(subject.finds_blocks || self.write) {
            return self.nothing_of_writes().map(|()| None);
        }
        let bytes = subject.target.sectors() * SECTOR_BYTES;
        if let Some(region) = self.region.filter(|region| region.0 > bytes) {
            let (name, bytes) = (&subject.name, Bytes(bytes));
            return Err(SurveyError::mistake(format!(
                "--region {region}: {name} has {bytes}; write that or less"
            )));
        }
        let plan = WritePlan {
            writes: self.writes,
            threshold: self.threshold,
            settle: self.settle.unwrap_or(subject.settle),
            ..WritePlan::of_paper(self.region.map_or(bytes, |region| region.0))
        };
        let plan = plan.within(bytes);
        plan.check(self.region.map_or(subject.name.as_str(), |_| "--region"))?;
        Ok(Some(plan))
    }

    /// Options about writes are rejected if nothing is written.
    fn nothing_of_writes(&self) -> Result<(), SurveyError> {
        let said = [
            ("--region", self.region.is_some()),
            ("--settle", self.settle.is_some()),
            ("--writes", self.writes != WRITES),
            ("--threshold", self.threshold != THRESHOLD),
        ];
        let said = said.into_iter().filter(|(_, is_said)| *is_said);
        let mistakes: Vec<String> = said
            .map(|(flag, _)| format!("{flag}: nothing is written; add --write, or omit this flag"))
            .collect();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(SurveyError::Mistakes(mistakes)),
        }
    }

    /// Checks the options before a minute of measuring.
    ///
    /// # Errors
    /// All mistakes in the options.
    pub fn check(&self) -> Result<(), SurveyError> {
        let mut mistakes = Vec::new();
        if !(self.threshold > 0.0 && self.threshold.is_finite()) {
            mistakes.push(format!("--threshold: {} is not above 0", self.threshold));
        }
        if let Some(settle) = self.settle
            && !(0.0..=100.0).contains(&settle)
        {
            mistakes.push(format!("--settle: {settle} is not between 0 and 100"));
        }
        for (flag, path) in [("--report", &self.report), ("--output", &self.output)] {
            mistakes.extend(path.as_deref().and_then(|path| check_folder(flag, path)));
        }
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(SurveyError::Mistakes(mistakes)),
        }
    }
}

/// Measures, then prints and writes the results that the options select. `page` makes the page.
///
/// # Errors
/// If a request fails, the disk cannot be measured, or a file cannot be written.
pub fn probe(
    probing: &ProbeOptions,
    subject: ProbedDrive,
    fit: ModelFit<'_>,
    page: &dyn Fn(&ProbeReport) -> headlong_report::Page,
) -> Result<(), SurveyError> {
    let writes = probing.writes(&subject)?;
    if let (Some(path), Some(false)) = (&probing.output, subject.rotational) {
        return Err(no_model(
            path,
            "only models of rotating disks can be fitted",
        ));
    }
    let probe = measure(probing, subject, writes.as_ref(), fit)?;
    if let Some(path) = &probing.report {
        page(&probe).write(path).map_err(SurveyError::mistake)?;
    }
    print(&match probing.json {
        true => format!("{}\n", to_json(&probe)),
        false => render(&probe, probing.output.is_none()),
    })?;
    // Last, so that measurements are not lost if there is no model.
    match &probing.output {
        Some(path) => write_model(&probe, path),
        None => Ok(()),
    }
}

fn no_model(path: &Path, why: &str) -> SurveyError {
    SurveyError::mistake(format!(
        "--output: {why}; {} was not written",
        path.display()
    ))
}

fn write_model(probe: &ProbeReport, path: &Path) -> Result<(), SurveyError> {
    let Some(text) = &probe.model else {
        let why = match probe.turns {
            true => "no model was fitted",
            false => "only models of rotating disks can be fitted",
        };
        return Err(no_model(path, why));
    };
    fs::write(path, text)
        .map_err(|error| SurveyError::mistake(format!("{}: {error}", path.display())))
}

fn measure(
    probing: &ProbeOptions,
    mut subject: ProbedDrive,
    writes: Option<&WritePlan>,
    fit: ModelFit<'_>,
) -> Result<ProbeReport, ProbeError> {
    let (name, target) = (subject.name, &mut *subject.target);
    let bytes = target.sectors() * SECTOR_BYTES;
    let known_rpm = probing.rpm.or(subject.rpm);
    let rpm = known_rpm.unwrap_or(RPM_USUAL);
    let mut seeks = test_seeks(target, &name, rpm, &mut |phase| {
        say!("headlong: {name}: {}", phase_name(phase));
    })?;
    let has_arm = seeks.measured.full_stroke_us > ARM_US;
    let turns = has_arm && subject.rotational != Some(false);
    if !turns {
        seeks.measured.rpm = 0;
    }
    let blocks = writes.map(|plan| blocks(plan, target, &name)).transpose()?;
    let model = match turns {
        true => fit(&name, &seeks.measured),
        false => None,
    };
    Ok(ProbeReport {
        name,
        kind: subject.kind,
        bytes,
        turns,
        is_rpm_guessed: turns && known_rpm.is_none(),
        is_flag_wrong: !turns && subject.rotational == Some(true),
        seeks,
        blocks,
        threshold: probing.threshold,
        model,
    })
}

fn blocks(plan: &WritePlan, target: &mut dyn Target, name: &str) -> Result<BlockSizes, ProbeError> {
    say!(
        "headlong: {name}: {} will be written",
        decimal_bytes(plan.bytes())
    );
    find_block_size(target, name, plan, &mut |bytes| match bytes {
        0 => say!(
            "headlong: {name}: filling {}",
            decimal_bytes(plan.region_bytes)
        ),
        bytes => say!("headlong: {name}: writes of {}", Bytes(bytes)),
    })
}

pub(crate) fn phase_name(phase: Phase) -> &'static str {
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
pub(crate) fn times_ms(measured: &Measurements) -> Vec<(&'static str, f64)> {
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
pub(crate) fn rates_mb(measured: &Measurements) -> [(&'static str, f64); 3] {
    let rates = &measured.rates;
    [
        (phase_name(Phase::Outer), rates.outer_bytes_per_s),
        (phase_name(Phase::Middle), rates.middle_bytes_per_s),
        (phase_name(Phase::Inner), rates.inner_bytes_per_s),
    ]
    .map(|(name, rate)| (name, rate as f64 / 1e6))
}

/// The figures; if the model is printed too, as comments above it, so that the output is a file
/// that describes the drive.
fn render(probe: &ProbeReport, with_model: bool) -> String {
    let mut text = format!(
        "{}: {}, {}",
        probe.name,
        probe.kind,
        decimal_bytes(probe.bytes)
    );
    let rpm = probe.seeks.measured.rpm;
    // Writing to a String cannot fail, here and below.
    let _ = match (probe.turns, probe.is_rpm_guessed) {
        (false, _) if probe.is_flag_wrong => writeln!(
            text,
            ", does not rotate, although the kernel says so, and `headlong tune` with it: write \
             `rotational = false` in its table [device.\"NAME\"]"
        ),
        (false, _) => writeln!(text, ", does not rotate"),
        (true, false) => writeln!(text, ", {rpm} rpm"),
        (true, true) => writeln!(
            text,
            ", assumed to rotate at {rpm} rpm; set --rpm if it differs"
        ),
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
                "  {:<22}at no size are random writes like sequential ones (below {} nats)",
                "optimal block size", probe.threshold
            ),
        };
    }
    let Some(model) = probe.model.as_ref().filter(|_| with_model) else {
        return text;
    };
    let comments: Vec<String> = text.lines().map(|line| format!("# {line}\n")).collect();
    format!("{}\n{model}", comments.concat())
}

fn to_json(probe: &ProbeReport) -> Value {
    let quantiles = |times: &[f64]| match Cdf::of(times.iter().copied()) {
        Ok(cdf) => json!({
            "mean_s": cdf.mean(), "p50_s": cdf.quantile(0.5), "p90_s": cdf.quantile(0.9),
            "p99_s": cdf.quantile(0.99), "max_s": cdf.max(),
        }),
        Err(_) => Value::Null,
    };
    let size = |size: &BlockSize| {
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
        "model": probe.model.as_deref().and_then(|text| toml::from_str::<Value>(text).ok()),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use headlong_disk::Request;
    use headlong_units::Duration;

    use super::*;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        probing: ProbeOptions,
    }

    /// A drive without an arm.
    struct Flash;

    impl Target for Flash {
        fn sectors(&self) -> u64 {
            (1 << 34) / SECTOR_BYTES
        }

        fn perform(&mut self, _: Request) -> Result<Duration, ProbeError> {
            Ok(Duration::from_micros(100))
        }
    }

    #[test]
    fn wrong_flag_of_the_kernel_is_named_with_the_remedy() {
        let probing = CommandLine::parse_from(["probe", "/dev/sdz"]).probing;
        for (rotational, is_wrong) in [(Some(true), true), (Some(false), false), (None, false)] {
            let drive = ProbedDrive {
                name: "sdz".to_owned(),
                kind: "a disk",
                target: Box::new(Flash),
                rotational,
                rpm: None,
                finds_blocks: false,
                settle: 0.0,
            };
            let probe = measure(&probing, drive, None, &|_, _| None).expect("measured");
            let text = render(&probe, false);
            assert!(text.contains(", does not rotate"), "{text}");
            let remedy = "write `rotational = false` in its table [device.\"NAME\"]";
            assert_eq!(text.contains(remedy), is_wrong, "{text}");
        }
    }
}
