//! Tests of the calls of one read.

use alloc::vec::Vec;

use headlong_engine::{Slot, StreamId};

use super::*;

/// A read of 10,000 bytes at offset 4096.
fn job(is_direct: bool) -> ReadJob {
    let mut job = ReadJob::new(&ReadCommand {
        id: ReadId(5),
        stream: StreamId(1),
        part: 0,
        offset: 4096,
        length: 10_000,
        slots: Vec::from([Slot(0), Slot(1), Slot(2)]),
    });
    job.begin(is_direct);
    job
}

fn span(offset: u64, skip: u64, length: u64) -> Span {
    Span {
        offset,
        skip,
        length,
    }
}

struct TestFile {
    size: u64,
    is_same: bool,
}

impl FileState for TestFile {
    fn size(&mut self) -> Result<u64, IoFailure> {
        Ok(self.size)
    }

    fn is_same_version(&mut self) -> bool {
        self.is_same
    }
}

#[test]
fn short_direct_read_continues_at_last_whole_block() {
    let mut job = job(true);
    assert_eq!(job.span(), span(4096, 0, 12_288), "whole blocks");
    assert_eq!(job.advance(Ok(5000)), NextCall::Again);
    assert_eq!(job.span(), span(8192, 4096, 8192));
    assert_eq!(job.advance(Ok(904)), NextCall::Ended(ReadEnd::Short));
    assert_eq!(job.advance(Ok(5904)), NextCall::Ended(ReadEnd::Whole));
    assert!(job.has_read_direct());
}

#[test]
fn short_buffered_read_continues_where_it_ended() {
    let mut job = job(false);
    assert_eq!(job.span(), span(4096, 0, 10_000));
    assert_eq!(job.advance(Ok(1)), NextCall::Again);
    assert_eq!(job.span(), span(4097, 1, 9_999));
    assert_eq!(job.advance(Ok(0)), NextCall::Ended(ReadEnd::Short));
    assert!(!job.has_read_direct());
}

#[test]
fn refused_direct_read_reopens_and_refused_buffered_one_fails() {
    assert_eq!(job(true).advance(Err(IoFailure::Refused)), NextCall::Reopen);
    let failed = NextCall::Ended(ReadEnd::Failed(IoFailure::Refused));
    assert_eq!(job(false).advance(Err(IoFailure::Refused)), failed);
}

#[test]
fn gives_up_when_every_call_is_interrupted() {
    let mut job = job(false);
    let calls =
        (0..1000).take_while(|_| job.advance(Err(IoFailure::Interrupted)) == NextCall::Again);
    assert_eq!(calls.count() as u32, IDLE_CALLS_MAX - 1);
}

#[test]
fn data_counts_only_if_file_version_is_unchanged() {
    let job = job(true);
    let judge = |end, size, is_same| job.judge(end, &mut TestFile { size, is_same });
    assert_eq!(judge(ReadEnd::Whole, 14_096, true), ReadOutcome::Done);
    assert_eq!(judge(ReadEnd::Whole, 14_096, false), ReadOutcome::Changed);
    assert_eq!(judge(ReadEnd::Short, 14_095, true), ReadOutcome::Changed);
    assert_eq!(judge(ReadEnd::Short, 14_096, false), ReadOutcome::Changed);
    assert_eq!(judge(ReadEnd::Short, 14_096, true), ReadOutcome::Error);
    let failed = ReadEnd::Failed(IoFailure::TooManyFiles);
    assert_eq!(judge(failed, 14_096, true), ReadOutcome::NoResources);
}
