//! Reads chains from request logs.

use headlong_chains::{Chain, ChainRules, Joiner, Request};
use headlong_trace::{IntakeResult, PartitionsError};
use headlong_units::{BitRate, Duration};

use crate::load::present_ms;
use crate::read::{DroppedLines, FileFacts, FilesTable, ParsedTable};
use crate::source::ChainsError;
use crate::table::{ChainRow, ChainTable};

/// Times above this, ms (a year), count from 1970, not from the start of the log.
const YEAR_MS: i64 = 366 * 86_400_000;

/// Joins the requests of a log to chains, with the given number of threads. Sessions that begin in
/// the last `leave_out` are excluded (rule A16), after joining. If most offsets are unknown, the
/// table is as if each session had read each of its files in sequence.
///
/// # Errors
/// If the intake cannot be read again, or there are no chains.
pub fn chains_of(
    log: &IntakeResult,
    leave_out: Duration,
    threads: usize,
) -> Result<(ParsedTable, FilesTable), ChainsError> {
    let leave_out_ms = i64::try_from(leave_out.0 / 1_000_000).unwrap_or(i64::MAX);
    let last_ms = log.span_ms.1.saturating_sub(leave_out_ms);
    // Time zero is the start of the log, rounded to a full minute so that minutes keep their
    // boundaries.
    let zero_ms = match log.span_ms.0 > YEAR_MS {
        true => log.span_ms.0.div_euclid(60_000) * 60_000,
        false => 0,
    };
    let is_placed = log.has_offsets();
    let rows = |_: usize, requests: &mut Vec<Request>| {
        let mut chains = Vec::new();
        let mut alone = Vec::new();
        match is_placed {
            true => Joiner::new(ChainRules::default()).join(requests, &mut chains),
            false => unplaced_chains(requests, &mut chains, &mut alone),
        }
        let kept = |chains: &[Chain]| {
            let sessions = chains.chunk_by(|one, other| one.session == other.session);
            let kept = sessions.filter(|session| {
                let began = session.iter().map(|chain| chain.start_ms).min();
                began.is_some_and(|began| leave_out_ms == 0 || began < last_ms)
            });
            let rows = kept.flatten().map(|chain| row(log, chain, zero_ms));
            rows.collect::<Vec<ChainRow>>()
        };
        (kept(&chains), kept(&alone))
    };
    let parts = log.parts.each_unsorted(threads, rows)?;
    let (joined, alone): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let table = |rows: Vec<Vec<ChainRow>>| {
        let table = ChainTable::new(rows.into_iter().flatten());
        table.map_err(|error| ChainsError::Wrong(format!("the log: {error}")))
    };
    let listed = files_table(log);
    let read = ParsedTable {
        table: table(joined)?,
        has_sessions: true,
        is_generated: false,
        scattered: (!is_placed).then(|| table(alone)).transpose()?,
        catalogue: Some(log.catalogue_bytes()),
        files: (0..log.file_names.len())
            .map(|number| log.file_names.get(number as u32).to_string())
            .collect(),
        unlisted: 0,
        dropped: dropped(log),
    };
    Ok((read, listed))
}

/// Chains of requests whose offsets are unknown: one of each session and file, as if it were read
/// in sequence, and one of each request, as if none continued another. The truth lies between.
fn unplaced_chains(requests: &mut [Request], joined: &mut Vec<Chain>, alone: &mut Vec<Chain>) {
    requests.sort_unstable_by_key(|request| {
        let time = (request.received_ms, request.completed_ms);
        (request.session, request.file, time, request.sent_bytes)
    });
    for request in requests.iter().filter(|request| request.sent_bytes > 0) {
        let single = Chain {
            session: request.session,
            file: request.file,
            start: 0,
            length: request.sent_bytes,
            start_ms: request.received_ms,
            end_ms: request.completed_ms,
            is_open: false,
            is_mixed: false,
            requests: 1,
            disk: request.disk,
        };
        alone.push(single);
        let is_next =
            |last: &&mut Chain| (last.session, last.file) == (single.session, single.file);
        match joined.last_mut().filter(is_next) {
            Some(last) => {
                last.length = last.length.saturating_add(single.length);
                last.end_ms = last.end_ms.max(single.end_ms);
                last.requests += 1;
            }
            None => joined.push(single),
        }
    }
}

/// Bytes that a session reads in a second, in the mean over the time in which it reads; gaps of up
/// to 40 s count. Nothing if the log has no durations.
///
/// # Errors
/// If the intake cannot be read again.
pub fn read_bytes_per_s(
    log: &IntakeResult,
    threads: usize,
) -> Result<Option<f64>, PartitionsError> {
    let sums = |_: usize, requests: &mut Vec<Request>| {
        let mut chains = Vec::new();
        Joiner::new(ChainRules::default()).join(requests, &mut chains);
        let mut sums = (0_u64, 0_u64);
        for session in chains.chunk_by(|one, other| one.session == other.session) {
            let spans = session.iter().map(|chain| (chain.start_ms, chain.end_ms));
            sums.0 += session.iter().map(|chain| chain.length).sum::<u64>();
            sums.1 += present_ms(spans);
        }
        sums
    };
    let parts = log.parts.each_unsorted(threads, sums)?;
    let bytes: u64 = parts.iter().map(|part| part.0).sum();
    let present_ms: u64 = parts.iter().map(|part| part.1).sum();
    Ok((present_ms > 0).then(|| bytes as f64 * 1000.0 / present_ms as f64))
}

fn row(log: &IntakeResult, chain: &Chain, zero_ms: i64) -> ChainRow {
    ChainRow {
        start_ms: chain.start_ms - zero_ms,
        end_ms: chain.end_ms - zero_ms,
        ..ChainRow::of(chain, bit_rate(log, chain.file as usize))
    }
}

/// A file's bit rate. An estimated one counts as unknown, because half of a sizing rule would
/// depend on it.
fn bit_rate(log: &IntakeResult, file: usize) -> Option<BitRate> {
    let is_told = log.files_told.get(file)?.kbps;
    is_told.then(|| BitRate::from_kbps(u64::from(log.files[file].kbps)))
}

fn files_table(log: &IntakeResult) -> FilesTable {
    let facts = log.files.iter().enumerate().map(|(number, file)| {
        let is_sized = log.files_told.get(number).is_some_and(|told| told.size);
        let facts = FileFacts {
            bit_rate: bit_rate(log, number),
            disk: Some(file.disk),
            size_bytes: is_sized.then_some(file.size_bytes),
        };
        (log.file_names.get(number as u32).to_string(), facts)
    });
    FilesTable {
        files: facts.collect(),
        dropped: DroppedLines::default(),
    }
}

fn dropped(log: &IntakeResult) -> DroppedLines {
    let samples = log.dropped.by_reason().iter().filter_map(|lines| {
        let sample = lines.samples.first()?;
        Some(format!("{}:{}: {}", sample.file, sample.line, lines.reason))
    });
    DroppedLines {
        lines: log.dropped.count(),
        samples: samples.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_trace::{Intake, SilentProgress, take_in};

    #[test]
    fn uses_incomplete_files_table() {
        let folder = std::env::temp_dir().join(format!("chains-of-a-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let [log, files] = ["log.csv", "files.csv"].map(|name| folder.join(name));
        let header = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";
        let line = |file: &str| format!("100,0,1,1,{file},0,,1000,1\n");
        let lines = ["rate", "size", "neither"].map(line).concat();
        std::fs::write(&log, format!("{header}{lines}")).expect("written");
        std::fs::write(&files, "file,kbps,size\nrate,3000,\nsize,,5000\n").expect("written");
        let intake = Intake {
            logs: vec![log],
            files: Some(files),
            threads: 1,
            memory_bytes_max: 128 << 20,
            ..Intake::default()
        };
        let taken = take_in(&intake, &SilentProgress).expect("the intake succeeds");
        std::fs::remove_dir_all(&folder).expect("removed");
        let (read, listed) = chains_of(&taken, Duration(0), 1).expect("chains");
        let facts = |name: &str| {
            let file = &listed.files[name];
            (file.bit_rate, file.size_bytes)
        };
        let rate = BitRate::from_kbps(3000);
        assert_eq!(facts("rate"), (Some(rate), None));
        assert_eq!(facts("size"), (None, Some(5000)));
        assert_eq!(facts("neither"), (None, None));
        let shapes = read.table.shapes.iter();
        let rates: Vec<_> = shapes.filter_map(|shape| shape.bit_rate).collect();
        assert_eq!(rates, [rate]);
    }
}
