//! What can be measured.

use headlong_disk::Request;
use headlong_units::Duration;

use super::error::ProbeError;

/// Something that does one request at a time.
pub trait Target {
    /// Sectors of [`headlong_disk::SECTOR_BYTES`].
    fn sectors(&self) -> u64;

    /// Does a request and says how long it took.
    ///
    /// # Errors
    /// If the device refuses it.
    fn perform(&mut self, request: Request) -> Result<Duration, ProbeError>;
}
