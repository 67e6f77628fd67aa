//! State that a shard passes to the next process.
//!
//! A restart loses the content of memory, but not the measurements of the drive and the positions
//! of its viewers. A shard exports them ([`crate::Shard::measurements`],
//! [`crate::Shard::saved_chains`]), and the next process imports them
//! ([`crate::Shard::restore_measurements`], [`crate::Shard::restore_chain`]). Imported values are
//! input: they are clamped to possible ranges, and impossible chains are skipped.

use alloc::vec::Vec;

use headlong_units::{BitRate, Duration, MIB};

use crate::control::{DriveTimes, EndedChain};
use crate::ids::StreamId;
use crate::request::ReaderIdentity;

/// Bounds of the repositioning time of any drive.
const REPOSITION: (Duration, Duration) = (Duration(1_000), Duration::from_secs(1));
/// Bounds of the transfer time of a MiB of any drive: 100 GiB/s to 1 MiB/s.
const TRANSFER_PER_MIB: (Duration, Duration) = (Duration(10_000), Duration::from_secs(1));
/// Bounds of the time of a read.
const SERVICE: (Duration, Duration) = (Duration(10_000), Duration::from_secs(10));

/// Measurements of a device and of its viewers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShardMeasurements {
    /// The reference size that the controller was moving to, bytes; `None` without a controller.
    pub reference_bytes: Option<u64>,
    /// Times of the drive, if they were firm.
    pub drive: Option<DriveTimes>,
    /// Recent duration of a read.
    pub service: Duration,
    /// The throughput that the device had sustained.
    pub carried: BitRate,
    /// Mean bit rate of the chains that began last, of those with a known rate.
    pub bit_rate_mean: Option<BitRate>,
    /// The chains that ended last, in order of their end.
    pub ended: Vec<EndedChain>,
    /// Bytes sent to all viewers, on the count of [`EndedChain::sent_bytes`].
    pub sent_bytes: u64,
}

impl ShardMeasurements {
    /// The same, clamped to possible values.
    pub(crate) fn clamped(&self) -> Self {
        let between = |time: Duration, (least, most)| time.max(least).min(most);
        let drive = self.drive.map(|drive| DriveTimes {
            reposition: between(drive.reposition, REPOSITION),
            transfer_per_mib: between(drive.transfer_per_mib, TRANSFER_PER_MIB),
        });
        // No device sustains more than it can transfer.
        let able = drive.map_or(BitRate(0), |drive| {
            let bits = u128::from(MIB) * 8 * 1_000_000_000;
            BitRate((bits / u128::from(drive.transfer_per_mib.0)) as u64)
        });
        Self {
            reference_bytes: self.reference_bytes,
            drive,
            service: between(self.service, SERVICE),
            carried: self.carried.min(able),
            bit_rate_mean: self.bit_rate_mean.filter(|rate| rate.0 > 0),
            ended: self.ended.clone(),
            sent_bytes: self.sent_bytes,
        }
    }
}

/// A chain that was live. Offsets are logical: bytes from the start of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedChain {
    /// Its viewer; connections do not outlive the process.
    pub viewer: ReaderIdentity,
    /// Its stream; in the next process it may have another id.
    pub stream: StreamId,
    /// Its lowest offset.
    pub start: u64,
    /// End of the requested or sent bytes.
    pub end: u64,
    /// Position of its reader.
    pub position: u64,
    /// Length of its last request.
    pub last_request_bytes: u64,
    /// Whether its last request was open-ended.
    pub open_ended: bool,
    /// Reading speed.
    pub pace: BitRate,
    /// Time since it was last seen.
    pub idle: Duration,
}

impl SavedChain {
    /// Whether the chain is possible on a stream of `stream_bytes`.
    pub(crate) fn is_possible(&self, stream_bytes: u64) -> bool {
        self.start <= self.position && self.position <= self.end && self.end <= stream_bytes
    }
}
