//! How runs of reads are issued to a device with an arm.

use crate::rig::{CHUNK, Rig, config, fixed, range};
use headlong_engine::{EngineConfig, Extent, PartSpec, StreamId, StreamSpec};
use headlong_units::{BitRate, Duration, KIB, MIB};

fn rig(reads_max: u32) -> Rig {
    Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        outstanding_reads_max: reads_max,
        ..config(256 * MIB)
    })
}

/// A title of files of these sizes at these positions.
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
    rig.shard
        .handle_stream(rig.now, spec)
        .expect("the table has room");
    rig.drain();
    StreamId(id)
}

/// Bytes of a stream for which the device got reads.
fn given(rig: &Rig, stream: StreamId) -> u64 {
    let reads = rig.in_flight.iter().map(|(_, read)| read);
    let of_stream = reads.filter(|read| read.stream == stream);
    of_stream.map(|read| read.length).sum()
}

/// Prefetches of 4 MiB for two viewers; the device works on the first. It completes reads one at a
/// time.
fn two(reads_max: u32) -> (Rig, StreamId, StreamId) {
    let mut rig = rig(reads_max);
    let one = lying(&mut rig, 1, [(100 * MIB, 64 * MIB)].into_iter());
    let other = lying(&mut rig, 2, [(500 * MIB, 64 * MIB)].into_iter());
    rig.request(range(1, one, 0, CHUNK)).expect("accepted");
    rig.request(range(2, other, 0, CHUNK)).expect("accepted");
    (rig, one, other)
}

#[test]
fn next_run_starts_at_tail_of_first_and_continues_at_its_end() {
    for reads_max in [1, 8] {
        let (mut rig, one, other) = two(reads_max);
        assert_eq!(given(&rig, one), 4 * MIB, "not all of the first run");
        assert_eq!(given(&rig, other), 0, "a read of the next run");
        while given(&rig, one) > 2 * MIB {
            rig.run_for(Duration::from_millis(1));
        }
        assert_eq!(given(&rig, other), MIB, "not one request of the next run");
        while given(&rig, one) > 0 {
            rig.run_for(Duration::from_millis(1));
        }
        assert_eq!(given(&rig, other), 4 * MIB);
        assert_eq!(rig.shard.stats().seeks, 2, "not one seek for each run");
    }
}

#[test]
fn adjoining_files_are_one_sequential_run() {
    // As file systems allocate them: each from the next block on.
    for size in [300 * KIB, 300_001, 700_003, 3 * MIB / 2] {
        let mut rig = rig(8);
        let step = size.next_multiple_of(4 * KIB);
        let title = lying(&mut rig, 1, (1..100).map(|n| (n * step, size)));
        rig.request(range(1, title, 0, 256 * KIB))
            .expect("accepted");
        assert!(rig.reads.len() > 2, "{size}: several files in 4 MiB");
        let parts = rig.reads.iter().map(|read| read.part);
        assert!(parts.eq(0..rig.reads.len() as u32), "not in file order");
        assert_eq!(rig.shard.stats().seeks, 1, "{size}");
    }
}

#[test]
fn lead_of_run_of_small_files_is_one_file() {
    let mut rig = rig(8);
    let other = lying(&mut rig, 1, [(500 * MIB, 64 * MIB)].into_iter());
    let title = lying(&mut rig, 2, (0..1000).map(|n| (n * 40 * KIB, 40 * KIB)));
    rig.request(range(1, other, 0, CHUNK)).expect("accepted");
    rig.request(range(2, title, 0, 40 * KIB)).expect("accepted");
    while given(&rig, other) > 2 * MIB {
        rig.run_for(Duration::from_millis(1));
    }
    assert_eq!(given(&rig, title), 40 * KIB);
}
