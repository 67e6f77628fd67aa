//! `headlong workload fill`: creates the files of a catalogue, with a progress bar.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use headlong_fill::{FillProgress, VerifyScope};
use headlong_workload::Catalogue;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::print;
use crate::spec_args::SpecOverrides;
use crate::stop::stop_on_signals;

/// Number of files in a sample.
const SAMPLE_FILES: u64 = 200;
/// Interval of progress lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Arguments of `workload fill`.
#[derive(Debug, clap::Args)]
pub(crate) struct FillArgs {
    /// Folder for the files; a server serves it as a root
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// A preset or a TOML file
    #[arg(long, value_name = "SPEC")]
    spec: String,
    #[command(flatten)]
    changes: SpecOverrides,
    /// Number of viewers, as for generate; for workloads with `model = "phases"`: the number of
    /// titles is scaled
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Option<u64>,
    /// Cut titles into chunk files of this size, such as 512KiB
    #[arg(long, value_name = "BYTES")]
    chunked: Option<String>,
    /// Write nothing; read a sample of the files, or all of them, and check every byte
    #[arg(long, value_name = "HOW MUCH", value_parser = ["sample", "all"])]
    verify: Option<String>,
}

/// Runs the verb.
pub(crate) fn fill(arguments: &FillArgs) -> anyhow::Result<()> {
    let (name, catalogue) = arguments.catalogue()?;
    let stop = stop_on_signals()?;
    let mut teller = FillProgressBar::new(if arguments.verify.is_some() {
        "read"
    } else {
        "written"
    });
    let (folder, name) = (&arguments.folder, &name);
    let mut progress = |progress| teller.report(progress);
    let told = match arguments.verify.as_deref() {
        None => {
            let done = headlong_fill::fill(folder, name, &catalogue, &stop, &mut progress);
            done.map(|done| {
                format!(
                    "{} files written, {} kept, {} bytes written; catalogue {:016x} is complete\n",
                    done.files_written,
                    done.files_kept,
                    done.bytes_written,
                    catalogue.fingerprint()
                )
            })
        }
        Some(how_much) => {
            let extent = match how_much {
                "all" => VerifyScope::Everything,
                _ => VerifyScope::Sample {
                    files: SAMPLE_FILES,
                    seed: 1,
                },
            };
            let done =
                headlong_fill::verify(folder, name, &catalogue, extent, &stop, &mut progress);
            done.map(|done| format!("{} files, {} bytes: all right\n", done.files, done.bytes))
        }
    };
    teller.end();
    print(&told?)
}

impl FillArgs {
    /// Name and catalogue of the specification.
    fn catalogue(&self) -> anyhow::Result<(String, Catalogue)> {
        let chunked = self.chunked.iter().cloned();
        let changes: Vec<_> = chunked.map(|bytes| ("catalogue.chunk", bytes)).collect();
        let specification = self
            .changes
            .read_scaled(&self.spec, &changes, self.sessions)?;
        let catalogue = Catalogue::of(&specification);
        Ok((specification.name, catalogue))
    }
}

/// Reports progress: a bar on a terminal, lines elsewhere.
struct FillProgressBar {
    bar: Option<ProgressBar>,
    verb: &'static str,
    started: Instant,
    told: Instant,
}

impl FillProgressBar {
    fn new(verb: &'static str) -> Self {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length();
            let style = ProgressStyle::with_template(
                "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left; {msg}",
            );
            // The template is a constant; the fallback is a plain bar.
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self {
            bar,
            verb,
            started: now,
            told: now,
        }
    }

    fn report(&mut self, progress: FillProgress) {
        let FillProgress {
            files,
            files_total,
            bytes,
            bytes_total,
        } = progress;
        if let Some(bar) = &self.bar {
            bar.set_length(bytes_total);
            bar.set_position(bytes);
            bar.set_message(format!("file {files} of {files_total}"));
            return;
        }
        if self.told.elapsed() < LINE_EVERY {
            return;
        }
        self.told = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64();
        let rate = bytes as f64 / seconds;
        let left = (bytes_total - bytes.min(bytes_total)) as f64 / rate.max(1.0);
        let (gib, total) = (gibibytes(bytes), gibibytes(bytes_total));
        // Write errors are ignored.
        let _ = writeln!(
            std::io::stderr(),
            "{gib:.1} of {total:.1} GiB {}, {:.0} MiB/s, {left:.0} s left; file {files} of \
             {files_total}",
            self.verb,
            rate / 1_048_576.0
        );
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
