//! A reply of a disk's server, and the numbering of requests across disks.

use headlong_engine::{RequestId, Slot};
use headlong_http::Pacer;
use headlong_units::Instant;

use crate::origin::Requester;

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
