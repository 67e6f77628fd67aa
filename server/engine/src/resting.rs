//! A slot that was sent and stays in memory for a moment.

use headlong_units::Instant;

use crate::ids::{RequestId, Slot};

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resting {
    pub(crate) until: Instant,
    pub(crate) slot: Slot,
    pub(crate) reply: RequestId,
    /// More of the reply was to come when its time began.
    pub(crate) is_early: bool,
}
