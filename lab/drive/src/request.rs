//! Requests and completions, and the interface of every model.

use core::fmt;

use headlong_disk::Request;
use headlong_units::{Duration, Instant};

/// The caller's id of a request; unique among those in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Breakdown of the service time of one request, without the time in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServiceTimeBreakdown {
    /// Command processing and the interface.
    pub overhead: Duration,
    /// Moving the arm, settling, switching heads.
    pub seek: Duration,
    /// Rotational latency.
    pub rotation: Duration,
    /// Transfer.
    pub transfer: Duration,
    /// Garbage collection (SSD), or emptying a full write cache.
    pub cleaning: Duration,
}

/// The completion of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// Id of the request.
    pub id: RequestId,
    /// The request.
    pub request: Request,
    /// When the drive started to work on it.
    pub started: Instant,
    /// When its last byte was transferred.
    pub ended: Instant,
    /// Breakdown of the time.
    pub parts: ServiceTimeBreakdown,
    /// Whether it was served from the drive's own memory, or follows the previous request without
    /// repositioning.
    pub is_sequential: bool,
}

/// Why a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The native queue is full; retry after a completion.
    #[error("the drive's queue is full; wait for a completion")]
    QueueFull,
    /// Beyond the capacity, or no sectors at all.
    #[error("the request lies beyond the drive's capacity or is empty")]
    OutOfRange,
}

/// A drive of any kind.
///
/// Call `handle_request` when a request arrives; drain `poll_completion` after every call; call
/// `handle_timeout` at the time of `poll_timeout`. A completion is returned when time has reached
/// its end, not before, because requests that arrive until then may change what the drive does
/// next.
pub trait Drive: fmt::Debug + Send {
    /// Sectors of [`headlong_disk::SECTOR_BYTES`].
    fn capacity_sectors(&self) -> u64;
    /// Most requests accepted at once.
    fn queue_depth(&self) -> usize;
    /// A request arrives.
    ///
    /// # Errors
    /// If the queue is full or the request is out of range; the state is unchanged.
    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal>;
    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant);
    /// The next completed request, in order of completion.
    fn poll_completion(&mut self) -> Option<Completion>;
    /// When to call [`Self::handle_timeout`] next.
    fn poll_timeout(&self) -> Option<Instant>;
}
