//! Networks of viewers.

use alloc::string::{String, ToString as _};

use headlong_units::{BitRate, Duration};
use serde::{Deserialize, Serialize};

/// The network of the viewers of one class (thesis Table 3.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkClass {
    /// Its name in results: `high`, `bband`, `medium`.
    pub name: String,
    /// Bandwidth of such a viewer; no limit if `None`.
    pub bandwidth: Option<BitRate>,
    /// One-way delay; a reply arrives no sooner than twice this (thesis 3.2.3: 50 ms).
    pub delay: Duration,
    /// Share of sessions in this class; shares add up to 1.
    pub share: f64,
}

impl NetworkClass {
    /// No limit and no delay: the network of traces that define none.
    pub fn unlimited() -> Self {
        Self {
            name: "unlimited".to_string(),
            bandwidth: None,
            delay: Duration::ZERO,
            share: 1.0,
        }
    }
}
