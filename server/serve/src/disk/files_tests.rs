use super::*;
use crate::disk::rig::{FileSource, Scratch};

fn files(files_max: usize) -> Arc<Files> {
    let files = Files::new("test", files_max).expect("starts");
    files.remember(StreamId(1));
    files
}

#[test]
fn the_least_recently_used_file_is_closed_first() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, (0..3).map(|n| scratch.file(&n.to_string(), &[n])));
    let files = files(2);
    for part in [0, 1, 0, 2] {
        files.open(&source, StreamId(1), part).expect("opens");
    }
    assert!(files.cached(StreamId(1), 0).is_some());
    assert!(files.cached(StreamId(1), 1).is_none());
    assert!(files.cached(StreamId(1), 2).is_some());
}

#[test]
fn a_file_that_a_reply_runs_on_stays_open_until_the_reply_has_ended() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, (0..3).map(|n| scratch.file(&n.to_string(), &[n])));
    let files = files(1);
    files.pin(StreamId(1), 0);
    for part in 0..3 {
        files.open(&source, StreamId(1), part).expect("opens");
    }
    std::fs::remove_file(scratch.path().join("0")).expect("removed");
    assert!(files.cached(StreamId(1), 0).is_some());
    assert!(files.cached(StreamId(1), 1).is_none());
    files.unpin(StreamId(1), 0);
    files.open(&source, StreamId(1), 1).expect("opens");
    assert!(files.cached(StreamId(1), 0).is_none());
}

#[test]
fn a_forgotten_stream_keeps_no_file_open() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, [scratch.file("a", b"a")]);
    let files = files(8);
    let open = files.open(&source, StreamId(1), 0).expect("opens");
    files.forget(StreamId(1));
    assert!(files.cached(StreamId(1), 0).is_none());
    // A read that was opening it meanwhile gets its file, which nobody keeps.
    files.open(&source, StreamId(1), 0).expect("opens");
    assert!(files.cached(StreamId(1), 0).is_none());
    drop(open);
}

#[test]
fn the_first_refusal_of_direct_reads_is_for_the_whole_device() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, [scratch.file("a", b"a")]).refusing_direct();
    let files = files(8);
    assert!(files.is_direct());
    let open = files.open(&source, StreamId(1), 0).expect("opens");
    assert!(!open.direct && !files.is_direct());
}

#[test]
fn a_later_refusal_of_direct_reads_is_for_one_file() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, [scratch.file("a", b"a")]).refusing_direct();
    let files = files(8);
    files.direct_worked();
    let open = files.open(&source, StreamId(1), 0).expect("opens");
    assert!(!open.direct && files.is_direct());
}

/// Has descriptors for so many opens, and then none until some are closed.
struct Scarce {
    files: FileSource,
    opens_left: std::sync::atomic::AtomicU32,
    refused: AtomicBool,
}

impl StreamSource for Scarce {
    fn spec(&self) -> headlong_engine::StreamSpec {
        self.files.spec()
    }

    fn open(&self, part: u32, direct: bool) -> io::Result<File> {
        let left = self.opens_left.load(Ordering::Relaxed);
        if left == 0 && !self.refused.swap(true, Ordering::Relaxed) {
            return Err(Errno::MFILE.into());
        }
        self.opens_left
            .store(left.saturating_sub(1), Ordering::Relaxed);
        self.files.open(part, direct)
    }

    fn unchanged(&self, part: u32, file: &File) -> bool {
        self.files.unchanged(part, file)
    }
}

#[test]
fn half_of_the_files_are_closed_when_descriptors_run_out() {
    let scratch = Scratch::new();
    let paths = (0..5).map(|n| scratch.file(&n.to_string(), &[n]));
    let source = Scarce {
        files: FileSource::new(1, paths),
        opens_left: 4.into(),
        refused: AtomicBool::new(false),
    };
    let files = files(8);
    for part in 0..5 {
        files.open(&source, StreamId(1), part).expect("opens");
    }
    assert!(source.refused.load(Ordering::Relaxed));
    let open: Vec<u32> = (0..5)
        .filter(|part| files.cached(StreamId(1), *part).is_some())
        .collect();
    assert_eq!(
        open,
        [2, 3, 4],
        "the two that were used longest ago are closed"
    );
}

#[test]
fn another_version_is_not_opened() {
    let scratch = Scratch::new();
    let path = scratch.file("a", b"old");
    let source = FileSource::new(1, [path.clone()]);
    std::fs::write(&path, b"another").expect("writes");
    let error = files(8).open(&source, StreamId(1), 0).expect_err("changed");
    assert!(is(&error, Errno::STALE), "{error}");
}

fn offered(files: &Files, source: &FileSource, part: u32) {
    let file = source.open(part, false).expect("opens");
    files.offer(source, (StreamId(1), part), file);
}

#[test]
fn reads_use_the_file_that_was_opened_to_describe_the_stream() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, [scratch.file("a", b"a")]);
    let files = Files::new("test", 8).expect("starts");
    offered(&files, &source, 0);
    assert!(
        files.cached(StreamId(1), 0).is_none(),
        "it is not known yet"
    );
    files.remember(StreamId(1));
    let open = files.cached(StreamId(1), 0).expect("kept");
    let is_direct = fcntl_getfl(&open.file)
        .expect("flags")
        .contains(OFlags::DIRECT);
    assert_eq!((open.direct, is_direct), (files.is_direct(), open.direct));
}

#[test]
fn a_file_that_refuses_direct_reads_is_offered_for_buffered_ones() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, [scratch.file("a", b"a")]).refusing_direct();
    let files = files(8);
    offered(&files, &source, 0);
    let open = files.cached(StreamId(1), 0).expect("kept");
    assert!(!open.direct && !files.is_direct());
}

#[test]
fn files_of_streams_that_are_not_registered_are_closed() {
    let scratch = Scratch::new();
    let source = FileSource::new(1, (0..99).map(|n| scratch.file(&n.to_string(), b"a")));
    let files = Files::new("test", 200).expect("starts");
    for part in 0..99 {
        offered(&files, &source, part);
    }
    assert_eq!(files.lock().offered.len(), OFFERED_MAX);
    files.withdraw(StreamId(1));
    files.remember(StreamId(1));
    assert!((0..99).all(|part| files.cached(StreamId(1), part).is_none()));
}

#[test]
fn a_version_that_changed_is_not_kept() {
    let scratch = Scratch::new();
    let path = scratch.file("a", b"old");
    let source = FileSource::new(1, [path.clone()]);
    let files = files(8);
    std::fs::write(&path, b"another").expect("writes");
    offered(&files, &source, 0);
    assert!(files.cached(StreamId(1), 0).is_none());
}
