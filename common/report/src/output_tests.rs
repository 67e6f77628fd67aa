//! Output to different types of targets.

use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, symlink};

use rustix::fs::{FileType, mknodat};

use super::*;

fn names(folder: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    names
}

#[test]
fn a_device_is_written_to_and_remains_a_device() {
    let folder = tempfile::tempdir().expect("a folder");
    // Where the tests run as root, the device node itself could be replaced.
    let link = folder.path().join("full");
    symlink("/dev/full", &link).expect("a link");
    let error = write_output(&link, b"text").expect_err("there is no room");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    write_output(Path::new("/dev/null"), b"text").expect("written");
    let null = fs::symlink_metadata("/dev/null").expect("there");
    assert!(null.file_type().is_char_device());
    assert_eq!(names(folder.path()), ["full"]);
}

#[test]
fn a_pipe_receives_the_bytes_and_remains_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut text = String::new();
            let mut file = File::open(path).expect("opens");
            file.read_to_string(&mut text).expect("read");
            text
        }
    });
    write_output(&path, b"text").expect("written");
    assert_eq!(reader.join().expect("ends"), "text");
    let pipe = fs::symlink_metadata(&path).expect("there");
    assert!(pipe.file_type().is_fifo());
}

#[test]
fn a_link_remains_and_its_target_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("far")).expect("a folder");
    fs::write(at("far/old"), "old").expect("written");
    symlink("far/old", at("one")).expect("a link");
    symlink("one", at("two")).expect("a link");
    write_output(&at("two"), b"new").expect("written");
    assert_eq!(fs::read(at("far/old")).expect("there"), b"new");
    assert!(at("two").is_symlink() && at("one").is_symlink());
    symlink("far/none", at("three")).expect("a link");
    write_output(&at("three"), b"more").expect("written");
    assert_eq!(fs::read(at("far/none")).expect("there"), b"more");
    assert_eq!(names(&at("far")), ["none", "old"]);
    symlink("round", at("round")).expect("a link");
    write_output(&at("round"), b"x").expect_err("it ends nowhere");
}

#[test]
fn an_open_file_of_the_process_is_written_to() {
    use std::os::fd::AsRawFd as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let mut open = OpenOptions::new();
    let mut open = open.append(true).create(true).open(&path).expect("opens");
    open.write_all(b"one ").expect("written");
    let own = format!("/proc/self/fd/{}", open.as_raw_fd());
    write_output(Path::new(&own), b"two ").expect("written");
    open.write_all(b"three").expect("written");
    assert_eq!(fs::read(&path).expect("there"), b"one two three");
}

#[test]
fn an_unfinished_output_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("result");
    fs::write(&path, "old").expect("written");
    let output = Output::begin(&path).expect("begins");
    output.file().write_all(b"new").expect("written");
    drop(output);
    assert_eq!(fs::read(&path).expect("there"), b"old");
    assert_eq!(names(folder.path()), ["result"]);
}

#[test]
fn an_output_that_is_an_input_is_rejected_with_both_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::write(at("log"), "lines").expect("written");
    fs::hard_link(at("log"), at("again")).expect("a link");
    symlink("log", at("link")).expect("a link");
    let log = at("log");
    let refused = |output: &Path| {
        let outputs = [Path::new("-"), output];
        outputs_are_no_inputs(outputs, [Path::new("/none"), &log])
    };
    for same in ["again", "link", "log"] {
        let error = refused(&at(same)).expect_err("the same").to_string();
        let is_told = error.contains(&format!("{same} is the same file as"));
        assert!(is_told && error.contains("log, which is read"), "{error}");
    }
    refused(&at("other")).expect("another");
    let null = Path::new("/dev/null");
    outputs_are_no_inputs([null], [null]).expect("a device may be both");
}
