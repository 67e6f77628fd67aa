//! Dropped lines, counted by reason, with the first samples of each.

use serde::{Deserialize, Serialize};

use crate::read::DropReason;

/// Samples kept per reason.
pub(crate) const SAMPLES_MAX: usize = 5;

/// Longest part of a line that is shown, bytes.
const SHOWN_BYTES_MAX: usize = 160;

/// A line that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DroppedLine {
    /// Global line order, for sorting.
    pub(crate) order: u64,
    /// The file, as it was given.
    pub file: String,
    /// Line number in the file, from 1.
    pub line: u64,
    /// The start of the line, with unprintable bytes escaped.
    pub text: String,
}

/// Lines dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedLines {
    /// The reason.
    pub reason: DropReason,
    /// Their number.
    pub count: u64,
    /// The first samples.
    pub samples: Vec<DroppedLine>,
}

/// All dropped lines, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DropCounts {
    by_reason: Vec<DroppedLines>,
}

impl DropCounts {
    /// Each reason that occurred, in the order of [`DropReason`].
    pub fn by_reason(&self) -> &[DroppedLines] {
        &self.by_reason
    }

    /// Number of dropped lines, without lines that are not requests of the kind examined.
    pub fn count(&self) -> u64 {
        self.sum(|reason| !reason.is_other())
    }

    /// Number of lines that are not requests of the kind examined: other methods and statuses,
    /// comments, requests that another log contains as well.
    pub fn others(&self) -> u64 {
        self.sum(DropReason::is_other)
    }

    fn sum(&self, counts: impl Fn(DropReason) -> bool) -> u64 {
        let lines = self.by_reason.iter();
        let lines = lines.filter(|lines| counts(lines.reason));
        lines.map(|lines| lines.count).sum()
    }

    /// Number of lines dropped for that reason.
    pub fn count_of(&self, reason: DropReason) -> u64 {
        let found = self.by_reason.iter().find(|lines| lines.reason == reason);
        found.map_or(0, |lines| lines.count)
    }

    /// Counts a line; `text` becomes a sample if it is among the first.
    pub(crate) fn add(
        &mut self,
        reason: DropReason,
        file: &str,
        line: u64,
        order: u64,
        text: &[u8],
    ) {
        let lines = self.lines(reason);
        lines.count += 1;
        let is_first = lines.samples.len() < SAMPLES_MAX
            || lines.samples.last().is_some_and(|last| order < last.order);
        if is_first {
            lines.samples.push(DroppedLine {
                order,
                file: file.to_owned(),
                line,
                text: shown(text),
            });
            lines.samples.sort_unstable();
            lines.samples.truncate(SAMPLES_MAX);
        }
    }

    /// Adds the counts of another instance.
    pub(crate) fn merge(&mut self, other: Self) {
        for theirs in other.by_reason {
            let ours = self.lines(theirs.reason);
            ours.count += theirs.count;
            ours.samples.extend(theirs.samples);
            ours.samples.sort_unstable();
            ours.samples.truncate(SAMPLES_MAX);
        }
    }

    /// The same counts of a part of a log that follows `before` lines of it.
    #[must_use]
    pub(crate) fn following(mut self, before: u64) -> Self {
        let samples = self
            .by_reason
            .iter_mut()
            .flat_map(|lines| &mut lines.samples);
        for sample in samples {
            sample.line += before;
            sample.order = sample.line;
        }
        self
    }

    /// Counts lines whose text is no longer available.
    pub(crate) fn add_samples(
        &mut self,
        reason: DropReason,
        count: u64,
        samples: Vec<DroppedLine>,
    ) {
        self.merge(Self {
            by_reason: vec![DroppedLines {
                reason,
                count,
                samples,
            }],
        });
    }

    fn lines(&mut self, reason: DropReason) -> &mut DroppedLines {
        let place = self
            .by_reason
            .binary_search_by_key(&reason, |lines| lines.reason);
        let place = place.unwrap_or_else(|place| {
            let lines = DroppedLines {
                reason,
                count: 0,
                samples: Vec::new(),
            };
            self.by_reason.insert(place, lines);
            place
        });
        &mut self.by_reason[place]
    }
}

/// The start of a line, safe to print on a terminal.
pub(crate) fn shown(line: &[u8]) -> String {
    let end = line.len().min(SHOWN_BYTES_MAX);
    let mut text = String::from_utf8_lossy(&line[..end])
        .chars()
        .flat_map(|c| {
            let is_odd = c.is_control() || c == char::REPLACEMENT_CHARACTER;
            let escaped = is_odd.then(|| c.escape_default());
            let plain = (!is_odd).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect::<String>();
    if end < line.len() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_samples_are_kept_in_any_order_of_arrival() {
        let mut forth = DropCounts::default();
        let mut back = DropCounts::default();
        for line in 1..=9 {
            forth.add(DropReason::Shape, "a.log", line, line, b"x");
            back.add(DropReason::Shape, "a.log", 10 - line, 10 - line, b"x");
        }
        assert_eq!(forth, back);
        let samples = &forth.by_reason()[0].samples;
        let lines: Vec<u64> = samples.iter().map(|sample| sample.line).collect();
        assert_eq!(lines, [1, 2, 3, 4, 5]);
        forth.merge(back);
        assert_eq!(forth.count_of(DropReason::Shape), 18);
        assert_eq!(forth.count(), 18);
    }

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(shown(b"a\x1b[2Jb\0"), "a\\u{1b}[2Jb\\u{0}");
        assert_eq!(shown(b"\xff"), "\\u{fffd}");
        assert!(shown(&[b'x'; 500]).ends_with("x..."));
    }
}
