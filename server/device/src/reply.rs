//! A running reply.

use crate::open_job::PartId;

/// A running reply.
#[derive(Debug)]
pub(crate) struct Reply<C> {
    pub(crate) client: C,
    pub(crate) bytes_left: u64,
    pub(crate) file: PartId,
    /// File offset of the next piece.
    pub(crate) next: u64,
}
