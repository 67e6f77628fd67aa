//! Isolation: the effects that a client or a bad part of a disk must not have on others.

use crate::rig::{CHUNK, HOUR_BYTES, Rig, config, fixed, range};
use headlong_engine::{
    Admission, Control, ControlConfig, DeviceState, EngineConfig, Failure, Hints, Refusal, Request,
    StreamId,
};
use headlong_units::{BitRate, Duration, KIB, MIB};

#[test]
fn absurd_bit_rate_does_not_affect_other_prefetches() {
    let mut rig = Rig::new(EngineConfig {
        piece_bytes: 512 * KIB,
        control: ControlConfig {
            mode: Control::Auto,
            ..ControlConfig::default()
        },
        ..config(512 * MIB)
    });
    let titles: Vec<StreamId> = (1..=50)
        .map(|id| rig.title(id, HOUR_BYTES, 2_000))
        .collect();
    let mut at_start = 0;
    for chunk in 0..24 {
        // While all of them start, each gets its requested bytes first.
        if chunk == 4 {
            at_start = rig.reads.len();
        }
        for (viewer, title) in (1..).zip(&titles) {
            let mut request = range(viewer, *title, chunk * CHUNK, CHUNK);
            request.hints.bit_rate = (viewer == 1).then_some(BitRate(1_000_000_000_000_000_000));
            rig.request(request).expect("accepted");
            rig.run_for(Duration::from_millis(40));
        }
    }
    let later = rig.reads[at_start..].iter();
    let others = later.filter(|read| read.stream != titles[0]);
    let smallest = others.map(|read| read.length).min();
    assert!(smallest >= Some(MIB), "{smallest:?}");
}

/// Requests whole titles, received as fast as the device delivers them, and runs for a while.
fn downloads(rig: &mut Rig, count: u64, kbps: u64) {
    for viewer in 1..=count {
        let title = rig.title(viewer, HOUR_BYTES, kbps);
        let whole = Request {
            open_ended: true,
            ..range(viewer, title, 0, HOUR_BYTES)
        };
        rig.request(whole).expect("accepted");
    }
    rig.run_for(Duration::from_secs(60));
}

#[test]
fn downloads_yield_to_viewers_and_cause_no_refusals() {
    // With a known bit rate; and with an unknown one, at a speed that no usual title has.
    for kbps in [2_000, 0] {
        let mut rig = Rig::new(EngineConfig {
            piece_bytes: 2 * MIB,
            sizing: fixed(16 * MIB),
            ..config(512 * MIB)
        });
        rig.device.rate = BitRate(8 * 250_000_000);
        downloads(&mut rig, 40, kbps);
        let late = rig.shard.stats().jobs_late;
        assert!(late > 20, "each job has missed its deadline: {late}");
        for viewer in 101..=110 {
            let title = rig.title(viewer, HOUR_BYTES, 2_000);
            let id = rig
                .request(range(viewer, title, 0, CHUNK))
                .expect("accepted");
            rig.run_for(Duration::from_secs(2));
            assert!(rig.replies[&id].done, "viewer {viewer}, {kbps} kbps");
        }
    }
}

#[test]
fn title_in_memory_is_served_while_viewers_are_refused() {
    let mut rig = Rig::new(EngineConfig {
        piece_bytes: 512 * KIB,
        sizing: fixed(MIB),
        ..config(512 * MIB)
    });
    rig.device.rate = BitRate(8 * 10_000_000);
    rig.device.position_time = Duration::from_millis(100);
    let hot = rig.title(1_000, 3 * CHUNK, 8_000);
    rig.request(range(1_000, hot, 0, 3 * CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_secs(2));
    let mut viewer = 0;
    let refusal = loop {
        viewer += 1;
        let title = rig.title(viewer, HOUR_BYTES, 8_000);
        let opening = Request {
            open_ended: true,
            ..range(viewer, title, 0, 64 * MIB)
        };
        match rig.request(opening) {
            Ok(_) => assert!(viewer < 1_000),
            Err(refusal) => break refusal,
        }
        rig.run_for(Duration::from_millis(500));
    };
    assert!(matches!(refusal, Refusal::Overloaded { .. }), "{refusal:?}");
    let id = rig
        .request(range(1_001, hot, CHUNK, CHUNK))
        .expect("in memory");
    rig.run_for(Duration::from_millis(10));
    assert!(rig.replies[&id].done);
}

#[test]
fn four_bad_mebibytes_do_not_take_device_offline() {
    let mut rig = Rig::new(config(64 * MIB));
    let bad = rig.title(1, HOUR_BYTES, 2_000);
    let good = rig.title(2, HOUR_BYTES, 2_000);
    rig.device.bad.push((bad, 16 * MIB, 20 * MIB));
    for piece in 0..32 {
        let asked = range(3, bad, 16 * MIB + piece * 128 * KIB, 128 * KIB);
        let id = rig.request(asked).expect("accepted");
        rig.run_for(Duration::from_millis(500));
        assert_eq!(rig.replies[&id].failure, Some(Failure::Device));
        assert_eq!(rig.shard.device_state(), DeviceState::Failing, "{piece}");
    }
    let id = rig.request(range(4, good, 0, CHUNK)).expect("accepted");
    rig.run_for(Duration::from_secs(1));
    assert!(rig.replies[&id].done);
}

#[test]
fn request_on_bad_spot_fails_and_next_to_it_succeeds() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(CHUNK),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.device.bad.push((title, 0, 1));
    let piece = 128 * KIB;
    let on_it = rig.request(range(1, title, 0, piece)).expect("accepted");
    let beside = rig
        .request(range(2, title, piece, piece))
        .expect("accepted");
    rig.run_for(Duration::from_secs(2));
    assert_eq!(rig.replies[&on_it].failure, Some(Failure::Device));
    assert!(rig.replies[&beside].done);
    assert_eq!(
        rig.shard.stats().read_errors,
        2,
        "one merged read and one retry"
    );
}

#[test]
fn range_abandoned_by_others_is_scheduled_normally() {
    let mut rig = Rig::new(EngineConfig {
        admission: Admission::Accept,
        read_timeout: Duration::from_secs(600),
        sizing: fixed(CHUNK),
        ..config(64 * MIB)
    });
    let titles = [1, 2, 3, 4].map(|id| rig.title(id, HOUR_BYTES, 2_000));
    rig.device.hangs = true;
    for (viewer, title) in (1..).zip(&titles[..2]) {
        rig.request(range(viewer, *title, 0, CHUNK))
            .expect("accepted");
    }
    // One viewer waits for the second title, which is not being read, all the time.
    rig.run_for(Duration::from_secs(20));
    rig.request(range(10, titles[1], 0, CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_millis(500));
    for (viewer, title) in (11..).zip(&titles[2..]) {
        rig.request(range(viewer, *title, 0, CHUNK))
            .expect("accepted");
    }
    rig.device.hangs = false;
    rig.run_for(Duration::from_secs(2));
    let at = |title| rig.reads.iter().position(|read| read.stream == title);
    assert!(at(titles[1]) < at(titles[3]), "{:?}", titles.map(at));
}

#[test]
fn viewer_without_memory_gets_an_answer() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(128 * KIB),
        ..config(MIB)
    });
    rig.socket_time = Duration::from_secs(100_000);
    for viewer in 1..=8 {
        let title = rig.title(viewer, HOUR_BYTES, 2_000);
        rig.request(range(viewer, title, 0, 128 * KIB))
            .expect("accepted");
        rig.run_for(Duration::from_secs(1));
    }
    assert_eq!(rig.shard.memory_use().sending_bytes, MIB);
    let title = rig.title(9, HOUR_BYTES, 2_000);
    let id = rig.request(range(9, title, 0, CHUNK)).expect("accepted");
    rig.run_for(rig.shard.config().wait_timeout + Duration::from_secs(1));
    assert_eq!(rig.replies[&id].failure, Some(Failure::TimedOut));
}

#[test]
fn running_reply_fails_at_once_when_device_is_offline() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.request(range(1, title, 0, CHUNK)).expect("accepted");
    rig.run_for(Duration::from_secs(1));
    for viewer in 2..=30 {
        let ill = rig.title(viewer, HOUR_BYTES, 2_000);
        rig.device.bad.push((ill, 0, HOUR_BYTES));
        let _ = rig.request(range(viewer, ill, 0, CHUNK));
        rig.run_for(Duration::from_millis(200));
    }
    assert_eq!(rig.shard.device_state(), DeviceState::Offline);
    let long = rig
        .request(range(1, title, 0, 8 * MIB))
        .expect("the first piece is in memory");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.replies[&long].failure, Some(Failure::Offline));
}

#[test]
fn waiting_replies_fail_when_device_hangs() {
    let mut rig = Rig::new(config(64 * MIB));
    let titles: Vec<StreamId> = (1..=3).map(|id| rig.title(id, HOUR_BYTES, 2_000)).collect();
    rig.request(range(1, titles[0], 0, CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_secs(1));
    rig.device.hangs = true;
    rig.request(range(2, titles[1], 0, CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_secs(9));
    let queued = rig
        .request(range(3, titles[2], 0, CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_secs(2));
    assert!(rig.replies[&queued].failure.is_some());
}

/// A device that cannot keep up with its admitted viewers, the first of which is 1.
fn overloaded() -> Rig {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        ..config(512 * MIB)
    });
    rig.device.rate = BitRate(8 * 10_000_000);
    rig.device.position_time = Duration::from_millis(100);
    for viewer in 1..=200 {
        let title = rig.title(viewer, HOUR_BYTES, 8_000);
        let opening = Request {
            open_ended: true,
            ..range(viewer, title, 0, 64 * MIB)
        };
        let _ = rig.request(opening);
        rig.run_for(Duration::from_millis(500));
        if rig.shard.is_overloaded() && viewer > 20 {
            return rig;
        }
    }
    panic!("the device is not overloaded");
}

#[test]
fn served_viewer_may_seek_but_not_open_many_titles() {
    let mut rig = overloaded();
    let seek = range(1, StreamId(1), 300 * MIB, CHUNK);
    assert!(rig.request(seek).is_ok(), "a seek was refused");
    let chains = rig.shard.chain_count();
    let mut refused = 0;
    for id in 1_000..1_020 {
        let title = rig.title(id, HOUR_BYTES, 8_000);
        let result = rig.request(range(1, title, 0, CHUNK));
        refused += u32::from(matches!(result, Err(Refusal::Overloaded { .. })));
    }
    assert_eq!((refused, rig.shard.chain_count()), (20, chains));
}

#[test]
fn urgent_viewer_does_not_overtake_waiting_starts() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(MIB),
        admission: Admission::Accept,
        ..config(128 * MIB)
    });
    rig.device.position_time = Duration::from_millis(200);
    let title = rig.title(99, HOUR_BYTES, 2_000);
    for chunk in 0..30 {
        // The device is measured: a short sweep holds four of its reads.
        rig.request(range(99, title, chunk * 16 * MIB, CHUNK))
            .expect("accepted");
        rig.run_for(Duration::from_secs(1));
    }
    let mut others = Vec::new();
    for viewer in 1..=20 {
        let title = rig.title(viewer * 10, HOUR_BYTES, 2_000);
        others.push(
            rig.request(range(viewer, title, 0, CHUNK))
                .expect("accepted"),
        );
    }
    rig.run_for(Duration::from_millis(100));
    // In the direction of the head, between the third and the fourth of the others.
    let last = rig.title(35, HOUR_BYTES, 2_000);
    let hints = Hints {
        deadline: Some(Duration::ZERO),
        ..Hints::default()
    };
    let hasty = Request {
        hints,
        ..range(21, last, 0, CHUNK)
    };
    let hasty = rig.request(hasty).expect("accepted");
    let before = rig.now;
    while !rig.is_over(hasty) && rig.now < before + Duration::from_secs(20) {
        rig.run_for(Duration::from_millis(10));
    }
    let done = others.iter().filter(|id| rig.replies[*id].done).count();
    assert!(done >= 15, "{done} of 20 were served before");
}

#[test]
fn chain_is_prefetched_again_after_a_bad_spot() {
    let mut rig = Rig::new(EngineConfig {
        sizing: fixed(4 * MIB),
        ..config(64 * MIB)
    });
    let title = rig.title(1, HOUR_BYTES, 2_000);
    rig.device.bad.push((title, 2 * MIB, 2 * MIB + 1));
    rig.request(range(1, title, 0, CHUNK)).expect("accepted");
    rig.run_for(Duration::from_secs(1));
    rig.device.bad.clear();
    for chunk in 1..40 {
        rig.request(range(1, title, chunk * CHUNK, CHUNK))
            .expect("accepted");
        rig.run_for(Duration::from_secs(2));
    }
    let last = rig.reads.last().expect("some were read");
    assert_eq!(last.length, 4 * MIB);
}
