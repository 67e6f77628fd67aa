//! `headlong capacity`: how many viewers a machine bears, from a log.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use headlong_capacity::{
    AnswerError, CapacityOptions, FlashDrives, LimitError, LogFacts, Machine, RunLengths,
    ViewerSample, capacity, page, text,
};
use headlong_drive::DriveSpec;
use headlong_report::{command_line, say};
use headlong_trace::{CatalogueBytes, Intake};
use headlong_units::Bytes;
use indicatif::ProgressBar;

use crate::mistake::{EXIT_DROPPED, EXIT_MISSED, Mistakes, Verdict};
use crate::output::{have_folders, print_line};
use crate::request_logs::LogSource;
use headlong_bench::drive_spec;

/// Answer how many viewers a machine bears without a failed request, from a request log
///
/// The sessions of the log are played in virtual time against the server's own decisions and models
/// of the drives, at growing rates. The answer has the highest rate without a failure and its
/// viewers, each with an interval; what limits it; what one more disk, 16 GiB more memory or an SSD
/// would bring; and the same for nginx at its best.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CapacityArgs {
    #[command(flatten)]
    source: LogSource,
    /// Disks: a number and a preset, or a drive description file
    #[arg(long, value_name = "NxDRIVE", value_parser = drives)]
    drives: (u32, DriveSpec),
    /// Memory of the machine for the server
    #[arg(long, value_name = "SIZE")]
    memory: Bytes,
    /// SSDs of the flash tier, as for --drives
    #[arg(long, value_name = "NxDRIVE", value_parser = drives)]
    flash: Option<(u32, DriveSpec)>,
    /// SSD that is added where there is none, to tell what it would bring
    #[arg(long, value_name = "DRIVE", default_value = "ssd-nvme-data-centre", value_parser = drive_spec)]
    ssd: DriveSpec,
    /// Bytes of all titles, such as 40TB [default: what the log and --files tell, a lower bound]
    #[arg(long, value_name = "SIZE")]
    catalogue: Option<Bytes>,
    /// Searches with samples of the sessions, for the intervals
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(3..=100))]
    samples: u16,
    /// Only the limit itself, without changes of the machine, nginx and the curve
    #[arg(long)]
    quick: bool,
    /// Memory for reading the log; the rest is spilled to a file
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    reading_memory: Bytes,
    /// Write the answer as one HTML page, with the curve of failures over the rate
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "Examples:
  headlong capacity access.log.*.gz --drives 4xnearline-20tb --memory 32GiB
  headlong capacity access.log --drives 8xnearline-20tb --memory 64GiB \\
    --flash 1xssd-nvme-data-centre --catalogue 90TB --html capacity.html

Exit codes: 0 done, 64 a mistake in the command line or the log, 5 fewer than 200 sessions, no byte
ranges, or more than a tenth of the lines dropped, 4 the titles do not fit, or requests fail at
any rate or at none, 2 a failure.";

fn drives(text: &str) -> Result<(u32, DriveSpec), String> {
    Machine::drives(text, drive_spec)
}

impl CapacityArgs {
    fn machine(&self) -> Result<Machine, Mistakes> {
        let flash = self.flash.as_ref().map(|(count, drive)| FlashDrives {
            // At most 256.
            count: *count as u16,
            drive: drive.clone(),
        });
        let is_flash = |drive: &DriveSpec| matches!(drive, DriveSpec::SolidState(_));
        let ssds = flash.iter().map(|flash| &flash.drive).chain([&self.ssd]);
        let wrong: Vec<String> = ssds
            .filter(|drive| !is_flash(drive))
            .map(|drive| format!("--flash, --ssd: {} is no SSD", drive.name()))
            .collect();
        Mistakes::if_any(wrong)?;
        Ok(Machine {
            disks: self.drives.0,
            drive: self.drives.1.clone(),
            memory_bytes: self.memory.0,
            flash,
        })
    }
}

/// Runs the verb.
pub(crate) fn answer(arguments: &CapacityArgs) -> anyhow::Result<()> {
    let machine = arguments.machine()?;
    arguments.source.are_kept(&arguments.html)?;
    have_folders(&[("--html", arguments.html.as_deref())])?;
    let intake = Intake {
        keep_unplaced: true,
        devices_and_drives: false,
        ..arguments.source.intake(arguments.reading_memory.0)?
    };
    let log = arguments.source.take_in(&intake, arguments.json)?;
    if !log.has_offsets() {
        return Err(refused(
            EXIT_DROPPED,
            "the log has no byte ranges, so nothing can be played; `headlong simulate plan --log` \
             gives bounds, and the lines above tell how to log ranges",
        ));
    }
    let sample = ViewerSample::of(&log, intake.threads)?;
    let catalogue = arguments.catalogue.map(|bytes| CatalogueBytes {
        bytes: bytes.0,
        is_least: false,
    });
    let catalogue = catalogue.unwrap_or_else(|| log.catalogue_bytes());
    let span_s = (log.span_ms.1 - log.span_ms.0) as f64 / 1000.0;
    let facts = LogFacts::new(&sample, span_s, catalogue);
    drop(log);
    let options = CapacityOptions {
        samples: usize::from(arguments.samples),
        lengths: RunLengths::default(),
        threads: NonZeroUsize::new(intake.threads).unwrap_or(NonZeroUsize::MIN),
        ssd: arguments.ssd.clone(),
        is_whole: !arguments.quick,
    };
    // Draws nothing if standard error is not a terminal.
    let bar = ProgressBar::new_spinner();
    let found = capacity(&sample, facts, &machine, &options, &mut || bar.inc(1));
    bar.finish_and_clear();
    let answer = found.map_err(|error| match error {
        AnswerError::Sessions { .. } => refused(EXIT_DROPPED, error),
        AnswerError::NoRate { .. } | AnswerError::Titles { .. } => refused(EXIT_MISSED, error),
        AnswerError::Limit(LimitError::Unlimited { .. }) => refused(EXIT_MISSED, error),
        AnswerError::Limit(error) => error.into(),
    })?;
    if let Some(path) = &arguments.html {
        page(&answer, &command_line(std::env::args_os().skip(1))).write(path)?;
        say!("headlong: the page is {}", path.display());
    }
    match arguments.json {
        true => print_line(&serde_json::to_string_pretty(&answer)?),
        false => print_line(text(&answer).trim_end()),
    }
}

fn refused(code: u8, reason: impl ToString) -> anyhow::Error {
    Verdict::of(code, reason).into()
}
