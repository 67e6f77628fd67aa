//! Where a root lies in the tree of all paths.
//!
//! Several roots at one place form one tree. A root below another's place covers what that has
//! there. A path that begins with a slash belongs to a *site*: `/films.example/a.mp4` is the file
//! `a.mp4` of the site `films.example`. No request can name such a path, since an empty segment is
//! dropped from it; the server chooses the site.

use std::path::{Path, PathBuf};

/// A root and its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedRoot {
    /// The folder, as configured.
    pub folder: PathBuf,
    /// The common prefix of the paths of its files: empty, or with a slash at its end.
    pub prefix: String,
}

impl MountedRoot {
    /// A root at this prefix.
    pub fn at(prefix: impl Into<String>, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            prefix: prefix.into(),
        }
    }
}

/// The place of a root among all roots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RootPlace {
    prefix: String,
    /// Prefixes of other roots below it.
    covered: Vec<String>,
}

impl RootPlace {
    /// The places of these roots.
    pub(crate) fn of_all(roots: &[MountedRoot]) -> Vec<Self> {
        let place = |root: &MountedRoot| {
            let is_below = |other: &&str| {
                let below = other.strip_prefix(root.prefix.as_str());
                below.is_some_and(|below| !below.is_empty() && !below.starts_with('/'))
            };
            let others = roots.iter().map(|other| other.prefix.as_str());
            Self {
                prefix: root.prefix.clone(),
                covered: others.filter(is_below).map(str::to_owned).collect(),
            }
        };
        roots.iter().map(place).collect()
    }

    /// The path below the root's folder of a path of the tree; `None` if it is elsewhere. The place
    /// of the root itself is the empty path.
    pub(crate) fn below<'a>(&self, path: &'a str) -> Option<&'a str> {
        if path == self.folder() {
            return Some("");
        }
        let below = path.strip_prefix(self.prefix.as_str())?;
        let is_covered = self.covered.iter().any(|other| path.starts_with(other));
        (!below.starts_with('/') && !is_covered).then_some(below)
    }

    /// The path in the tree of a path below the root's folder, unless another root covers it.
    pub(crate) fn above(&self, below: &str) -> Option<String> {
        let path = format!("{}{below}", self.prefix);
        self.below(&path).is_some().then_some(path)
    }

    /// The site that it belongs to; empty for the tree of no site.
    pub(crate) fn site(&self) -> &str {
        let name = self.prefix.strip_prefix('/').unwrap_or_default();
        name.split('/').next().unwrap_or_default()
    }

    /// Its prefix as the path of a folder.
    pub(crate) fn folder(&self) -> &str {
        let folder = self.prefix.strip_suffix('/');
        folder.unwrap_or(&self.prefix)
    }

    /// Whether another root covers this folder.
    pub(crate) fn is_covered(&self, folder: &str) -> bool {
        let mut covered = self.covered.iter();
        covered.any(|other| other.strip_suffix('/') == Some(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<const N: usize>(prefixes: [&str; N]) -> [RootPlace; N] {
        let roots = prefixes.map(|prefix| MountedRoot::at(prefix, Path::new("/x")));
        let places = RootPlace::of_all(&roots);
        places.try_into().expect("one for each")
    }

    #[test]
    fn path_belongs_to_root_with_longest_prefix() {
        let [top, films, old] = places(["", "films/", "films/old/"]);
        assert_eq!(top.below("a.mp4"), Some("a.mp4"));
        assert_eq!(top.below("filmsx/a"), Some("filmsx/a"));
        assert_eq!(top.below("films/a"), None);
        assert_eq!(films.below("films/a"), Some("a"));
        assert_eq!(films.below("a"), None);
        assert_eq!(films.below("films/old/a"), None);
        assert_eq!(old.below("films/old/a/b"), Some("a/b"));
        assert_eq!(films.below("films"), Some(""), "its own folder");
        assert_eq!(top.below(""), Some(""));
        assert_eq!((films.folder(), top.folder()), ("films", ""));
        assert!(top.is_covered("films") && films.is_covered("films/old"));
        assert!(!top.is_covered("film"));
        assert_eq!(films.above("a").as_deref(), Some("films/a"));
        assert_eq!(films.above("old/a"), None, "a link into a covered folder");
    }

    #[test]
    fn sites_have_no_path_in_common() {
        let [top, site, below, other] = places(["", "/a.example/", "/a.example/x/", "/b.example/"]);
        for (path, of) in [
            ("m.mp4", &top),
            ("a.example/m.mp4", &top),
            ("/a.example/m.mp4", &site),
            ("/a.example/x/m.mp4", &below),
            ("/b.example/m.mp4", &other),
        ] {
            for place in [&top, &site, &below, &other] {
                assert_eq!(place.below(path).is_some(), place == of, "{path}");
            }
        }
        assert_eq!(site.below("/a.example"), Some(""));
        let sites = [&top, &site, &below, &other].map(RootPlace::site);
        assert_eq!(sites, ["", "a.example", "a.example", "b.example"]);
        assert_eq!(top.below("/c.example/m.mp4"), None);
    }

    #[test]
    fn roots_of_one_prefix_share_it() {
        let [one, two] = places(["", ""]);
        assert_eq!((one.below("a"), two.below("a")), (Some("a"), Some("a")));
        assert_eq!(one, two);
    }
}
