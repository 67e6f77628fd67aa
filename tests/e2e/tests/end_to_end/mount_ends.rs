//! However a mount ends, it is unmounted and its readers do not block; and a mount that fails
//! reports the reason.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headlong_e2e_tests::{Library, Mount, eventually, have_or_skip};
use headlong_testkit::leftovers::mounts_below;
use headlong_testkit::{ProgramRun, Scratch, pattern};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

/// Reads the file repeatedly, until a read fails.
const READER: &str = "
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print('reads', flush=True)
at = 0
while True:
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    at = (at + 700_001) % 19_000_000
    os.pread(file, 300_000, at)
";

struct Readers(Vec<Child>);

impl Readers {
    fn start(path: &Path) -> Self {
        let start = |_| {
            let mut command = Command::new("python3");
            command.args(["-c", READER]).arg(path);
            command.stdin(Stdio::null()).stderr(Stdio::null());
            let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
            let mut word = [0; 6];
            let stdout = child.stdout.as_mut().expect("a pipe");
            stdout.read_exact(&mut word).expect("the reader starts");
            child
        };
        Self((0..4).map(start).collect())
    }

    /// Waits until all readers have ended, each with a read error.
    fn have_failed(&mut self) {
        for child in &mut self.0 {
            let ended = || child.try_wait().ok().flatten();
            let ended = eventually("the end of a reader", ended, Option::is_some);
            assert_eq!(ended.expect("ended").code(), Some(1));
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Processes whose command line has all these words.
fn processes(words: &[&str]) -> Vec<String> {
    let lines = fs::read_dir("/proc")
        .expect("there")
        .flatten()
        .filter_map(|entry| {
            let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
            let line = line.replace('\0', " ");
            words.iter().all(|word| line.contains(word)).then_some(line)
        });
    lines.collect()
}

fn available_or_skip(test: &str) -> bool {
    have_or_skip(test, "python3") && Mount::available_or_skip(test)
}

#[test]
fn ended_or_killed_mount_is_unmounted_and_reads_fail() {
    if !available_or_skip("a mount ends") {
        return;
    }
    let library = Library::new(1, 20_000_000).expect("titles");
    let scratch = Scratch::new("mount-ends").expect("a folder");
    let point = scratch.path().join("point");
    for signal in [Signal::TERM, Signal::INT, Signal::KILL] {
        let mut mount = Mount::start(library.root(), &point);
        let mut readers = Readers::start(&mount.path("title-0.bin"));
        mount.signal(signal);
        let ended = mount.wait();
        assert_eq!(
            ended.success(),
            signal != Signal::KILL,
            "{signal:?}: {ended:?}"
        );
        readers.have_failed();
        mount.is_gone();
        let words = ["mount-keeper", point.to_str().expect("a text")];
        eventually(
            "the end of the cleanup process",
            || processes(&words),
            Vec::is_empty,
        );
        assert_eq!(fs::read_dir(&point).expect("a plain folder").count(), 0);
    }
}

#[test]
fn mount_ends_when_unmounted() {
    if !Mount::available_or_skip("a mount is unmounted") {
        return;
    }
    let library = Library::new(1, 1_000_000).expect("titles");
    let scratch = Scratch::new("mount-ends").expect("a folder");
    let mut mount = Mount::start(library.root(), &scratch.path().join("point"));
    assert_eq!(
        fs::read(mount.path("title-0.bin")).expect("read").len(),
        1_000_000
    );
    unmount(mount.point(), UnmountFlags::empty()).expect("the mount is unused");
    assert!(mount.wait().success());
    mount.is_gone();
}

#[test]
fn next_mount_removes_a_dead_mount() {
    if !Mount::available_or_skip("a dead mount") {
        return;
    }
    let library = Library::new(1, 1_000_000).expect("titles");
    let scratch = Scratch::new("mount-ends").expect("a folder");
    let point = scratch.path().join("point");
    let words = ["mount-keeper", point.to_str().expect("a text")];
    let first = Mount::start(library.root(), &point);
    // The cleanup process first, so that it does not unmount the dead mount.
    let keepers = ProgramRun::of(Command::new("pgrep").args(["-f", &words.join(" ")]));
    let ids = keepers
        .stdout
        .lines()
        .map(|id| id.parse().expect("a number"));
    for id in ids {
        let id = rustix::process::Pid::from_raw(id).expect("an id");
        rustix::process::kill_process(id, Signal::KILL).expect("sent");
    }
    first.signal(Signal::KILL);
    let looked = || {
        fs::metadata(&point)
            .map(drop)
            .map_err(|error| error.raw_os_error())
    };
    let not_connected = Some(rustix::io::Errno::NOTCONN.raw_os_error());
    let found = eventually("a dead mount", looked, |now| *now == Err(not_connected));
    assert!(found.is_err());
    let second = Mount::start(library.root(), &point);
    assert_eq!(
        fs::read(second.path("title-0.bin")).expect("read").len(),
        1_000_000
    );
    assert_eq!(mounts_below(&point).len(), 1);
}

/// A service manager restarts the daemon before the kernel and the cleanup process have noticed its
/// end.
#[test]
fn mount_restarted_at_once_replaces_the_killed_one() {
    if !Mount::available_or_skip("a mount that is started again") {
        return;
    }
    let library = Library::new(1, 1_000_000).expect("titles");
    let scratch = Scratch::new("mount-again").expect("a folder");
    let (point, link) = (scratch.path().join("point"), scratch.path().join("link"));
    std::os::unix::fs::symlink("point", &link).expect("made");
    let config = scratch.path().join("mount.toml");
    // The kernel caches these attributes for longer than the test runs.
    fs::write(&config, "revalidate = \"1h\"\nmemory = \"16MiB\"\n").expect("written");
    let arguments = ["--config", config.to_str().expect("UTF-8")];
    let mut mount = Mount::start_with(library.root(), &point, &arguments);
    for number in 0..6 {
        let open = File::open(point.join("title-0.bin")).expect("there");
        open.read_exact_at(&mut [0; 1000], 0).expect("read");
        mount.signal(Signal::KILL);
        let named = [&point, &link][number % 2];
        let before = std::mem::replace(
            &mut mount,
            Mount::start_with(library.root(), named, &arguments),
        );
        let read = fs::read(point.join("title-0.bin")).expect("read");
        assert_eq!(read.len(), 1_000_000);
        // Dropping it waits until the folder is unmounted.
        before.forget();
    }
    // Processes of earlier mounts do not unmount it.
    let keepers = || processes(&["mount-keeper", point.to_str().expect("UTF-8")]);
    eventually("a single cleanup process", keepers, |keepers| {
        keepers.len() == 1
    });
    assert_eq!(mounts_below(&point).len(), 1);
    mount.signal(Signal::KILL);
    mount.is_gone();
}

#[test]
fn two_thousand_open_files_give_their_own_bytes() {
    if !Mount::available_or_skip("many files on a mount") {
        return;
    }
    let scratch = Scratch::new("mount-many").expect("a folder");
    let tree = scratch.directory("tree").expect("a folder");
    // Every hundredth file is one that the engine reads.
    let size = |number: u64| {
        number
            + if number.is_multiple_of(100) {
                270_000
            } else {
                5_000
            }
    };
    for number in 0..2000u64 {
        pattern::write_file(&tree.join(number.to_string()), number, size(number)).expect("written");
    }
    let old = Command::new("find")
        .arg(&tree)
        .args(["-exec", "touch", "-d", "2020-01-01", "{}", "+"])
        .status();
    assert!(old.expect("started").success());
    raise_limit();
    let mount = Mount::start(&tree, &scratch.path().join("point"));
    let open = |number: u64| File::open(mount.path(&number.to_string())).expect("opened");
    let files: Vec<File> = (0..2000).map(open).collect();
    assert_eq!(mount.status()["files_open"], 2000);
    for round in 0..2 {
        for (index, file) in files.iter().enumerate().rev() {
            let number = index as u64;
            let mut bytes = vec![0; size(number) as usize];
            file.read_exact_at(&mut bytes, 0).expect("read");
            pattern::verify(number, 0, &bytes).expect("correct bytes");
        }
        assert!(
            mount.counter("requests") >= 20,
            "round {round}: {}",
            mount.log()
        );
    }
    drop(files);
    let open = || mount.status()["files_open"].as_u64();
    eventually("closed files", open, |open| *open == Some(0));
}

/// Raises the descriptor limit of this process and its children to the maximum.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("set");
}
