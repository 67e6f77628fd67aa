//! The same on a mount: programs read bytes of a version that existed, as `mount.md` promises.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use headlong_e2e_tests::Mount;
use headlong_e2e_tests::history::{BELIEVED, History, Run, SIZE_MAX, Seen, Window, histories, run};
use headlong_e2e_tests::loop_fs::LoopFs;
use headlong_testkit::Seed;
use rustix::io::Errno;

const PAGE: usize = 4096;

/// Reads from a mount as programs do, until the run is over.
fn read_mount(
    mount: &Mount,
    histories: &[History],
    mut seed: Seed,
    of: &Run,
) -> Result<Seen, String> {
    let mut seen = Seen::default();
    let mut kept = BTreeMap::new();
    while !of.is_over() {
        let number = seed.below(histories.len() as u64) as usize;
        let history = &histories[number];
        let name = history.path().file_name().expect("a name");
        let name = name.to_string_lossy();
        let began = Instant::now();
        let offset = seed.below(SIZE_MAX);
        let mut bytes = vec![0; 1 + seed.below(150_000) as usize];
        // An open file stays the same until another file replaces it.
        let same = kept.remove(&number).filter(|(_, of)| *of == history.file());
        let (before, opened) = match same {
            Some((file, of)) => (of, Ok(file)),
            None => (history.file(), File::open(mount.path(&name))),
        };
        // One call: of two, the first may end within a page.
        let read = opened.and_then(|file| {
            let length = file.read_at(&mut bytes, offset)?;
            if before == history.file() && seed.below(8) > 0 {
                kept.insert(number, (file, before));
            }
            Ok(length)
        });
        let states = history.all();
        let window = Window::new(&states, began - BELIEVED, Instant::now());
        let what = judge_read(read.map(|length| &bytes[..length]), offset, &window);
        let span = offset..offset + bytes.len() as u64;
        let what = what.map_err(|wrong| format!("{name} {span:?}: {wrong}"))?;
        seen.note(what);
        if what == "whole" {
            of.met_settled();
        }
    }
    Ok(seen)
}

fn judge_read(
    read: io::Result<&[u8]>,
    offset: u64,
    window: &Window<'_>,
) -> Result<&'static str, String> {
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT) if window.was_absent() => Ok("none"),
                Some(Errno::STALE) if window.has_change() => Ok("stale"),
                _ => Err(error.to_string()),
            };
        }
    };
    // The kernel requests and caches pages: each page belongs to one version.
    let first = PAGE - offset as usize % PAGE;
    let mut at = 0;
    while at < bytes.len() {
        let end = match at {
            0 => first.min(bytes.len()),
            _ => (at + PAGE).min(bytes.len()),
        };
        if !window.has_piece(offset + at as u64, &bytes[at..end]) {
            let (at, page) = (offset + at as u64, &bytes[at..end]);
            let diagnosis = window.diagnosis(at, page);
            let zeros = page.iter().filter(|byte| **byte == 0).count();
            return Err(format!(
                "a page of no version at {at}, {zeros} zeros: {diagnosis}"
            ));
        }
        at = end;
    }
    match window.has_change_in_place() {
        true => Ok("pages"),
        // The file was not written in place: all bytes belong to one version.
        false if window.has_piece(offset, bytes) => Ok("whole"),
        false => Err("pages of two versions".to_owned()),
    }
}

fn on_a_mount(test: &str, options: &[&str], is_in_place: bool, settings: &str) {
    if !Mount::available_or_skip(test) {
        return;
    }
    let Some(fs) = LoopFs::new_or_skip(test, "ext4", options) else {
        return;
    };
    let tree = fs.root().join("tree");
    fs::create_dir(&tree).expect("made");
    let histories = histories(&tree, is_in_place);
    let config = fs.root().join("mount.toml");
    let settings = format!("revalidate = \"50ms\"\nmemory = \"16MiB\"\n{settings}");
    fs::write(&config, settings).expect("written");
    let config = config.to_string_lossy();
    let point = fs.root().with_file_name("point");
    let mount = Mount::start_with(&tree, &point, &["--config", &config]);
    let seen = run(test, &histories, |seed, of| {
        read_mount(&mount, &histories, seed, of)
    });
    eprintln!("{test}: {seen:?}");
    assert!(seen.of("whole") > 0, "{seen:?}");
    drop(mount);
}

#[test]
fn mount_read_is_of_an_existing_version() {
    on_a_mount("history: a mount", &["-q"], true, "");
}

#[test]
fn direct_mount_read_is_of_an_existing_version() {
    on_a_mount(
        "history: a mount, past the page cache",
        &["-q"],
        true,
        "page_cache_max = \"1MiB\"\n",
    );
}

/// Short inodes have neither fractions of seconds nor a creation time, and their numbers are
/// reused. Changes in place within one tick cannot be detected there, as `mount.md` says.
#[test]
fn mount_read_is_of_its_file_with_reused_inodes() {
    on_a_mount(
        "history: a mount, short inodes",
        &["-q", "-I", "128"],
        false,
        "",
    );
}
