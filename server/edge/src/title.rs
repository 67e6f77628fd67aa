//! State of one title: its name, its version, and the query in flight, if any.

use std::sync::Arc;

use headlong_pull::Freshness;
use tokio::sync::watch;

use super::version::{QueryOutcome, Version};

#[derive(Default)]
pub(super) struct OriginTitle {
    pub(super) version: Option<(Arc<Version>, Freshness)>,
    pub(super) asking: Option<watch::Receiver<QueryOutcome>>,
}

impl OriginTitle {
    /// Whether forgetting the title would lose nothing.
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

/// Separates a title's path and query; no path contains it.
const BETWEEN: char = '\0';

/// The name of a title: its decoded path below the prefix, and its query if that is a part of it.
pub(super) fn name(path: &str, query: &str) -> String {
    match query.is_empty() {
        true => path.to_owned(),
        false => format!("{path}{BETWEEN}{query}"),
    }
}

/// Splits a name into path and query.
pub(super) fn split(name: &str) -> (&str, Option<&str>) {
    match name.split_once(BETWEEN) {
        Some((path, query)) => (path, Some(query)),
        None => (name, None),
    }
}
