//! Page size of the modelled kernel.

/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
