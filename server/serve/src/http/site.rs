//! Sites by host name, and the place of a requested file among the files of all sites.

use std::collections::BTreeMap;

use headlong_http::{PathError, RelativePath, host_name};

use headlong_config::{Site, site_prefix};
use headlong_package::title_of_urlset;

/// The configured sites.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sites {
    hosts: Vec<SiteHost>,
}

/// A host name of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SiteHost {
    name: String,
    prefix: String,
}

impl Sites {
    /// Sites by their first name.
    pub fn new(sites: &BTreeMap<String, Site>) -> Self {
        let hosts = sites.iter().flat_map(|(first, site)| {
            let names = std::iter::once(first).chain(&site.names);
            names.map(|name| SiteHost {
                name: name.clone(),
                prefix: site_prefix(first),
            })
        });
        Self {
            hosts: hosts.collect(),
        }
    }

    /// Whether all hosts have the same files.
    pub(super) fn are_none(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The common prefix of the paths of the files of a host; empty for a host of no site. The host may
    /// have a port.
    pub(super) fn prefix(&self, host: &str) -> &str {
        let name = host_name(host);
        let mut hosts = self.hosts.iter();
        let found = hosts.find(|of| of.name.eq_ignore_ascii_case(name));
        found.map_or("", |of| &of.prefix)
    }
}

/// A path among the files of all sites, as the library and the rules have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePath {
    tree: String,
    /// Length of the site's prefix.
    site_bytes: usize,
}

impl TreePath {
    /// Parses the path of a request target, below the prefix of its site: of a file or a folder.
    ///
    /// # Errors
    /// See [`PathError`].
    pub(super) fn parse(site: &str, target_path: &str) -> Result<Self, PathError> {
        let path = RelativePath::parse_any(target_path)?;
        Ok(Self {
            tree: format!("{site}{path}"),
            site_bytes: site.len(),
        })
    }

    /// The path in the tree of all sites.
    pub fn as_str(&self) -> &str {
        &self.tree
    }

    /// The path below its site, as a client writes it, without the first slash.
    pub(super) fn below_site(&self) -> &str {
        &self.tree[self.site_bytes..]
    }

    /// The path of what contains it, without the slash, and its last name; `None` directly below the
    /// site, and for a folder.
    pub(super) fn split_last(&self) -> Option<(Self, &str)> {
        let (above, name) = self.below_site().rsplit_once('/')?;
        let above = Self {
            tree: self.tree[..self.site_bytes + above.len()].to_owned(),
            site_bytes: self.site_bytes,
        };
        (!name.is_empty() && !above.is_folder()).then_some((above, name))
    }

    /// The path of the title that it names by a list of its files, as nginx-vod-module does; `None` if
    /// it is another path.
    pub(super) fn title_of_urlset(&self) -> Option<Self> {
        Some(Self {
            tree: title_of_urlset(&self.tree)?,
            site_bytes: self.site_bytes,
        })
    }

    /// Whether it is the path of a folder.
    pub(super) fn is_folder(&self) -> bool {
        self.below_site().is_empty() || self.tree.ends_with('/')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_prefix_of_its_site_and_others_none() {
        let site = Site {
            names: vec!["www.a.example".to_owned()],
            ..Site::default()
        };
        let sites = Sites::new(&BTreeMap::from([("A.example".to_owned(), site)]));
        for host in ["a.example", "A.EXAMPLE:80", "www.a.example.", "a.example."] {
            assert_eq!(sites.prefix(host), "/a.example/", "{host}");
        }
        for host in [
            "",
            "b.example",
            "x.a.example",
            "a.example.b",
            "127.0.0.1:80",
        ] {
            assert_eq!(sites.prefix(host), "", "{host}");
        }
    }

    #[test]
    fn path_is_split_below_its_site() {
        let split = |site, target| {
            let path = TreePath::parse(site, target).expect("a path");
            let split = path.split_last();
            split.map(|(above, name)| (above.as_str().to_owned(), name.to_owned()))
        };
        let expected = |above: &str| Some((above.to_owned(), "m.mpd".to_owned()));
        assert_eq!(split("", "/a/f.mp4/m.mpd"), expected("a/f.mp4"));
        assert_eq!(split("/s/", "/f.mp4/m.mpd"), expected("/s/f.mp4"));
        assert_eq!(split("/s/", "/m.mpd"), None);
        assert_eq!(split("", "/a/b/"), None);
    }

    #[test]
    fn no_target_names_a_file_of_another_site() {
        for target in [
            "//b.example/x",
            "/b.example/x",
            "/%2fb.example/x",
            "/./b.example/x",
        ] {
            for site in ["", "/a.example/"] {
                if let Ok(path) = TreePath::parse(site, target) {
                    assert_eq!(path.as_str(), format!("{site}b.example/x"));
                    assert_eq!(path.below_site(), "b.example/x");
                }
            }
        }
    }
}
