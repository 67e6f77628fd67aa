//! Rules for joining requests to chains: the literal reading of thesis 5.3, and its variants.

use serde::{Deserialize, Serialize};

/// Choices that the thesis leaves open. The default is its literal reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainRules {
    /// Gap that is compared with [`within_ms`](Self::within_ms) (A2).
    pub gap: GapRule,
    /// Longest gap between two requests of a chain, inclusive, ms (thesis 5.3: 40 s).
    pub within_ms: i64,
    /// Matching of several requests that end or start at one byte (A6).
    pub link: LinkRule,
}

/// How the gap between two requests is measured (A2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum GapRule {
    /// Arrival to arrival, in either order.
    Received,
    /// Completion to arrival: from the end of the request that finishes first to the arrival of the
    /// other; zero if they overlap.
    Idle,
}

/// How touching requests are joined (A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LinkRule {
    /// Each request has at most one successor and one predecessor; a retry is a separate chain. At
    /// each byte, the requests that end there, in order of arrival, each take the first unused
    /// request that starts there, in order of arrival.
    OneToOne,
    /// All requests that touch are one chain.
    Component,
}

impl Default for ChainRules {
    fn default() -> Self {
        Self {
            gap: GapRule::Received,
            within_ms: 40_000,
            link: LinkRule::OneToOne,
        }
    }
}
