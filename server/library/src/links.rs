//! Where the links of a path lead, as far as that can be told before a disk has answered.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Most links followed, as by the kernel.
const LINKS_MAX: usize = 40;

/// Follows the links of a path, one name after the other. Before each question `reached` is told the
/// path without the links met so far: the disk that it leads to may never answer.
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

    /// What is told of a path.
    fn told(path: &Path) -> Vec<PathBuf> {
        let mut told = Vec::new();
        follow_links(path, &mut |path| told.push(path));
        told
    }

    #[test]
    fn a_path_through_links_ends_where_the_kernel_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        fs::create_dir_all(at.join("disk1/videos")).expect("made");
        fs::create_dir(at.join("srv")).expect("made");
        symlink("../disk1", at.join("srv/first")).expect("linked");
        symlink(at.join("srv/first/videos"), at.join("srv/all")).expect("linked");
        symlink("round", at.join("round")).expect("linked");
        for name in ["srv/all", "srv/first/./videos", "disk1/videos"] {
            let last = told(&at.join(name)).pop();
            assert_eq!(last, Some(at.join("disk1/videos")), "{name}");
        }
        assert!(!told(&at.join("round")).is_empty(), "it comes to an end");
    }

    #[test]
    fn where_a_path_leads_is_told_before_that_is_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().canonicalize().expect("there");
        symlink(at.join("disk1"), at.join("link")).expect("linked");
        let target = at.join("disk1/videos");
        // Nothing is there, as where nothing answers.
        let all = told(&at.join("link/videos"));
        let first = all.iter().position(|path| *path == target);
        assert!(first.is_some_and(|first| first + 1 < all.len()), "{all:?}");
    }
}
