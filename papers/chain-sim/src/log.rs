//! Chains straight from request logs.

use headlong_chains::{Chain, Joiner, Request, Rules};
use headlong_trace::TakenIn;
use headlong_units::{BitRate, Duration};

use crate::read::{Dropped, FileFacts, FilesTable, Read};
use crate::source::ChainsError;
use crate::table::{ChainRow, ChainTable};

/// A log whose times are beyond this, ms, counts from 1970 and not from its own start: a year.
const YEAR_MS: i64 = 366 * 86_400_000;

/// Joins the requests of a log to chains, on so many threads. Sessions that begin in the last
/// `leave_out` are left out (rule A16), after joining.
///
/// # Errors
/// If what was taken in cannot be read again, or there are no chains.
pub fn chains_of(
    log: &TakenIn,
    leave_out: Duration,
    threads: usize,
) -> Result<(Read, FilesTable), ChainsError> {
    let leave_out_ms = i64::try_from(leave_out.0 / 1_000_000).unwrap_or(i64::MAX);
    let last_ms = log.span_ms.1.saturating_sub(leave_out_ms);
    // A log's own start is time zero, on a full minute so that minutes stay what they are.
    let zero_ms = match log.span_ms.0 > YEAR_MS {
        true => log.span_ms.0.div_euclid(60_000) * 60_000,
        false => 0,
    };
    let rows = |_: usize, requests: &mut Vec<Request>| {
        let mut chains = Vec::new();
        Joiner::new(Rules::default()).join(requests, &mut chains);
        let sessions = chains.chunk_by(|one, other| one.session == other.session);
        let kept = sessions.filter(|session| {
            let began = session.iter().map(|chain| chain.start_ms).min();
            began.is_some_and(|began| leave_out_ms == 0 || began < last_ms)
        });
        let rows = kept.flatten().map(|chain| row(log, chain, zero_ms));
        rows.collect::<Vec<ChainRow>>()
    };
    let parts = log.parts.each_unsorted(threads, rows)?;
    let table = ChainTable::new(parts.into_iter().flatten());
    let table = table.map_err(|error| ChainsError::Wrong(format!("the log: {error}")))?;
    let listed = files_table(log);
    let read = Read {
        table,
        files: (0..log.file_names.len())
            .map(|number| log.file_names.get(number as u32).to_string())
            .collect(),
        unlisted: 0,
        dropped: dropped(log),
    };
    Ok((read, listed))
}

fn row(log: &TakenIn, chain: &Chain, zero_ms: i64) -> ChainRow {
    let file = log.files.get(chain.file as usize);
    // Whose bit rate was only estimated counts as unknown: half a rule for sizes is made of it.
    let kbps = file.filter(|file| !file.is_estimated && file.kbps > 0);
    let bit_rate = kbps.map(|file| BitRate::from_kbps(u64::from(file.kbps)));
    ChainRow {
        start_ms: chain.start_ms - zero_ms,
        end_ms: chain.end_ms - zero_ms,
        ..ChainRow::of(chain, bit_rate)
    }
}

fn files_table(log: &TakenIn) -> FilesTable {
    let facts = log.files.iter().enumerate().map(|(number, file)| {
        let is_known = !file.is_estimated;
        let facts = FileFacts {
            bit_rate: is_known.then(|| BitRate::from_kbps(u64::from(file.kbps))),
            disk: Some(file.disk),
            size_bytes: (is_known && file.size_bytes > 0).then_some(file.size_bytes),
        };
        (log.file_names.get(number as u32).to_string(), facts)
    });
    FilesTable {
        files: facts.collect(),
        dropped: Dropped::default(),
    }
}

fn dropped(log: &TakenIn) -> Dropped {
    let samples = log.dropped.by_reason().iter().filter_map(|lines| {
        let sample = lines.samples.first()?;
        Some(format!("{}:{}: {}", sample.file, sample.line, lines.reason))
    });
    Dropped {
        lines: log.dropped.count(),
        samples: samples.collect(),
    }
}
