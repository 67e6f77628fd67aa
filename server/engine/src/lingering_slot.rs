//! A sent slot that lingers in memory.

use headlong_units::Instant;

use crate::ids::{RequestId, Slot};

/// One lingering slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LingeringSlot {
    pub(crate) until: Instant,
    pub(crate) slot: Slot,
    pub(crate) reply: RequestId,
    /// More of the reply was still to be sent when its time began.
    pub(crate) is_early: bool,
}
