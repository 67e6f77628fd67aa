//! A reply that has bytes to come.

use crate::open_job::PartId;

/// A reply that has bytes to come.
#[derive(Debug)]
pub(crate) struct Reply<C> {
    pub(crate) client: C,
    pub(crate) bytes_left: u64,
    pub(crate) file: PartId,
    /// Where the next bytes begin in the file.
    pub(crate) next: u64,
}
