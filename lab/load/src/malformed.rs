//! What is wrong with bytes that are outside the protocol.

/// Why this is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;
