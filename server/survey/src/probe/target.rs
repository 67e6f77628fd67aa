//! Targets of measurements.

use headlong_disk::Request;
use headlong_units::Duration;

use super::error::ProbeError;

/// Executes one request at a time.
pub trait Target {
    /// Sectors of [`headlong_disk::SECTOR_BYTES`].
    fn sectors(&self) -> u64;

    /// Executes a request and returns its duration.
    ///
    /// # Errors
    /// If the device refuses it.
    fn perform(&mut self, request: Request) -> Result<Duration, ProbeError>;
}
