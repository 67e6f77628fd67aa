//! What players say that they will ask for next, in virtual time.

mod rig;

use headlong_engine::{EngineConfig, Refusal, StreamId};
use headlong_units::{Duration, MIB};
use rig::{CHUNK, HOUR_BYTES, Rig, config, expected, fixed, range};

/// Bytes of a segment in a file of its own.
const SEGMENT: u64 = MIB;

fn settings() -> EngineConfig {
    EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(256 * MIB)
    }
}

/// Segments in files of their own, of which no playlist tells the order.
fn segments(rig: &mut Rig, count: u64) -> Vec<StreamId> {
    let file = |id| rig.title(id, SEGMENT, 2_000);
    (1..=count).map(file).collect()
}

#[test]
fn a_segment_that_a_player_named_is_in_memory_when_it_asks() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 20);
    for (number, file) in files.iter().enumerate() {
        let id = rig.ask(range(1, *file, 0, SEGMENT)).expect("taken on");
        if let Some(next) = files.get(number + 1) {
            rig.expect(expected(1, *next, 0, u64::MAX)).expect("known");
        }
        rig.run_for(Duration::from_secs(4));
        let reply = &rig.replies[&id];
        assert!(reply.done);
        let is_from_ram = reply.from_ram_bytes == SEGMENT;
        assert_eq!(is_from_ram, number > 0, "segment {number}: {reply:?}");
    }
    let stats = rig.shard.stats();
    assert_eq!(stats.bytes_read, 20 * SEGMENT, "each byte once");
    assert_eq!((stats.expected, stats.expected_read), (19, 19));
    assert_eq!((stats.expected_met, stats.chains), (19, 20));
}

#[test]
fn what_is_there_or_coming_is_read_no_second_time() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 2);
    rig.ask(range(1, files[0], 0, SEGMENT)).expect("taken on");
    for _ in 0..3 {
        // While it is queued, while it is read, and when it is there; also for somebody else.
        rig.expect(expected(1, files[1], 0, SEGMENT))
            .expect("known");
        rig.expect(expected(2, files[1], 0, SEGMENT))
            .expect("known");
        rig.run_for(Duration::from_millis(15));
    }
    rig.run_for(Duration::from_secs(5));
    rig.expect(expected(1, files[1], 0, SEGMENT))
        .expect("known");
    rig.run_for(Duration::from_secs(5));
    assert_eq!(rig.shard.stats().bytes_read, 2 * SEGMENT);
    assert_eq!(rig.shard.stats().expected_read, 1);
}

#[test]
fn the_next_range_of_a_file_is_read_up_to_one_prefetch_ahead() {
    let mut rig = Rig::new(EngineConfig {
        // Nothing is read ahead by itself.
        ahead_horizon: Duration::ZERO,
        ..settings()
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    let read = rig.shard.stats().bytes_read;
    // Who says so again and again, and never reads, has no more read for it than two prefetches.
    for step in 0..100 {
        rig.expect(expected(1, title, CHUNK * step, CHUNK))
            .expect("there");
        rig.run_for(Duration::from_millis(200));
    }
    let more = rig.shard.stats().bytes_read - read;
    assert!(more <= 2 * 4 * MIB, "{more} bytes");
}

#[test]
fn a_viewer_who_names_a_thousand_files_has_two_of_them_read() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 1000);
    rig.ask(range(1, files[0], 0, SEGMENT)).expect("taken on");
    for file in &files {
        rig.expect(expected(1, *file, 0, u64::MAX)).expect("known");
        rig.run_for(Duration::from_millis(30));
    }
    let stats = rig.shard.stats();
    assert_eq!((stats.expected, stats.expected_read), (1000, 2));
    assert_eq!(stats.bytes_read, 3 * SEGMENT);
    // When they are given up, others may be named.
    rig.run_for(Duration::from_secs(60));
    rig.expect(expected(1, files[999], 0, u64::MAX))
        .expect("known");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.stats().expected_read, 3);
    assert_eq!(rig.shard.stats().expected_met, 0);
}

/// Viewers of long titles, with and without four hundred others who name something with every
/// breath and never ask for it.
#[test]
fn a_flood_of_expectations_makes_nobody_late_and_is_a_small_part_of_memory() {
    const VIEWERS: u64 = 20;
    let watch = |flood: u64| {
        let mut rig = Rig::new(settings());
        let titles: Vec<StreamId> = (1..=VIEWERS)
            .map(|id| rig.title(id, HOUR_BYTES, 2_000))
            .collect();
        let named: Vec<StreamId> = (100..100 + flood)
            .map(|id| rig.title(id, HOUR_BYTES, 2_000))
            .collect();
        let (mut asked, mut most_unread) = (Vec::new(), 0);
        for chunk in 0..40 {
            for (index, title) in titles.iter().enumerate() {
                let viewer = index as u64 + 1;
                let request = range(viewer, *title, chunk * CHUNK, CHUNK);
                asked.push(rig.ask(request).expect("taken on"));
                for step in 0..flood / VIEWERS {
                    let number = step * VIEWERS + index as u64;
                    let file = named[(number as usize + chunk as usize * 7) % named.len()];
                    let expected = expected(1000 + number, file, 0, u64::MAX);
                    rig.expect(expected).expect("known");
                }
                rig.run_for(Duration(2_000_000_000 / VIEWERS));
            }
            most_unread = most_unread.max(rig.shard.memory_use().unread_bytes);
        }
        rig.run_for(Duration::from_secs(5));
        let done = asked.iter().filter(|id| rig.replies[id].done).count();
        assert_eq!(done, asked.len());
        (rig.shard.stats(), most_unread)
    };
    let (without, _) = watch(0);
    let (with, _) = watch(400);
    assert_eq!(with.expected, 40 * 400);
    assert!(with.expected_read > 0, "{with:?}");
    // Of 80 s, in which what was read for nobody is forgotten every 40.
    let named_bytes = with.bytes_read - without.bytes_read;
    assert!(named_bytes <= 3 * 256 * MIB / 16, "{named_bytes} bytes");
    assert_eq!(with.jobs_late, without.jobs_late);
    assert_eq!(with.prefetch_evictions, 0);
    assert!(
        with.bytes_from_disk <= without.bytes_from_disk,
        "{with:?} {without:?}"
    );
}

#[test]
fn a_device_that_is_busy_ill_or_short_of_memory_reads_nothing_that_was_only_named() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 40);
    rig.device.hangs = true;
    for (viewer, file) in (1..).zip(&files[..20]) {
        rig.ask(range(viewer, *file, 0, SEGMENT)).expect("taken on");
    }
    rig.expect(expected(1, files[30], 0, SEGMENT))
        .expect("known");
    assert_eq!(rig.shard.stats().expected_read, 0, "others wait");

    let mut rig = Rig::new(EngineConfig {
        errors_offline: 1,
        ..settings()
    });
    let files = segments(&mut rig, 3);
    rig.device.bad.push((files[0], 0, SEGMENT));
    rig.ask(range(1, files[0], 0, SEGMENT)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    rig.expect(expected(1, files[1], 0, SEGMENT))
        .expect("known");
    assert_eq!(rig.shard.stats().expected_read, 0, "it is ill");

    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(16 * MIB)
    });
    let files = segments(&mut rig, 3);
    rig.ask(range(1, files[0], 0, SEGMENT)).expect("taken on");
    // Sixteenths of the memory are too small for it.
    rig.expect(expected(1, files[1], 0, u64::MAX))
        .expect("known");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.shard.stats().bytes_read <= 2 * SEGMENT);
}

#[test]
fn what_is_not_there_cannot_be_expected() {
    let mut rig = Rig::new(settings());
    let title = rig.title(1, SEGMENT, 2_000);
    let unknown = rig.expect(expected(1, StreamId(7), 0, 1));
    assert_eq!(unknown, Err(Refusal::UnknownStream));
    for (offset, length) in [(SEGMENT, 1), (u64::MAX, u64::MAX), (0, 0)] {
        let beyond = rig.expect(expected(1, title, offset, length));
        assert_eq!(beyond, Err(Refusal::OutOfBounds));
    }
    assert!(rig.reads.is_empty());
    assert_eq!(rig.shard.stats().expected, 0);
}

#[test]
fn who_comes_while_what_it_named_waits_is_served_as_if_it_had_named_nothing() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 3);
    let first = rig.ask(range(1, files[0], 0, SEGMENT)).expect("taken on");
    rig.expect(expected(1, files[1], 0, SEGMENT))
        .expect("known");
    let second = rig.ask(range(1, files[1], 0, SEGMENT)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&first].done && rig.replies[&second].done);
    assert_eq!(rig.reads.len(), 2);
    assert_eq!(rig.shard.stats().expected_met, 1);
}
