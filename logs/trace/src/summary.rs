//! Summary of intake: lines parsed and dropped, missing information, and server configurations that
//! add it.
//!
//! Each of these configurations writes a log that is recognised without options; tests read a
//! sample of each.

use crate::drop_counts::DroppedLines;
use crate::intake::IntakeResult;
use crate::read::DropReason;

/// The lines that precede every report.
pub fn summary(taken: &IntakeResult) -> Vec<String> {
    let mut told = vec![first_line(taken)];
    if taken.requests > 0 && taken.bytes == 0 {
        told.push("no request sent a byte; their sizes may be in another column".to_owned());
    }
    told.extend(lacks(taken));
    // Headers and comments are not losses.
    let lines = taken.dropped.by_reason().iter();
    let lines = lines.filter(|lines| lines.reason != DropReason::NotARequest);
    told.extend(lines.map(of_reason));
    if taken.requests > 0 {
        told.push(format!("sessions by {}", taken.sessions_by));
        told.push(format!(
            "titles: {} files, {}",
            taken.titles_by.total(),
            taken.titles_by
        ));
    }
    if !taken.unused.is_empty() {
        told.push(format!("not used: {}", taken.unused.join(", ")));
    }
    told.extend(taken.notes.iter().cloned());
    told
}

/// The number of lines, by result.
fn first_line(taken: &IntakeResult) -> String {
    let (dropped, others) = (taken.dropped.count(), taken.dropped.others());
    let lines = taken.requests + dropped + others;
    let share = 100.0 * dropped as f64 / (taken.requests + dropped).max(1) as f64;
    format!(
        "read as {}: {lines} lines, of which {} are requests, {dropped} were dropped ({share:.1} %) \
         and {others} were left out (comments, other methods and statuses, files of pages)",
        taken.told_format, taken.requests
    )
}

/// Missing information, and server configurations that add it.
fn lacks(taken: &IntakeResult) -> Vec<String> {
    let mut told = Vec::new();
    let is_untimed = taken.untimed > taken.requests / 10;
    let found = [
        (
            taken.unplaced,
            "are for a part of a file at an unknown offset; chains, phases and portions of titles need \
             the Range header",
        ),
        (
            if is_untimed { taken.untimed } else { 0 },
            "have no duration, and count as instantaneous; throughput over short times, parallel \
             requests and durations of chains need the service time",
        ),
    ];
    for (count, what) in found.into_iter().filter(|(count, _)| *count > 0) {
        told.push(format!("{count} of {} requests {what}", taken.requests));
    }
    if !told.is_empty() {
        told.extend(to_copy(&taken.told_format));
    }
    told
}

/// Server configurations that log everything needed. Each line of the list has a server, the
/// prefixes of the names of formats that it writes, and its configuration, separated by tabs; `¶`
/// ends a line of a configuration.
fn to_copy(formats: &str) -> Vec<String> {
    let mut told = vec!["a complete log is written by:".to_owned()];
    for server in include_str!("servers.tsv").lines() {
        let fields: Vec<&str> = server.splitn(3, '\t').collect();
        if let [name, writes, lines] = fields[..]
            && writes.split(' ').any(|known| formats.starts_with(known))
        {
            told.push(format!("  {name}: {}", lines.replace('¶', "\n    ")));
        }
    }
    if told.len() == 1 {
        told[0] =
            "add a column or key `range` (the header) or `offset`, and `service_ms`".to_owned();
    }
    told
}

/// Lines excluded for one reason, with the first of them.
fn of_reason(lines: &DroppedLines) -> String {
    let noun = if lines.count == 1 { "line" } else { "lines" };
    let verb = if lines.reason.is_other() {
        "left out"
    } else {
        "dropped"
    };
    let first = lines.samples.first().map_or(String::new(), |first| {
        format!("; first {}:{}: {}", first.file, first.line, first.text)
    });
    format!("{} {noun} {verb}: {}{first}", lines.count, lines.reason)
}
