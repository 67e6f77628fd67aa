//! Tests of the file cache without a device.

use alloc::vec;

use super::*;

type TestFiles = Files<u32, (), &'static str>;

fn id(part: u32) -> PartId {
    PartId {
        stream: StreamId(1),
        part,
    }
}

fn opened(file: u32) -> Result<OpenedFile<u32>, IoFailure> {
    let is_current = true;
    Ok(OpenedFile { file, is_current })
}

/// Opens a file for a read; returns the reads that received it and the files that were closed.
fn open(files: &mut TestFiles, part: u32) -> (Vec<&'static str>, Vec<u32>) {
    files.open_for(id(part), &(), "read");
    let job = files.next_open().expect("open due");
    let end = files.ended(job.id, opened(part), true);
    (end.ended.expect("open").0, end.closed)
}

#[test]
fn least_recently_used_file_is_closed_first() {
    let mut files = TestFiles::new(2);
    assert_eq!(open(&mut files, 0).1, vec![]);
    assert_eq!(open(&mut files, 1).1, vec![]);
    assert!(files.get(id(0)).is_some());
    assert_eq!(open(&mut files, 2).1, vec![1]);
    assert!(files.get(id(0)).is_some() && files.get(id(2)).is_some());
}

#[test]
fn file_with_running_reply_stays_open() {
    let mut files = TestFiles::new(1);
    files.pin(id(0));
    (0..3).for_each(|part| drop(open(&mut files, part)));
    assert!(files.get(id(0)).is_some() && files.get(id(1)).is_none());
    assert_eq!(
        files.unpin(id(0)),
        vec![2],
        "the least recently used of the two"
    );
    assert_eq!(files.pin_count(), 0);
}

#[test]
fn reads_of_one_file_share_one_open() {
    let mut files = TestFiles::new(8);
    files.open_ahead(id(0), &());
    files.open_ahead(id(1), &());
    files.open_for(id(1), &(), "first");
    files.open_for(id(1), &(), "second");
    let jobs: Vec<PartId> = core::iter::from_fn(|| files.next_open().map(|job| job.id)).collect();
    assert_eq!(
        jobs,
        vec![id(1), id(0)],
        "the file that a read waits for comes first"
    );
    let (waiting, file) = files.ended(id(1), opened(7), true).ended.expect("open");
    assert_eq!(waiting, vec!["first", "second"]);
    assert_eq!(file.map(|of| of.file), Ok(7));
}

#[test]
fn opens_in_flight_are_bounded() {
    let mut files = TestFiles::new(8);
    (0..100).for_each(|part| files.open_for(id(part), &(), "read"));
    let begun = core::iter::from_fn(|| files.next_open()).count();
    assert_eq!(begun, OPENS_MAX);
    files.ended(id(0), Err(IoFailure::Device), true);
    assert!(files.next_open().is_some() && files.next_open().is_none());
}

#[test]
fn closes_files_of_forgotten_stream() {
    let mut files = TestFiles::new(8);
    open(&mut files, 0);
    files.open_for(id(1), &(), "read");
    let job = files.next_open().expect("open due");
    assert_eq!(files.forget(StreamId(1)), vec![0]);
    // The waiting read receives the file, which is not kept open.
    let (waiting, file) = files.ended(job.id, opened(1), false).ended.expect("open");
    assert!(waiting == vec!["read"] && file.is_ok());
    assert!(files.get(id(1)).is_none());
}

#[test]
fn replaced_file_is_closed_and_its_reads_fail() {
    let mut files = TestFiles::new(8);
    files.open_for(id(0), &(), "read");
    files.next_open().expect("open due");
    let replaced = OpenedFile {
        file: 3,
        is_current: false,
    };
    let end = files.ended(id(0), Ok(replaced), true);
    assert_eq!(end.closed, vec![3]);
    let (_, result) = end.ended.expect("ended");
    assert_eq!(result.map(|of| of.file), Err(IoFailure::Replaced));
}

#[test]
fn first_direct_refusal_affects_device_and_later_ones_the_file() {
    let refuse = |files: &mut TestFiles| {
        files.open_for(id(0), &(), "read");
        assert!(files.next_open().expect("open due").is_direct);
        let refused = Err(IoFailure::Refused);
        assert!(
            files.ended(id(0), refused, true).ended.is_none(),
            "the open is retried"
        );
        assert!(!files.next_open().expect("open due").is_direct);
        let end = files.ended(id(0), opened(0), true);
        let (_, file) = end.ended.expect("open");
        assert!(file.is_ok_and(|of| !of.is_direct));
        end.news
    };
    let mut files = TestFiles::new(8);
    assert_eq!(refuse(&mut files), Some(FileNotice::DeviceBuffered));
    assert!(!files.is_direct());
    let mut files = TestFiles::new(8);
    files.direct_read_worked();
    assert_eq!(refuse(&mut files), Some(FileNotice::FileBuffered));
    assert!(files.is_direct());
}

#[test]
fn out_of_descriptors_closes_half_of_files_and_retries_once() {
    let mut files = TestFiles::new(8);
    (0..4).for_each(|part| drop(open(&mut files, part)));
    files.open_for(id(9), &(), "read");
    files.next_open().expect("open due");
    let end = files.ended(id(9), Err(IoFailure::TooManyFiles), true);
    assert!(end.ended.is_none());
    assert_eq!(end.closed, vec![0, 1]);
    assert_eq!(end.news, Some(FileNotice::TooMany(2)));
    files.next_open().expect("second open due");
    let end = files.ended(id(9), Err(IoFailure::TooManyFiles), true);
    let (_, result) = end.ended.expect("open failed");
    assert_eq!(result.map(|of| of.file), Err(IoFailure::TooManyFiles));
}

#[test]
fn refused_direct_read_reopens_file_for_buffered_reads() {
    let mut files = TestFiles::new(8);
    open(&mut files, 0);
    let news = files.open_buffered(id(0), &(), "read");
    assert_eq!(news, Some(FileNotice::DeviceBuffered));
    assert!(!files.next_open().expect("open due").is_direct);
    files.ended(id(0), opened(5), true);
    assert!(
        files
            .get(id(0))
            .is_some_and(|of| of.file == 5 && !of.is_direct)
    );
}
