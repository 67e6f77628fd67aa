//! A killed test process leaves no resources behind, after a short time.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headlong_testkit::slow_disk::{DriveModel, SlowDisk};
use headlong_testkit::{BlockDevice, Scratch, leftovers, scratch};
use rustix::process::{Pid, Signal, kill_process};

const MIB: u64 = 1 << 20;
const COMPRESSION: f64 = 20.0;
/// Variable with the file in which a child process reports its resources; set for children only.
const TOLD: &str = "HEADLONG_TESTKIT_TOLD";
/// Set for a child that must be killed while it waits for its own disk.
const STUCK: &str = "HEADLONG_TESTKIT_STUCK";

fn device() -> BlockDevice {
    BlockDevice::new(32 * MIB, DriveModel::WD_RED, COMPRESSION).expect("a device")
}

fn eventually(what: &str, is_it: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_it() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Not a test by itself: the program of the child processes of the other tests.
#[test]
fn child_that_is_killed() {
    let Some(told) = std::env::var_os(TOLD) else {
        return;
    };
    let device = device();
    let folder = Scratch::new("program").expect("a folder");
    let mut program = folder.command("sleep").arg("600").spawn().expect("a sleep");
    let root = device.root().to_owned();
    fs::write(root.join("file"), vec![1; MIB as usize]).expect("write");
    let text = [
        &device.disk().directory().to_string_lossy(),
        &folder.path().to_string_lossy(),
        device.device_name().as_str(),
        &program.id().to_string(),
        "end",
    ]
    .join("\n");
    if std::env::var_os(STUCK).is_some() {
        device.disk().hang(None);
        // Uninterruptible, waiting for this very process.
        std::thread::spawn(move || rustix::fs::syncfs(File::open(root).expect("the root")));
    }
    fs::write(told, text).expect("tell the parent");
    program.wait().expect("wait");
    std::thread::sleep(Duration::from_secs(600));
}

/// A child process and its resources outside of the process.
struct Made {
    child: Child,
    disk: PathBuf,
    folder: PathBuf,
    device: String,
    program: String,
    /// The temporary directory that contains all of them.
    below: PathBuf,
}

impl Made {
    fn new(ours: &Scratch, below: &Path, environment: &[(&str, &str)]) -> Self {
        let told = ours.path().join("told");
        // A process started in the background of a shell ignores SIGINT, and so would its children.
        let child = Command::new("env")
            .arg("--default-signal=INT")
            .arg(std::env::current_exe().expect("the path of the test"))
            .args(["--exact", "guardian::child_that_is_killed"])
            .env(TOLD, &told)
            .env("TMPDIR", below)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a child");
        eventually("the child made a device", || {
            fs::read_to_string(&told).is_ok_and(|text| text.ends_with("end"))
        });
        let text = fs::read_to_string(&told).expect("read above");
        fs::remove_file(&told).expect("delete");
        let lines: Vec<&str> = text.lines().collect();
        let [disk, folder, device, program, _] = lines[..] else {
            panic!("five lines: {text}");
        };
        let made = Self {
            child,
            disk: disk.into(),
            folder: folder.into(),
            device: device.to_owned(),
            program: program.to_owned(),
            below: below.canonicalize().expect("an existing folder"),
        };
        // Otherwise their absence below would prove nothing.
        assert_eq!(leftovers::mounts_below(&made.disk).len(), 2);
        assert_eq!(leftovers::loop_devices_below(&made.disk).len(), 1);
        assert!(made.folder.exists() && runs(&made.program) && made.guardians().len() == 2);
        made
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Processes other than the child with one of its directories on the command line.
    fn guardians(&self) -> Vec<String> {
        let names = |pid: &OsString| {
            let path = Path::new("/proc").join(pid).join("cmdline");
            let line = fs::read(path).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.any(|word| {
                let word = Path::new(std::str::from_utf8(word).unwrap_or_default());
                word == self.disk || word == self.folder
            })
        };
        fs::read_dir("/proc")
            .expect("/proc")
            .flatten()
            .map(|entry| entry.file_name())
            .filter(names)
            .map(|pid| pid.to_string_lossy().into_owned())
            .collect()
    }

    /// Waits until all resources are released.
    fn check_gone(mut self) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.child.try_wait().expect("the child's status").is_none() {
            assert!(Instant::now() < end, "the child cannot end");
            std::thread::sleep(Duration::from_millis(10));
        }
        eventually("its program has ended", || !runs(&self.program));
        eventually("its mounts are removed", || {
            leftovers::mounts_below(&self.below).is_empty()
        });
        // The path of the file is meaningless once its file system is unmounted.
        let file = format!("/sys/block/{}/loop/backing_file", self.device);
        eventually("its loop device is free", || {
            fs::read_to_string(&file).map_or(true, |text| {
                text.trim() != "/disk" && !Path::new(text.trim()).starts_with(&self.below)
            })
        });
        eventually("its directories are removed", || {
            !self.disk.exists() && !self.folder.exists()
        });
        eventually("its guardians have ended", || self.guardians().is_empty());
    }
}

fn runs(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").starts_with(" Z"))
}

#[test]
fn process_killed_while_waiting_for_own_disk_ends() {
    if !SlowDisk::available_or_skip("process_killed_while_waiting_for_own_disk_ends") {
        return;
    }
    let ours = Scratch::new("parent").expect("a folder");
    let below = ours.directory("below").expect("a folder");
    let made = Made::new(&ours, &below, &[(STUCK, "1")]);
    let tasks = format!("/proc/{}/task", made.child.id());
    let is_stuck = |task: io::Result<fs::DirEntry>| {
        let stat = fs::read_to_string(task?.path().join("stat"))?;
        io::Result::Ok(stat.rsplit(')').next().unwrap_or("").starts_with(" D"))
    };
    eventually("a thread waits in the kernel", || {
        let mut tasks = fs::read_dir(&tasks).expect("tasks");
        tasks.any(|task| is_stuck(task).unwrap_or(false))
    });
    kill_process(made.pid(), Signal::KILL).expect("kill");
    made.check_gone();
}

#[test]
fn next_run_sweeps_leftovers_of_killed_guardian() {
    if !SlowDisk::available_or_skip("next_run_sweeps_leftovers_of_killed_guardian") {
        return;
    }
    let ours = Scratch::new("parent").expect("a folder");
    // The folder that the sweep inspects.
    let below = std::env::temp_dir();
    let mut made = Made::new(&ours, &below, &[]);
    for guardian in made.guardians() {
        let pid = Pid::from_raw(guardian.parse().expect("a number"));
        kill_process(pid.expect("not zero"), Signal::KILL).expect("kill");
    }
    eventually("the guardians are dead", || made.guardians().is_empty());
    made.child.kill().expect("kill");
    // Not reaped: a zombie counts as dead as well.
    let pid = made.child.id().to_string();
    eventually("the child is dead", || !runs(&pid));
    scratch::sweep();
    made.below.clone_from(&made.disk);
    made.check_gone();
}
