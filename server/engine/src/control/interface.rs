//! Inputs, results and bounds of controllers.

use headlong_units::{BitRate, Duration, Instant, MIB};

use super::drive::DriveTimes;
use crate::config::{Control, ControlConfig, EngineConfig, Retention};
use crate::stats::Stats;

/// Start size of `auto` as a fraction of memory, within [`FIRST_BYTES`]: three hundred chains fit,
/// as many as arrive within the first minute after a restart. In virtual time, among viewers that
/// return within 225 s, larger prefetches are evicted unread, and with smaller ones the device
/// repositions too often in the first minutes.
const FIRST_PARTS: u64 = 300;
/// Below the minimum, too little is read at a time with any memory; above the maximum, viewers that
/// arrive together wait for each other's megabytes.
const FIRST_BYTES: (u64, u64) = (5 * MIB, 12 * MIB);

/// How often a controller runs, and how often the size in use follows.
pub(crate) const TICK: Duration = Duration::from_secs(5);
/// Input of a controller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ControllerInput {
    pub(crate) now: Instant,
    /// Counters since the beginning.
    pub(crate) stats: Stats,
    /// Live chains.
    pub(crate) chains: u64,
    /// Their mean size by the rule, at the size in use.
    pub(crate) size_mean_bytes: u64,
    /// Their mean reading speed.
    pub(crate) pace_mean: BitRate,
    /// Mean bit rate of those that began recently, as far as it is known.
    pub(crate) bit_rate_mean: Option<BitRate>,
    /// The device, as measured.
    pub(crate) drive: Option<DriveTimes>,
    /// Bytes read again for a chain since the beginning because they were evicted unread.
    pub(crate) again_bytes: u64,
    /// The pool.
    pub(crate) memory_bytes: u64,
    /// Of it, the prefetched unread pieces, and those being read.
    pub(crate) unread_bytes: u64,
}

impl ControllerInput {
    /// Sum of the sizes of all live chains, limited to a pool.
    pub(crate) fn sizes_in_force(&self, pool_bytes: u64) -> f64 {
        let sizes = self.chains as f64 * self.size_mean_bytes as f64;
        sizes.min(pool_bytes as f64)
    }
}

/// Result of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeDecision {
    /// The reference size to change to; the present one if it is unchanged.
    pub(crate) bytes: u64,
    /// Duration of the change.
    pub(crate) takes: Duration,
    pub(crate) reason: SizeReason,
    /// Disk time per MiB sent, at the size that was judged.
    pub(crate) score: Option<Duration>,
}

headlong_units::names! {
    /// Why the size changes, or does not.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum SizeReason {
        /// The device was measured: transfer takes as long as repositioning (Li et al.).
        Measured => "measured",
        /// Another size has the least computed disk time now.
        Optimum => "optimum",
        /// The neighbouring size had a lower score when it was last in use.
        LowerScore => "lower-score",
        /// The neighbouring size has no score yet.
        Untried => "untried",
        /// Neither neighbour had a lower score; theirs are deflated.
        Minimum => "minimum",
        /// Prefetches were evicted unread: the size becomes what viewers read before that.
        Evictions => "evictions",
        /// The device has spare time; the size is not judged.
        LightLoad => "light-load",
    }
}

impl SizeReason {
    /// The same for humans.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Measured => "the device was measured",
            Self::Optimum => "that size has the least computed disk time",
            Self::LowerScore => "that size took less disk time before",
            Self::Untried => "that size had not been tried",
            Self::Minimum => "both neighbouring sizes take more disk time",
            Self::Evictions => "prefetches were evicted before they were read",
            Self::LightLoad => "the device has spare time",
        }
    }
}

/// Parameters, and the bounds of every size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ControllerLimits {
    pub(crate) rules: ControlConfig,
    pub(crate) bytes_min: u64,
    pub(crate) bytes_max: u64,
    /// Whether memory protects unread pieces; a page cache does not.
    pub(crate) keeps_unread: bool,
}

impl ControllerLimits {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        let rules = ControlConfig {
            step_bytes: config.control.step_bytes.max(config.piece_bytes),
            ..config.control
        };
        let bytes_max = rules.bytes_max.min(config.memory_bytes / 2);
        Self {
            rules,
            bytes_min: rules.step_bytes,
            bytes_max: bytes_max.max(rules.step_bytes),
            keeps_unread: config.retention != Retention::PageCache,
        }
    }

    pub(crate) fn without_start(mut self) -> Self {
        self.rules.start_bytes = None;
        self
    }

    /// The size to begin with if none is remembered.
    pub(crate) fn first_bytes(&self, config: &EngineConfig) -> u64 {
        let by_memory = || (config.memory_bytes / FIRST_PARTS).clamp(FIRST_BYTES.0, FIRST_BYTES.1);
        let bytes = self
            .rules
            .start_bytes
            .unwrap_or_else(|| match self.rules.mode {
                Control::Auto => by_memory(),
                Control::Off | Control::Paper => config.sizing.reference_bytes,
            });
        self.on_grid(bytes)
    }

    /// The nearest size within bounds.
    pub(crate) fn clamp(&self, bytes: u64) -> u64 {
        bytes.clamp(self.bytes_min, self.bytes_max)
    }

    /// The nearest whole number of steps within bounds.
    pub(crate) fn on_grid(&self, bytes: u64) -> u64 {
        let step = self.rules.step_bytes;
        let highest = self.bytes_max / step * step;
        (bytes.saturating_add(step / 2) / step * step).clamp(self.bytes_min, highest)
    }
}

/// Disk time per MiB sent: the quantity that automated-prefetching 4.1 minimises, the time to read
/// a byte times the ratio of bytes read to bytes sent. `None` if nothing was sent.
pub(crate) fn score(counted: &Stats) -> Option<Duration> {
    let (read, sent) = (
        u128::from(counted.bytes_read),
        u128::from(counted.bytes_sent),
    );
    if read == 0 || sent == 0 {
        return None;
    }
    // busy / read * read / sent: the bytes read cancel out.
    let nanos = u128::from(counted.busy_time.0) * u128::from(MIB) / sent;
    Some(Duration(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// Whether `part` is at least `percent` per cent of `whole`.
pub(crate) fn is_share(part: u64, whole: u64, percent: u8) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}
