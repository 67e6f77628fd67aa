//! A third-party cache on the experiment's SSD, in front of a server: the comparison for headlong's
//! own flash tier.

use headlong_settings::{Document, choice, size};
use headlong_units::KIB;
use serde::Serialize;

/// The cache program and its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// The program.
    pub kind: CacheKind,
    /// nginx's `slice`: titles are requested and cached in parts of this size; whole if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_bytes: Option<u64>,
}

/// Supported caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// nginx with `proxy_cache`.
    Nginx,
    /// Apache Traffic Server.
    TrafficServer,
    /// Varnish with a file store.
    Varnish,
    /// No cache in front: the titles lie on a ZFS pool, and the SSD is the pool's cache (L2ARC).
    Zfs,
}

impl CacheKind {
    /// Its name in an experiment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::TrafficServer => "trafficserver",
            Self::Varnish => "varnish",
            Self::Zfs => "zfs",
        }
    }
}

const KINDS: [(&str, CacheKind); 4] = [
    (CacheKind::Nginx.name(), CacheKind::Nginx),
    (CacheKind::TrafficServer.name(), CacheKind::TrafficServer),
    (CacheKind::Varnish.name(), CacheKind::Varnish),
    (CacheKind::Zfs.name(), CacheKind::Zfs),
];

/// `cache = { kind = ... }` of a server, if present and valid.
pub(super) fn cache(document: &mut Document, table: &str) -> Option<Cache> {
    if !document.is_written(table) {
        return None;
    }
    let kind = format!("{table}.kind");
    let slice = format!("{table}.slice");
    let found = document.get(&kind, &choice(&KINDS));
    let slice_bytes = document.get(&slice, &size().at_least(KIB));
    if !document.is_written(&kind) {
        let text = "is missing; write nginx, trafficserver, varnish or zfs";
        document.wrong_too(&kind, text);
    }
    if slice_bytes.is_some() && found.is_some_and(|kind| kind != CacheKind::Nginx) {
        document.wrong(&slice, "is for nginx: the others have no such setting");
    }
    found.map(|kind| Cache { kind, slice_bytes })
}
