//! What is known of one title: its version, and whether somebody is asking for it.

use std::sync::Arc;

use headlong_pull::Freshness;
use tokio::sync::watch;

use super::version::{Outcome, Version};

#[derive(Default)]
pub(super) struct Title {
    pub(super) version: Option<(Arc<Version>, Freshness)>,
    pub(super) asking: Option<watch::Receiver<Outcome>>,
}

impl Title {
    /// Whether nothing would be lost by forgetting it.
    pub(super) fn is_idle(&self) -> bool {
        let is_empty = |(version, _): &(Arc<Version>, Freshness)| {
            let table = version.table();
            Arc::strong_count(version) == 1
                && table.coming.is_empty()
                && !table.present.contains(&true)
        };
        self.asking.is_none() && self.version.as_ref().is_none_or(is_empty)
    }
}
