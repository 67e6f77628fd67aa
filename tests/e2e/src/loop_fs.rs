//! Separate file systems: on a loop device over a file, or in memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use headlong_testkit::Scratch;
use rustix::mount::{UnmountFlags, unmount};

use crate::have_or_skip;

/// A mounted file system; unmounted when dropped, and by its cleanup process if the test is killed.
#[derive(Debug)]
pub struct LoopFs {
    root: PathBuf,
    _scratch: Scratch,
}

impl LoopFs {
    /// Makes one with `mkfs.KIND` and these options, or mounts a `tmpfs` or `ramfs`. Where that is
    /// not possible, returns `None` and records the test as skipped.
    ///
    /// # Panics
    /// If an installed program fails.
    pub fn new_or_skip(test: &str, kind: &str, options: &[&str]) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            headlong_testkit::skip(test, "needs root");
            return None;
        }
        let program = format!("mkfs.{kind}");
        let in_memory = ["tmpfs", "ramfs"].contains(&kind);
        if !in_memory && !have_or_skip(test, &program) {
            return None;
        }
        if !in_memory && !Path::new("/dev/loop-control").exists() {
            headlong_testkit::skip(test, "no loop devices");
            return None;
        }
        let scratch = Scratch::new("file-system").expect("a folder");
        let root = scratch.directory("root").expect("a folder");
        let mut mount = Command::new("mount");
        if in_memory {
            mount.args(["-t", kind, "-o", "size=64m", "headlong-test"]);
        } else {
            let image = scratch.path().join("image");
            let file = File::create(&image).expect("made");
            // XFS refuses a smaller device.
            file.set_len(320 << 20).expect("a sparse file");
            run(Command::new(program).args(options).arg(&image));
            mount.args(["-o", "loop"]).arg(image);
        }
        run(mount.arg(&root));
        Some(Self {
            root,
            _scratch: scratch,
        })
    }

    /// Mount point.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

fn run(command: &mut Command) {
    // Not every user has the folders of daemons and file system tools in `PATH`.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let output = command.output().expect("started");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.root.join("tree"));
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}
