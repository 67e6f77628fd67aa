//! Requests take the time of the model: the times in the trace equal those of the same drive for
//! the same requests at the same times.

mod rig;

use std::fs;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};

use headlong_drive::{Completion, Direction, Drive, Refusal, Request, RequestId, SECTOR_BYTES};
use headlong_units::Instant;
use headlong_vdisk::store::WordSequence;
use headlong_vdisk::{TRACE_HEADER, TraceRecord, VirtualDisk, service};
use rig::{can_run, options, spec};

const SIZE: u64 = 2_000_000_000;
const PAGE: usize = 4096;
const BLOCKS: [usize; 3] = [128 * PAGE, 512 * PAGE, 2048 * PAGE];

/// Reads blocks at random places and then in order, through ext4, without the page cache; returns
/// the requests that reached the drive.
fn reads(time_scale: f64, count: usize) -> Vec<TraceRecord> {
    let disk = VirtualDisk::start(options(SIZE, time_scale)).expect("a disk");
    let path = disk.mount().expect("mounted").join("title");
    let mut title = vec![0; 1 << 30];
    let sequence = WordSequence { first: 1, step: 77 };
    sequence.fill(&mut title);
    fs::write(&path, &title).expect("write");
    disk.remount().expect("an unused mount");
    let mut buffer = vec![0; BLOCKS[2] + PAGE];
    let skip = buffer.as_ptr().align_offset(PAGE);
    disk.file().keep_records(true);
    disk.file().switch_timing(true);
    let file = fs::File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32)
        .open(&path)
        .expect("open");
    for block in BLOCKS {
        let buffer = &mut buffer[skip..skip + block];
        let random = (0..count).map(|at| (at + 1) * 7_919 * 13 % 200_000 * PAGE);
        let in_order = (0..count).map(|at| at * block);
        for place in random.chain(in_order) {
            file.read_exact_at(buffer, place as u64).expect("read");
            assert!(*buffer == title[place..place + block], "wrong bytes");
        }
    }
    disk.file().records()
}

/// Completions of a new drive of the kind for these requests. The number of requests per read
/// depends on memory fragmentation; requests beyond the drive's queue wait outside, in order.
fn replay(records: &[TraceRecord]) -> Vec<Completion> {
    let mut drive = spec(SIZE).build();
    let mut ends = Vec::new();
    let mut step = |drive: &mut dyn Drive| {
        while let Some(completion) = drive.poll_completion() {
            ends.push(completion);
        }
    };
    let mut told = Instant::ZERO;
    for (id, record) in (0..).zip(records) {
        told = told.max(record.arrived);
        while let Some(at) = drive.poll_timeout().filter(|at| *at <= told) {
            drive.handle_timeout(at);
            step(&mut *drive);
        }
        let request = Request {
            sector: record.offset / SECTOR_BYTES,
            sectors: (record.length / SECTOR_BYTES) as u32,
            direction: record.direction,
        };
        while let Err(refusal) = drive.handle_request(told, RequestId(id), request) {
            assert_eq!(
                refusal,
                Refusal::QueueFull,
                "the drive accepted them before"
            );
            told = drive.poll_timeout().expect("a busy drive");
            drive.handle_timeout(told);
            step(&mut *drive);
        }
    }
    while let Some(at) = drive.poll_timeout() {
        drive.handle_timeout(at);
        step(&mut *drive);
    }
    ends.sort_by_key(|completion| completion.id);
    ends
}

#[test]
fn trace_times_match_model() {
    if !can_run("trace_times_match_model") {
        return;
    }
    for (time_scale, count) in [(1.0, 3), (5.0, 10)] {
        let mut records = reads(time_scale, count);
        records.sort_by_key(|record| record.arrived);
        let bytes: u64 = records.iter().map(|record| record.length).sum();
        let asked: usize = BLOCKS.iter().map(|block| 2 * count * block).sum();
        assert!(bytes >= asked as u64, "all bytes came from the drive");
        for (record, completion) in records.iter().zip(replay(&records)) {
            assert_eq!(record.direction, Direction::Read);
            assert_eq!(
                (record.started, record.ended, record.parts),
                (completion.started, completion.ended, completion.parts),
                "at time scale {time_scale}: {record:?}"
            );
            assert_eq!(record.ended.since(record.started), service(&record.parts));
            assert!(record.answered >= record.ended, "{record:?}");
        }
    }
}

#[test]
fn trace_and_counters_have_every_request() {
    if !can_run("trace_and_counters_have_every_request") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let trace = directory.path().join("trace.csv");
    let disk = VirtualDisk::start(options(256 << 20, 50.0)).expect("a disk");
    let root = disk.mount().expect("mounted");
    disk.file().switch_timing(true);
    disk.file().start_trace(&trace).expect("a trace");
    let error = disk
        .file()
        .start_trace(&trace)
        .expect_err("an active trace");
    assert!(error.to_string().contains("trace.csv"), "{error}");
    disk.file().reset_counters();
    fs::write(root.join("file"), vec![7; 20 << 20]).expect("write");
    disk.remount().expect("an unused mount");
    fs::read(root.join("file")).expect("read");
    let counters = disk.file().counters();
    let lines = disk.file().stop_trace().expect("written");
    let text = fs::read_to_string(&trace).expect("a file");
    let mut rows = text.lines();
    assert_eq!(rows.next(), Some(TRACE_HEADER));
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len() as u64, lines);
    let sum = |direction: &str| {
        let own = rows.iter().filter(|row| row[6] == direction);
        let sectors = own
            .clone()
            .map(|row| row[5].parse::<u64>().expect("a number"));
        (own.count() as u64, sectors.sum::<u64>() * SECTOR_BYTES)
    };
    assert_eq!(sum("R"), (counters.reads.requests, counters.reads.bytes));
    assert_eq!(sum("W"), (counters.writes.requests, counters.writes.bytes));
    assert!(counters.reads.bytes >= 20 << 20 && counters.writes.bytes >= 20 << 20);
    assert!(counters.busy_ns <= counters.elapsed_ns && counters.busy_ns > 0);
    assert_eq!(counters.lateness.count, lines);
}
