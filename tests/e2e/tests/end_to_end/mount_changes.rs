//! Changes in the tree while programs read it on a mount: they get the result of a plain read, or
//! an error, and never bytes of two versions; and the mount is read-only.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_e2e_tests::{Mount, eventually, have_or_skip};
use headlong_testkit::{Scratch, pattern};
use rustix::fs::{Mode, OFlags, XattrFlags, getxattr, openat, setxattr};
use rustix::io::Errno;

const SIZE: u64 = 3_000_017;

struct Case {
    scratch: Scratch,
    mount: Mount,
}

impl Case {
    /// A tree with `file`, which holds pattern 1 and is dated in the past; `None` if this machine
    /// cannot mount.
    fn new(test: &str) -> Option<Self> {
        if !Mount::available_or_skip(test) {
            return None;
        }
        let scratch = Scratch::new("mount-changes").expect("a folder");
        let tree = scratch.directory("tree").expect("a folder");
        pattern::write_file(&tree.join("file"), 1, SIZE).expect("written");
        make_old(&tree.join("file"));
        let mount = Mount::start(&tree, &scratch.path().join("point"));
        Some(Self { scratch, mount })
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.scratch.path().join("tree").join(name)
    }

    fn seen(&self, name: &str) -> PathBuf {
        self.mount.path(name)
    }
}

fn make_old(path: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let file = File::options().write(true).open(path).expect("there");
    file.set_modified(long_ago).expect("set");
}

/// The pattern to which all these bytes belong.
fn number_of(bytes: &[u8], offset: u64) -> Option<u64> {
    (1..=3).find(|number| pattern::verify(*number, offset, bytes).is_ok())
}

#[test]
fn open_file_is_unchanged_after_unlink_or_replace() {
    let Some(case) = Case::new("a mount: a file is replaced") else {
        return;
    };
    let first = File::open(case.seen("file")).expect("there");
    let number = first.metadata().expect("asked").ino();
    pattern::write_file(&case.tree("new"), 2, SIZE).expect("written");
    make_old(&case.tree("new"));
    fs::rename(case.tree("new"), case.tree("file")).expect("moved");
    let numbers = || {
        fs::metadata(case.seen("file"))
            .map(|found| found.ino())
            .ok()
    };
    eventually("the new file", numbers, |now| *now != Some(number));
    let second = File::open(case.seen("file")).expect("there");
    fs::remove_file(case.tree("file")).expect("removed");
    let look = || fs::metadata(case.seen("file")).map_err(|error| error.kind());
    let is_gone = |found: &Result<_, _>| matches!(found, Err(std::io::ErrorKind::NotFound));
    let found = eventually("nothing", look, is_gone);
    assert!(found.is_err());
    for (file, number) in [(&first, 1), (&second, 2)] {
        let mut bytes = vec![0; 2_000_000];
        file.read_exact_at(&mut bytes, 1_000_001).expect("read");
        assert_eq!(number_of(&bytes, 1_000_001), Some(number));
        let found = file.metadata().expect("asked");
        assert_eq!((found.len(), found.nlink()), (SIZE, 0));
    }
}

#[test]
fn mapping_beyond_new_end_gives_sigbus_as_in_the_tree() {
    let test = "a mount: a mapped file shrinks";
    if !have_or_skip(test, "python3") {
        return;
    }
    let Some(case) = Case::new(test) else {
        return;
    };
    let script = "
import mmap, os, sys, time
file = open(sys.argv[1], 'rb')
view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(view[2_500_000], flush=True)
os.truncate(sys.argv[2], 1000)
while os.stat(sys.argv[1]).st_size != 1000:
    time.sleep(0.01)
time.sleep(0.2)
print(view[0], view[2_500_000])
";
    let ended = |seen: PathBuf| {
        pattern::write_file(&case.tree("file"), 1, SIZE).expect("written");
        let size = || fs::metadata(&seen).map(|found| found.len()).ok();
        eventually("the file", size, |size| *size == Some(SIZE));
        let mut command = Command::new("python3");
        command
            .args(["-c", script])
            .arg(&seen)
            .arg(case.tree("file"));
        command.output().expect("started").status
    };
    let plain = ended(case.tree("file"));
    assert_eq!(ended(case.seen("file")), plain);
    assert_eq!(fs::read(case.seen("file")).expect("read").len(), 1000);
}

#[test]
fn writes_are_refused_with_erofs() {
    let Some(case) = Case::new("a mount: writes") else {
        return;
    };
    let seen = |name: &str| case.seen(name);
    let file = seen("file");
    let errno = |result: std::io::Result<()>| {
        let error = result.expect_err("refused");
        Errno::from_io_error(&error)
    };
    let options = || {
        let mut options = File::options();
        options.write(true);
        options
    };
    let tries: Vec<(&str, std::io::Result<()>)> = vec![
        ("open for writing", options().open(&file).map(drop)),
        (
            "open to append",
            File::options().append(true).open(&file).map(drop),
        ),
        ("truncate", options().truncate(true).open(&file).map(drop)),
        ("create", File::create(seen("new")).map(drop)),
        ("mkdir", fs::create_dir(seen("new"))),
        ("unlink", fs::remove_file(&file)),
        ("rename", fs::rename(&file, seen("new"))),
        ("link", fs::hard_link(&file, seen("new"))),
        ("symlink", symlink("file", seen("new"))),
        (
            "chmod",
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)),
        ),
        ("chown", std::os::unix::fs::chown(&file, Some(1), None)),
        (
            "utimens",
            File::open(&file).and_then(|file| file.set_modified(SystemTime::now())),
        ),
        (
            "setxattr",
            setxattr(&file, "user.a", b"1", XattrFlags::empty()).map_err(Into::into),
        ),
    ];
    for (what, result) in tries {
        assert_eq!(errno(result), Some(Errno::ROFS), "{what}");
    }
    assert_eq!(fs::read_dir(case.tree("")).expect("listed").count(), 1);
}

/// An access control list in the kernel's format (`acl_ea_header`): one user may read, others not.
fn acl(user: u32) -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, u32::MAX),
        (0x02, 4, user),
        (0x04, 0, u32::MAX),
        (0x10, 4, u32::MAX),
        (0x20, 0, u32::MAX),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn permissions_attributes_and_acls_hold_on_the_mount() {
    let test = "a mount: rights";
    if !have_or_skip(test, "setpriv") {
        return;
    }
    let Some(case) = Case::new(test) else {
        return;
    };
    for folder in [case.scratch.path().to_owned(), case.tree("")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("set");
    }
    setxattr(case.tree("file"), "user.note", b"seen", XattrFlags::empty()).expect("set");
    fs::write(case.tree("mine"), "x").expect("written");
    fs::set_permissions(case.tree("mine"), fs::Permissions::from_mode(0o600)).expect("set");
    fs::write(case.tree("shared"), "x").expect("written");
    let name = "system.posix_acl_access";
    setxattr(case.tree("shared"), name, &acl(4711), XattrFlags::empty()).expect("set");

    let value = |path: PathBuf, name: &str| {
        let mut value = vec![0; 1000];
        getxattr(path, name, &mut value[..]).map(|length| value[..length].to_vec())
    };
    assert_eq!(
        value(case.seen("file"), "user.note").expect("there"),
        b"seen"
    );
    assert_eq!(value(case.seen("file"), "user.none"), Err(Errno::NODATA));
    assert_eq!(
        value(case.seen("shared"), name),
        value(case.tree("shared"), name)
    );
    for (user, name, may) in [
        (4711, "file", true),
        (4711, "mine", false),
        (4711, "shared", true),
        (4712, "shared", false),
        (0, "mine", true),
    ] {
        assert_eq!(
            may_read(user, &case.tree(name)),
            may,
            "{user} {name} in the tree"
        );
        assert_eq!(may_read(user, &case.seen(name)), may, "{user} {name}");
    }
}

fn may_read(user: u32, path: &Path) -> bool {
    let user = user.to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups", "cat"]);
    let output = command.arg(path).output().expect("started");
    output.status.success()
}

#[test]
fn permissions_hold_without_acl_support() {
    let test = "a mount: rights without lists";
    if !have_or_skip(test, "setpriv") || !Mount::available_or_skip(test) {
        return;
    }
    let Some(memory) = LoopFs::new_or_skip(test, "ramfs", &[]) else {
        return;
    };
    let scratch = Scratch::new("mount-changes").expect("a folder");
    let around = memory.root().parent().expect("a folder");
    for folder in [scratch.path(), around, memory.root()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("set");
    }
    let tree = |name: &str| memory.root().join(name);
    for (name, mode) in [("all", 0o644), ("group", 0o640), ("mine", 0o600)] {
        fs::write(tree(name), "x").expect("written");
        fs::set_permissions(tree(name), fs::Permissions::from_mode(mode)).expect("set");
        std::os::unix::fs::chown(tree(name), None, Some(4711)).expect("set");
    }
    let mount = Mount::start(memory.root(), &scratch.path().join("point"));
    for (user, name, may) in [
        (4711, "all", true),
        (4711, "group", true),
        (4711, "mine", false),
        (4712, "all", true),
        (4712, "group", false),
        (0, "mine", true),
    ] {
        let in_tree = may_read(user, &tree(name));
        assert_eq!(in_tree, may, "{user} {name} in the tree");
        assert_eq!(may_read(user, &mount.path(name)), may, "{user} {name}");
    }
}

#[test]
fn moved_folder_is_not_confused_with_its_replacement() {
    let Some(case) = Case::new("a mount: a folder is moved") else {
        return;
    };
    let make = |text: &str| {
        fs::create_dir(case.tree("folder")).expect("made");
        fs::write(case.tree("folder/name"), text).expect("written");
    };
    make("first");
    let folder = File::open(case.seen("folder")).expect("there");
    fs::rename(case.tree("folder"), case.tree("moved")).expect("moved");
    make("second");
    let read = || {
        let file = openat(&folder, "name", OFlags::RDONLY, Mode::empty())?;
        std::io::read_to_string(File::from(file))
    };
    let error = read().expect_err("the folder's path is unknown");
    assert_eq!(Errno::from_io_error(&error), Some(Errno::STALE));
    assert!(case.seen("moved").is_dir());
    assert_eq!(read().expect("the folder is found again"), "first");
    let other = || fs::read_to_string(case.seen("folder/name")).ok();
    eventually("the other folder", other, |text| {
        text.as_deref() == Some("second")
    });
}
