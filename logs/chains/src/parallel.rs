//! Number of concurrent requests for a file (thesis 5.2.4, Table 5.3; rule A15).

use alloc::vec::Vec;

/// Largest number of spans that overlap; a span that starts where another ends does not overlap it,
/// and an empty span overlaps nothing. At least 1: a client has one connection. `edges` is scratch
/// space, reused between files.
pub fn most_at_once(spans: impl Iterator<Item = (i64, i64)>, edges: &mut Vec<(i64, i64)>) -> usize {
    edges.clear();
    for (start, end) in spans.filter(|(start, end)| end > start) {
        edges.extend([(start, 1), (end, -1)]);
    }
    // At the same time, ends (-1) sort before starts.
    edges.sort_unstable();
    let mut now = 0;
    let most = edges.iter().map(|(_, change)| {
        now += change;
        now
    });
    most.max().unwrap_or(0).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sweep_agrees_with_checking_every_moment(
            spans in prop::collection::vec((0i64..40, 0i64..10), 0..20),
        ) {
            let spans: Vec<_> = spans.into_iter().map(|(start, long)| (start, start + long)).collect();
            let at = |t: &i64| spans.iter().filter(|(start, end)| (*start..*end).contains(t)).count();
            let naive = (0..60).map(|t| at(&t)).max().unwrap_or(0).max(1);
            prop_assert_eq!(most_at_once(spans.iter().copied(), &mut Vec::new()), naive);
        }
    }
}
