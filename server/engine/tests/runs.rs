//! How the files of one prefetch are put to a drive that chooses between reads.

mod rig;

use headlong_engine::{EngineConfig, Extent, PartSpec, ReadCommand, StreamId, StreamSpec};
use headlong_units::{BitRate, KIB, MIB};
use rig::{CHUNK, Rig, config, fixed, range};

fn rig(reads_max: u32) -> Rig {
    Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        outstanding_reads_max: reads_max,
        ..config(256 * MIB)
    })
}

/// A title of files of these sizes that begin at these places.
fn lying(rig: &mut Rig, id: u64, files: impl Iterator<Item = (u64, u64)>) -> StreamId {
    let part = |(physical, size_bytes)| PartSpec {
        size_bytes,
        extents: vec![Extent {
            offset: 0,
            physical,
            length: size_bytes,
        }],
        flash_key: None,
        is_absent: false,
    };
    let spec = StreamSpec {
        id: StreamId(id),
        parts: files.map(part).collect(),
        bit_rate: Some(BitRate::from_kbps(2_000)),
    };
    rig.shard.handle_stream(rig.now, spec).expect("room");
    rig.drain();
    StreamId(id)
}

/// The first viewer's prefetch, of which the drive has begun the first file.
fn begun(rig: &mut Rig, title: StreamId) -> Vec<ReadCommand> {
    rig.ask(range(1, title, 0, 256 * KIB)).expect("taken on");
    let first = rig.reads[0].clone();
    assert_eq!(rig.reads.len(), 1, "the others wait until it has begun");
    assert!(first.opening.is_some(), "which is said when its lead comes");
    rig.shard.handle_read_begun(rig.now, first.id);
    rig.drain();
    rig.reads.clone()
}

#[test]
fn files_one_behind_the_other_are_one_stream_and_only_the_first_has_an_opening() {
    // As file systems lay them: each from the next block on.
    for size in [300 * KIB, 300_001, 700_003, 3 * MIB / 2] {
        let mut rig = rig(8);
        let step = size.next_multiple_of(4 * KIB);
        let title = lying(&mut rig, 1, (1..100).map(|n| (n * step, size)));
        let reads = begun(&mut rig, title);
        assert!(reads.len() > 2, "{size}: several files in 4 MiB");
        let parts = reads.iter().map(|read| read.part);
        assert!(parts.eq(0..reads.len() as u32), "in their order");
        let openings = reads.iter().filter(|read| read.opening.is_some());
        assert_eq!(openings.count(), 1, "{size}");
    }
}

#[test]
fn they_are_one_stream_whatever_else_was_issued_meanwhile() {
    let mut rig = rig(8);
    let title = lying(&mut rig, 1, (1..100).map(|n| (n * MIB, MIB)));
    let other = lying(&mut rig, 2, (500..600).map(|n| (n * MIB, MIB)));
    rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.ask(range(2, other, 0, CHUNK)).expect("taken on");
    let first = rig.reads[0].id;
    rig.shard.handle_read_begun(rig.now, first);
    rig.drain();
    let of_title: Vec<_> = (rig.reads.iter())
        .filter(|read| read.stream == title)
        .map(|read| read.opening.is_some())
        .collect();
    assert_eq!(of_title, [true, false, false, false]);
    assert_eq!(rig.shard.stats().seeks, 2, "the arm moves once for each");
}

#[test]
fn a_file_that_lies_elsewhere_is_shown_to_the_drive_as_a_beginning() {
    let mut rig = rig(8);
    let place = |n| if n < 3 { n * MIB } else { (n + 500) * MIB };
    let title = lying(&mut rig, 1, (1..100).map(|n| (place(n), MIB)));
    let reads = begun(&mut rig, title);
    let has_opening: Vec<_> = reads.iter().map(|read| read.opening.is_some()).collect();
    assert_eq!(has_opening, [true, false, true, false]);
    assert_eq!(rig.shard.stats().seeks, 2);
}

#[test]
fn no_more_of_a_run_of_tiny_files_is_shown_than_of_another_before_it_is_begun() {
    let mut rig = rig(8);
    let size = 40 * KIB;
    let title = lying(&mut rig, 1, (0..1000).map(|n| (n * size, size)));
    rig.ask(range(1, title, 0, size)).expect("taken on");
    let shown: u64 = rig.reads.iter().map(|read| read.length).sum();
    assert!((128 * KIB..=168 * KIB).contains(&shown), "{shown}");
    let has_opening: Vec<_> = rig
        .reads
        .iter()
        .map(|read| read.opening.is_some())
        .collect();
    assert_eq!(has_opening, [true, false, false, true]);
}
