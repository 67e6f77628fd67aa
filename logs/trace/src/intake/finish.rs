//! Completes intake: counts the sessions of viewers, and collects properties of files and remarks.

use super::layout::LogLayout;
use super::logs::LogOrigins;
use super::options::{Intake, MemoryBound};
use super::result::{IntakeResult, LogSummary, SessionIdentification};
use super::worker::{ThreadResults, address_of};
use crate::drop_counts::DroppedLine;
use crate::files;
use crate::names::Names;
use crate::partitions::first_pass::FirstPass;
use crate::partitions::record::SOURCE_SHIFT;
use crate::read::DropReason;

/// Counts taken while logs were read, and the errors that ended some of them early.
pub(crate) type ReadCounts = (ThreadResults, Vec<(u32, String)>);

/// The intake, after the first pass over its requests.
pub(crate) fn finish(
    intake: &Intake,
    memory: MemoryBound,
    logs: LogOrigins,
    (mut layout, first_pass): (LogLayout, &FirstPass),
    (mut told, troubles): ReadCounts,
) -> IntakeResult {
    note_repeated(&mut told, first_pass, &logs);
    let one_address = one_address(
        &layout.viewers,
        first_pass,
        layout.parts.maps.sessions_named,
        told.requests,
    );
    let session_names = layout.divide(first_pass);
    let LogLayout {
        file_names,
        facts,
        titles,
        file_disks,
        streams,
        parts,
        ..
    } = layout;
    let files = files::infos(&file_names, &facts, &first_pass.files, &titles, &file_disks);
    let files_estimated = files.iter().filter(|file| file.is_estimated).count() as u32;
    let files_told = files::known_properties(&facts);
    let files_unsized = files_told.iter().filter(|told| !told.size).count() as u32;
    let mut unused: Vec<String> = logs
        .logs
        .iter()
        .flat_map(|log| log.unused.clone())
        .collect();
    unused.sort_unstable();
    unused.dedup();
    let logs = logs_told(logs, &told, &troubles);
    let sessions_by = sessions_by(intake, &told);
    let span_ms = span(&told);
    IntakeResult {
        sessions: session_names.len() as u32,
        notes: one_address
            .into_iter()
            .chain(notes(
                &told,
                if intake.estimates {
                    [files_estimated, files_unsized]
                } else {
                    [0; 2]
                },
                &logs,
                (layout.segments, streams.len()),
            ))
            .collect(),
        streams,
        told_format: formats(&logs),
        requests: told.requests,
        bytes: told.bytes,
        untimed: told.untimed,
        unplaced: told.unplaced,
        has_files_table: intake.files.is_some(),
        titles_by: layout.titles_by,
        unused,
        dropped: told.dropped,
        parts,
        files,
        files_told,
        files_estimated,
        file_names,
        session_names,
        title_names: layout.title_names,
        devices: layout.devices,
        disks: layout.disks,
        span_ms,
        sessions_by,
        logs,
        memory,
    }
}

fn note_repeated(told: &mut ThreadResults, first_pass: &FirstPass, logs: &LogOrigins) {
    if first_pass.repeated == 0 {
        return;
    }
    told.requests -= first_pass.repeated;
    told.bytes -= first_pass.repeated_bytes;
    // These counts may include dropped repetitions; which ones is unknown.
    for count in [&mut told.untimed, &mut told.unplaced, &mut told.unnamed] {
        *count = (*count).min(told.requests);
    }
    let name = |number: u64| {
        let log = logs.logs.iter().find(|log| u64::from(log.number) == number);
        log.map_or_else(String::new, |log| log.name.clone())
    };
    let samples = first_pass.repeated_lines.iter().map(|place| DroppedLine {
        order: *place,
        file: name(place >> SOURCE_SHIFT),
        line: place & ((1 << SOURCE_SHIFT) - 1),
        text: String::new(),
    });
    told.dropped
        .add_samples(DropReason::Repeated, first_pass.repeated, samples.collect());
}

fn logs_told(
    logs: LogOrigins,
    told: &ThreadResults,
    troubles: &[(u32, String)],
) -> Vec<LogSummary> {
    let mut all: Vec<(u32, LogSummary)> = logs
        .logs
        .into_iter()
        .map(|log| {
            let found = told.logs.get(&log.number);
            let trouble: Vec<&str> = troubles
                .iter()
                .filter(|(number, _)| *number == log.number)
                .map(|(_, trouble)| trouble.as_str())
                .collect();
            let of_log = LogSummary {
                name: log.name,
                format: log.format,
                requests: found.map_or(0, |(count, _, _)| *count),
                span_ms: found.map(|(_, first, last)| (*first, *last)),
                note: (!trouble.is_empty()).then(|| trouble.join("; ")),
            };
            (log.number, of_log)
        })
        .chain(logs.left_out)
        .collect();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, log)| log).collect()
}

fn formats(logs: &[LogSummary]) -> String {
    let mut formats: Vec<&str> = Vec::new();
    for log in logs.iter().filter(|log| !log.format.is_empty()) {
        if !formats.contains(&log.format.as_str()) {
            formats.push(&log.format);
        }
    }
    formats.join(", ")
}

fn sessions_by(intake: &Intake, told: &ThreadResults) -> SessionIdentification {
    let idle = intake.session_idle;
    match told.unnamed {
        0 => SessionIdentification::Id,
        // Requests dropped later do not matter here.
        unnamed if unnamed >= told.requests => SessionIdentification::AddressAgentTitle { idle },
        unnamed => SessionIdentification::Both { unnamed, idle },
    }
}

fn span(told: &ThreadResults) -> (i64, i64) {
    let first = told.logs.values().map(|(_, first, _)| *first).min();
    let last = told.logs.values().map(|(_, _, last)| *last).max();
    (first.unwrap_or(0), last.unwrap_or(0))
}

/// Fewer requests say nothing about a proxy.
const ONE_ADDRESS_REQUESTS_MIN: u64 = 10;

/// A remark if most requests are of viewers with the same address, which may be that of a proxy.
fn one_address(
    viewers: &Names,
    first_pass: &FirstPass,
    sessions_named: u32,
    requests: u64,
) -> Option<String> {
    let (mut most, mut current) = ((0, 0, 0), (0, 0));
    let mut address = Vec::new();
    // Viewers with the same address are neighbours in the order of their names.
    for viewer in 0..viewers.whole_len() as u32 {
        let name = viewers.bytes(viewer);
        if address_of(&name) != address {
            address = address_of(&name).to_vec();
            current = (0, 0);
        }
        let key = sessions_named + viewer;
        current.0 += first_pass.viewer_requests.get(&key).copied().unwrap_or(0);
        current.1 += 1;
        if current.0 > most.0 {
            most = (current.0, current.1, viewer);
        }
    }
    let (count, agents, viewer) = most;
    if count * 2 <= requests || count < ONE_ADDRESS_REQUESTS_MIN {
        return None;
    }
    let name = viewers.bytes(viewer);
    let address = String::from_utf8_lossy(address_of(&name));
    let are = match agents {
        1 => "1 viewer".to_owned(),
        agents => format!("{agents} viewers, told apart by their agents"),
    };
    Some(format!(
        "{count} of {requests} requests come from one address, {address}, and count as {are}; if it is \
         a proxy, more viewers are behind it: log the client's address as well \
         ($http_x_forwarded_for), or name a session id (--session-field)"
    ))
}

/// A log of this many years contains a wrong date.
const YEARS_MAX: i64 = 10;
const YEAR_MS: i64 = 365 * 86_400_000;

fn notes(
    told: &ThreadResults,
    [files_estimated, files_unsized]: [u32; 2],
    logs: &[LogSummary],
    (segments, streams): (usize, usize),
) -> Vec<String> {
    let mut notes = Vec::new();
    let counted = [
        (
            told.clocks_back,
            "times the clock of a log went back by more than a minute",
        ),
        (
            told.unended,
            "last lines have no line end but are readable, and were used",
        ),
        (
            u64::from(files_estimated),
            "files have no kind or bit rate in a files table; these were estimated",
        ),
        (
            u64::from(files_unsized),
            "files have no size in a files table or a reply; they are assumed to end at the highest byte \
             sent, so sessions appear to end later in their title than they do",
        ),
    ];
    for (count, what) in counted.into_iter().filter(|(count, _)| *count > 0) {
        notes.push(format!("{count} {what}"));
    }
    if streams > 0 {
        notes.push(format!(
            "{segments} files are segments of {streams} renditions; all segments of a rendition are \
             one file, in the order of their numbers"
        ));
    }
    let (first_ms, last_ms) = span(told);
    let years = last_ms.saturating_sub(first_ms) / YEAR_MS;
    if years >= YEARS_MAX {
        notes.push(format!(
            "{years} years lie between the first request and the last, so some line has a wrong date; \
             figures over time are coarse until it is removed"
        ));
    }
    for log in logs {
        if let Some(note) = &log.note {
            notes.push(format!("{}: {note}", log.name));
        }
    }
    notes
}
