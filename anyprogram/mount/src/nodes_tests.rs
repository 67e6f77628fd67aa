use super::*;
use crate::tree::Tree;
use std::path::Path;

struct NodesFixture {
    folder: tempfile::TempDir,
    tree: Tree,
    nodes: Arc<Nodes>,
}

impl NodesFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("sub")).expect("made");
        for name in ["a", "sub/b"] {
            std::fs::write(folder.path().join(name), name).expect("written");
        }
        let tree = Tree::open(folder.path()).expect("opened");
        let nodes = Arc::new(Nodes::new(&tree.attributes(Path::new(".")).expect("there")));
        Self {
            folder,
            tree,
            nodes,
        }
    }

    fn attributes(&self, path: &str) -> Attributes {
        self.tree.attributes(Path::new(path)).expect("there")
    }

    /// Looks up a path name by name; returns the number of the last node.
    fn meet(&self, path: &str) -> u64 {
        let (mut folder, mut at) = (ROOT, PathBuf::new());
        for name in Path::new(path) {
            at.push(name);
            let found = self.attributes(at.to_str().expect("a text"));
            folder = self.nodes.met(folder, name, &found);
        }
        folder
    }

    fn paths(&self, number: u64) -> Vec<PathBuf> {
        self.nodes
            .find(number)
            .map_or_else(Vec::new, |known| known.paths)
    }
}

#[test]
fn node_has_its_inode_number_and_all_its_names() {
    let case = NodesFixture::new();
    std::fs::hard_link(
        case.folder.path().join("sub/b"),
        case.folder.path().join("c"),
    )
    .expect("linked");
    let first = case.meet("sub/b");
    assert_eq!(first, case.attributes("sub/b").key.ino);
    assert_eq!(case.meet("c"), first, "one file, one node");
    let paths = case.paths(first);
    assert_eq!(paths, [Path::new("c"), Path::new("sub/b")]);
    assert_eq!(case.paths(ROOT), [Path::new(".")]);
}

#[test]
fn node_is_kept_until_all_lookups_are_forgotten() {
    let case = NodesFixture::new();
    let before = case.nodes.count();
    let number = case.meet("a");
    case.meet("a");
    case.nodes.forget(number, 1);
    assert_eq!(case.paths(number), [Path::new("a")]);
    case.nodes.forget(number, 1);
    assert!(case.nodes.find(number).is_none());
    // An entry not passed to the kernel is forgotten.
    let found = case.attributes("a");
    let told = LookupGuard::of(&case.nodes, ROOT, OsStr::new("a"), &found);
    drop(told);
    assert_eq!(case.nodes.count(), before);
    let told = LookupGuard::of(&case.nodes, ROOT, OsStr::new("a"), &found);
    told.confirm();
    assert_eq!(case.nodes.count(), before + 1);
}

#[test]
fn moved_folder_is_found_under_its_new_name() {
    let case = NodesFixture::new();
    let number = case.meet("sub/b");
    std::fs::rename(
        case.folder.path().join("sub"),
        case.folder.path().join("new"),
    )
    .expect("moved");
    case.meet("new");
    assert_eq!(case.paths(number), [Path::new("new/b")]);
    // A folder that the kernel forgot leads to no path.
    case.nodes.forget(case.attributes("new").key.ino, 2);
    assert_eq!(case.paths(number), Vec::<PathBuf>::new());
}

#[test]
fn number_never_identifies_two_files() {
    let case = NodesFixture::new();
    let number = case.meet("a");
    // Simulates a new file with the inode number of a deleted file that is still open.
    let mut other = case.attributes("sub/b");
    other.key.ino = case.attributes("a").key.ino;
    other.key.born = Some((1, 1));
    let second = case.nodes.met(ROOT, OsStr::new("a"), &other);
    assert_ne!(second, number);
    assert!(second >= OWN_NUMBERS);
    let mut far = case.attributes("sub/b");
    far.key.dev += 1;
    let third = case.nodes.met(ROOT, OsStr::new("far"), &far);
    assert!(third >= OWN_NUMBERS && third != second);
    // Programs identify hard links by their inode numbers.
    case.nodes.forget(third, 1);
    far.key.ino += 1;
    let fourth = case.nodes.met(ROOT, OsStr::new("far too"), &far);
    assert!(fourth >= OWN_NUMBERS && fourth != third && fourth != second);
}

#[test]
fn pages_are_kept_only_for_the_same_version() {
    let case = NodesFixture::new();
    let number = case.meet("a");
    let first = case.attributes("a").identity;
    let second = FileIdentity { size: 7, ..first };
    let young = FileIdentity {
        is_settled: false,
        ..second
    };
    let keeps = |identity| case.nodes.keeps_pages(number, identity);
    assert!(!keeps(&first), "unknown pages");
    assert!(keeps(&first));
    assert!(!keeps(&second));
    assert!(keeps(&second));
    assert!(!keeps(&young));
    assert!(!keeps(&young), "may be written again with the same mtime");
    assert!(!keeps(&second));
}

/// As on ext3, on ext4 with small inodes, and on some network file systems.
#[test]
fn reused_number_without_creation_time_is_a_new_node() {
    let case = NodesFixture::new();
    let unborn = |path| {
        let mut found = case.attributes(path);
        found.key.born = None;
        found
    };
    let meet = |name: &str, found: &Attributes| case.nodes.met(ROOT, OsStr::new(name), found);
    let first = meet("a", &unborn("a"));
    assert_eq!(meet("a", &unborn("a")), first, "same place");
    let other = meet("b", &unborn("a"));
    assert_ne!(other, first, "possibly another file with a reused number");
    assert_eq!(
        case.paths(first),
        [Path::new("a")],
        "the old node does not lead to the new name"
    );
    assert_eq!(case.paths(other), [Path::new("b")]);
    // A file with two names is one file.
    std::fs::hard_link(case.folder.path().join("a"), case.folder.path().join("c")).expect("linked");
    assert_eq!(meet("c", &unborn("c")), other);
    // With creation times, a new name means the same file.
    let born = meet("a", &case.attributes("a"));
    assert_eq!(meet("d", &case.attributes("a")), born);
}
