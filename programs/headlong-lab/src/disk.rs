//! `headlong disk`: emulated drives, and measurements of real ones.

mod emulate;

use std::io::stdin;
use std::path::PathBuf;

use clap::Subcommand;
use headlong_drive::{DriveSpec, Measurements};
use headlong_survey::{ProbeOptions, ProbedDrive, SurveyError, probe_page};
use headlong_vdisk::ModelTarget;
use headlong_vdisk::control::{ControlCommand, request};

use crate::mistake::Mistakes;
use crate::output::{print, print_line};
use headlong_bench::drive_spec;

/// Verbs of `headlong disk`.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Create a block device with the timing of a modelled drive
    Emulate(Box<emulate::EmulateArgs>),
    /// Send a command or query to a running emulated disk
    Control(ControlArgs),
    /// Measure a drive or a model of one, and fit a model to it
    ///
    /// Measures a drive like FreeBSD's diskinfo -t: rates at the start, in the middle and at the end
    /// of its addresses (100 reads of 1 MiB each), and the time of a read over the full, half and
    /// quarter stroke and over short steps, half a turn and the command's overhead included. Prints
    /// the figures and a model fitted to them, which other commands take as a drive.
    ///
    /// A block device, or a file on one, is read with direct I/O; it takes about a minute. A preset
    /// or a file that describes a drive is measured in virtual time, at once.
    ///
    /// With --write, and always for the model of an SSD, it also finds the optimal block size for
    /// writes to an SSD: the smallest from which on latencies of random writes are distributed like
    /// those of sequential ones (flashstream 3.1: Kullback-Leibler divergence below 0.1, 640 writes
    /// each of 0.5 to 128 MiB). That destroys the content of a real device, and writes more than
    /// 300 GiB; --region and --writes reduce it.
    Probe(ProbeOptions),
    /// Fit a model to the measurements of `disk probe`
    ///
    /// Reads the measurements, an object of JSON, from standard input, and prints the model.
    /// `headlong disk probe` calls it for the model of a device.
    Fit(FitArgs),
}

/// Runs the verb.
pub(crate) fn disk(command: &DiskCommand) -> anyhow::Result<()> {
    match command {
        DiskCommand::Emulate(emulating) => emulate::emulate(emulating),
        DiskCommand::Control(controlling) => control(controlling),
        DiskCommand::Probe(probing) => probe(probing),
        DiskCommand::Fit(fitting) => fit(fitting),
    }
}

/// Sends a command or query to a running emulated disk. Replies are JSON.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk control /run/red.sock timing off
  headlong disk control /run/red.sock counters
  headlong disk control /run/red.sock fault error 1GiB 1100MiB --once")]
pub(crate) struct ControlArgs {
    /// Control socket of the disk
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    #[command(subcommand)]
    command: ControlCommand,
}

/// Sends the command and prints the reply, unless it is a plain confirmation.
fn control(controlling: &ControlArgs) -> anyhow::Result<()> {
    let mut command = controlling.command.clone();
    if let ControlCommand::TraceStart { path } = &mut command {
        // Relative to our working directory, not to that of the emulator.
        *path = std::path::absolute(&*path)?;
    }
    let answer = request(&controlling.socket, &command)?;
    match answer.as_object().is_none_or(serde_json::Map::is_empty) {
        true => Ok(()),
        false => print_line(&serde_json::to_string_pretty(&answer)?),
    }
}

/// Measures a drive and prints the result.
fn probe(probing: &ProbeOptions) -> anyhow::Result<()> {
    probing.check().map_err(mark_mistakes)?;
    let done = match probing.is_of_model() {
        true => {
            let subject = modelled(&spec(probing.drive())?);
            headlong_survey::probe(probing, subject, &model_of_model, &probe_page)
        }
        false => {
            let subject = probing.device().map_err(mark_mistakes)?;
            headlong_survey::probe(probing, subject, &model, &probe_page)
        }
    };
    done.map_err(mark_mistakes)
}

fn spec(name: &str) -> anyhow::Result<DriveSpec> {
    let spec = drive_spec(name).map_err(|error| match name.ends_with(".toml") {
        true => Mistakes::of(error),
        false => Mistakes::of(format!(
            "{error}; a device is named by its path, such as /dev/sdb"
        )),
    });
    Ok(spec?)
}

fn modelled(spec: &DriveSpec) -> ProbedDrive {
    ProbedDrive {
        name: spec.name().to_string(),
        kind: "a model, in virtual time",
        target: Box::new(ModelTarget::new(spec)),
        rotational: Some(spec.rpm().is_some()),
        rpm: spec.rpm(),
        // Costs nothing on a model, and is the main question for an SSD.
        finds_blocks: spec.rpm().is_none(),
        settle: 1.0,
    }
}

/// Arguments of `disk fit`.
#[derive(Debug, clap::Args)]
pub(crate) struct FitArgs {
    /// Name of the model
    #[arg(value_name = "NAME")]
    name: String,
}

/// Reads measurements and prints the model.
fn fit(fitting: &FitArgs) -> anyhow::Result<()> {
    let measured = serde_json::from_reader(stdin().lock())
        .map_err(|error| Mistakes::of(format!("standard input: {error}")))?;
    print(&model(&fitting.name, &measured).unwrap_or_default())
}

/// The model of a drive that is itself a model, as text; its sources do not claim a real drive.
fn model_of_model(name: &str, measured: &Measurements) -> Option<String> {
    let mut fitted = headlong_drive::fit(name, measured);
    fitted.sources = format!(
        "Fitted to the model {name} in virtual time, not to a drive: a start for a drive file, \
         which says here where each figure is from."
    );
    toml::to_string(&DriveSpec::HardDrive(fitted)).ok()
}

/// The model as text.
fn model(name: &str, measured: &Measurements) -> Option<String> {
    toml::to_string(&DriveSpec::HardDrive(headlong_drive::fit(name, measured))).ok()
}

/// The same error, with usage errors marked.
fn mark_mistakes(error: SurveyError) -> anyhow::Error {
    match error.into_mistakes() {
        Ok(mistakes) => Mistakes(mistakes).into(),
        Err(error) => error.into(),
    }
}
