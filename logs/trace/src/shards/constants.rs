//! Constants of a log: what the sums of every session need, and the provenance of the report.

use std::path::Path;

use headlong_chains::FileInfo;
use headlong_characterise::{Accumulators, DEVICES_MAX, DroppedLines, LogContext, Provenance};
use serde::{Deserialize, Serialize};

use crate::names::QuickMap;
use crate::read::DropReason;
use crate::summary::summary;
use crate::{IntakeResult, Partitions, PartitionsError};

/// The constants of a log, which all its shards have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogConstants {
    files: Vec<FileInfo>,
    streams: Vec<u32>,
    devices: Vec<String>,
    /// Names of the titles, by number: which of them a report shows is known once all is summed.
    titles: Vec<String>,
    /// Sessions of each type of device, if these are too many to be counted separately.
    device_sessions: Vec<u64>,
    span_ms: (i64, i64),
    has_offsets: bool,
    /// Name of a specification fitted to the log, if the report has no title.
    name: String,
    /// Without title and command.
    about: Provenance,
    /// The words of a command line that reads the log as its split did; empty without one.
    pub(crate) words: Vec<String>,
}

/// Beyond all times of a log, ms since 1970 or before: those have years of four digits.
const TIME_MS_MAX: u64 = 1 << 48;

/// Most memory used in addition to the limit of intake, bytes.
pub fn characterise_bytes_max(taken: &IntakeResult, threads: usize) -> u64 {
    let mut log = LogContext::new(taken.files.clone(), taken.span_ms);
    log.has_offsets = taken.has_offsets();
    threads.max(1) as u64 * Accumulators::bytes_max(&log)
}

impl LogConstants {
    /// Those of logs that were taken in.
    pub(crate) fn of(taken: &IntakeResult, threads: usize) -> Result<Self, PartitionsError> {
        let device_sessions = sessions_by_device(&taken.parts, taken.devices.len(), threads)?;
        Ok(Self::new(taken, device_sessions))
    }

    /// The same with these [`sessions_by_device`].
    pub(crate) fn new(taken: &IntakeResult, device_sessions: Vec<u64>) -> Self {
        let devices = 0..taken.devices.len() as u32;
        let titles = taken.files.iter().map(|file| file.title + 1).max();
        Self {
            files: taken.files.clone(),
            streams: taken.streams.clone(),
            devices: devices
                .map(|number| taken.devices.get(number).to_string())
                .collect(),
            titles: (0..titles.unwrap_or(0))
                .map(|number| taken.title_names.get(number).to_string())
                .collect(),
            device_sessions,
            span_ms: taken.span_ms,
            has_offsets: taken.has_offsets(),
            name: name_of(taken),
            about: about(taken),
            words: Vec::new(),
        }
    }

    /// Whether a log may have them. Sums have lists of the length of their largest number, so others,
    /// of a file that somebody else wrote, could need any amount of memory.
    pub(crate) fn are_possible(&self) -> bool {
        let (first, last) = self.span_ms;
        let is_time = |ms: i64| ms.unsigned_abs() < TIME_MS_MAX;
        let mut titles = self.files.iter().map(|file| file.title as usize);
        first <= last
            && is_time(first)
            && is_time(last)
            && titles.all(|title| title < self.titles.len())
    }

    /// The context of sums.
    pub(crate) fn context(&self) -> LogContext {
        let mut log = LogContext::new(self.files.clone(), self.span_ms);
        log.mark_streams(&self.streams);
        log.has_offsets = self.has_offsets;
        log.devices.clone_from(&self.devices);
        log.count_devices(&self.device_sessions);
        log
    }

    /// The context of the report on these sums.
    pub(crate) fn context_of(&self, sums: &Accumulators) -> LogContext {
        let mut log = self.context();
        let names = sums.top_titles().into_iter();
        let named =
            names.filter_map(|title| Some((title, self.titles.get(title as usize)?.clone())));
        log.title_names = named.collect();
        log
    }

    /// The names of the logs, for messages.
    pub(crate) fn logs(&self) -> String {
        self.about.logs.join(", ")
    }

    /// Remarks on the intake, for readers of the report.
    pub(crate) fn notes(&self) -> &[String] {
        &self.about.notes
    }

    /// The provenance of a report with this title and command line.
    pub(crate) fn about(&self, title: &str, command: &str) -> Provenance {
        Provenance {
            title: title.to_owned(),
            command: command.to_owned(),
            ..self.about.clone()
        }
    }

    /// The name of a specification fitted to the log.
    pub(crate) fn name(&self, title: &str) -> String {
        match title.is_empty() {
            true => self.name.clone(),
            false => title.to_owned(),
        }
    }
}

/// The number of sessions on each type of device; empty if these are few enough to be counted
/// separately.
pub(crate) fn sessions_by_device(
    parts: &Partitions,
    devices: usize,
    threads: usize,
) -> Result<Vec<u64>, PartitionsError> {
    if devices <= DEVICES_MAX {
        return Ok(Vec::new());
    }
    let counts = parts.each_unsorted(threads, |_, requests| {
        requests.sort_unstable_by_key(|r| (r.session, r.received_ms, r.line));
        let mut counts: QuickMap<u16, u64> = QuickMap::default();
        for session in requests.chunk_by(|one, other| one.session == other.session) {
            *counts.entry(session[0].device).or_default() += 1;
        }
        counts
    })?;
    let mut all = vec![0; devices];
    for (device, count) in counts.into_iter().flatten() {
        if let Some(sum) = all.get_mut(usize::from(device)) {
            *sum += count;
        }
    }
    Ok(all)
}

fn name_of(taken: &IntakeResult) -> String {
    let first = taken.logs.first().map(|log| Path::new(&log.name));
    let stem = first.and_then(Path::file_stem);
    stem.map_or(String::new(), |stem| stem.to_string_lossy().into_owned())
}

fn about(taken: &IntakeResult) -> Provenance {
    let logs: Vec<String> = taken.logs.iter().map(|log| log.name.clone()).collect();
    // Lines that are left out as intended are in the notes.
    let lines_of = |is_meant: fn(DropReason) -> bool| {
        let lines = taken.dropped.by_reason().iter();
        let lines = lines.filter(|lines| is_meant(lines.reason));
        lines
            .map(|lines| DroppedLines {
                reason: lines.reason.to_string(),
                count: lines.count,
                sample: lines.samples.first().map_or(String::new(), |sample| {
                    let place = format!("{}:{}", sample.file, sample.line);
                    match sample.text.is_empty() {
                        true => place,
                        false => format!("{place}: {}", sample.text),
                    }
                }),
            })
            .collect()
    };
    let mut notes = summary(taken);
    if taken.requests == 0 {
        notes.push("no request can be used; every table is empty".into());
    }
    Provenance {
        title: String::new(),
        logs,
        format: taken.told_format.clone(),
        sessions_by: taken.sessions_by.to_string(),
        bytes: taken.bytes,
        requests: taken.requests,
        dropped: lines_of(|reason| !reason.is_other()),
        failures: lines_of(DropReason::is_failure),
        files_estimated: u64::from(taken.files_estimated),
        files: taken.files.len() as u64,
        notes,
        command: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use headlong_chains::ChainRules;

    use super::super::{PartialSums, ShardError};
    use super::*;
    use crate::{Intake, SilentProgress, take_in};

    #[test]
    fn constants_that_no_log_has_are_damage() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log.csv");
        let text = "ts_ms,service_ms,session,file,offset,size,bytes\n\
            1000,10,a,x.mp4,0,10,10\n2000,10,a,y.mp4,0,10,10\n";
        std::fs::write(&log, text).expect("written");
        let intake = Intake {
            logs: vec![log],
            memory_bytes_max: 128 << 20,
            threads: 1,
            ..Intake::default()
        };
        let taken = take_in(&intake, &SilentProgress).expect("a readable log");
        let possible = LogConstants::of(&taken, 1).expect("constants");
        let read = |constants: LogConstants| {
            let sums = Accumulators::new(&possible.context());
            let partial = PartialSums::whole(constants, ChainRules::default(), sums);
            PartialSums::from_bytes("a", &partial.to_bytes())
        };
        read(possible.clone()).expect("sums");
        let lies: [fn(&mut LogConstants); 4] = [
            |of| of.span_ms = (i64::MIN, i64::MAX),
            |of| of.span_ms.1 = of.span_ms.0 - 1,
            |of| of.files[0].title = 2,
            |of| of.titles.clear(),
        ];
        for lie in lies {
            let mut constants = possible.clone();
            lie(&mut constants);
            let error = read(constants).expect_err("no sums");
            assert!(matches!(error, ShardError::Damaged { .. }), "{error}");
        }
    }
}
