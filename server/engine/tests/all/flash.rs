//! A flash tier between memory and the device.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, range};
use headlong_engine::{DeviceState, EngineConfig, Order, RequestId, StreamId};
use headlong_flash::{FlashPolicy, SsdId, SsdState, StoreConfig};
use headlong_units::{Duration, MIB};

const BLOCK: u32 = 4 << 20;

/// Little memory, and a flash tier that accepts everything.
fn settings() -> EngineConfig {
    EngineConfig {
        order: Order::Fcfs,
        flash: StoreConfig {
            policy: FlashPolicy::Lru,
            ..StoreConfig::default()
        },
        ahead_horizon: Duration::ZERO,
        ..config(16 * MIB)
    }
}

/// A viewer reads the first megabytes of a title, chunk by chunk, and leaves.
fn watch(rig: &mut Rig, viewer: u64, title: StreamId, bytes: u64) -> Vec<RequestId> {
    let mut replies = Vec::new();
    for chunk in 0..bytes / CHUNK {
        let request = range(viewer, title, chunk * CHUNK, CHUNK);
        replies.push(rig.request(request).expect("accepted"));
        rig.run_for(Duration::from_millis(300));
        // Late replies get as much time as they need.
        rig.run_for(Duration::from_millis(300));
    }
    replies
}

/// A title that was watched, and others after it until it has left memory.
fn watched(rig: &mut Rig) -> StreamId {
    let title = rig.title(1, HOUR_BYTES, 2_000);
    watch(rig, 1, title, 8 * MIB);
    rig.run_for(Duration::from_secs(100));
    watch_others(rig, 2);
    title
}

/// Watches other titles until memory holds nothing else.
fn watch_others(rig: &mut Rig, first: u64) {
    for id in first..first + 4 {
        let other = rig.title(id, HOUR_BYTES, 2_000);
        watch(rig, id, other, 12 * MIB);
        rig.run_for(Duration::from_secs(100));
    }
}

fn with_ssd() -> (Rig, StreamId) {
    let mut rig = Rig::new(settings());
    rig.attach_ssd(0, BLOCK, 64);
    let title = watched(&mut rig);
    let view = rig.shard.flash_view().expect("a tier");
    assert!(view.filled_bytes >= 8 * MIB, "{view:?}");
    (rig, title)
}

fn from_flash(rig: &Rig, replies: &[RequestId]) -> u64 {
    let bytes = replies.iter().map(|id| rig.replies[id].from_flash_bytes);
    bytes.sum()
}

fn all_done(rig: &Rig, replies: &[RequestId]) -> bool {
    replies.iter().all(|id| rig.replies[id].done)
}

#[test]
fn evicted_piece_comes_from_flash_not_disk() {
    let (mut rig, title) = with_ssd();
    let before = (rig.shard.stats(), rig.reads.len());
    let replies = watch(&mut rig, 100, title, 8 * MIB);
    assert!(all_done(&rig, &replies));
    let flash = from_flash(&rig, &replies);
    assert!(flash >= 7 * MIB, "{flash}");
    let stats = rig.shard.stats() - before.0;
    assert_eq!(stats.bytes_from_flash, flash);
    let asked = rig.reads[before.1..]
        .iter()
        .filter(|read| read.stream == title);
    let asked: u64 = asked
        .filter(|read| read.offset < 7 * MIB)
        .map(|read| read.length)
        .sum();
    assert!(
        asked <= MIB,
        "the disk read {asked} bytes that are on flash"
    );
}

#[test]
fn without_tier_same_views_are_read_from_disk() {
    let mut rig = Rig::new(settings());
    let title = watched(&mut rig);
    let before = rig.shard.stats();
    let replies = watch(&mut rig, 100, title, 8 * MIB);
    assert!(all_done(&rig, &replies));
    assert_eq!(from_flash(&rig, &replies), 0);
    assert!((rig.shard.stats() - before).bytes_read >= 8 * MIB);
}

#[test]
fn piece_read_from_flash_is_not_written_again() {
    let (mut rig, title) = with_ssd();
    let views = |rig: &mut Rig| {
        for turn in 0..3 {
            watch(rig, 200 + turn, title, 6 * MIB);
            rig.run_for(Duration::from_secs(100));
        }
    };
    views(&mut rig);
    let before = rig.shard.flash_view().expect("a tier");
    views(&mut rig);
    let after = rig.shard.flash_view().expect("a tier");
    assert!(after.read_bytes >= before.read_bytes + 17 * MIB);
    assert!(
        after.admitted_bytes - before.admitted_bytes <= 2 * MIB,
        "{after:?}"
    );
}

#[test]
fn disk_continues_where_flash_ends() {
    let mut settings = settings();
    settings.ahead_horizon = Duration::from_secs(8);
    let mut rig = Rig::new(settings);
    rig.attach_ssd(0, BLOCK, 64);
    let title = watched(&mut rig);
    let before = rig.reads.len();
    let replies = watch(&mut rig, 100, title, 24 * MIB);
    assert!(all_done(&rig, &replies));
    assert!(from_flash(&rig, &replies) >= 6 * MIB);
    // Ahead of need: only the first reply may wait for the disk.
    let stats = rig.reads[before..]
        .iter()
        .filter(|read| read.stream == title);
    let first = stats
        .map(|read| read.offset)
        .min()
        .expect("the rest is on the disk");
    assert!(first >= 6 * MIB, "the disk was read from {first}");
    let waited = replies.iter().filter(|id| {
        let reply = &rig.replies[id];
        reply.from_ram_bytes + reply.from_flash_bytes < CHUNK
    });
    assert!(waited.count() <= 1, "the disk's part was not read ahead");
}

#[test]
fn damaged_record_is_read_from_disk_and_forgotten() {
    let (mut rig, title) = with_ssd();
    rig.ssd.damaged = rig.ssd.records.values().map(|(piece, _)| *piece).collect();
    let replies = watch(&mut rig, 100, title, 4 * MIB);
    assert!(all_done(&rig, &replies));
    assert_eq!(from_flash(&rig, &replies), 0);
    let view = rig.shard.flash_view().expect("a tier");
    assert!(view.reads_wrong > 0);
    let asked = rig.ssd.reads.len();
    rig.ssd.damaged.clear();
    watch(&mut rig, 101, title, MIB);
    assert!(
        rig.ssd.reads.len() <= asked + 2,
        "the damaged record was read again"
    );
}

#[test]
fn failed_ssd_is_bypassed_and_recovers() {
    let (mut rig, title) = with_ssd();
    rig.ssd.fails = true;
    let replies = watch(&mut rig, 100, title, 8 * MIB);
    assert!(all_done(&rig, &replies), "not served by the disk");
    let view = rig.shard.flash_view().expect("a tier");
    assert_eq!(view.ssds[0].state, SsdState::Offline);
    rig.ssd.fails = false;
    // The title was watched twice: others must be as popular.
    watch_others(&mut rig, 20);
    watch_others(&mut rig, 20);
    let replies = watch(&mut rig, 101, title, 8 * MIB);
    assert!(all_done(&rig, &replies));
    assert!(from_flash(&rig, &replies) > MIB);
    let view = rig.shard.flash_view().expect("a tier");
    assert_eq!(view.ssds[0].state, SsdState::Online);
}

#[test]
fn flash_serves_many_viewers_while_disk_is_offline() {
    // Titles 2 to 5 were watched after the first, and are on flash as well.
    let (mut rig, _) = with_ssd();
    for id in 900..930 {
        let other = rig.title(id, HOUR_BYTES, 2_000);
        rig.device.bad.push((other, 0, HOUR_BYTES));
        // Refused as soon as the disk is out of service.
        let _ = rig.request(range(id, other, 0, CHUNK));
        rig.run_for(Duration::from_millis(200));
    }
    assert_eq!(rig.shard.device_state(), DeviceState::Offline);
    let replies: Vec<_> = (0..28)
        .map(|viewer| (500 + viewer, StreamId(2 + viewer % 4), viewer / 4 * CHUNK))
        .map(|(viewer, title, from)| range(viewer, title, from, CHUNK))
        .map(|request| rig.request(request).expect("it is on flash"))
        .collect();
    rig.run_for(Duration::from_secs(5));
    let failed = replies.iter().filter(|id| !rig.replies[id].done).count();
    assert_eq!(failed, 0, "of {}", replies.len());
}

#[test]
fn no_reply_waits_for_hung_ssd() {
    let (mut rig, title) = with_ssd();
    rig.ssd.hangs = true;
    let replies = watch(&mut rig, 100, title, 4 * MIB);
    assert!(all_done(&rig, &replies), "not served by the disk");
    assert_eq!(from_flash(&rig, &replies), 0);
    rig.ssd.hangs = false;
    watch_others(&mut rig, 20);
    let replies = watch(&mut rig, 101, title, 8 * MIB);
    assert!(all_done(&rig, &replies) && from_flash(&rig, &replies) > 0);
}

#[test]
fn slow_flash_read_before_disk_is_used() {
    let (mut rig, title) = with_ssd();
    rig.ssd.read_time = Duration::from_millis(400);
    // The disk is asked after a quarter of a second, and has a long queue.
    rig.device.position_time = Duration::from_secs(1);
    let others: Vec<_> = (10..14)
        .map(|id| rig.title(id, HOUR_BYTES, 2_000))
        .collect();
    for (viewer, other) in (300..).zip(&others) {
        rig.request(range(viewer, *other, 0, CHUNK))
            .expect("accepted");
    }
    let id = rig.request(range(100, title, 0, CHUNK)).expect("accepted");
    rig.run_for(Duration::from_secs(30));
    assert!(rig.replies[&id].done);
    assert!(rig.replies[&id].from_flash_bytes > 0);
}

#[test]
fn late_read_is_one_failure_for_all_its_records() {
    let (mut rig, title) = with_ssd();
    rig.ssd.read_time = Duration::from_millis(400);
    let view = |rig: &Rig| rig.shard.flash_view().expect("a tier");
    let ask = |rig: &mut Rig, number: u64| {
        let request = range(100 + number, title, number * CHUNK, CHUNK);
        rig.request(request).expect("accepted");
        rig.run_for(Duration::from_millis(300));
    };
    ask(&mut rig, 0);
    let seen = view(&rig);
    assert!(seen.reads_failed > 3, "it has several records: {seen:?}");
    assert_eq!(seen.ssds[0].state, SsdState::Online, "slow after one read");
    ask(&mut rig, 2);
    ask(&mut rig, 4);
    assert_eq!(
        view(&rig).ssds[0].state,
        SsdState::Slow,
        "not slow after three in a row"
    );
}

#[test]
fn delay_by_machine_is_not_counted_against_ssd() {
    let (mut rig, title) = with_ssd();
    rig.ssd.read_time = Duration::from_millis(400);
    rig.ssd.own_time = Some(Duration::from_millis(2));
    let view = |rig: &Rig| rig.shard.flash_view().expect("a tier");
    let replies = watch(&mut rig, 100, title, 4 * MIB);
    rig.run_for(Duration::from_secs(5));
    assert!(all_done(&rig, &replies), "not served by the disk");
    assert!(view(&rig).reads_failed > 3, "{:?}", view(&rig));
    assert_eq!(view(&rig).ssds[0].state, SsdState::Online);
    assert!(view(&rig).ssds[0].read_time <= Duration::from_millis(2));
    // The SSD itself takes this long.
    rig.ssd.own_time = Some(Duration::from_millis(300));
    watch(&mut rig, 101, title, 8 * MIB);
    assert_eq!(view(&rig).ssds[0].state, SsdState::Slow);
}

#[test]
fn lost_read_counts_against_ssd_after_a_second() {
    let (mut rig, title) = with_ssd();
    rig.ssd.hangs = true;
    let state = |rig: &Rig| rig.shard.flash_view().expect("a tier").ssds[0].state;
    for number in 0..3 {
        let request = range(100 + number, title, number * 2 * MIB, CHUNK);
        rig.request(request).expect("accepted");
    }
    rig.run_for(Duration::from_millis(900));
    assert_eq!(
        state(&rig),
        SsdState::Online,
        "the delay may be the machine's"
    );
    rig.run_for(Duration::from_millis(200));
    assert_eq!(state(&rig), SsdState::Slow);
    rig.ssd.hangs = false;
    rig.run_for(Duration::from_secs(5));
    assert_eq!(state(&rig), SsdState::Online, "a read counted twice");
}

#[test]
fn detached_ssd_costs_readers_only_disk_reads() {
    let (mut rig, title) = with_ssd();
    let id = rig.request(range(100, title, 0, CHUNK)).expect("accepted");
    assert!(!rig.ssd.reads.is_empty());
    rig.may_drop_under_reads = true;
    rig.shard.detach_flash(rig.now, SsdId(0));
    rig.ssd.fails = true;
    rig.drain();
    rig.run_for(Duration::from_secs(5));
    assert!(rig.replies[&id].done);
    let view = rig.shard.flash_view().expect("an empty tier");
    assert_eq!((view.records, view.capacity_bytes), (0, 0));
    rig.ssd.fails = false;
    rig.attach_ssd(1, BLOCK, 16);
    let replies = watch(&mut rig, 101, title, 4 * MIB);
    assert!(all_done(&rig, &replies));
}

#[test]
fn blocks_are_reused_under_readers() {
    let mut rig = Rig::new(settings());
    rig.attach_ssd(0, BLOCK, 4);
    let titles: Vec<_> = (1..9).map(|id| rig.title(id, HOUR_BYTES, 2_000)).collect();
    rig.ssd.read_time = Duration::from_millis(40);
    for round in 0..4 {
        for (index, title) in titles.iter().enumerate() {
            let viewer = 1000 + round * 100 + index as u64;
            let replies = watch(&mut rig, viewer, *title, 4 * MIB);
            assert!(all_done(&rig, &replies));
            rig.run_for(Duration::from_secs(20));
        }
    }
    let view = rig.shard.flash_view().expect("a tier");
    let written = view.budget_bytes + view.capacity_bytes;
    assert!(
        view.blocks_dropped > 0 && view.written_bytes <= written,
        "{view:?}"
    );
}

#[test]
fn file_that_joins_a_title_stays_on_flash() {
    let (mut rig, title) = with_ssd();
    rig.shard.handle_stream_regrouped(rig.now, title);
    rig.drain();
    let again = rig.title(1, HOUR_BYTES, 2_000);
    let replies = watch(&mut rig, 100, again, 8 * MIB);
    assert!(all_done(&rig, &replies));
    let flash = from_flash(&rig, &replies);
    assert!(flash >= 7 * MIB, "{flash}");
}

#[test]
fn changed_title_drops_its_records() {
    let (mut rig, title) = with_ssd();
    let before = rig.shard.flash_view().expect("a tier").filled_bytes;
    rig.shard.handle_stream_removed(rig.now, title);
    rig.drain();
    let after = rig.shard.flash_view().expect("a tier").filled_bytes;
    assert!(after + 7 * MIB <= before, "{after} of {before}");
}
