//! One and two concurrent diffs (libception section 8): reproduces Figure 18 and Table 4.

use headlong_bench::{
    BenchError, BenchOptions, CommandOutcome, DiffBenchmark, DiffReader, DiffRun, MB,
    diffs as measured,
};
use headlong_report::{Cell, Page, Section, Table};
use serde::Serialize;

use crate::report::{FOOTER, PaperReport};

const FILES: u32 = 15_000;
const FILES_QUICK: u32 = 2_000;
const SCHEDULERS: [&str; 3] = ["none", "mq-deadline", "bfq"];
const SCHEDULERS_QUICK: [&str; 1] = ["mq-deadline"];
/// Real time: with an accelerated drive, CPU time and the emulator's overhead per request would be
/// magnified, and here every file is a request.
const TIME_SCALE: u32 = 1;

/// Two concurrent diffs may take at most this share of their time without a reader.
const TWO_MAX: f64 = 0.5;
/// One diff may not take longer, up to the variation between runs.
const ONE_MAX: f64 = 1.05;
/// Below this share of busy time, two plain diffs are limited by the machine, not by the drive.
const BUSY_MIN: f64 = 0.75;
/// Answers that are later than this share of the response time do not represent the modelled drive.
const LATE_MAX: f64 = 0.05;

/// Libception Table 4, on Linux with the WD drive and its default scheduler: busy, per cent;
/// service, ms; MB/s; reads per second; wait, ms.
fn theirs(run: &DiffRun) -> Option<[f64; 5]> {
    match (run.how, run.diffs) {
        (DiffReader::Plain, 1) => Some([96.6, 3.2, 3.9, 387.2, 19.6]),
        (DiffReader::Plain, 2) => Some([99.7, 8.2, 1.3, 130.2, 45.0]),
        (DiffReader::Preload, 1) => Some([94.3, 3.5, 4.2, 339.7, 19.4]),
        (DiffReader::Preload, 2) => Some([98.6, 5.0, 2.9, 231.3, 17.3]),
        _ => None,
    }
}

/// Parameters of the reproduction.
#[derive(Debug, Clone)]
pub struct DiffOptions {
    /// Smaller trees and one scheduler.
    pub is_quick: bool,
    /// Seed of the trees.
    pub seed: u64,
}

/// The result.
#[derive(Debug, Clone, Serialize)]
struct DiffReport {
    schema: &'static str,
    files: u32,
    seed: u64,
    runs: Vec<DiffRun>,
}

/// Makes the runs, writes the page and prints the tables.
///
/// # Errors
/// If the machine failed, or a result cannot be written.
pub fn diff_again(
    again: &DiffOptions,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let (files, schedulers): (u32, &[&str]) = match again.is_quick {
        true => (FILES_QUICK, &SCHEDULERS_QUICK),
        false => (FILES, &SCHEDULERS),
    };
    let diffing = DiffBenchmark {
        files,
        seed: again.seed,
        schedulers: schedulers.iter().map(|&name| name.to_owned()).collect(),
        time_scale: TIME_SCALE,
        headlong: options.headlong.clone(),
    };
    let runs = measured(&diffing, |run| {
        headlong_report::say!(
            "{}, {} at a time, {}: {:.1} s, the drive busy for {:.1} s",
            name(run.how),
            run.diffs,
            run.scheduler,
            run.seconds,
            run.busy_seconds
        );
    })?;
    let diffed = DiffReport {
        schema: "headlong-diff-1",
        files,
        seed: again.seed,
        runs,
    };
    diffed.report(&options.command_line).publish(options)
}

fn name(how: DiffReader) -> &'static str {
    match how {
        DiffReader::Plain => "without",
        DiffReader::Preload => "preload",
        DiffReader::Mount => "mount",
    }
}

impl DiffReport {
    /// The corresponding run without a reader.
    fn plain(&self, run: &DiffRun) -> Option<&DiffRun> {
        let is_same = |other: &&DiffRun| {
            (other.how, other.diffs) == (DiffReader::Plain, run.diffs)
                && other.scheduler == run.scheduler
        };
        self.runs.iter().find(is_same)
    }

    /// Its time relative to the run without a reader.
    fn ratio(&self, run: &DiffRun) -> Option<f64> {
        let plain = self.plain(run).filter(|_| run.how != DiffReader::Plain)?;
        Some(run.seconds / plain.seconds.max(1e-9))
    }

    /// Why this machine cannot measure the drive, if so.
    fn complaint(&self) -> Option<String> {
        let is_plain_two = |run: &&DiffRun| (run.how, run.diffs) == (DiffReader::Plain, 2);
        let busy = self.runs.iter().filter(is_plain_two);
        let idle = busy.map(DiffRun::busy_share).fold(1.0, f64::min);
        let late = self
            .runs
            .iter()
            .map(|run| run.late_share)
            .fold(0.0, f64::max);
        if idle < BUSY_MIN {
            let busy = idle * 100.0;
            return Some(format!(
                "the drive was busy for only {busy:.0} % of the time of two diffs: the processors \
                 were the limit"
            ));
        }
        (late > LATE_MAX).then(|| {
            let late = late * 100.0;
            format!("the lateness of the emulated drive was {late:.1} % of its response time")
        })
    }

    fn ending(&self) -> CommandOutcome {
        let is_in = |run: &DiffRun| {
            let ratio = self.ratio(run).zip(time_max(run));
            ratio.is_none_or(|(ratio, most)| ratio <= most)
        };
        match self.complaint() {
            Some(_) => CommandOutcome::Refused,
            None if self.runs.iter().all(is_in) => CommandOutcome::Done,
            None => CommandOutcome::Missed,
        }
    }

    /// Libception Figure 18.
    fn times(&self) -> Table {
        Table::of(
            &self.runs,
            &[
                ("Scheduler", &|run| run.scheduler.as_str().into()),
                ("Concurrent diffs", &|run| Cell::number(run.diffs.into(), 0)),
                ("Reader", &|run| name(run.how).into()),
                ("Time (s)", &|run| Cell::number(run.seconds, 1)),
                ("Drive busy (s)", &|run| Cell::number(run.busy_seconds, 1)),
                ("Relative time", &|run| Cell::maybe(self.ratio(run), 2)),
                ("At most", &|run| Cell::maybe(time_max(run), 2)),
            ],
        )
        .caption("Run times (libception Figure 18)")
    }

    /// Libception Table 4, with the paper's figures in parentheses.
    fn drive(&self) -> Table {
        let heads = "Scheduler | Run | Busy (%) | Service (ms) | MB/s | Reads/s | Wait (ms) | \
            Seeks";
        let caption = "The drive, the paper's in parentheses (libception Table 4)";
        let mut table = Table::headed(heads).caption(caption);
        for run in &self.runs {
            let ours = [
                (run.busy_share() * 100.0, 1),
                (run.service_ms, 1),
                (run.bytes as f64 / MB / run.seconds, 1),
                (run.reads as f64 / run.seconds, 0),
                (run.wait_ms, 1),
            ];
            let theirs = theirs(run);
            let both = ours
                .into_iter()
                .enumerate()
                .map(|(index, (ours, decimals))| {
                    let theirs = theirs.map_or(String::new(), |row| format!(" ({})", row[index]));
                    format!("{ours:.decimals$}{theirs}").into()
                });
            let first = [
                run.scheduler.as_str().into(),
                format!("{}, {}", name(run.how), run.diffs).into(),
            ];
            let seeks = [Cell::from(run.seeks as usize)];
            table.push(first.into_iter().chain(both).chain(seeks));
        }
        table
    }

    fn report(&self, command: &str) -> PaperReport {
        let complaint = self
            .complaint()
            .map(|complaint| format!("Invalid: {complaint}."));
        let outcome = self.ending();
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["ending"] = format!("{outcome:?}").to_lowercase().into();
        let trees = format!("Trees of {} files, seed {}", self.files, self.seed);
        let tables = vec![self.times(), self.drive()];
        let words = "diff -r of two versions of a source tree, one and two concurrently (of two \
                     copies of each), with a cold cache, on an emulated drive.";
        let section = Section::new("Diffs").text(words);
        let section = complaint.iter().fold(section, Section::note);
        let section = tables
            .iter()
            .cloned()
            .fold(section, Section::table)
            .command(command);
        let complaint = complaint.map_or_else(String::new, |complaint| complaint + "\n\n");
        PaperReport {
            lead: format!("{complaint}{trees}\n\n"),
            tables,
            json,
            page: Page::new("One and two concurrent diffs")
                .lead(trees + ".")
                .section(section)
                .footer(FOOTER),
            outcome,
        }
    }
}

/// The largest acceptable time relative to the run without a reader, which itself has none.
fn time_max(run: &DiffRun) -> Option<f64> {
    match (run.how, run.diffs) {
        (DiffReader::Plain, _) => None,
        (_, 1) => Some(ONE_MAX),
        _ => Some(TWO_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(how: DiffReader, diffs: u32, seconds: f64) -> DiffRun {
        DiffRun {
            how,
            diffs,
            scheduler: "none".to_owned(),
            seconds,
            busy_seconds: seconds * 0.9,
            reads: 1000,
            bytes: 12_000_000,
            seeks: 300,
            service_ms: 3.0,
            wait_ms: 4.0,
            late_share: 0.01,
        }
    }

    fn diffed(times: [f64; 4]) -> DiffReport {
        let [one, two, one_read_for, two_read_for] = times;
        DiffReport {
            schema: "headlong-diff-1",
            files: 10,
            seed: 1,
            runs: vec![
                run(DiffReader::Plain, 1, one),
                run(DiffReader::Preload, 1, one_read_for),
                run(DiffReader::Plain, 2, two),
                run(DiffReader::Mount, 2, two_read_for),
            ],
        }
    }

    #[test]
    fn two_diffs_must_take_half_and_one_no_longer() {
        assert_eq!(
            diffed([40.0, 120.0, 41.0, 60.0]).ending(),
            CommandOutcome::Done
        );
        assert_eq!(
            diffed([40.0, 120.0, 43.0, 60.0]).ending(),
            CommandOutcome::Missed
        );
        assert_eq!(
            diffed([40.0, 120.0, 30.0, 61.0]).ending(),
            CommandOutcome::Missed
        );
    }

    #[test]
    fn idle_drive_invalidates_result() {
        let mut diffed = diffed([40.0, 120.0, 40.0, 60.0]);
        diffed.runs[2].busy_seconds = 30.0;
        assert_eq!(diffed.ending(), CommandOutcome::Refused);
        assert!(diffed.report("headlong").text().starts_with("Invalid"));
    }

    #[test]
    fn table_shows_published_figures() {
        let text = diffed([40.0, 120.0, 40.0, 60.0]).report("headlong").text();
        assert!(text.contains("90.0 (96.6)"), "{text}");
        assert!(text.contains("mount, 2"), "{text}");
    }
}
