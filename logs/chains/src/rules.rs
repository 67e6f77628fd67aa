//! Which requests are one chain: the literal reading of thesis 5.3, and its variants.

/// The choices that the thesis leaves open. The default is its literal reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// What is compared with [`within_ms`](Self::within_ms) (A2).
    pub gap: Gap,
    /// Longest gap between two requests of a chain, inclusive, ms (thesis 5.3: 40 s).
    pub within_ms: i64,
    /// What happens when several requests end or start at one byte (A6).
    pub link: Link,
}

/// Between which moments the gap of two requests is taken (A2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gap {
    /// Arrival to arrival, in either order.
    Received,
    /// Completion to arrival: from the end of the one that is over first to the arrival of the
    /// other, and none at all if they overlap.
    Idle,
}

/// How requests that touch are joined (A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// Each has at most one successor and one predecessor; a retry is a chain of its own. At each
    /// byte those that end there, in order of arrival, take the first that starts there and is
    /// still free, in order of arrival.
    OneToOne,
    /// All that touch are one chain.
    Component,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            gap: Gap::Received,
            within_ms: 40_000,
            link: Link::OneToOne,
        }
    }
}
