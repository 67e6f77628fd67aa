//! `SegmentTimeline`: runs of equal segments written as one element (ISO/IEC 23009-1, 5.3.9.6).

use alloc::format;
use alloc::vec::Vec;

use headlong_units::Duration;

use crate::note::TitleNotes;

/// One `S` element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimelineEntry {
    /// `t`: start, ticks; `None` for the end of the previous one.
    pub time: Option<u64>,
    /// `d`: length of a segment, ticks.
    pub duration: u64,
    /// `r`: how many repetitions follow; negative for "up to the next `S` or the end".
    pub repeat: i64,
}

/// One segment of an expanded timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineSegment {
    /// Start, ticks.
    pub time: u64,
    /// Length, ticks.
    pub duration: u64,
}

/// Expands the runs; `end` is the end of the period on this timeline, in ticks. Returns at most
/// `count_max` segments.
pub fn expand_timeline(
    entries: &[TimelineEntry],
    end: Option<u64>,
    count_max: usize,
    notes: &mut TitleNotes,
) -> Vec<TimelineSegment> {
    let mut segments = Vec::new();
    let mut time: u64 = 0;
    for (i, entry) in entries.iter().enumerate() {
        time = entry.time.unwrap_or(time);
        if entry.duration == 0 {
            notes.push("its timeline has a segment of no length, which is ignored".into());
            continue;
        }
        let count = match u64::try_from(entry.repeat) {
            Ok(repeat) => repeat.saturating_add(1),
            Err(_) => {
                let next = entries.get(i + 1).and_then(|next| next.time);
                let Some(until) = next.or(end) else {
                    notes.push("its timeline repeats up to an end that is not given".into());
                    continue;
                };
                until.saturating_sub(time).div_ceil(entry.duration)
            }
        };
        for _ in 0..count {
            if segments.len() == count_max {
                notes.push(format!(
                    "it has more than {count_max} segments; the others are ignored"
                ));
                return segments;
            }
            segments.push(TimelineSegment {
                time,
                duration: entry.duration,
            });
            time = time.saturating_add(entry.duration);
        }
    }
    segments
}

/// `ticks` of a `timescale` per second as a duration; a timescale of zero counts as one.
pub(crate) fn ticks_to_duration(ticks: u64, timescale: u64) -> Duration {
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(timescale.max(1));
    Duration(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// A duration in ticks, rounded to the nearest so that an exact end stays exact.
pub(crate) fn duration_to_ticks(length: Duration, timescale: u64) -> u64 {
    let ticks = (u128::from(length.0) * u128::from(timescale) + 500_000_000) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(time: Option<u64>, duration: u64, repeat: i64) -> TimelineEntry {
        TimelineEntry {
            time,
            duration,
            repeat,
        }
    }

    fn times(entries: &[TimelineEntry], end: Option<u64>) -> Vec<u64> {
        let segments = expand_timeline(entries, end, 1000, &mut TitleNotes::default());
        segments.iter().map(|segment| segment.time).collect()
    }

    #[test]
    fn runs_are_consecutive() {
        let entries = [
            entry(Some(100), 10, 2),
            entry(None, 5, 0),
            entry(Some(200), 10, 0),
        ];
        assert_eq!(times(&entries, None), [100, 110, 120, 130, 200]);
    }

    #[test]
    fn negative_repeat_lasts_until_next_entry_or_end() {
        let entries = [entry(Some(0), 10, -1), entry(Some(30), 10, -1)];
        assert_eq!(times(&entries, Some(55)), [0, 10, 20, 30, 40, 50]);
        assert_eq!(times(&[entry(None, 10, -1)], None), [0; 0]);
        assert_eq!(times(&[entry(Some(50), 10, -1)], Some(20)), [0; 0]);
    }

    proptest! {
        #[test]
        fn no_timeline_panics_or_exceeds_its_bound(
            entries in proptest::collection::vec((any::<Option<u64>>(), any::<u64>(), any::<i64>()), 0..8),
            end: Option<u64>,
        ) {
            let entries: Vec<_> = entries.into_iter().map(|(t, d, r)| entry(t, d, r)).collect();
            let mut notes = TitleNotes::default();
            prop_assert!(expand_timeline(&entries, end, 1000, &mut notes).len() <= 1000);
        }
    }
}
