//! The unit in which a kernel keeps and reads files.

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
