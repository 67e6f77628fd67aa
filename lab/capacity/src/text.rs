//! An answer as text, and its tables, which the page has too.

use std::fmt::Write as _;

use headlong_report::{Cell, Table};
use headlong_stats::{ConfidenceInterval, USUAL_CONFIDENCE};
use headlong_units::Bytes;

use crate::answer::{CapacityAnswer, CapacityFigure};

/// The answer as text.
pub fn text(answer: &CapacityAnswer) -> String {
    let mut text = format!("{}\n\n", sentence(answer));
    let _ = writeln!(text, "What limits it: {}.", answer.limited_by);
    for table in [changes(answer), servers(answer)].into_iter().flatten() {
        text.push('\n');
        text.push_str(&table.to_markdown());
    }
    for (heading, lines) in [
        (
            "Remarks",
            answer
                .remarks
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        ),
        ("How this came about", answer.method.to_vec()),
    ] {
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{heading}:");
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "- {line}");
        }
    }
    text
}

/// The answer in a sentence.
pub(crate) fn sentence(answer: &CapacityAnswer) -> String {
    format!(
        "{} bears {} viewers, {} Mbit/s, without a failed request. The log has {} sessions, {:.0} \
         viewers and {:.1} Mbit/s in the mean.",
        answer.machine,
        ends(&answer.viewers, 0),
        ends(&answer.mbit_s, 0),
        answer.log.sessions,
        answer.log.mean_viewers,
        answer.log.mean_mbit_s,
    )
}

fn ends(figure: &CapacityFigure, decimals: usize) -> String {
    let [value, low, high] =
        [figure.value, figure.low, figure.high].map(|number| format!("{number:.decimals$}"));
    format!("{value} ({low} to {high})")
}

fn interval(figure: &CapacityFigure) -> ConfidenceInterval {
    ConfidenceInterval {
        estimate: figure.value,
        low: figure.low,
        high: figure.high,
        confidence: USUAL_CONFIDENCE,
    }
}

/// The gain of one more part.
pub(crate) fn changes(answer: &CapacityAnswer) -> Option<Table> {
    let table = Table::of(
        &answer.changes,
        &[
            ("With", &|change| change.what.as_str().into()),
            ("Limit (Mbit/s)", &|change| match change.is_least {
                true => Cell::Number(format!("at least {:.0}", change.mbit_s)),
                false => Cell::number(change.mbit_s, 0),
            }),
            ("of that without", &|change| {
                Cell::ends(&interval(&change.gain), 2)
            }),
        ],
    );
    (!answer.changes.is_empty()).then_some(table)
}

/// The limits of the servers.
pub(crate) fn servers(answer: &CapacityAnswer) -> Option<Table> {
    let nginx = answer.nginx.as_ref()?;
    let mut table = Table::headed("Server | Limit (Mbit/s) | Viewers | of Headlong's");
    table.push([
        "Headlong".into(),
        Cell::number(answer.mbit_s.value, 0),
        Cell::number(answer.viewers.value, 0),
        Cell::Missing,
    ]);
    table.push([
        format!("nginx, readahead {}", Bytes(nginx.read_ahead_bytes)).into(),
        Cell::number(nginx.mbit_s, 0),
        Cell::number(nginx.viewers, 0),
        Cell::ends(&interval(&nginx.share), 2),
    ]);
    Some(table)
}
