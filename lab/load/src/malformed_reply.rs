//! Error for bytes that violate the protocol.

/// The reply violates HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedReply;
