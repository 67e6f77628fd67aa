//! What a shard does for its viewers, in virtual time.

mod rig;

use headlong_engine::{
    Admission, DeviceState, EngineConfig, Failure, Hints, Order, Policy, Refusal, Request,
    SizingConfig, StreamId,
};
use headlong_units::{BitRate, Duration, Instant, KIB, MIB};
use rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range, watch};

#[test]
fn one_request_is_answered_and_more_is_read_than_was_asked_for() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    let id = rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&id].done);
    assert_eq!(rig.reads.len(), 1);
    assert_eq!(rig.reads[0].length, 4 * MIB);
    rig.run_for(Duration::from_secs(3));
    let next = rig.ask(range(1, title, CHUNK, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.replies[&next].from_ram_bytes, CHUNK);
    assert_eq!(rig.reads.len(), 1, "the second chunk was there");
}

#[test]
fn a_rotating_disk_has_one_read_outstanding_of_the_size_the_policy_says() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(1024 * MIB)
    });
    let late = watch(&mut rig, 50, 60, Duration::from_secs(2));
    assert_eq!(late, 0);
    let stats = rig.shard.stats();
    assert!(
        stats.job_bytes * 10 >= stats.job_bytes_wanted * 9,
        "{stats:?}"
    );
    assert!(stats.bytes_read / stats.reads >= 4 * MIB * 9 / 10);
    assert_eq!(stats.prefetch_evictions, 0);
}

#[test]
fn jobs_are_queued_before_viewers_miss() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(1024 * MIB)
    });
    watch(&mut rig, 20, 60, Duration::from_secs(2));
    let stats = rig.shard.stats();
    let first_waits = 20 * CHUNK;
    assert!(
        stats.bytes_from_disk <= first_waits,
        "only the first chunk of each waits: {stats:?}"
    );
}

#[test]
fn without_a_horizon_nothing_is_read_before_it_is_missing() {
    let reads_after = |horizon: Duration, chunks: u64| {
        let mut rig = Rig::new(EngineConfig {
            sizing: fixed(4 * MIB),
            ahead_horizon: horizon,
            ..config(64 * MIB)
        });
        let title = rig.title(1, HOUR_BYTES, 2_000);
        for chunk in 0..chunks {
            let id = rig
                .ask(range(1, title, chunk * CHUNK, CHUNK))
                .expect("taken on");
            rig.run_for(Duration::from_secs(2));
            assert!(rig.replies[&id].done);
        }
        rig.reads.len()
    };
    // Eight chunks are one prefetch: the ninth is missing, and the seventh would have been time.
    assert_eq!(reads_after(Duration::ZERO, 8), 1);
    assert_eq!(reads_after(Duration::ZERO, 9), 2);
    assert_eq!(reads_after(Duration::from_secs(8), 8), 2);
}

#[test]
fn a_device_with_jobs_waiting_is_not_asked_for_what_nobody_waits_for() {
    const VIEWERS: u64 = 30;
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        // So that jobs are read whole although all begin at once.
        startup_patience: Duration::from_secs(10),
        ..config(1024 * MIB)
    });
    let titles: Vec<StreamId> = (1..=VIEWERS)
        .map(|id| rig.title(id, HOUR_BYTES, 2_000))
        .collect();
    let ask_all = |rig: &mut Rig, chunk: u64, wait: Duration| {
        for (viewer, title) in (1..).zip(&titles) {
            rig.ask(range(viewer, *title, chunk * CHUNK, CHUNK))
                .expect("taken on");
        }
        rig.run_for(wait);
        rig.shard.queue_use()
    };
    for chunk in 0..4 {
        ask_all(&mut rig, chunk, Duration::from_secs(4));
    }
    let reads_before = rig.reads.len();
    // A prefetch is eight chunks: soon it is time for the next, of all viewers at once.
    rig.device.hangs = true;
    for chunk in 4..8 {
        let queue = ask_all(&mut rig, chunk, Duration::from_secs(1));
        let queued = queue.jobs + rig.reads.len() - reads_before;
        assert!(queue.jobs_demanded == 0 && queued < 8, "{queue:?}");
    }
    // Now it is missing.
    let queue = ask_all(&mut rig, 8, Duration::from_secs(1));
    assert!(queue.jobs_demanded >= 20, "{queue:?}");
    rig.device.hangs = false;
    rig.run_for(Duration::from_secs(10));
    let open: Vec<_> = rig.replies.values().filter(|reply| !reply.done).collect();
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn two_viewers_of_one_title_are_served_by_one_read() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.title(2, HOUR_BYTES, 2_000);
    rig.ask(range(9, StreamId(2), 0, CHUNK))
        .expect("the disk is busy with this");
    let first = rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    let second = rig.ask(range(2, title, CHUNK, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&first].done && rig.replies[&second].done);
    let of_title: Vec<_> = rig
        .reads
        .iter()
        .filter(|read| read.stream == title)
        .collect();
    assert_eq!(of_title.len(), 1, "{of_title:?}");
}

#[test]
fn adjacent_jobs_of_different_viewers_merge() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    for busy in 2..4 {
        rig.title(busy, HOUR_BYTES, 2_000);
        rig.ask(range(busy + 7, StreamId(busy), 0, CHUNK))
            .expect("the disk is busy with this");
    }
    rig.ask(range(1, title, MIB, CHUNK)).expect("taken on");
    rig.ask(range(2, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.shard.stats().jobs_merged, 1);
    let read = rig
        .reads
        .iter()
        .find(|read| read.stream == title)
        .expect("it was read");
    assert_eq!(read.length, 2 * MIB);
}

#[test]
fn a_prefetch_runs_across_the_chunk_files_of_a_title_in_order() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(2 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.chunked(1, &[CHUNK; 10], 2_000);
    let ask = |part| Request {
        part,
        open_ended: true,
        ..range(1, title, 0, CHUNK)
    };
    let first = rig.ask(ask(0)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&first].done);
    let parts: Vec<u32> = rig.reads.iter().map(|read| read.part).collect();
    assert_eq!(parts, [0, 1, 2, 3]);
    for part in 1..4 {
        let id = rig.ask(ask(part)).expect("taken on");
        rig.run_for(Duration::from_millis(10));
        assert_eq!(
            rig.replies[&id].from_ram_bytes, CHUNK,
            "chunk {part} is there"
        );
    }
    assert_eq!(
        rig.shard.stats().chains,
        1,
        "chunk files of one title are one chain"
    );
}

#[test]
fn an_open_ended_request_is_one_chain_that_is_always_ahead_of_its_reader() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, 64 * MIB, 2_000);
    rig.socket_time = Duration::from_millis(100);
    let id = rig
        .ask(Request {
            open_ended: true,
            ..range(1, title, 0, 64 * MIB)
        })
        .expect("ok");
    rig.run_for(Duration::from_secs(120));
    let reply = &rig.replies[&id];
    assert!(reply.done);
    assert!(
        reply.received_bytes - reply.from_ram_bytes <= MIB,
        "only the beginning waited"
    );
}

#[test]
fn parallel_connections_of_one_viewer_are_one_chain() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    for chunk in [1, 0, 3, 2, 5, 4] {
        rig.ask(range(1, title, chunk * CHUNK, CHUNK))
            .expect("taken on");
    }
    rig.run_for(Duration::from_secs(1));
    let open: Vec<_> = rig.replies.values().filter(|reply| !reply.done).collect();
    assert!(open.is_empty(), "{open:?}");
    assert_eq!(rig.shard.chain_count(), 1);
}

#[test]
fn a_slow_reader_pins_its_window_and_no_more() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    rig.socket_time = Duration::from_secs(3600);
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.ask(Request {
        open_ended: true,
        ..range(1, title, 0, HOUR_BYTES)
    })
    .expect("taken on");
    rig.run_for(Duration::from_secs(60));
    let window = rig.shard.config().send_window_bytes;
    assert_eq!(rig.shard.memory_use().sending_bytes, window);
}

#[test]
fn new_viewers_are_refused_when_present_ones_would_run_dry() {
    let overloaded = EngineConfig {
        sizing: fixed(MIB),
        ..config(512 * MIB)
    };
    let mut rig = Rig::new(overloaded);
    rig.device.rate = BitRate(8 * 10_000_000);
    rig.device.position_time = Duration::from_millis(100);
    let mut refused = 0;
    for viewer in 1..=200u64 {
        let title = rig.title(viewer, HOUR_BYTES, 8_000);
        let opening = Request {
            open_ended: true,
            ..range(viewer, title, 0, 64 * MIB)
        };
        match rig.ask(opening) {
            Ok(_) => {}
            Err(Refusal::Overloaded { retry_after }) => {
                assert!(retry_after >= Duration::from_secs(1));
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
        rig.run_for(Duration::from_millis(500));
    }
    assert!(refused > 0);
    let present = rig.shard.chain_views(1)[0];
    let more = range(present.viewer.0, present.stream, 300 * MIB, CHUNK);
    assert!(
        rig.ask(more).is_ok(),
        "a viewer who is being served may seek"
    );

    let accepting = EngineConfig {
        admission: Admission::Accept,
        ..overloaded
    };
    rig.shard
        .handle_config(rig.now, accepting)
        .expect("settings that work");
    let title = rig.title(999, HOUR_BYTES, 8_000);
    assert!(rig.ask(range(999, title, 0, CHUNK)).is_ok());
}

#[test]
fn nothing_is_read_for_a_viewer_who_has_gone() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let titles: Vec<StreamId> = (1..=3).map(|id| rig.title(id, HOUR_BYTES, 2_000)).collect();
    let ask = |rig: &mut Rig, viewer: u64, title: usize| {
        let request = range(viewer, titles[title], 0, CHUNK);
        rig.ask(request).expect("taken on")
    };
    // The device is busy with the first; two wait for the second title, one for the third.
    ask(&mut rig, 1, 0);
    let (leaves, stays) = (ask(&mut rig, 2, 1), ask(&mut rig, 3, 1));
    let alone = ask(&mut rig, 4, 2);
    rig.cancel(leaves);
    rig.cancel(alone);
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&stays].done, "somebody else waits for it");
    let read: Vec<StreamId> = rig.reads.iter().map(|read| read.stream).collect();
    assert_eq!(read, titles[..2]);
    // It comes back, and is served.
    let again = ask(&mut rig, 4, 2);
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&again].done);
}

#[test]
fn a_bad_spot_fails_only_those_who_ask_for_it() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.device.bad.push((title, 2 * MIB, 2 * MIB + 1));
    let before = rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(
        rig.replies[&before].done,
        "the bad spot was only prefetched"
    );
    let on_it = rig.ask(range(1, title, 2 * MIB, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.replies[&on_it].failure, Some(Failure::Device));
    assert_eq!(rig.shard.device_state(), DeviceState::Failing);
    let behind = rig.ask(range(1, title, 3 * MIB, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&behind].done);
    rig.run_for(Duration::from_secs(70));
    assert_eq!(rig.shard.device_state(), DeviceState::Online);
}

#[test]
fn a_device_that_fails_everywhere_goes_offline_and_comes_back() {
    let mut rig = Rig::new(config(64 * MIB));
    for id in 1..=30 {
        let title = rig.title(id, HOUR_BYTES, 2_000);
        rig.device.bad.push((title, 0, HOUR_BYTES));
    }
    let mut refused = false;
    for viewer in 1..=30 {
        match rig.ask(range(viewer, StreamId(viewer), 0, CHUNK)) {
            Ok(_) => rig.run_for(Duration::from_millis(200)),
            Err(Refusal::Offline { .. }) => refused = true,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused);
    assert_eq!(rig.shard.device_state(), DeviceState::Offline);
    rig.device.bad.clear();
    rig.run_for(Duration::from_secs(31));
    assert_eq!(rig.shard.device_state(), DeviceState::Failing);
    let id = rig
        .ask(range(1, StreamId(1), 0, CHUNK))
        .expect("tried again");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&id].done);
    // Errors of the window are remembered until it is over.
    rig.run_for(Duration::from_secs(60));
    assert_eq!(rig.shard.device_state(), DeviceState::Online);
}

#[test]
fn queue_positions_that_are_shown_are_of_the_whole_queue() {
    let mut rig = Rig::new(config(256 * MIB));
    rig.device.hangs = true;
    for id in 1..=200 {
        let title = rig.title(id, HOUR_BYTES, 2_000);
        rig.ask(range(id, title, 0, CHUNK)).expect("taken on");
    }
    let all = rig.shard.queue_positions(1_000);
    let shown = rig.shard.queue_positions(64);
    assert!(all.len() > 190 && shown.len() > 32 && shown.len() <= 64);
    assert!(shown.last() > all.get(190 * 31 / 32), "{shown:?}");
    assert!(shown.is_sorted());
}

#[test]
fn a_machine_without_descriptors_says_nothing_about_its_disk() {
    let mut rig = Rig::new(config(64 * MIB));
    rig.device.lacks_resources = true;
    for viewer in 1..=30 {
        let title = rig.title(viewer, HOUR_BYTES, 2_000);
        let id = rig.ask(range(viewer, title, 0, 4 * MIB)).expect("taken on");
        rig.run_for(Duration::from_secs(1));
        assert_eq!(rig.replies[&id].failure, Some(Failure::NoResources));
    }
    assert_eq!(rig.shard.device_state(), DeviceState::Online);
    assert_eq!(rig.shard.stats().read_errors, 0);
    rig.device.lacks_resources = false;
    let id = rig
        .ask(range(1, StreamId(1), 0, 4 * MIB))
        .expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&id].done);
}

#[test]
fn a_device_that_hangs_fails_those_who_wait_and_recovers_when_it_answers() {
    let mut rig = Rig::new(config(64 * MIB));
    let title = rig.title(1, HOUR_BYTES, 2_000);
    let other = rig.title(2, HOUR_BYTES, 2_000);
    let in_ram = rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    rig.device.hangs = true;
    let stuck = rig
        .ask(range(1, title, 500 * MIB, CHUNK))
        .expect("taken on");
    let queued = rig.ask(range(2, other, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(11));
    assert_eq!(rig.replies[&stuck].failure, Some(Failure::TimedOut));
    assert_eq!(rig.replies[&queued].failure, Some(Failure::TimedOut));
    assert!(rig.replies[&in_ram].done);
    assert_eq!(rig.shard.device_state(), DeviceState::Offline);
    assert!(matches!(
        rig.ask(range(3, other, 0, CHUNK)),
        Err(Refusal::Offline { .. })
    ));
    assert!(
        rig.ask(range(3, title, 0, CHUNK)).is_ok(),
        "what is in RAM is still served"
    );
    rig.device.hangs = false;
    rig.run_for(Duration::from_secs(1));
    let again = rig.ask(range(2, other, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&again].done);
}

#[test]
fn device_without_arm_gets_several_reads_but_not_of_more_bytes_than_allowed() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        has_arm: false,
        outstanding_reads_max: 8,
        outstanding_bytes_max: 10 * MIB,
        ..config(256 * MIB)
    });
    let titles: Vec<_> = (1..7).map(|id| rig.title(id, HOUR_BYTES, 2_000)).collect();
    for (viewer, title) in (1..).zip(titles) {
        rig.ask(range(viewer, title, 0, CHUNK)).expect("taken on");
    }
    assert_eq!(
        rig.shard.queue_use().outstanding_reads,
        3,
        "two are less than 10 MiB, three are more"
    );
}

#[test]
fn a_read_that_the_drive_passes_over_is_done_before_the_drive_gets_more() {
    const DEPTH: u32 = 4;
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        outstanding_reads_max: DEPTH,
        ..config(256 * MIB)
    });
    let titles: Vec<_> = (1..31).map(|id| rig.title(id, HOUR_BYTES, 2_000)).collect();
    rig.device.passes_over = Some(titles[0]);
    let mut ids = Vec::new();
    for (viewer, title) in (1..).zip(titles) {
        ids.push(rig.ask(range(viewer, title, 0, CHUNK)).expect("taken on"));
    }
    while !rig.is_over(ids[0]) {
        rig.run_for(Duration::from_millis(1));
    }
    let overtakers = rig.shard.stats().reads_done - 1;
    // Those issued with it, and as many as it takes to notice.
    assert!(
        (1..=u64::from(2 * DEPTH)).contains(&overtakers),
        "{overtakers}"
    );
}

/// Those who are held back for a read that the drive passes over must not fail with it, however late
/// it is noticed that it never comes.
#[test]
fn a_read_that_never_comes_takes_nobody_with_it_who_was_held_back_for_it() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        outstanding_reads_max: 4,
        ..config(256 * MIB)
    });
    let titles: Vec<_> = (1..31).map(|id| rig.title(id, HOUR_BYTES, 2_000)).collect();
    rig.device.passes_over = Some(titles[0]);
    let mut ids = Vec::new();
    for (viewer, title) in (1..).zip(titles) {
        ids.push(rig.ask(range(viewer, title, 0, CHUNK)).expect("taken on"));
    }
    while rig.shard.queue_use().outstanding_reads > 1 {
        rig.run_for(Duration::from_millis(1));
    }
    assert!(rig.shard.queue_use().jobs > 0, "others are held back");
    rig.device.hangs = true;
    rig.now = rig.now + rig.shard.config().read_timeout + Duration::from_secs(1);
    rig.shard.handle_timeout(rig.now);
    rig.drain();
    rig.device.hangs = false;
    rig.run_for(Duration::from_secs(60));
    assert_eq!(rig.replies[&ids[0]].failure, Some(Failure::TimedOut));
    assert!(ids[1..].iter().all(|id| rig.replies[id].done));
}

/// Found by `simulate faults --seed 528`: the reply broke off each time that it was asked for, for as
/// long as nobody asked for the other file.
#[test]
fn a_reply_is_finished_although_a_file_that_was_read_ahead_has_changed() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        send_window_bytes: 128 * KIB,
        ..config(64 * MIB)
    });
    let title = rig.chunked(1, &[2 * MIB, MIB], 2_000);
    rig.device.changed_parts.push((title, 1));
    rig.socket_time = Duration::from_millis(100);
    let first = rig.ask(range(1, title, 0, 2 * MIB)).expect("taken on");
    rig.run_for(Duration::from_secs(10));
    assert!(rig.reads.iter().any(|read| read.part == 1), "read ahead");
    assert!(rig.replies[&first].done, "{:?}", rig.replies[&first]);
    rig.run_for(Duration::from_secs(60));
    assert_eq!(rig.forgotten, [title], "nobody reads it any more");
    assert_eq!(rig.shard.memory_use().free_bytes, 64 * MIB);
}

#[test]
fn a_changed_file_fails_its_replies_and_leaves_nothing_behind() {
    let mut rig = Rig::new(config(64 * MIB));
    let title = rig.title(1, HOUR_BYTES, 2_000);
    let early = rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&early].done);
    rig.device.changed.push(title);
    let late = rig
        .ask(range(1, title, 100 * MIB, CHUNK))
        .expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.replies[&late].failure, Some(Failure::Changed));
    assert_eq!(rig.forgotten, [title]);
    assert_eq!(rig.shard.memory_use().free_bytes, 64 * MIB);
    assert_eq!(
        rig.ask(range(1, title, 0, CHUNK)),
        Err(Refusal::UnknownStream)
    );
}

#[test]
fn a_stream_that_goes_while_its_pieces_are_being_sent_frees_them_afterwards() {
    let mut rig = Rig::new(config(64 * MIB));
    rig.socket_time = Duration::from_secs(5);
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.ask(range(1, title, 0, 4 * MIB)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.shard.memory_use().sending_bytes > 0);
    rig.shard.handle_stream_gone(rig.now, title);
    rig.drain();
    rig.run_for(Duration::from_secs(10));
    assert_eq!(rig.shard.memory_use().free_bytes, 64 * MIB);
}

#[test]
fn every_policy_and_order_serves_the_same_bytes() {
    for policy in Policy::ALL {
        for order in Order::ALL {
            let sizing = SizingConfig {
                policy: *policy,
                ..SizingConfig::default()
            };
            let mut rig = Rig::new(EngineConfig {
                sizing,
                order: *order,
                ..config(64 * MIB)
            });
            watch(&mut rig, 8, 10, Duration::from_secs(2));
            assert!(
                rig.replies.values().all(|reply| reply.done),
                "{policy:?} {order:?}"
            );
        }
    }
}

#[test]
fn a_player_that_is_about_to_run_dry_goes_before_one_with_a_full_buffer() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(8 * MIB),
        ..config(512 * MIB)
    });
    rig.device.position_time = Duration::from_millis(200);
    for id in 1..=21 {
        rig.title(id, HOUR_BYTES, 2_000);
    }
    let ask = |viewer, buffer| {
        let hints = Hints {
            buffer: Some(Duration::from_secs(buffer)),
            ..Hints::default()
        };
        Request {
            hints,
            ..range(viewer, StreamId(viewer), 50 * MIB, CHUNK)
        }
    };
    // Their chains exist; what they ask for next is a miss.
    for viewer in 1..=21 {
        rig.ask(range(viewer, StreamId(viewer), 0, 64 * KIB))
            .expect("taken on");
    }
    rig.run_for(Duration::from_secs(30));
    for viewer in 1..=20 {
        rig.ask(ask(viewer, 60)).expect("taken on");
    }
    let hints = Hints {
        deadline: Some(Duration::from_millis(300)),
        ..Hints::default()
    };
    let urgent = Request {
        hints,
        ..ask(21, 0)
    };
    let urgent = rig.ask(urgent).expect("taken on");
    let before = rig.now;
    while !rig.is_over(urgent) && rig.now.since(before) < Duration::from_secs(20) {
        rig.run_for(Duration::from_millis(10));
    }
    assert!(
        rig.now.since(before) < Duration::from_millis(900),
        "{:?}",
        rig.now.since(before)
    );
}

#[test]
fn each_policy_has_its_own_counters_and_they_add_up() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.ask(range(1, title, 0, CHUNK)).expect("taken on");
    rig.run_for(Duration::from_secs(1));
    let under_fixed = rig.shard.stats();
    for policy in [Policy::SquareRoot, Policy::Fixed] {
        let sizing = SizingConfig {
            policy,
            ..SizingConfig::default()
        };
        let changed = EngineConfig {
            sizing,
            ..*rig.shard.config()
        };
        rig.shard
            .handle_config(rig.now, changed)
            .expect("settings that work");
        let offset = if policy == Policy::Fixed {
            200 * MIB
        } else {
            100 * MIB
        };
        rig.ask(range(1, title, offset, CHUNK)).expect("taken on");
        rig.run_for(Duration::from_secs(1));
    }
    let by_policy = rig.shard.stats_by_policy();
    let policies: Vec<Policy> = by_policy.iter().map(|(policy, _)| *policy).collect();
    assert_eq!(policies, [Policy::Fixed, Policy::SquareRoot]);
    assert_eq!((by_policy[0].1.requests, by_policy[1].1.requests), (2, 1));
    assert!(by_policy[0].1.bytes_read > under_fixed.bytes_read);
    assert_eq!(by_policy[0].1 + by_policy[1].1, rig.shard.stats());
}

#[test]
fn full_tables_are_an_answer() {
    let tiny = EngineConfig {
        requests_max: 2,
        chains_max: 2,
        streams_max: 2,
        ..config(64 * MIB)
    };
    let mut rig = Rig::new(tiny);
    rig.socket_time = Duration::from_secs(100);
    let one = rig.title(1, HOUR_BYTES, 2_000);
    let two = rig.title(2, HOUR_BYTES, 2_000);
    rig.ask(range(1, one, 0, CHUNK)).expect("taken on");
    rig.ask(range(2, two, 0, CHUNK)).expect("taken on");
    assert_eq!(rig.ask(range(3, two, 0, CHUNK)), Err(Refusal::Full));
    let third = headlong_engine::StreamSpec {
        id: StreamId(3),
        parts: vec![headlong_engine::PartSpec {
            size_bytes: 1,
            extents: vec![],
            flash_key: None,
            is_absent: false,
        }],
        bit_rate: None,
    };
    assert_eq!(rig.shard.handle_stream(rig.now, third), Err(Refusal::Full));
}

#[test]
fn replies_of_one_holder_fill_windows_with_a_quarter_of_memory() {
    const WINDOW: u64 = 8 * MIB;
    let mut rig = Rig::new(EngineConfig {
        send_window_bytes: WINDOW,
        ..config(256 * MIB)
    });
    rig.socket_time = Duration::from_secs(100_000);
    let title = rig.title(1, HOUR_BYTES, 2_000);
    let ask = |rig: &mut Rig, holder: u64, n: u64| {
        let offset = (n * 20 + 10 * holder) * MIB;
        let request = range(1000 * holder + n, title, offset, WINDOW);
        let holder = Some(headlong_engine::ViewerId(holder));
        rig.ask(Request { holder, ..request }).expect("taken on");
        rig.run_for(Duration::from_secs(1));
    };
    // Nobody reads what is sent: twelve windows would be more than a quarter.
    (0..12).for_each(|n| ask(&mut rig, 1, n));
    let sending = rig.shard.memory_use().sending_bytes;
    assert!((60 * MIB..68 * MIB).contains(&sending), "{sending}");
    ask(&mut rig, 2, 0);
    let window = rig.shard.memory_use().sending_bytes - sending;
    assert!(
        window > WINDOW * 3 / 4,
        "another address has its own share: {window}"
    );
}

#[test]
fn nonsense_requests_are_refused() {
    let mut rig = Rig::new(config(64 * MIB));
    let title = rig.title(1, 1000, 2_000);
    let at = |offset, length| range(1, title, offset, length);
    assert_eq!(rig.ask(at(0, 1001)), Err(Refusal::OutOfBounds));
    assert_eq!(rig.ask(at(u64::MAX, 2)), Err(Refusal::OutOfBounds));
    assert_eq!(
        rig.ask(Request {
            part: 1,
            ..at(0, 1)
        }),
        Err(Refusal::OutOfBounds)
    );
    assert_eq!(
        rig.ask(range(1, StreamId(7), 0, 1)),
        Err(Refusal::UnknownStream)
    );
    assert!(rig.ask(at(1000, 0)).is_ok(), "nothing, at the end");
    assert_eq!(rig.now, Instant::ZERO);
}
