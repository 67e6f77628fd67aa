//! What is known of one title: its name, its version, and whether somebody is asking for it.

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

/// Between a title's path and its query: no path holds it.
const BETWEEN: char = '\0';

/// The name of a title: its decoded path below the prefix, and its query if that is a part of it.
pub(super) fn name(path: &str, query: &str) -> String {
    match query.is_empty() {
        true => path.to_owned(),
        false => format!("{path}{BETWEEN}{query}"),
    }
}

/// Path and query of a name.
pub(super) fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once(BETWEEN) {
        Some((path, query)) => (path, Some(query)),
        None => (name, None),
    }
}
