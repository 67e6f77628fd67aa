//! What a shard has learned that is still true in the next process.
//!
//! The one idea: a restart loses what memory holds, which has to be read again; it need not lose what
//! was found out about the drive and its viewers. A shard says it ([`crate::Shard::learned`],
//! [`crate::Shard::learned_chains`]), and the next one is told
//! ([`crate::Shard::handle_learned`], [`crate::Shard::handle_returning`]). What is told is input:
//! it is clamped to what can be, and what cannot be is passed over.

use alloc::vec::Vec;

use headlong_units::{BitRate, Duration, MIB};

use crate::control::{DriveTimes, Ended};
use crate::ids::StreamId;
use crate::request::Identity;

/// Bounds of the time that any drive needs to get somewhere.
const REPOSITION: (Duration, Duration) = (Duration(1_000), Duration::from_secs(1));
/// Bounds of the time that any drive needs for a MiB: 100 GiB/s to 1 MiB/s.
const TRANSFER_PER_MIB: (Duration, Duration) = (Duration(10_000), Duration::from_secs(1));
/// Bounds of the time of a read.
const SERVICE: (Duration, Duration) = (Duration(10_000), Duration::from_secs(10));

/// What was learned of a device, and of what its viewers do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learned {
    /// The reference size that the controller was going to, bytes; `None` if nobody chose one.
    pub reference_bytes: Option<u64>,
    /// Times of the drive, if they were firm.
    pub drive: Option<DriveTimes>,
    /// How long a read took lately.
    pub service: Duration,
    /// What the device had shown that it can carry.
    pub carried: BitRate,
    /// Bit rates of the chains that began last and of which it is known, on average.
    pub bit_rate_mean: Option<BitRate>,
    /// The chains that ended last, the first that ended first.
    pub ended: Vec<Ended>,
    /// Bytes sent to all viewers, on the count of [`Ended::sent_bytes`].
    pub sent_bytes: u64,
}

impl Learned {
    /// The same within the bounds of what can be.
    pub(crate) fn clamped(&self) -> Self {
        let between = |time: Duration, (least, most)| time.max(least).min(most);
        let drive = self.drive.map(|drive| DriveTimes {
            reposition: between(drive.reposition, REPOSITION),
            transfer_per_mib: between(drive.transfer_per_mib, TRANSFER_PER_MIB),
        });
        // No device carries more than it can transfer.
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
pub struct LearnedChain {
    /// Who reads it; of connections nothing outlives the process.
    pub viewer: Identity,
    /// What it reads; in the next process it may have another number.
    pub stream: StreamId,
    /// Where it began.
    pub start: u64,
    /// End of what was asked for or sent.
    pub end: u64,
    /// Where its reader was.
    pub position: u64,
    /// Length of its last request.
    pub last_request_bytes: u64,
    /// Whether its last request said no end.
    pub open_ended: bool,
    /// How fast it was read.
    pub pace: BitRate,
    /// How long ago it was last seen.
    pub idle: Duration,
}

impl LearnedChain {
    /// Whether such a chain can be, on a stream of so many bytes.
    pub(crate) fn is_possible(&self, stream_bytes: u64) -> bool {
        self.start <= self.position && self.position <= self.end && self.end <= stream_bytes
    }
}
