//! Identifiers of requested objects.

/// A URL, as its index in the trace's table of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);
