//! Announced requests (CMCD `nor`), in virtual time.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, expected, fixed, range};
use headlong_engine::{EngineConfig, Refusal, StreamId};
use headlong_units::{Duration, MIB};

/// Bytes of a segment in a file of its own.
const SEGMENT: u64 = MIB;

fn settings() -> EngineConfig {
    EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(256 * MIB)
    }
}

/// Segments in separate files, without a playlist that gives their order.
fn segments(rig: &mut Rig, count: u64) -> Vec<StreamId> {
    let file = |id| rig.title(id, SEGMENT, 2_000);
    (1..=count).map(file).collect()
}

#[test]
fn announced_segment_is_in_memory_when_requested() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 20);
    for (number, file) in files.iter().enumerate() {
        let id = rig.request(range(1, *file, 0, SEGMENT)).expect("accepted");
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
    assert_eq!(stats.bytes_read, 20 * SEGMENT, "a byte was read twice");
    assert_eq!((stats.announced, stats.announced_read), (19, 19));
    assert_eq!((stats.announced_met, stats.chains), (19, 20));
}

#[test]
fn announced_piece_in_memory_is_not_read_again() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 2);
    rig.request(range(1, files[0], 0, SEGMENT))
        .expect("accepted");
    for _ in 0..3 {
        // While it is queued, while it is read, and when it is in memory; also for another viewer.
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
    assert_eq!(rig.shard.stats().announced_read, 1);
}

#[test]
fn announced_range_is_read_up_to_one_prefetch_ahead() {
    let mut rig = Rig::new(EngineConfig {
        // No bytes are read ahead without an announcement.
        ahead_horizon: Duration::ZERO,
        ..settings()
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.request(range(1, title, 0, CHUNK)).expect("accepted");
    rig.run_for(Duration::from_secs(1));
    let read = rig.shard.stats().bytes_read;
    // A viewer that only announces, and never reads, has at most two prefetches read for it.
    for step in 0..100 {
        rig.expect(expected(1, title, CHUNK * step, CHUNK))
            .expect("there");
        rig.run_for(Duration::from_millis(200));
    }
    let more = rig.shard.stats().bytes_read - read;
    assert!(more <= 2 * 4 * MIB, "{more} bytes");
}

#[test]
fn viewer_with_many_announcements_has_two_files_read() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 1000);
    rig.request(range(1, files[0], 0, SEGMENT))
        .expect("accepted");
    for file in &files {
        rig.expect(expected(1, *file, 0, u64::MAX)).expect("known");
        rig.run_for(Duration::from_millis(30));
    }
    let stats = rig.shard.stats();
    assert_eq!((stats.announced, stats.announced_read), (1000, 2));
    assert_eq!(stats.bytes_read, 3 * SEGMENT);
    // After they have expired, others may be announced.
    rig.run_for(Duration::from_secs(60));
    rig.expect(expected(1, files[999], 0, u64::MAX))
        .expect("known");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.stats().announced_read, 3);
    assert_eq!(rig.shard.stats().announced_met, 0);
}

/// Viewers of long titles, with and without four hundred others that keep announcing requests and
/// never send them.
#[test]
fn flood_of_announcements_delays_no_viewer() {
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
                asked.push(rig.request(request).expect("accepted"));
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
    assert_eq!(with.announced, 40 * 400);
    assert!(with.announced_read > 0, "{with:?}");
    // In 80 s; bytes read for announcements are forgotten after 40 s.
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
fn busy_failing_or_full_device_ignores_announcements() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 40);
    rig.device.hangs = true;
    for (viewer, file) in (1..).zip(&files[..20]) {
        rig.request(range(viewer, *file, 0, SEGMENT))
            .expect("accepted");
    }
    rig.expect(expected(1, files[30], 0, SEGMENT))
        .expect("known");
    assert_eq!(
        rig.shard.stats().announced_read,
        0,
        "read although others wait"
    );

    let mut rig = Rig::new(EngineConfig {
        errors_offline: 1,
        ..settings()
    });
    let files = segments(&mut rig, 3);
    rig.device.bad.push((files[0], 0, SEGMENT));
    rig.request(range(1, files[0], 0, SEGMENT))
        .expect("accepted");
    rig.run_for(Duration::from_secs(1));
    rig.expect(expected(1, files[1], 0, SEGMENT))
        .expect("known");
    assert_eq!(
        rig.shard.stats().announced_read,
        0,
        "read from a failing device"
    );

    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(16 * MIB)
    });
    let files = segments(&mut rig, 3);
    rig.request(range(1, files[0], 0, SEGMENT))
        .expect("accepted");
    // A sixteenth of the memory is too small for it.
    rig.expect(expected(1, files[1], 0, u64::MAX))
        .expect("known");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.shard.stats().bytes_read <= 2 * SEGMENT);
}

#[test]
fn announcement_of_absent_bytes_is_refused() {
    let mut rig = Rig::new(settings());
    let title = rig.title(1, SEGMENT, 2_000);
    let unknown = rig.expect(expected(1, StreamId(7), 0, 1));
    assert_eq!(unknown, Err(Refusal::UnknownStream));
    for (offset, length) in [(SEGMENT, 1), (u64::MAX, u64::MAX), (0, 0)] {
        let beyond = rig.expect(expected(1, title, offset, length));
        assert_eq!(beyond, Err(Refusal::OutOfBounds));
    }
    assert!(rig.reads.is_empty());
    assert_eq!(rig.shard.stats().announced, 0);
}

#[test]
fn request_during_queued_announcement_is_served_normally() {
    let mut rig = Rig::new(settings());
    let files = segments(&mut rig, 3);
    let first = rig
        .request(range(1, files[0], 0, SEGMENT))
        .expect("accepted");
    rig.expect(expected(1, files[1], 0, SEGMENT))
        .expect("known");
    let second = rig
        .request(range(1, files[1], 0, SEGMENT))
        .expect("accepted");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&first].done && rig.replies[&second].done);
    assert_eq!(rig.reads.len(), 2);
    assert_eq!(rig.shard.stats().announced_met, 1);
}
