//! Adaptation rules: the choice of the next rendition.

use headlong_units::Duration;

use super::plan::{PlayerConfig, RateRule};
use super::title::Title;

/// Share of the estimate that must deliver the next segment before the buffer is empty (dash.js,
/// InsufficientBufferRule: 0.7).
const SUFFICIENT_SHARE: f64 = 0.7;

/// Input of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleInput {
    /// Expected throughput in bits per second, if known.
    pub(crate) estimate: Option<f64>,
    /// Media time in the buffer.
    pub(crate) buffer: Duration,
    /// Current rendition.
    pub(crate) present: usize,
    /// Whether playback runs; an empty buffer before the start does not matter.
    pub(crate) moving: bool,
    /// Whether playback is stalled.
    pub(crate) dry: bool,
}

/// The rendition to request next.
pub(crate) fn choose(title: &Title, make: &PlayerConfig, sight: RuleInput) -> usize {
    let wanted = match make.rule {
        RateRule::Fixed(rendition) => {
            return usize::try_from(rendition)
                .unwrap_or(usize::MAX)
                .min(highest(title));
        }
        RateRule::Throughput => by_throughput(title, make, sight),
        RateRule::Buffer { reservoir, cushion } => by_buffer(title, reservoir, cushion, sight),
        RateRule::Bola { low } => bola(title, low, make.buffer_high, sight.buffer),
        RateRule::Dynamic { low } if sight.buffer < low => by_throughput(title, make, sight),
        RateRule::Dynamic { low } => bola(title, low, make.buffer_high, sight.buffer),
    };
    wanted.min(sufficient(title, sight))
}

fn highest(title: &Title) -> usize {
    title.renditions.len().saturating_sub(1)
}

/// The highest rendition for which `good` holds; the lowest if it holds for none.
fn highest_where(title: &Title, good: impl Fn(f64) -> bool) -> usize {
    let rates = title.renditions.iter().map(|r| r.bit_rate.0 as f64);
    rates
        .enumerate()
        .filter(|(_, rate)| good(*rate))
        .map(|(index, _)| index)
        .last()
        .unwrap_or(0)
}

fn by_throughput(title: &Title, make: &PlayerConfig, sight: RuleInput) -> usize {
    let Some(estimate) = sight.estimate else {
        return sight.present;
    };
    highest_where(title, |rate| rate <= estimate * make.safety)
}

/// Huang et al. 2014, algorithm 1, with its linear map from buffer to rate.
fn by_buffer(title: &Title, reservoir: Duration, cushion: Duration, sight: RuleInput) -> usize {
    let (lowest, top) = (title.bit_rate(0).0 as f64, highest(title));
    if sight.buffer <= reservoir {
        return 0;
    }
    if sight.buffer >= reservoir + cushion {
        return top;
    }
    let share = (sight.buffer - reservoir).as_secs_f64() / cushion.as_secs_f64();
    let mapped = lowest + (title.bit_rate(top).0 as f64 - lowest) * share;
    let above = title.bit_rate((sight.present + 1).min(top)).0 as f64;
    let below = title.bit_rate(sight.present.saturating_sub(1)).0 as f64;
    if mapped >= above {
        highest_where(title, |rate| rate < mapped)
    } else if mapped <= below {
        let rates = title.renditions.iter().map(|r| r.bit_rate.0 as f64);
        rates
            .enumerate()
            .find(|(_, rate)| *rate > mapped)
            .map_or(top, |(index, _)| index)
    } else {
        sight.present
    }
}

/// Spiteri et al. 2016, with utilities `ln(rate / lowest) + 1` and the two parameters derived as in
/// dash.js: gp from the distance of the buffer target to the low mark, Vp so that the lowest
/// rendition is chosen up to the low mark.
fn bola(title: &Title, low: Duration, high: Duration, buffer: Duration) -> usize {
    let top = highest(title);
    let lowest = title.bit_rate(0).0 as f64;
    let low = low.as_secs_f64().max(1e-3);
    // A target below the low mark would leave no range to choose in.
    let target = high.as_secs_f64().max(2.0 * low);
    let utility = |rate: f64| libm::log(rate / lowest) + 1.0;
    let gp = (utility(title.bit_rate(top).0 as f64) - 1.0) / (target / low - 1.0);
    if top == 0 || lowest <= 0.0 || gp <= 0.0 {
        return 0;
    }
    let vp = low / gp;
    let mut best = (0, f64::NEG_INFINITY);
    for (index, rendition) in title.renditions.iter().enumerate() {
        let rate = rendition.bit_rate.0 as f64;
        let score = (vp * (utility(rate) + gp) - buffer.as_secs_f64()) / rate;
        if score >= best.1 {
            best = (index, score);
        }
    }
    best.0
}

/// The highest rendition whose next segment arrives before the buffer is empty (dash.js,
/// InsufficientBufferRule).
fn sufficient(title: &Title, sight: RuleInput) -> usize {
    if sight.dry {
        return 0;
    }
    let Some(estimate) = sight.estimate.filter(|_| sight.moving) else {
        return usize::MAX;
    };
    let share = sight.buffer.as_secs_f64() / title.segment.as_secs_f64().max(1e-9);
    highest_where(title, |rate| rate <= estimate * SUFFICIENT_SHARE * share)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use headlong_units::BitRate;

    use super::*;
    use crate::adaptive::title::{Rendition, SegmentTable};

    const MBPS: f64 = 1e6;

    fn title() -> Title {
        let rendition = |kbps| Rendition {
            bit_rate: BitRate::from_kbps(kbps),
            header: None,
            segments: SegmentTable::Table(Vec::new()),
        };
        Title {
            segment: Duration::from_secs(2),
            segments: 100,
            renditions: [500, 1_000, 2_000, 4_000].map(rendition).into(),
        }
    }

    fn chosen(rule: RateRule, sight: RuleInput) -> usize {
        let make = PlayerConfig {
            rule,
            ..PlayerConfig::default()
        };
        choose(&title(), &make, sight)
    }

    /// In the middle of a session with `buffer` seconds in the buffer.
    fn sight(mbps: f64, buffer: u64, present: usize) -> RuleInput {
        RuleInput {
            estimate: Some(mbps * MBPS),
            buffer: Duration::from_secs(buffer),
            present,
            moving: true,
            dry: false,
        }
    }

    #[test]
    fn throughput_leaves_a_margin() {
        for (mbps, rendition) in [(0.1, 0), (1.1, 0), (1.12, 1), (4.4, 2), (4.5, 3), (99.0, 3)] {
            let found = chosen(RateRule::Throughput, sight(mbps, 20, 0));
            assert_eq!(found, rendition, "{mbps} Mb/s");
        }
    }

    #[test]
    fn choice_never_lets_buffer_run_dry() {
        // 70 % of 4 Mb/s, in half the duration of a segment: 1.4 Mb/s.
        assert_eq!(chosen(RateRule::Throughput, sight(4.0, 1, 2)), 1);
        assert_eq!(chosen(RateRule::Throughput, sight(4.0, 2, 2)), 2);
        // Before playback starts an empty buffer does not matter.
        let start = RuleInput {
            moving: false,
            ..sight(4.0, 0, 2)
        };
        assert_eq!(chosen(RateRule::Throughput, start), 2);
        let dry = RuleInput { dry: true, ..start };
        assert_eq!(chosen(RateRule::Throughput, dry), 0);
        assert_eq!(chosen(RateRule::Fixed(9), dry), 3);
    }

    #[test]
    fn buffer_rule_keeps_rate_until_next_is_reached() {
        let rule = RateRule::Buffer {
            reservoir: Duration::from_secs(5),
            cushion: Duration::from_secs(35),
        };
        // The map: 500 kb/s at 5 s and 100 kb/s more for each second.
        for (buffer, present, rendition) in [
            (5, 3, 0),
            (9, 0, 0),
            (10, 0, 0),
            (11, 0, 1),
            (12, 2, 2),
            (10, 2, 2),
            (9, 2, 1),
            (21, 1, 2),
            (39, 2, 2),
            (40, 2, 3),
        ] {
            let found = chosen(rule, sight(99.0, buffer, present));
            assert_eq!(found, rendition, "{buffer} s, from {present}");
        }
    }

    #[test]
    fn bola_rises_with_buffer_from_lowest_to_highest() {
        let rule = RateRule::Bola {
            low: Duration::from_secs(10),
        };
        let found: Vec<usize> = (0..=30).map(|s| chosen(rule, sight(99.0, s, 0))).collect();
        assert!(found.is_sorted(), "{found:?}");
        assert_eq!((found[8], found[30]), (0, 3), "{found:?}");
        // Two renditions score alike at the intersection: for 0.5 and 1 Mb/s, with utilities 1 and
        // 1 + ln 2, gp = ln 8 / 2 and Vp = 10 / gp, at Vp (gp + 1 - ln 2) = 12.95 s.
        assert_eq!((found[12], found[13]), (0, 1), "{found:?}");
    }

    #[test]
    fn dynamic_uses_throughput_below_low_mark_and_bola_above() {
        let low = Duration::from_secs(10);
        assert_eq!(chosen(RateRule::Dynamic { low }, sight(4.5, 9, 0)), 3);
        let above = sight(0.6, 30, 0);
        assert_eq!(
            chosen(RateRule::Dynamic { low }, above),
            chosen(RateRule::Bola { low }, above)
        );
        assert_ne!(
            chosen(RateRule::Throughput, above),
            chosen(RateRule::Bola { low }, above)
        );
    }
}
