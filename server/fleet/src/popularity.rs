//! Popular titles: how much each title is requested, and over how many boxes its viewers are spread.
//!
//! Counts are those of HAProxy's stick tables (`http_req_rate`). A bound on load alone moves any
//! request that comes while a box has its part, mostly for titles that few others want, and the next
//! box has to fetch them; so what makes a box exceed its part is spread first.

use alloc::collections::BTreeMap;

/// Period of the counts.
pub(crate) const PERIOD_S: u64 = 60;
/// A title with fewer requests in a period is not popular, however few there are in all: players of
/// segments of eight seconds make seven.
pub(crate) const POPULAR_REQUESTS_MIN: u64 = 20;
/// A copy of a popular title gets about this fraction of the mean requests of a box.
pub(crate) const COPIES_OF_A_BOX: u64 = 64;
/// Shares of a title, in these fractions, from which it has copies. Each step doubles them, so that
/// half of the viewers stay where they are.
pub(crate) const COPIES: [(u64, u64); 6] = [(2, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 64)];

/// Requests of this period and of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct RequestCount {
    period: u64,
    now: u64,
    before: u64,
}

impl RequestCount {
    /// Counts a request, and returns those of the last [`PERIOD_S`], as far as they are known.
    fn add(&mut self, second: u64) -> u64 {
        let period = second / PERIOD_S;
        if period != self.period {
            let before = if period == self.period + 1 {
                self.now
            } else {
                0
            };
            *self = Self {
                period,
                now: 0,
                before,
            };
        }
        self.now += 1;
        self.now + self.before * (PERIOD_S - second % PERIOD_S) / PERIOD_S
    }
}

/// Counts of all titles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TitlePopularity {
    titles: BTreeMap<u32, RequestCount>,
    all: RequestCount,
}

impl TitlePopularity {
    /// Counts a request for a title, and returns the number of copies that its viewers share.
    pub(crate) fn handle_request(&mut self, second: u64, title: u32, boxes: u64) -> u64 {
        let all = self.all.add(second);
        let of_title = self.titles.entry(title).or_default().add(second);
        if of_title < POPULAR_REQUESTS_MIN {
            return 1;
        }
        let share = of_title * boxes * COPIES_OF_A_BOX / all.max(1);
        let steps = COPIES.iter().rev();
        let mut reached = steps.filter(|(from, _)| share >= *from);
        reached.next().map_or(1, |(_, copies)| *copies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_title_gets_copies_and_loses_them() {
        let mut of = TitlePopularity::default();
        // Ten requests of a second: three for one title, the rest for a thousand others.
        let mut second = |second: u64, hot: u64| {
            let others = (0..10 - hot).map(|turn| (second * 10 + turn) % 1000 + 1);
            let others = others.map(|title| of.handle_request(second, title as u32, 10));
            assert_eq!(others.max(), Some(1), "{second}");
            let hot = (0..hot).map(|_| of.handle_request(second, 0, 10));
            let hot: std::vec::Vec<u64> = hot.collect();
            hot.last().copied()
        };
        let copies: std::vec::Vec<_> = (0..120).map(|now| second(now, 3)).collect();
        // From 20 requests of a minute on it has 0.3 of all: three times what a box has.
        assert_eq!(
            (copies[2], copies[5], copies[6]),
            (Some(1), Some(1), Some(64))
        );
        assert_eq!(copies[119], Some(64));
        let rarely = (120..300).map(|now| second(now, u64::from(now % 4 == 2)));
        let copies: std::vec::Vec<_> = rarely.collect();
        assert_eq!((copies[2], copies[178]), (Some(64), Some(1)));
    }
}
