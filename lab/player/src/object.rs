//! What is asked for, by number.

/// Which URL: a place in the trace's table of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u32);
