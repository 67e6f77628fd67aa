//! Prefetch sizing: the five rules of thesis 5.6.1.
//!
//! A rule maps a chain and a bit rate to a size, scaled by one reference size. The reference may be
//! set by an operator or by a controller; the rules are the same. The prefetch simulation calls
//! these functions too, so that its results apply to the server.
//!
//! Invariants: pure integer arithmetic, rounded half up, so that a size is the same on every
//! machine; a size is never zero; with one reference size, the sizes
//! of a chain never shrink (the prefetch simulation relies on it).

use headlong_units::BitRate;

use crate::config::{EngineConfig, Policy, Retention, SizingConfig};

/// The input of a rule about a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainShape {
    /// Where the chain began, bytes from the start of the stream.
    pub start_offset: u64,
    /// Whether it began with an open-ended request.
    pub open_ended: bool,
    /// Bytes prefetched for it so far; zero before its first prefetch.
    pub prefetched_bytes: u64,
}

/// Workload model of FirstGrow and FirstGrowSr: the expected length of a new chain, and how much
/// further a chain of a given length goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainGrowth {
    /// First prefetch of a chain of open-ended requests from offset zero, bytes.
    pub first_open_at_zero_bytes: u64,
    /// First prefetch of a chain of chunk requests from offset zero, bytes.
    pub first_chunk_at_zero_bytes: u64,
    /// First prefetch of a chain that starts later, bytes.
    pub first_later_bytes: u64,
    /// Factor of the next prefetch over the bytes prefetched so far, as a fraction.
    pub times: (u64, u64),
}

impl ChainGrowth {
    /// The first sizes of thesis Table 5.6. A chain of length x continues for another 3.35 x
    /// with a probability of 45 % (thesis 5.3.3, Eq. 5.3 with P = 0.45): 3.35 = 67 / 20.
    pub const NETFLIX: Self = Self {
        first_open_at_zero_bytes: 1_049_212,
        first_chunk_at_zero_bytes: 131_073,
        first_later_bytes: 2_936_037,
        times: (67, 20),
    };
}

/// Bytes of the next prefetch of a chain, before the end of the stream or the memory limit it.
///
/// `asked_bytes` are the bytes that its viewer has requested and not received; zero in a simulation
/// of chains alone. A rule that begins small does so because the viewer may not continue; requested
/// bytes are certain, and a second seek for them would be wasted. The size never exceeds the rule's
/// largest size.
///
/// A chain without a known bit rate is sized for the reference bit rate.
pub fn prefetch_bytes(
    sizing: &SizingConfig,
    chain: ChainShape,
    asked_bytes: u64,
    bit_rate: Option<BitRate>,
) -> u64 {
    prefetch_bytes_with(sizing, &ChainGrowth::NETFLIX, chain, asked_bytes, bit_rate)
}

/// [`prefetch_bytes`] with the growth model of another workload.
pub fn prefetch_bytes_with(
    sizing: &SizingConfig,
    growth: &ChainGrowth,
    chain: ChainShape,
    asked_bytes: u64,
    bit_rate: Option<BitRate>,
) -> u64 {
    let first_grow = |bytes_max| first_grow(growth, chain, asked_bytes, bytes_max);
    let bytes = match sizing.policy {
        Policy::Fixed => sizing.reference_bytes,
        Policy::Proportional => proportional(sizing, bit_rate),
        Policy::SquareRoot => square_root(sizing, bit_rate),
        Policy::FirstGrow => first_grow(sizing.reference_bytes),
        Policy::FirstGrowSr => first_grow(square_root(sizing, bit_rate)),
    };
    bytes.max(1)
}

/// Most bytes of a prefetch without a controller that reduces it, with `budget_bytes` of memory:
/// an even share of one and a half times the memory.
///
/// A chain that has its next prefetch read when the last one is used up holds half of one on
/// average, so that three quarters of memory are in use; the rest is for pieces being sent, for
/// chains that are ahead of the average and for retained pieces. Much larger prefetches would leave
/// some chains with none, whose viewers would then wait for small reads. A page cache has no shares.
pub(crate) fn fair_share_bytes(config: &EngineConfig, budget_bytes: u64, readers: u64) -> u64 {
    if config.retention == Retention::PageCache {
        return budget_bytes / 2;
    }
    let share = budget_bytes / 2 * 3 / readers.max(1);
    share.max(config.piece_bytes).min(budget_bytes / 2)
}

fn proportional(sizing: &SizingConfig, bit_rate: Option<BitRate>) -> u64 {
    let (rate, reference) = rates(sizing, bit_rate);
    let bytes = u128::from(sizing.reference_bytes);
    narrow(half_up(bytes.saturating_mul(rate), reference))
}

/// `reference * sqrt(rate / reference_rate)`. Twice the size is an integer root of four times the
/// squares, so that rounding half up is exact to the byte.
fn square_root(sizing: &SizingConfig, bit_rate: Option<BitRate>) -> u64 {
    let (rate, reference) = rates(sizing, bit_rate);
    let bytes = u128::from(sizing.reference_bytes).saturating_mul(2);
    let square = bytes.saturating_mul(bytes).saturating_mul(rate) / reference;
    narrow(square.isqrt().div_ceil(2))
}

fn first_grow(growth: &ChainGrowth, chain: ChainShape, asked_bytes: u64, bytes_max: u64) -> u64 {
    let bytes = if chain.prefetched_bytes > 0 {
        let (times, of) = growth.times;
        let grown = u128::from(chain.prefetched_bytes) * u128::from(times);
        narrow(half_up(grown, u128::from(of.max(1))))
    } else if chain.start_offset > 0 {
        growth.first_later_bytes
    } else if chain.open_ended {
        growth.first_open_at_zero_bytes
    } else {
        growth.first_chunk_at_zero_bytes
    };
    bytes.max(asked_bytes).min(bytes_max)
}

fn rates(sizing: &SizingConfig, bit_rate: Option<BitRate>) -> (u128, u128) {
    let reference = sizing.reference_bit_rate.0.max(1);
    let rate = bit_rate.map_or(reference, |rate| rate.0.max(1));
    (u128::from(rate), u128::from(reference))
}

fn half_up(dividend: u128, divisor: u128) -> u128 {
    dividend.saturating_add(divisor / 2) / divisor
}

fn narrow(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::MIB;

    const NEW: ChainShape = ChainShape {
        start_offset: 0,
        open_ended: false,
        prefetched_bytes: 0,
    };

    fn size(policy: Policy, chain: ChainShape, kbps: u64) -> u64 {
        let sizing = SizingConfig {
            policy,
            ..SizingConfig::default()
        };
        prefetch_bytes(&sizing, chain, 0, Some(BitRate::from_kbps(kbps)))
    }

    #[test]
    fn fixed_ignores_bit_rate() {
        assert_eq!(size(Policy::Fixed, NEW, 419), 8 * MIB);
        assert_eq!(size(Policy::Fixed, NEW, 20_000), 8 * MIB);
    }

    #[test]
    fn four_times_the_rate_gives_four_or_two_times_the_size() {
        assert_eq!(size(Policy::Proportional, NEW, 8_000), 32 * MIB);
        assert_eq!(size(Policy::SquareRoot, NEW, 8_000), 16 * MIB);
        assert_eq!(size(Policy::SquareRoot, NEW, 500), 4 * MIB);
    }

    #[test]
    fn first_prefetch_is_that_of_table_5_6() {
        let open = ChainShape {
            open_ended: true,
            ..NEW
        };
        let later = ChainShape {
            start_offset: 1,
            ..NEW
        };
        assert_eq!(size(Policy::FirstGrow, NEW, 2_000), 131_073);
        assert_eq!(size(Policy::FirstGrow, open, 2_000), 1_049_212);
        assert_eq!(size(Policy::FirstGrow, later, 2_000), 2_936_037);
        assert_eq!(
            size(
                Policy::FirstGrow,
                ChainShape {
                    open_ended: true,
                    ..later
                },
                1
            ),
            2_936_037
        );
    }

    #[test]
    fn later_prefetches_grow_up_to_largest_size() {
        let grown = |prefetched_bytes| ChainShape {
            prefetched_bytes,
            ..NEW
        };
        assert_eq!(size(Policy::FirstGrow, grown(131_073), 2_000), 439_095);
        assert_eq!(size(Policy::FirstGrow, grown(100 * MIB), 2_000), 8 * MIB);
        assert_eq!(size(Policy::FirstGrowSr, grown(100 * MIB), 500), 4 * MIB);
    }

    #[test]
    fn sizes_are_rounded_half_up_to_bytes() {
        let sizing = |policy, reference_bytes| SizingConfig {
            policy,
            reference_bytes,
            ..SizingConfig::default()
        };
        let size = |policy, bytes, kbps| {
            let rate = Some(BitRate::from_kbps(kbps));
            prefetch_bytes(&sizing(policy, bytes), NEW, 0, rate)
        };
        // 3 * 1000 / 2000 = 1.5, 5 * 1000 / 2000 = 2.5, 7 * 999 / 2000 = 3.4965.
        assert_eq!(size(Policy::Proportional, 3, 1_000), 2);
        assert_eq!(size(Policy::Proportional, 5, 1_000), 3);
        assert_eq!(size(Policy::Proportional, 7, 999), 3);
        // 5 * sqrt(500 / 2000) = 2.5; 10 * sqrt(419 / 2000) = 4.577; 10 * sqrt(405 / 2000) = 4.5;
        // 10 * sqrt(404 / 2000) = 4.494.
        assert_eq!(size(Policy::SquareRoot, 5, 500), 3);
        assert_eq!(size(Policy::SquareRoot, 10, 419), 5);
        assert_eq!(size(Policy::SquareRoot, 10, 405), 5);
        assert_eq!(size(Policy::SquareRoot, 10, 404), 4);
        // 3.35 * 10 = 33.5.
        let grown = ChainShape {
            prefetched_bytes: 10,
            ..NEW
        };
        assert_eq!(
            prefetch_bytes(&sizing(Policy::FirstGrow, 100), grown, 0, None),
            34
        );
    }

    #[test]
    fn growth_model_sets_first_sizes_and_growth() {
        let growth = ChainGrowth {
            first_open_at_zero_bytes: 1,
            first_chunk_at_zero_bytes: 2,
            first_later_bytes: 3,
            times: (5, 2),
        };
        let sizing = SizingConfig {
            policy: Policy::FirstGrow,
            ..SizingConfig::default()
        };
        let size = |chain| prefetch_bytes_with(&sizing, &growth, chain, 0, None);
        assert_eq!(size(NEW), 2);
        assert_eq!(
            size(ChainShape {
                prefetched_bytes: 3,
                ..NEW
            }),
            8
        );
    }

    #[test]
    fn requested_bytes_are_read_at_once() {
        let sizing = SizingConfig {
            policy: Policy::FirstGrow,
            ..SizingConfig::default()
        };
        assert_eq!(prefetch_bytes(&sizing, NEW, MIB, None), MIB);
        assert_eq!(prefetch_bytes(&sizing, NEW, 100, None), 131_073);
        assert_eq!(prefetch_bytes(&sizing, NEW, 100 * MIB, None), 8 * MIB);
    }

    #[test]
    fn unknown_or_absurd_bit_rate_gives_valid_size() {
        let sizing = SizingConfig {
            policy: Policy::SquareRoot,
            ..SizingConfig::default()
        };
        assert_eq!(prefetch_bytes(&sizing, NEW, 0, None), 8 * MIB);
        assert!(prefetch_bytes(&sizing, NEW, 0, Some(BitRate(0))) >= 1);
        assert!(prefetch_bytes(&sizing, NEW, 0, Some(BitRate(u64::MAX))) > 8 * MIB);
    }
}
