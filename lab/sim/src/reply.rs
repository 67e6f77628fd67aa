//! A reply of a disk's server, and the name of its request.

use headlong_engine::{RequestId, Slot};
use headlong_http::Pacer;
use headlong_units::Instant;

use crate::origin::Asker;

/// A reply that is being sent.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) asker: Asker,
    pub(crate) asked_at: Instant,
    pub(crate) bytes: u64,
    pub(crate) bytes_left: u64,
    /// Handed to the socket and not yet taken by it.
    pub(crate) sending: Vec<Slot>,
    pub(crate) pacer: Option<Pacer>,
}

/// Where the number of the disk begins in that of a request.
const DISK_BITS: u32 = 48;

/// The number of a disk's request among those of all.
pub(crate) fn of_all(disk: u32, request: RequestId) -> RequestId {
    RequestId(u64::from(disk) << DISK_BITS | request.0)
}

/// Which disk a request is of, and its number there.
pub(crate) fn of_disk(request: RequestId) -> (u32, RequestId) {
    let own = request.0 & ((1 << DISK_BITS) - 1);
    ((request.0 >> DISK_BITS) as u32, RequestId(own))
}
