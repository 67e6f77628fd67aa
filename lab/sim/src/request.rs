//! A viewer's request to a disk, and the view of it that the shard gets. [`ServerShared`] holds the
//! state that all disks of a server share.

use std::collections::VecDeque;

use headlong_engine::{
    ConnectionId, Hints, PartSpec, ReaderIdentity, RequestId, Slot, StreamId, ViewerId,
};
use headlong_http::{Pace, Pacer};
use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange, Instant};
use headlong_workload::ViewerIdentity;

use crate::extents::extents_of;
use crate::histogram::Histogram;
use crate::layout::FileLocation;
use crate::origin::{OriginEvent, Requester};
use crate::setup::WorldSetup;
use crate::tier::SimulatedTier;
use crate::warm_flash::key_of;

/// State shared by all disks of a server.
#[derive(Debug)]
pub(crate) struct ServerShared {
    pub(crate) tier: Option<SimulatedTier>,
    pub(crate) outcomes: VecDeque<OriginEvent>,
    /// From the arrival of a request until its first piece was ready.
    pub(crate) waits: Histogram,
    pub(crate) pace: Pace,
    pub(crate) identity: ViewerIdentity,
    pub(crate) bit_rates_known: bool,
    pub(crate) bit_rates_told: Vec<(BitRate, BitRate)>,
    pub(crate) checked: bool,
    pub(crate) extents_per_file: u32,
}

/// A request for one file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileRequest<'p> {
    pub(crate) object: ObjectId,
    pub(crate) place: &'p FileLocation,
    /// `None` requests the whole file.
    pub(crate) range: Option<ByteRange>,
}

/// Stream ids of titles in several files start here; all others equal the object id.
const TITLES_FROM: u64 = 1 << 40;

/// The files of a stream: a single file, or all files of the title in playlist order.
pub(crate) fn parts_of(place: &FileLocation, extents_per_file: u32) -> Vec<PartSpec> {
    let part = |(physical, size_bytes)| PartSpec {
        size_bytes,
        extents: extents_of(physical, size_bytes, extents_per_file),
        flash_key: Some(key_of(physical)),
        is_absent: false,
    };
    match &place.part {
        Some(title) => title.all().map(part).collect(),
        None => vec![part((place.physical, place.size_bytes))],
    }
}

impl ServerShared {
    pub(crate) fn new(tier: Option<SimulatedTier>, setup: &WorldSetup) -> Self {
        Self {
            tier,
            outcomes: VecDeque::new(),
            waits: Histogram::default(),
            pace: setup.pace,
            identity: setup.identity,
            bit_rates_known: setup.bit_rates_known,
            bit_rates_told: setup.bit_rates_told.clone(),
            checked: setup.checked,
            extents_per_file: setup.extents_per_file,
        }
    }

    /// The viewer's identity as the shard sees it; without a session id, all viewers share one
    /// address.
    pub(crate) fn who(&self, asker: Requester) -> ReaderIdentity {
        let number = u64::from(asker.session);
        match self.identity {
            ViewerIdentity::Sid | ViewerIdentity::Cmcd => ReaderIdentity::Named(ViewerId(number)),
            ViewerIdentity::Connection | ViewerIdentity::None => ReaderIdentity::Unnamed {
                origin: ViewerId(0),
                connection: (self.identity == ViewerIdentity::Connection)
                    .then_some(ConnectionId(number)),
            },
        }
    }

    /// Hints that a player sends besides its session id.
    pub(crate) fn hints(&self, place: &FileLocation) -> Hints {
        let bit_rate = place.bit_rate;
        Hints {
            bit_rate: bit_rate.filter(|_| self.identity == ViewerIdentity::Cmcd),
            ..Hints::default()
        }
    }

    /// The bit rate of a title as configured at the shard.
    pub(crate) fn bit_rate_told(&self, bit_rate: Option<BitRate>) -> Option<BitRate> {
        let bit_rate = bit_rate.filter(|_| self.bit_rates_known)?;
        let mut told = self.bit_rates_told.iter();
        let told = told.find(|(true_rate, _)| *true_rate == bit_rate);
        Some(told.map_or(bit_rate, |(_, told)| *told))
    }
}

impl FileRequest<'_> {
    /// The requested bytes that exist.
    pub(crate) fn wanted(&self) -> ByteRange {
        let whole = ByteRange::new(0, self.place.size_bytes);
        self.range.map_or(whole, |range| range.intersection(whole))
    }

    /// The stream of the file and its part number within the stream.
    pub(crate) fn stream(&self) -> (StreamId, u32) {
        match &self.place.part {
            Some(part) => (StreamId(TITLES_FROM + u64::from(part.title)), part.number),
            None => (StreamId(u64::from(self.object.0)), 0),
        }
    }
}

/// A reply in progress.
#[derive(Debug)]
pub(crate) struct ActiveReply {
    pub(crate) asker: Requester,
    pub(crate) asked_at: Instant,
    pub(crate) bytes: u64,
    pub(crate) bytes_left: u64,
    /// Pieces handed to the socket and not yet accepted by it.
    pub(crate) sending: Vec<Slot>,
    pub(crate) pacer: Option<Pacer>,
}

/// Bit offset of the disk number in a server-wide request id.
const DISK_BITS: u32 = 48;

/// The server-wide id of a disk's request.
pub(crate) fn of_all(disk: u32, request: RequestId) -> RequestId {
    RequestId(u64::from(disk) << DISK_BITS | request.0)
}

/// The disk of a server-wide request id, and the id on that disk.
pub(crate) fn of_disk(request: RequestId) -> (u32, RequestId) {
    let own = request.0 & ((1 << DISK_BITS) - 1);
    ((request.0 >> DISK_BITS) as u32, RequestId(own))
}
