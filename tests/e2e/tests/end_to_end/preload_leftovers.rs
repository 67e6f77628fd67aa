//! A killed program or reception leaves nothing behind: no waiting process, no open descriptor, no
//! locked memory, and the next reception can use the socket.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headlong_e2e_tests::eventually;
use headlong_e2e_tests::preload::{Reception, cool, under};
use headlong_testkit::{Scratch, pattern};
use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, kill_process};

const SIZE: u64 = 20_000_000;

/// Reads the file slowly and repeatedly.
const READER: &str = "
import os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
print('reads', flush=True)
while True:
    for at in range(0, os.fstat(file).st_size, 400_000):
        os.pread(file, 65_536, at)
        time.sleep(0.002)
";

struct Case {
    scratch: Scratch,
}

impl Case {
    fn new() -> Self {
        let scratch = Scratch::new("preload-leftovers").expect("a folder");
        let file = scratch.path().join("file");
        pattern::write_file(&file, 5, SIZE).expect("written");
        // Files without a read for a second are closed.
        let config = "keep_open = \"1s\"\nmemory = \"64MiB\"\n";
        std::fs::write(scratch.path().join("reception.toml"), config).expect("written");
        Self { scratch }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path().join(name)
    }

    fn reception(&self) -> Reception {
        let config = self.path("reception.toml");
        let config = config.to_str().expect("UTF-8");
        let reception = Reception::start_with(&self.path("socket"), &["--config", config]);
        self.cool();
        reception
    }

    fn cool(&self) {
        cool(&self.path("file"));
    }

    /// A program that uses the reception; none of its file is in memory at the start.
    fn reader(&self) -> Reader {
        // The reception holds the bytes read until it closes the file.
        eventually("cold", || self.kept_pages(), |pages| *pages == 0);
        let words = under(&self.path("socket"));
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .args(["python3", "-c", READER])
            .arg(self.path("file"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        Reader(child.expect("started"))
    }

    /// Pages of the file that the kernel keeps when told to drop its cache.
    fn kept_pages(&self) -> u64 {
        let file = File::open(self.path("file")).expect("there");
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        let mut command = Command::new("fincore");
        command
            .args(["-n", "-b", "-o", "PAGES"])
            .arg(self.path("file"));
        let output = command.output().expect("started").stdout;
        String::from_utf8_lossy(&output)
            .trim()
            .parse()
            .expect("a number")
    }
}

/// Killed when dropped.
struct Reader(Child);

impl Reader {
    /// Waits until it has started.
    fn reads(&mut self) {
        let mut word = [0; 6];
        let stdout = self.0.stdout.as_mut().expect("a pipe");
        stdout.read_exact(&mut word).expect("the reader starts");
    }

    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Targets of the descriptors of a process, without those that it created itself.
fn descriptors(id: u32) -> Vec<String> {
    let folder = std::fs::read_dir(format!("/proc/{id}/fd"));
    let links = folder.into_iter().flatten().flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let mut links: Vec<String> = links.map(|link| link.display().to_string()).collect();
    links.sort();
    links
}

fn locked_bytes(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn has_ended(id: u32) -> bool {
    !Path::new(&format!("/proc/{id}")).exists()
}

#[test]
fn killed_program_leaves_nothing_in_the_reception() {
    let case = Case::new();
    let reception = case.reception();
    let id = reception.id();
    // The connection that asked whether it listens may still be open.
    let before = descriptors(id).len();
    // At a random point of its calls.
    for round in 0..8 {
        let mut reader = case.reader();
        let asked = reception.calls("asked");
        eventually(
            "a request from the reader",
            || reception.calls("asked"),
            |now| *now > asked,
        );
        std::thread::sleep(Duration::from_micros(700 * round));
        reader.kill();
    }
    eventually("descriptors", || descriptors(id), |now| now.len() <= before);
    eventually("locked memory", || locked_bytes(id), |locked| *locked == 0);
    let waiting = || reception.status()["programs_waiting"].as_u64();
    eventually("waiting programs", waiting, |count| *count == Some(0));
    eventually("locked pages", || case.kept_pages(), |pages| *pages == 0);
}

#[test]
fn killed_reception_leaves_nothing_and_can_be_replaced() {
    let case = Case::new();
    let mut reader = case.reader();
    let id = reader.0.id();
    // Without a reception, the program reads by itself.
    reader.reads();
    let plain = descriptors(id).len();
    for _ in 0..3 {
        let reception = case.reception();
        let helper = reception.id();
        let cool = || {
            case.cool();
            reception.calls("ready")
        };
        eventually("a ready answer", cool, |ready| *ready > 0);
        reception.kill();
        assert!(has_ended(helper));
        eventually("descriptors", || descriptors(id), |now| now.len() <= plain);
        assert!(
            matches!(reader.0.try_wait(), Ok(None)),
            "the program goes on"
        );
        assert!(
            case.path("socket").exists(),
            "a killed process cannot remove its socket"
        );
    }
    reader.kill();
    eventually("locked pages", || case.kept_pages(), |pages| *pages == 0);
    // A reception that is asked to end removes its socket.
    let reception = case.reception();
    let pid = i32::try_from(reception.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("an id"), Signal::TERM).expect("sent");
    let socket = case.path("socket");
    eventually("the socket", || socket.exists(), |is_there| !*is_there);
}

#[test]
fn killing_both_at_once_leaves_no_locked_page() {
    let case = Case::new();
    for _ in 0..4 {
        let reception = case.reception();
        let mut reader = case.reader();
        let id = reception.id();
        let begun = Instant::now();
        // Pages locked at the time of the check may be read and unlocked before they are counted.
        let mut seen = (0, 0);
        while (seen.0 == 0 || seen.1 == 0) && begun.elapsed() < Duration::from_secs(30) {
            case.cool();
            seen = (locked_bytes(id), case.kept_pages());
        }
        assert!(seen.0 > 0, "nothing was locked");
        assert!(seen.1 > 0, "what is locked stays");
        reader.kill();
        reception.kill();
        eventually("locked pages", || case.kept_pages(), |pages| *pages == 0);
    }
}
