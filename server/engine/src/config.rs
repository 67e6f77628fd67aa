//! Settings of a shard, with their defaults and sources. [`crate::knobs`] names them for operators.

use headlong_flash::StoreConfig;
use headlong_units::{BitRate, Duration, KIB, MIB};

/// Settings of one shard: one device with its share of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Size of a piece: the unit of memory and the alignment of reads; a power of two.
    pub piece_bytes: u64,
    /// Hard budget; the pool has `memory_bytes / piece_bytes` slots.
    pub memory_bytes: u64,
    /// How much to read for a chain.
    pub sizing: SizingConfig,
    /// Whether, and how, a controller finds the reference size while serving.
    pub control: ControlConfig,
    /// Order of the jobs.
    pub order: Order,
    /// Retention of the pieces that were read.
    pub retention: Retention,
    /// Reads outstanding at the device, at least one; at a device with an arm, runs of reads
    /// (`lanes.rs`). One serializes, as the papers do (thesis 3.7.1).
    pub outstanding_reads_max: u32,
    /// The same for a device without an arm; [`Self::for_device`] applies it.
    pub outstanding_reads_flash: u32,
    /// No further read is issued while the outstanding ones have this many bytes in total: a few
    /// long ones give the drive as much choice as many short ones, and waiting replies do not wait
    /// longer.
    pub outstanding_bytes_max: u64,
    /// Whether the device has an arm to move: it then gets one run of reads at a time, unless more
    /// were measured to be faster (`lanes.rs`).
    pub has_arm: bool,
    /// Largest request that the device takes, as the kernel splits reads (`max_sectors_kb`). Not a
    /// setting: the caller that creates the shard reads it from the device.
    pub request_bytes_max: u64,
    /// Largest run of bytes read as one when jobs merge.
    pub read_bytes_max: u64,
    /// Two requests of one viewer belong to one chain if at most this far apart (thesis 5.3).
    pub chain_gap: Duration,
    /// How far before the end of its requested bytes an unnamed reader may continue, in bytes. Zero
    /// if requests come from viewers directly. Above a mount the kernel reads ahead for each open
    /// file and may drop that unused, so that a reader requests it again.
    pub reread_bytes: u64,
    /// How many bytes an unnamed reader may skip: the kernel does not request bytes that it still
    /// has, and of its concurrent requests a later one may arrive first. Zero if there is no kernel
    /// in between.
    pub skip_bytes: u64,
    /// How long sent pieces stay in memory at least after the end of their reply, as long as they
    /// take no more than a quarter of it. Zero if the sender copies or holds the bytes; not zero if
    /// a program is notified that they are in memory and reads them then.
    pub sent_stays: Duration,
    /// A chain's next job is queued when its remaining bytes last no longer than this, and few jobs
    /// wait. Otherwise, and always if zero, it is queued only when bytes are missing, as in the
    /// papers' servers.
    pub ahead_horizon: Duration,
    /// Longest planned duration of a sweep over jobs in danger; a sweep holds at least one job. The
    /// default is half of `patience`: a viewer whose position is just behind the head may wait for
    /// the rest of one sweep and for another. In virtual time shorter sweeps lose to seeks, longer
    /// ones to waiting.
    pub sweep: Duration,
    /// Assumed reading speed of a viewer without an observed or reported one.
    pub pace_default: BitRate,
    /// How long a viewer that starts, seeks or reports an emergency may wait for its bytes.
    pub startup_patience: Duration,
    /// How long any other viewer may wait for bytes that are not in memory: the tolerance of a
    /// playout buffer.
    pub patience: Duration,
    /// Bytes handed to one reply that its socket has not yet taken.
    pub send_window_bytes: u64,
    /// Whether new chains are refused when the device cannot meet deadlines.
    pub admission: Admission,
    /// A read that takes longer counts as a device error, and the replies that wait for it fail.
    pub read_timeout: Duration,
    /// A reply that has waited this long for its next bytes fails, whether it waits for its turn,
    /// memory or the device.
    pub wait_timeout: Duration,
    /// Errors are counted over this window.
    pub error_window: Duration,
    /// Errors in this many regions of the device within the window take it out of service, if most
    /// of the last reads failed.
    pub errors_offline: u32,
    /// An offline device is tried again this often.
    pub offline_retry: Duration,
    /// Policy of the flash tier, if there is one.
    pub flash: StoreConfig,
    /// Most requests in progress.
    pub requests_max: usize,
    /// Most chains remembered, if there is memory for them.
    pub chains_max: usize,
    /// Most streams registered.
    pub streams_max: usize,
}

/// Chains for each piece of memory.
const CHAINS_PER_PIECE: u64 = 4;
/// As many are remembered however little memory there is.
const CHAINS_LEAST: u64 = 4096;

/// A sizing rule and the size that it scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizingConfig {
    /// The rule.
    pub policy: Policy,
    /// Its reference size: the prefetch size itself (Fixed), the size at `reference_bit_rate`
    /// (Proportional, SquareRoot), the largest size (FirstGrow), or the largest size at
    /// `reference_bit_rate` (FirstGrowSr).
    pub reference_bytes: u64,
    /// The bit rate that the reference size is for; 2,000 kbps in thesis 5.6.3.
    pub reference_bit_rate: BitRate,
}

/// The controller of the reference size, and its parameters.
///
/// With [`Control::Off`] the size is [`SizingConfig::reference_bytes`], and the other fields have
/// no effect. With [`Control::Paper`] that is the size until the device has been measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlConfig {
    /// Which controller.
    pub mode: Control,
    /// The size to begin with, such as the one in use when the server last stopped. Without one,
    /// `auto` begins with a part of the memory, `auto-paper` with a size derived from the measured
    /// device.
    pub start_bytes: Option<u64>,
    /// A score is collected over this time before the size is judged (180 s in
    /// automated-prefetching Table 2).
    pub adjust_interval: Duration,
    /// Step by which the size changes (0.5 MB there).
    pub step_bytes: u64,
    /// Per cent by which remembered scores shrink at a minimum (5 % there).
    pub score_deflation_percent: u8,
    /// A device that is busy for less than this share of the time, in per cent, keeps its size (60
    /// % there).
    pub busy_percent: u8,
    /// When more than this is evicted unread, in per cent of the sent bytes, the size jumps (5 %
    /// there).
    pub evict_percent: u8,
    /// Upper bound of the size.
    pub bytes_max: u64,
}

/// The reference size, or the controller that finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// This size, in bytes.
    Size(u64),
    /// The size that this controller finds.
    Found(Control),
}

impl Prefetch {
    /// The size, if it is a fixed one.
    pub fn size(self) -> Option<u64> {
        match self {
            Self::Size(bytes) => Some(bytes),
            Self::Found(_) => None,
        }
    }
}

headlong_units::names! {
    /// Controllers of the reference size.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Control {
        /// None: the size is the one configured.
        Off => "off",
        /// Descent from the optimum computed from the measured device, the chains and the memory.
        Auto => "auto",
        /// The descent of automated-prefetching section 4.
        Paper => "auto-paper",
    }
}

headlong_units::names! {
    /// Rules for the size of a prefetch (thesis 5.6.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Policy {
        /// One size for all.
        Fixed => "fixed",
        /// Proportional to the bit rate.
        Proportional => "proportional",
        /// Proportional to the square root of the bit rate (thesis 4.3).
        SquareRoot => "square-root",
        /// Small at first, after Table 5.6, then 3.35 times the length of the chain, up to the
        /// reference size.
        FirstGrow => "first-grow",
        /// FirstGrow up to a largest size that is proportional to the square root of the bit rate.
        FirstGrowSr => "first-grow-sr",
    }
}

headlong_units::names! {
    /// Which job the device does next.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Order {
        /// First come, first served, as in the papers.
        Fcfs => "fcfs",
        /// By physical position, upwards, then from the bottom again.
        Elevator => "elevator",
        /// The elevator, but jobs that would miss their deadline come first, in short sweeps.
        DeadlineElevator => "deadline-elevator",
    }
}

headlong_units::names! {
    /// Retention of the pieces that were sent at least once, and whether unread pieces are
    /// protected at all.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Retention {
        /// The most recently used.
        Lru => "lru",
        /// Pieces whose next read is expected soonest: by the next viewer of the stream, a little
        /// behind (interval caching, thesis 6.2.4), or by viewers who come as often as others did
        /// (LRFU).
        Popularity => "popularity",
        /// One list of everything by last use, as in a program above a kernel's page cache:
        /// prefetched pieces are not kept for their readers, and prefetches are not limited to a
        /// share of memory. For comparisons with the papers' servers (automated-prefetching 3.1).
        PageCache => "page-cache",
    }
}

headlong_units::names! {
    /// Treatment of new chains when a device is overloaded.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Admission {
        /// Admit all viewers; they get slower together.
        Accept => "accept",
        /// Refuse new viewers, so that present ones are served in time.
        Refuse => "refuse",
    }
}

/// A value outside the supported range; the message names the setting and the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigError {
    /// `piece_bytes` is not a power of two between 4 KiB and 2 MiB.
    PieceSize,
    /// The memory holds fewer than eight pieces, or more than 2^32 - 1.
    Memory,
    /// `reference_bytes` is smaller than a piece.
    ReferenceSize,
    /// `read_bytes_max` is smaller than a piece.
    ReadSize,
    /// `outstanding_reads_max` is zero.
    OutstandingReads,
    /// `outstanding_reads_flash` is zero.
    OutstandingFlashReads,
    /// One of the tables has no room at all.
    EmptyTable,
}

impl ConfigError {
    /// The setting that is wrong, by its name in configuration files.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::PieceSize => "piece",
            Self::Memory => "memory",
            Self::ReferenceSize => "prefetch",
            Self::ReadSize => "read_max",
            Self::OutstandingReads => "outstanding_reads_rotating",
            Self::OutstandingFlashReads => "outstanding_reads_flash",
            Self::EmptyTable => "requests_max, chains_max and streams_max",
        }
    }

    /// The error and its remedy.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::PieceSize => "must be a power of two between 4KiB and 2MiB",
            Self::Memory => "must hold at least eight pieces; raise memory or lower piece",
            Self::ReferenceSize | Self::ReadSize => {
                "must be at least one piece; raise it or lower piece"
            }
            Self::OutstandingReads | Self::OutstandingFlashReads | Self::EmptyTable => {
                "must be at least 1"
            }
        }
    }
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.setting(), self.reason())
    }
}

impl core::error::Error for ConfigError {}

/// Default piece size with a flash tier: each piece on the SSD costs memory for its index entry,
/// and time to restore that after a restart.
pub const PIECE_BYTES_WITH_FLASH: u64 = 128 * KIB;

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            // A file of a segmented title ends inside a piece, and the rest of that piece is
            // wasted: with 128 KiB that is a fifth of the memory for files of 300 KiB.
            piece_bytes: 64 * KIB,
            memory_bytes: 1024 * MIB,
            sizing: SizingConfig::default(),
            control: ControlConfig::default(),
            order: Order::DeadlineElevator,
            retention: Retention::Popularity,
            outstanding_reads_max: 8,
            outstanding_reads_flash: 16,
            outstanding_bytes_max: 24 * MIB,
            has_arm: true,
            request_bytes_max: MIB,
            read_bytes_max: 32 * MIB,
            chain_gap: Duration::from_secs(40),
            reread_bytes: 0,
            skip_bytes: 0,
            sent_stays: Duration::ZERO,
            ahead_horizon: Duration::from_secs(8),
            sweep: Duration::from_secs(1),
            pace_default: BitRate::from_kbps(4_000),
            startup_patience: Duration::from_millis(500),
            patience: Duration::from_secs(2),
            send_window_bytes: 512 * KIB,
            admission: Admission::Refuse,
            read_timeout: Duration::from_secs(10),
            wait_timeout: Duration::from_secs(30),
            error_window: Duration::from_secs(60),
            errors_offline: 10,
            offline_retry: Duration::from_secs(30),
            flash: StoreConfig::default(),
            requests_max: 65_536,
            chains_max: 65_536,
            streams_max: 65_536,
        }
    }
}

impl Default for SizingConfig {
    /// SquareRoot at 8 MiB for 2,000 kbps (thesis 4.3). In virtual time it carries more viewers
    /// without a failure than FirstGrowSr, whose small first prefetches cost a seek each; as memory
    /// is shared evenly, starting viewers do not wait for each other's megabytes.
    fn default() -> Self {
        Self {
            policy: Policy::SquareRoot,
            reference_bytes: 8 * MIB,
            reference_bit_rate: BitRate::from_kbps(2_000),
        }
    }
}

impl Default for ControlConfig {
    /// Off, with the parameters of automated-prefetching Table 2.
    fn default() -> Self {
        Self {
            mode: Control::Off,
            start_bytes: None,
            adjust_interval: Duration::from_secs(180),
            step_bytes: 512 * KIB,
            score_deflation_percent: 5,
            busy_percent: 60,
            evict_percent: 5,
            bytes_max: 32 * MIB,
        }
    }
}

/// The viewer of a job that is late by this multiple of the patience is assumed to have left. In
/// virtual time, with players that wait for ten seconds, three serve more viewers than one or none.
const GRACE_PATIENCES: u64 = 3;

impl EngineConfig {
    /// Number of pieces of memory.
    pub const fn slot_count(&self) -> u64 {
        self.memory_bytes / self.piece_bytes
    }

    /// Most chains remembered: `chains_max`, or fewer if memory has pieces for a part of them only. One
    /// takes about a kilobyte.
    pub(crate) fn chains_limit(&self) -> usize {
        let by_memory = (self.slot_count() * CHAINS_PER_PIECE).max(CHAINS_LEAST);
        usize::try_from(by_memory).map_or(self.chains_max, |most| most.min(self.chains_max))
    }

    /// Whether bytes are read before they are missing.
    pub fn reads_ahead(&self) -> bool {
        self.ahead_horizon > Duration::ZERO
    }

    /// Parameters of the queue: the order, the longest sweep over jobs in danger, and how late a
    /// job may be before others come first.
    pub(crate) fn queueing(&self) -> (Order, Duration, Duration) {
        (self.order, self.sweep, self.patience.times(GRACE_PATIENCES))
    }

    /// These settings for a device with or without an arm.
    #[must_use]
    pub fn for_device(self, has_arm: bool) -> Self {
        let outstanding_reads_max = match has_arm {
            true => self.outstanding_reads_max,
            false => self.outstanding_reads_flash,
        };
        Self {
            has_arm,
            outstanding_reads_max,
            ..self
        }
    }

    /// The prefetch size, or its controller.
    pub fn prefetch(&self) -> Prefetch {
        match self.control.mode {
            Control::Off => Prefetch::Size(self.sizing.reference_bytes),
            mode => Prefetch::Found(mode),
        }
    }

    /// Sets the prefetch size, or its controller.
    pub fn set_prefetch(&mut self, prefetch: Prefetch) {
        (self.control.mode, self.sizing.reference_bytes) = match prefetch {
            Prefetch::Size(bytes) => (Control::Off, bytes),
            Prefetch::Found(mode) => (mode, SizingConfig::default().reference_bytes),
        };
    }

    /// All reasons why these settings are invalid; none if they are valid.
    pub fn check(&self) -> impl Iterator<Item = ConfigError> + '_ {
        let wrong = [
            (
                !self.piece_bytes.is_power_of_two()
                    || !(4 * KIB..=2 * MIB).contains(&self.piece_bytes),
                ConfigError::PieceSize,
            ),
            (
                self.piece_bytes > 0 && !(8..u64::from(u32::MAX)).contains(&self.slot_count()),
                ConfigError::Memory,
            ),
            (
                self.sizing.reference_bytes < self.piece_bytes,
                ConfigError::ReferenceSize,
            ),
            (
                self.read_bytes_max < self.piece_bytes,
                ConfigError::ReadSize,
            ),
            (
                self.outstanding_reads_max == 0,
                ConfigError::OutstandingReads,
            ),
            (
                self.outstanding_reads_flash == 0,
                ConfigError::OutstandingFlashReads,
            ),
            (
                self.requests_max == 0 || self.chains_max == 0 || self.streams_max == 0,
                ConfigError::EmptyTable,
            ),
        ];
        wrong
            .into_iter()
            .filter_map(|(is_wrong, error)| is_wrong.then_some(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_follow_memory_within_bounds() {
        let limit = |memory_mib: u64| {
            let config = EngineConfig {
                memory_bytes: memory_mib * MIB,
                ..EngineConfig::default()
            };
            config.chains_limit()
        };
        assert_eq!([16, 256, 8192].map(limit), [4_096, 16_384, 65_536]);
    }
}
