//! Chunk files of one title are read as one stream, for programs with the preloaded library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headlong_e2e_tests::preload::{Reception, cool, under};
use headlong_e2e_tests::{eventually, have_or_skip};
use headlong_testkit::{Scratch, pattern};

/// More chunks than are opened before the first is read.
const CHUNKS: u64 = 60;
const CHUNK_BYTES: u64 = 400_000;
/// Prints the contents of files, one after the other.
const READER: &str = "
import os, sys
for path in sys.argv[1:]:
    file = os.open(path, os.O_RDONLY)
    size, at = os.fstat(file).st_size, 0
    while at < size:
        at += os.write(1, os.pread(file, 65_536, at))
";

struct Title {
    scratch: Scratch,
}

impl Title {
    fn new() -> Self {
        let scratch = Scratch::new("preload-chunks").expect("a folder");
        let title = Self { scratch };
        for number in 1..=CHUNKS {
            pattern::write_file(&title.chunk(number), number, CHUNK_BYTES).expect("written");
        }
        title
    }

    fn chunk(&self, number: u64) -> PathBuf {
        self.scratch.path().join(format!("video-{number}.m4s"))
    }

    fn reception(&self) -> Reception {
        let config = self.scratch.path().join("reception.toml");
        fs::write(&config, "prefetch = \"2MiB\"\n").expect("written");
        let config = config.to_str().expect("UTF-8");
        let socket = self.scratch.path().join("socket");
        let reception = Reception::start_with(&socket, &["--config", config]);
        (1..=CHUNKS).for_each(|number| cool(&self.chunk(number)));
        reception
    }

    /// The bytes that a preloaded program reads of these chunks.
    fn read(&self, numbers: impl Iterator<Item = u64>) -> Vec<u8> {
        let words = under(&self.scratch.path().join("socket"));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["python3", "-c", READER]);
        command.args(numbers.map(|number| self.chunk(number)));
        let output = command.stdin(Stdio::null()).output().expect("started");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

fn pages_in_memory(path: &Path) -> u64 {
    let mut command = Command::new("fincore");
    command.args(["-n", "-b", "-o", "PAGES"]).arg(path);
    let output = command.output().expect("started").stdout;
    let text = String::from_utf8_lossy(&output);
    text.trim().parse().expect("a number")
}

fn files_open(reception: &Reception) -> u64 {
    let status = reception.status();
    let devices = status["devices"].as_array().expect("devices");
    let open = |device: &serde_json::Value| device["files_open"].as_u64().expect("a number");
    devices.iter().map(open).sum()
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).expect("there")
}

#[test]
fn reads_next_chunks_ahead_in_their_current_version() {
    if !have_or_skip("chunks under preload", "python3") {
        return;
    }
    let title = Title::new();
    let reception = title.reception();
    // They are recognised as chunks after sequential reads.
    let read = title.read(1..=4);
    let first = (1..=4).flat_map(|number| bytes(&title.chunk(number)));
    assert!(read == first.collect::<Vec<u8>>());
    let sixth = title.chunk(6);
    eventually(
        "the sixth chunk",
        || pages_in_memory(&sixth),
        |pages| *pages > 0,
    );
    let later = title.chunk(44);
    assert!(title.read(5..=41).len() as u64 == 37 * CHUNK_BYTES);
    eventually("the 44th", || pages_in_memory(&later), |pages| *pages > 0);
    // The program's own libraries are also open by now, if they were not in memory.
    let open_before = files_open(&reception);
    // One chunk that was read ahead is replaced, and one is removed.
    let new = title.scratch.path().join("new");
    pattern::write_file(&new, 99, CHUNK_BYTES / 2).expect("written");
    fs::rename(&new, title.chunk(44)).expect("moved");
    fs::remove_file(title.chunk(49)).expect("removed");
    let numbers = || (1..=CHUNKS).filter(|number| *number != 49);
    let expected: Vec<u8> = numbers()
        .flat_map(|number| bytes(&title.chunk(number)))
        .collect();
    assert!(title.read(numbers()) == expected);
    let came = files_open(&reception).saturating_sub(open_before);
    assert!(came <= CHUNKS, "{}", reception.status());
}
