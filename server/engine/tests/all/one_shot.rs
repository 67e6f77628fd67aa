//! One-shot viewers take little from viewers that continue.

use crate::rig::{HOUR_BYTES, Rig, config, fixed, range};
use headlong_engine::EngineConfig;
use headlong_units::{Duration, MIB};

const SEGMENT: u64 = MIB;

/// `count` viewers arrive within eight seconds, each for the first of `segments` segments.
fn visited(count: u64, segments: u64, memory_bytes: u64) -> Rig {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(8 * MIB),
        outstanding_reads_max: 4,
        ..config(memory_bytes)
    });
    for viewer in 1..=count {
        let title = rig.title(viewer, segments * SEGMENT, 2_000);
        rig.request(range(viewer, title, 0, SEGMENT))
            .expect("accepted");
        rig.run_for(Duration::from_millis(50));
    }
    rig
}

/// The longest read for a new viewer of a title.
fn read_for_another(rig: &mut Rig, viewer: u64) -> u64 {
    let title = rig.title(viewer, HOUR_BYTES, 2_000);
    let before = rig.reads.len();
    rig.request(range(viewer, title, 0, SEGMENT))
        .expect("accepted");
    rig.run_for(Duration::from_secs(1));
    let reads = rig.reads[before..].iter();
    let of_title = reads.filter(|read| read.stream == title);
    of_title.map(|read| read.length).max().expect("it was read")
}

#[test]
fn requested_bytes_are_read_at_once_despite_many_sharers() {
    // 48 MiB for 150 readers, while all of them may still return.
    let mut rig = visited(150, 1, 32 * MIB);
    assert!(read_for_another(&mut rig, 1_000) >= SEGMENT);
}

#[test]
fn one_shot_reader_stops_counting_but_is_remembered() {
    let mut rig = visited(150, 1, 128 * MIB);
    let among_many = read_for_another(&mut rig, 1_000);
    rig.run_for(Duration::from_secs(12));
    let alone = read_for_another(&mut rig, 1_001);
    assert!(
        among_many < 3 * MIB && alone >= 8 * MIB,
        "{among_many}, {alone}"
    );
    // One of them was only slow.
    let began = rig.shard.stats().chains;
    let late = range(1, headlong_engine::StreamId(1), 0, SEGMENT);
    rig.request(late).expect("accepted");
    assert_eq!(rig.shard.stats().chains, began);
    rig.run_for(Duration::from_secs(60));
    assert_eq!(rig.shard.chain_count(), 0);
}

#[test]
fn repeated_reader_counts_while_it_is_remembered() {
    let mut rig = visited(150, 2, 128 * MIB);
    for viewer in 1..=150 {
        let title = headlong_engine::StreamId(viewer);
        rig.request(range(viewer, title, SEGMENT, SEGMENT))
            .expect("accepted");
        rig.run_for(Duration::from_millis(50));
    }
    rig.run_for(Duration::from_secs(12));
    assert!(read_for_another(&mut rig, 1_000) < 3 * MIB);
}
