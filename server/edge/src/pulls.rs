//! All paths that are filled from origins, and their lookup by request path.

use std::collections::BTreeMap;
use std::sync::Arc;

use headlong_library::MountedRoot;
use headlong_storage::Device;

use super::counters::{PullCounts, PurgeResult};
use super::titles::{EdgeServer, Pull};
use crate::pull_rule::PullRule;

/// All paths that are filled from origins.
#[derive(Debug, Default)]
pub struct Pulls(Vec<Arc<Pull>>);

impl Pulls {
    /// Recovers the slices of an earlier process and removes invalid ones. May block on disks. A
    /// path whose folder is not usable is degraded. `folders` are those of the library, in its
    /// order. Prefixes are those of the tree of all sites, each with a slash in front; those of a
    /// site begin with two.
    ///
    /// # Errors
    /// If another server uses a path's folder, or an origin's settings are wrong.
    pub fn open(
        rules: &BTreeMap<String, PullRule>,
        folders: &[MountedRoot],
        server: &EdgeServer<'_>,
    ) -> Result<Self, String> {
        let mut pulls = Vec::new();
        for (prefix, rule) in rules {
            let root = folders.iter().position(|of| of.folder == rule.folder);
            let pull = Pull::open(prefix, rule, root.unwrap_or(0), server);
            let pull = pull.map_err(|error| format!("pull.{prefix}: {error}"))?;
            pulls.push(Arc::new(pull));
        }
        // Longest prefix first.
        pulls.sort_by_key(|pull: &Arc<Pull>| std::cmp::Reverse(pull.prefix.len()));
        Ok(Self(pulls))
    }

    /// Attaches the devices, and starts to retry stores that fail.
    pub fn attach(&self, devices: &[Device]) {
        for pull in &self.0 {
            tokio::spawn(Arc::clone(pull).tend_store());
            let index = pull.device_index();
            if let Some(device) = index.and_then(|index| devices.get(index)) {
                let _ = pull.device.set(device.clone());
            }
        }
    }

    /// Finds the path that contains a request path; returns it with the remainder.
    pub fn of<'a>(&self, path: &'a str) -> Option<(&Arc<Pull>, &'a str)> {
        self.0.iter().find_map(|pull| {
            let rest = below(&pull.prefix, path)?;
            (!rest.is_empty()).then_some((pull, rest))
        })
    }

    /// Whether a path, of a file or of a folder, is filled from an origin.
    pub fn covers(&self, path: &str) -> bool {
        let mut pulls = self.0.iter();
        pulls.any(|pull| below(&pull.prefix, path).is_some())
    }

    /// The counters of all paths.
    pub fn counts(&self) -> Vec<PullCounts> {
        self.0.iter().map(|pull| pull.counts()).collect()
    }

    /// Removes a title by its full path, or all titles below a prefix; both start with a slash.
    pub fn purge(&self, path: &str, is_prefix: bool) -> PurgeResult {
        let mut all = PurgeResult::default();
        for pull in &self.0 {
            let gone = pull.purge(|title| {
                let whole = format!("{}{title}", pull.prefix);
                if is_prefix {
                    whole.starts_with(path)
                } else {
                    whole == path
                }
            });
            all.titles += gone.titles;
            all.bytes += gone.bytes;
        }
        all
    }
}

/// The part of a path below a prefix. Paths of a site, which begin with a slash, are not below
/// prefixes of other hosts.
fn below<'a>(prefix: &str, path: &'a str) -> Option<&'a str> {
    let prefix = &prefix[1..];
    let is_of_one_kind = prefix.starts_with('/') == path.starts_with('/');
    path.strip_prefix(prefix).filter(|_| is_of_one_kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_site_are_below_its_prefixes_only() {
        for (prefix, path, expected) in [
            ("/", "a", Some("a")),
            ("/", "/a.example/a", None),
            ("/vod/", "vod/a", Some("a")),
            ("//a.example/", "/a.example/vod/a", Some("vod/a")),
            ("//a.example/", "/b.example/a", None),
            ("//a.example/", "a.example/a", None),
        ] {
            assert_eq!(below(prefix, path), expected, "{prefix} {path}");
        }
    }
}
