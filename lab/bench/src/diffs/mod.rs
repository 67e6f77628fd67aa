//! One and two concurrent `diff -r`, without and with a reader (libception section 8).
//!
//! The drive is emulated; file system, scheduler and programs are the real ones. Every run starts
//! with an empty page cache. Each diff must print the same output with and without a reader.

mod trees;

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::command::BenchError;
use crate::rig::{
    ChildProcess, CleanupGuard, EmulatedDrive, ProcessContext, RigError, StderrHandling,
    find_program, is_mounted, make_folder, on_time, set_scheduler,
};
use crate::servers::CommandBuilder;
use headlong_report::say;

const DRIVE: &str = "wd-red-wd10efrx";
/// Inodes per file for four trees and their folders.
const INODES_PER_FILE: u32 = 6;
/// Start-up timeout of a daemon.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parameters of the measurement.
#[derive(Debug, Clone)]
pub struct DiffBenchmark {
    /// Number of files in each tree.
    pub files: u32,
    /// Seed of the trees.
    pub seed: u64,
    /// I/O schedulers of the kernel to test.
    pub schedulers: Vec<String>,
    /// Speed-up of the drive over real time.
    pub time_scale: u32,
    /// The program `headlong`.
    pub headlong: PathBuf,
}

/// The reader that serves the diffs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffReader {
    /// None: the diffs read by themselves.
    Plain,
    /// A reception daemon, used through the preloaded library.
    Preload,
    /// A mount.
    Mount,
}

impl DiffReader {
    /// All readers.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Preload, Self::Mount];
}

/// Result of one run. Times are model time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiffRun {
    /// The reader.
    pub how: DiffReader,
    /// Concurrent diffs.
    pub diffs: u32,
    /// I/O scheduler.
    pub scheduler: String,
    /// From the first start to the last exit.
    pub seconds: f64,
    /// Time in which the drive was busy.
    pub busy_seconds: f64,
    /// Read requests of the drive.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Requests that needed repositioning.
    pub seeks: u64,
    /// Mean service time of a request, without its waiting time.
    pub service_ms: f64,
    /// Mean response time of a request, waiting time included.
    pub wait_ms: f64,
    /// Lateness of the emulated drive as a share of the total response time.
    pub late_share: f64,
}

/// Creates the drive and the trees, and makes all runs.
///
/// # Errors
/// If a requirement is missing, or the machine failed.
pub fn diffs(
    diffing: &DiffBenchmark,
    mut on_run: impl FnMut(&DiffRun),
) -> Result<Vec<DiffRun>, BenchError> {
    let missing = missing();
    if !missing.is_empty() {
        return Err(BenchError::Missing(missing));
    }
    let guard = CleanupGuard::start()?;
    guard.watch_signals()?;
    let mut rig = DiffRig::start(&guard, diffing)?;
    let mut runs = Vec::new();
    for scheduler in &diffing.schedulers {
        for diffs in [1, 2] {
            // The output must not depend on the reader.
            let mut printed = None;
            for how in DiffReader::ALL {
                let (run, now) = rig.run(how, diffs, scheduler)?;
                if *printed.get_or_insert_with(|| now.clone()) != now {
                    let what = format!("{diffs} diffs with the reader {how:?}");
                    let answer = "output differs from that without a reader".to_owned();
                    return Err(RigError::Answer { what, answer }.into());
                }
                on_run(&run);
                runs.push(run);
            }
        }
    }
    drop(rig);
    guard.finish();
    Ok(runs)
}

fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: a drive is mounted; run it as root".to_owned());
    }
    let programs = [("diff", "diffutils"), ("mkfs.ext4", "e2fsprogs")];
    let absent = programs
        .iter()
        .filter(|(name, _)| find_program(name).is_none());
    missing.extend(absent.map(|(name, package)| format!("the program {name}: install {package}")));
    missing
}

struct DiffRig<'d> {
    diffing: &'d DiffBenchmark,
    guard: CleanupGuard,
    drive: EmulatedDrive,
    point: PathBuf,
}

impl<'d> DiffRig<'d> {
    fn start(guard: &CleanupGuard, diffing: &'d DiffBenchmark) -> Result<Self, RigError> {
        let (point, socket) = (
            guard.folder().join("disk"),
            guard.folder().join("drive.sock"),
        );
        make_folder(&point)?;
        let inodes = diffing.files.saturating_mul(INODES_PER_FILE);
        let words = CommandBuilder::of(&diffing.headlong, "disk emulate")
            .plain(DRIVE)
            .option("--time-scale", diffing.time_scale)
            .plain("--timing off --file-system ext4")
            .option("--inodes", inodes)
            .option("--mount", point.display())
            .option("--control", socket.display())
            .plain("--json");
        let drive = EmulatedDrive::start(guard, &words.0, &socket)?;
        say!("writing four trees of {} files", diffing.files);
        let written = trees::write(&point, diffing.files, diffing.seed);
        written.map_err(|error| RigError::io(point.display(), error))?;
        Ok(Self {
            diffing,
            guard: guard.clone(),
            drive,
            point,
        })
    }

    /// Makes one run and returns the output of the diffs.
    fn run(
        &mut self,
        how: DiffReader,
        diffs: u32,
        scheduler: &str,
    ) -> Result<(DiffRun, Vec<Vec<u8>>), RigError> {
        self.drive.control.timing(false)?;
        self.drive.control.ask(&json!({ "do": "remount" }))?;
        set_scheduler(&self.drive.device, scheduler)?;
        self.drive.control.timing(true)?;
        let reader = self.reader(how)?;
        self.drive.reset_counters()?;
        let begun = Instant::now();
        let children: Result<Vec<Child>, RigError> =
            (1..=diffs).map(|number| self.diff(how, number)).collect();
        let mut printed = Vec::new();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = children?
                .into_iter()
                .map(|child| scope.spawn(move || child.wait_with_output()))
                .collect();
            for thread in waiting {
                let ended = thread.join().map_err(|_| RigError::Stopping)?;
                let output = ended.map_err(|error| RigError::io("diff", error))?;
                // Exit status 0 means no difference, 1 differences.
                if output.status.code().is_none_or(|code| code > 1) {
                    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                    let what = "diff -r".to_owned();
                    return Err(RigError::Failed { what, words });
                }
                printed.push(output.stdout);
            }
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64() * f64::from(self.diffing.time_scale);
        let counters = self.drive.counters()?;
        self.drive.control.timing(false)?;
        drop(reader);
        let run = DiffRun::of(&counters, (how, diffs, scheduler), seconds);
        Ok((run, printed))
    }

    fn diff(&self, how: DiffReader, number: u32) -> Result<Child, RigError> {
        let mut words = on_time();
        if how == DiffReader::Preload {
            words = CommandBuilder(words)
                .word(self.diffing.headlong.display())
                .plain("run")
                .option("--socket", self.socket().display())
                .plain("--only-if-helped --")
                .0;
        }
        words.extend(["diff".to_owned(), "-r".to_owned()]);
        words.extend(["a", "b"].map(|version| format!("{version}{number}")));
        let folder = match how {
            DiffReader::Mount => self.mounted(),
            _ => self.point.clone(),
        };
        self.guard.spawn(ProcessContext::PLAIN, &words, |command| {
            command.current_dir(folder);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        })
    }

    /// Starts the reader; it ends when dropped.
    fn reader(&self, how: DiffReader) -> Result<Option<ReaderProcess>, RigError> {
        let (socket, mounted) = (self.socket(), self.mounted());
        let words = CommandBuilder(on_time()).word(self.diffing.headlong.display());
        let words = match how {
            DiffReader::Plain => return Ok(None),
            DiffReader::Preload => words
                .plain("reception")
                .option("--socket", socket.display()),
            DiffReader::Mount => {
                make_folder(&mounted)?;
                let tree = self.point.display();
                words.plain("mount").word(tree).word(mounted.display())
            }
        };
        let CommandBuilder(words) = words.option("--time-scale", self.diffing.time_scale);
        let mut process = ChildProcess::start(
            &self.guard,
            ProcessContext::PLAIN,
            &words,
            StderrHandling::Kept,
        )?;
        process.drain();
        process.wait_until(&words.join(" "), PATIENCE, || match how {
            DiffReader::Mount => is_mounted(&mounted),
            _ => socket.exists(),
        })?;
        Ok(Some(ReaderProcess(process)))
    }

    fn socket(&self) -> PathBuf {
        self.guard.folder().join("reception.sock")
    }

    fn mounted(&self) -> PathBuf {
        self.guard.folder().join("mounted")
    }
}

struct ReaderProcess(ChildProcess);

impl Drop for ReaderProcess {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl DiffRun {
    fn of(
        counters: &Value,
        (how, diffs, scheduler): (DiffReader, u32, &str),
        seconds: f64,
    ) -> Self {
        let number = |name: &str| {
            let found = counters.pointer(&format!("/counters/{name}"));
            found.and_then(Value::as_f64).unwrap_or(0.0)
        };
        let reads = number("reads/requests").max(1.0);
        Self {
            how,
            diffs,
            scheduler: scheduler.to_owned(),
            seconds,
            busy_seconds: number("busy_ns") / 1e9,
            reads: number("reads/requests") as u64,
            bytes: number("reads/bytes") as u64,
            seeks: number("reads/seeks") as u64,
            service_ms: number("reads/service_ns") / reads / 1e6,
            wait_ms: number("reads/response_ns") / reads / 1e6,
            late_share: number("lateness/late_ns") / number("lateness/response_ns").max(1.0),
        }
    }

    /// Share of time in which the drive was busy.
    pub fn busy_share(&self) -> f64 {
        self.busy_seconds / self.seconds.max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_takes_figures_from_drive_counters() {
        let counters = json!({"counters": {
            "busy_ns": 8e9,
            "reads": {"requests": 4, "bytes": 64, "seeks": 2, "service_ns": 8e6, "response_ns": 16e6},
            "lateness": {"late_ns": 1, "response_ns": 100},
        }});
        let run = DiffRun::of(&counters, (DiffReader::Mount, 2, "none"), 10.0);
        assert_eq!((run.reads, run.seeks), (4, 2));
        assert_eq!((run.service_ms, run.wait_ms), (2.0, 4.0));
        assert!((run.busy_share() - 0.8).abs() < 1e-9 && (run.late_share - 0.01).abs() < 1e-9);
    }
}
