//! What is asked of a drive, and the contract that every model keeps.

use core::fmt;

use headlong_disk::Request;
use headlong_units::{Duration, Instant};

/// The caller's name for a request; to be unique among those in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What the time of one request was spent on. The sum is the service time: waiting in the queue is
/// not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// Command processing and the interface.
    pub overhead: Duration,
    /// Moving the arm, settling, switching heads.
    pub seek: Duration,
    /// Waiting for the sector to come round.
    pub rotation: Duration,
    /// Moving bytes.
    pub transfer: Duration,
    /// Erasing and moving data out of the way (SSD), or emptying a full write cache.
    pub cleaning: Duration,
}

/// The end of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Whose.
    pub id: RequestId,
    /// What was asked.
    pub request: Request,
    /// When the drive began to work on it.
    pub started: Instant,
    /// When its last byte was there.
    pub ended: Instant,
    /// Where the time went.
    pub parts: Parts,
    /// Whether it came from the drive's own memory, or follows the request before it without
    /// repositioning.
    pub is_sequential: bool,
}

/// Why a request was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The native queue is full; ask again after a completion.
    #[error("the drive's queue is full; wait for a completion")]
    QueueFull,
    /// Beyond the capacity, or no sectors at all.
    #[error("the request lies beyond the drive's capacity or is empty")]
    OutOfRange,
}

/// A drive of whatever kind.
///
/// Call `handle_request` when a request arrives; drain `poll_completion` after every call; call
/// `handle_timeout` when `poll_timeout` says so. A completion comes out when time has reached its
/// end, not before, because what the drive does next may depend on what arrives until then.
pub trait Drive: fmt::Debug + Send {
    /// Sectors of [`headlong_disk::SECTOR_BYTES`].
    fn capacity_sectors(&self) -> u64;
    /// Most requests it takes at once.
    fn queue_depth(&self) -> usize;
    /// A request arrives.
    ///
    /// # Errors
    /// If it does not fit in the queue or on the drive; then nothing happened.
    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal>;
    /// Time passed.
    fn handle_timeout(&mut self, now: Instant);
    /// The next request that has ended, in order of their ends.
    fn poll_completion(&mut self) -> Option<Completion>;
    /// When to call [`Self::handle_timeout`] next.
    fn poll_timeout(&self) -> Option<Instant>;
}
