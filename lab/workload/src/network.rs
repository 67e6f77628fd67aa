//! How viewers are connected.

use alloc::string::{String, ToString as _};

use headlong_units::{BitRate, Duration};

/// How viewers of one class are connected (thesis Table 3.1).
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkClass {
    /// Its name in results: `high`, `bband`, `medium`.
    pub name: String,
    /// Most that such a viewer receives; no limit if `None`.
    pub bandwidth: Option<BitRate>,
    /// One way; a request is answered no sooner than twice this (thesis 3.2.3: 50 ms).
    pub delay: Duration,
    /// Share of sessions in this class; shares add up to 1.
    pub share: f64,
}

impl NetworkClass {
    /// No limit and no delay: what a trace has that says nothing about networks.
    pub fn unlimited() -> Self {
        Self {
            name: "unlimited".to_string(),
            bandwidth: None,
            delay: Duration::ZERO,
            share: 1.0,
        }
    }
}
