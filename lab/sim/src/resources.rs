//! Resource types of the simulated device.

use std::sync::Arc;

use headlong_device::{OpenedFile, Resources};

/// A simulated device: a stream's source is the start address of each file; all other types are
/// empty.
#[derive(Debug)]
pub(crate) struct SimulatedResources;

impl Resources for SimulatedResources {
    type Source = Arc<[u64]>;
    type File = ();
    type Memory = ();
    type Client = ();
    type Record = ();
}

/// Files that stay open without a reply, as the server's default.
pub(crate) const OPEN_FILES_MAX: usize = 1024;

/// Simulated files never change.
pub(crate) const OPENED: OpenedFile<()> = OpenedFile {
    file: (),
    is_current: true,
};

pub(crate) fn start_of(source: &[u64], part: u32) -> u64 {
    source.get(part as usize).copied().unwrap_or(0)
}
