//! Chunk files of one title are read as one stream, on a mount.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use headlong_e2e_tests::{Mount, eventually};
use headlong_testkit::{Scratch, pattern};

const CHUNKS: u64 = 12;
const CHUNK_BYTES: u64 = 400_000;

struct Title {
    scratch: Scratch,
}

impl Title {
    fn new() -> Self {
        let scratch = Scratch::new("mount-chunks").expect("a folder");
        fs::create_dir(scratch.path().join("tree")).expect("made");
        let title = Self { scratch };
        for number in 1..=CHUNKS {
            write(&title.chunk(number), number, CHUNK_BYTES);
        }
        title
    }

    fn tree(&self) -> PathBuf {
        self.scratch.path().join("tree")
    }

    fn chunk(&self, number: u64) -> PathBuf {
        self.tree().join(name(number))
    }

    fn mount(&self, chunks_ahead: bool) -> Mount {
        let config = self.scratch.path().join("mount.toml");
        let text = format!(
            "chunk_files_ahead = {chunks_ahead}\nprefetch = \"2MiB\"\nmemory = \"64MiB\"\n\
             revalidate = \"50ms\"\n"
        );
        fs::write(&config, text).expect("written");
        let config = config.to_str().expect("UTF-8");
        let point = self.scratch.path().join("point");
        Mount::start_with(&self.tree(), &point, &["--config", config])
    }
}

fn name(number: u64) -> String {
    format!("video-{number}.m4s")
}

/// A file dated in the past: a file written a moment ago is not read ahead.
fn write(path: &Path, seed: u64, bytes: u64) {
    pattern::write_file(path, seed, bytes).expect("written");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    let file = File::options().write(true).open(path).expect("there");
    file.set_modified(long_ago).expect("set");
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).expect("there")
}

#[test]
fn reads_next_chunks_ahead_in_their_current_version() {
    if !Mount::available_or_skip("chunks on a mount") {
        return;
    }
    let title = Title::new();
    let mount = title.mount(true);
    // They are recognised as chunks after sequential reads.
    for number in 1..=4 {
        assert!(bytes(&mount.path(&name(number))) == bytes(&title.chunk(number)));
    }
    let read = || mount.counter("bytes_read");
    eventually("the sixth chunk", read, |read| *read > 6 * CHUNK_BYTES);
    let asked = mount.counter("bytes_from_disk");
    assert!(bytes(&mount.path(&name(5))) == bytes(&title.chunk(5)));
    assert_eq!(
        mount.counter("bytes_from_disk"),
        asked,
        "the chunk was in memory"
    );
    // One chunk that was read ahead is replaced, and one is removed.
    let new = title.scratch.path().join("new");
    write(&new, 99, CHUNK_BYTES - 100_000);
    fs::rename(&new, title.chunk(6)).expect("moved");
    fs::remove_file(title.chunk(9)).expect("removed");
    for number in (1..=CHUNKS).filter(|number| *number != 9) {
        let path = mount.path(&name(number));
        // The old name may be valid for a moment.
        let found = || bytes(&path);
        eventually("the current content", found, |found| {
            *found == bytes(&title.chunk(number))
        });
    }
    assert!(fs::read(mount.path(&name(9))).is_err());
    assert!(mount.status()["titles_in_chunks"].as_u64() >= Some(1));
}

#[test]
fn numbered_films_are_not_treated_as_chunks() {
    if !Mount::available_or_skip("films on a mount") {
        return;
    }
    let title = Title::new();
    let mount = title.mount(true);
    let watched = [1, 7, 3, 11, 8, 5];
    for number in watched {
        assert!(bytes(&mount.path(&name(number))) == bytes(&title.chunk(number)));
    }
    let status = mount.status();
    assert_eq!(status["titles_in_chunks"], 0, "{status}");
    let read = mount.counter("bytes_read");
    let most = (watched.len() as u64 + 1) * CHUNK_BYTES;
    assert!(read < most, "{status}");
}

#[test]
fn does_not_read_next_chunk_if_disabled() {
    if !Mount::available_or_skip("chunks on a mount") {
        return;
    }
    let title = Title::new();
    let mount = title.mount(false);
    for number in 1..=4 {
        assert!(bytes(&mount.path(&name(number))) == bytes(&title.chunk(number)));
    }
    let status = mount.status();
    assert_eq!(status["titles_in_chunks"], 0, "{status}");
    let read = mount.counter("bytes_read");
    assert!(read < 5 * CHUNK_BYTES, "{status}");
}
