//! Chunk files of one title are read as one, on a mount.

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

/// A file that was not written a moment ago, for those are read as they are asked for.
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
fn the_next_chunks_are_read_before_a_program_asks_for_them_and_only_as_they_are() {
    if !Mount::available_or_skip("chunks on a mount") {
        return;
    }
    let title = Title::new();
    let mount = title.mount(true);
    // That they are chunks is told by their being read one after the other.
    for number in 1..=4 {
        assert!(bytes(&mount.path(&name(number))) == bytes(&title.chunk(number)));
    }
    let read = || mount.counter("bytes_read");
    eventually("the sixth", read, |read| *read > 6 * CHUNK_BYTES);
    let asked = mount.counter("bytes_from_disk");
    assert!(bytes(&mount.path(&name(5))) == bytes(&title.chunk(5)));
    assert_eq!(mount.counter("bytes_from_disk"), asked, "it was in memory");
    // Another file takes the place of one that was read ahead, and one goes.
    let new = title.scratch.path().join("new");
    write(&new, 99, CHUNK_BYTES - 100_000);
    fs::rename(&new, title.chunk(6)).expect("moved");
    fs::remove_file(title.chunk(9)).expect("removed");
    for number in (1..=CHUNKS).filter(|number| *number != 9) {
        let path = mount.path(&name(number));
        // A name may mean what it did for a moment.
        let found = || bytes(&path);
        eventually("it as it is", found, |found| {
            *found == bytes(&title.chunk(number))
        });
    }
    assert!(fs::read(mount.path(&name(9))).is_err());
    assert!(mount.status()["titles_in_chunks"].as_u64() >= Some(1));
}

#[test]
fn films_that_are_numbered_are_read_by_themselves() {
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
fn nothing_of_the_next_chunk_is_read_where_that_is_turned_off() {
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
