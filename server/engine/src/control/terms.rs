//! What controllers are told, what they answer, and within which bounds.

use headlong_units::{BitRate, Duration, Instant, MIB};

use super::drive::DriveTimes;
use crate::config::{Control, ControlConfig, EngineConfig, Retention};
use crate::stats::Stats;

/// `auto` begins with this part of memory, within [`FIRST_BYTES`]: three hundred chains fit, as
/// many as come within the first minute after a restart. In virtual time, among viewers who come
/// back within 225 s, larger ones are evicted before they are read, and with smaller ones the
/// device repositions too often for the first minutes.
const FIRST_PARTS: u64 = 300;
/// Below the least, too little is read at a time in any memory; above the most, those who come at
/// once wait for each other's megabytes.
const FIRST_BYTES: (u64, u64) = (5 * MIB, 12 * MIB);

/// How often a controller looks, and how often the size in use follows.
pub(crate) const TICK: Duration = Duration::from_secs(5);
/// What a controller is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) now: Instant,
    /// Counters since the beginning.
    pub(crate) stats: Stats,
    /// Live chains.
    pub(crate) chains: u64,
    /// What the rule gives them, on average, at the size in use.
    pub(crate) size_mean_bytes: u64,
    /// How fast they are read, on average.
    pub(crate) pace_mean: BitRate,
    /// Bit rates of those that began lately and of which it is known, on average.
    pub(crate) bit_rate_mean: Option<BitRate>,
    /// The device, as measured.
    pub(crate) drive: Option<DriveTimes>,
    /// Bytes read again for a chain since the beginning because they had gone unread.
    pub(crate) again_bytes: u64,
    /// The pool.
    pub(crate) memory_bytes: u64,
    /// Of it, what is prefetched and not read yet, or on its way.
    pub(crate) unread_bytes: u64,
}

impl Seen {
    /// What the sizes of all live chains add up to, cut to a pool.
    pub(crate) fn sizes_in_force(&self, pool_bytes: u64) -> f64 {
        let sizes = self.chains as f64 * self.size_mean_bytes as f64;
        sizes.min(pool_bytes as f64)
    }
}

/// What a controller answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The reference size to go to; the present one if nothing is to change.
    pub(crate) bytes: u64,
    /// How slowly.
    pub(crate) takes: Duration,
    pub(crate) reason: Reason,
    /// Disk time for each MiB sent, at the size that was judged.
    pub(crate) score: Option<Duration>,
}

headlong_units::names! {
    /// Why the size changes, or does not.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// The device was measured: transfer takes as long as repositioning (Li et al.).
        Measured => "measured",
        /// The size with the least computed disk time is another now.
        Optimum => "optimum",
        /// The neighbouring size had a lower score when it was last in use.
        LowerScore => "lower-score",
        /// The neighbouring size has no score yet.
        Untried => "untried",
        /// Neither neighbour had a lower score; theirs are deflated.
        Minimum => "minimum",
        /// Prefetches were evicted unread: what viewers read before that happens.
        Evictions => "evictions",
        /// The device has time to spare; nothing is judged.
        LightLoad => "light-load",
    }
}

impl Reason {
    /// The same for a person.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Measured => "the device was measured",
            Self::Optimum => "the least disk time is computed there now",
            Self::LowerScore => "that size had cost less disk time",
            Self::Untried => "that size had not been tried",
            Self::Minimum => "both sizes beside it cost more disk time",
            Self::Evictions => "prefetches were evicted before they were read",
            Self::LightLoad => "the device has time to spare",
        }
    }
}

/// Parameters, and the bounds of every size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) rules: ControlConfig,
    pub(crate) bytes_min: u64,
    pub(crate) bytes_max: u64,
    /// Whether memory keeps what nobody has read yet; a page cache does not.
    pub(crate) keeps_unread: bool,
}

impl Limits {
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

    /// The size to begin with where none is remembered.
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

/// Disk time for each MiB sent: what automated-prefetching 4.1 minimises, the time to read a byte
/// times the ratio of bytes read to bytes sent. `None` if nothing was sent.
pub(crate) fn score(counted: &Stats) -> Option<Duration> {
    let (read, sent) = (
        u128::from(counted.bytes_read),
        u128::from(counted.bytes_sent),
    );
    if read == 0 || sent == 0 {
        return None;
    }
    // busy / read * read / sent: what was read cancels out of the product.
    let nanos = u128::from(counted.busy_time.0) * u128::from(MIB) / sent;
    Some(Duration(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

/// Whether `part` is at least so many per cent of `whole`.
pub(crate) fn is_share(part: u64, whole: u64, percent: u8) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}
