//! Resolves the links of a path, reporting each step before its disk is accessed.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Most links followed, as in the kernel.
const LINKS_MAX: usize = 40;

/// Follows the links of a path, one name at a time. Before each disk access `reached` is called
/// with the path as resolved so far: the disk that it leads to may never respond.
pub(crate) fn follow_links(path: &Path, reached: &mut dyn FnMut(PathBuf)) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let (mut done, mut left) = (PathBuf::from("/"), names(&path));
    let mut links_left = LINKS_MAX;
    while let Some(name) = left.pop() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => done = PathBuf::from("/"),
            Some(Component::ParentDir) => _ = done.pop(),
            Some(Component::Normal(_)) => done.push(&name),
            _ => continue,
        }
        reached(
            done.iter()
                .chain(left.iter().rev().map(|name| &**name))
                .collect(),
        );
        if let Ok(target) = done.read_link() {
            let Some(fewer) = links_left.checked_sub(1) else {
                return;
            };
            links_left = fewer;
            done.pop();
            left.append(&mut names(&target));
        }
    }
}

/// The names of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    names.map(|name| name.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// The paths reported for a path.
    fn reported_paths(path: &Path) -> Vec<PathBuf> {
        let mut told = Vec::new();
        follow_links(path, &mut |path| told.push(path));
        told
    }

    #[test]
    fn path_through_links_ends_where_kernel_resolves_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        fs::create_dir_all(at.join("disk1/videos")).expect("made");
        fs::create_dir(at.join("srv")).expect("made");
        symlink("../disk1", at.join("srv/first")).expect("linked");
        symlink(at.join("srv/first/videos"), at.join("srv/all")).expect("linked");
        symlink("round", at.join("round")).expect("linked");
        for name in ["srv/all", "srv/first/./videos", "disk1/videos"] {
            let last = reported_paths(&at.join(name)).pop();
            assert_eq!(last, Some(at.join("disk1/videos")), "{name}");
        }
        assert!(
            !reported_paths(&at.join("round")).is_empty(),
            "not terminated"
        );
    }

    #[test]
    fn path_is_reported_before_its_disk_is_accessed() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        symlink(at.join("disk1"), at.join("link")).expect("linked");
        let target = at.join("disk1/videos");
        // The target is missing, like a disk that does not respond.
        let all = reported_paths(&at.join("link/videos"));
        let first = all.iter().position(|path| *path == target);
        assert!(first.is_some_and(|first| first + 1 < all.len()), "{all:?}");
    }
}
