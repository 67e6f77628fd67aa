//! Many viewers that arrive at once, as after a restart: first each gets its next seconds, then
//! depth.

use crate::rig::{HOUR_BYTES, Rig, range};
use headlong_engine::{Admission, Control, EngineConfig, Order, Policy, SizingConfig};
use headlong_units::{Duration, MIB};

const CHUNK: u64 = MIB / 2;
const VIEWERS: u64 = 200;

fn eight_mib(order: Order) -> EngineConfig {
    let mut config = EngineConfig {
        memory_bytes: 2048 * MIB,
        sizing: SizingConfig {
            policy: Policy::Fixed,
            reference_bytes: 8 * MIB,
            ..SizingConfig::default()
        },
        order,
        // The test observes the order in which all are served.
        admission: Admission::Accept,
        ..EngineConfig::default()
    };
    config.control.mode = Control::Off;
    config
}

/// All viewers request the first chunk of a title of their own, and wait for `wait`.
fn all_at_once(order: Order, wait: Duration) -> Rig {
    let mut rig = Rig::new(eight_mib(order));
    for viewer in 1..=VIEWERS {
        let title = rig.title(viewer, HOUR_BYTES, 2_000);
        rig.request(range(viewer, title, 0, CHUNK))
            .expect("accepted");
    }
    rig.run_for(wait);
    rig
}

#[test]
fn all_arrivals_are_served_before_reading_ahead() {
    // Reads of 8 MiB for all take 19 s on this device, those of a chunk 3.5 s.
    let rig = all_at_once(Order::DeadlineElevator, Duration::from_secs(10));
    let served = rig.replies.values().filter(|reply| reply.done).count() as u64;
    assert_eq!(served, VIEWERS);
}

#[test]
fn reads_get_deep_when_no_reply_waits() {
    let mut rig = all_at_once(Order::DeadlineElevator, Duration::from_secs(60));
    let reads_before = rig.reads.len();
    let title = rig.title(VIEWERS + 1, HOUR_BYTES, 2_000);
    rig.request(range(VIEWERS + 1, title, 0, CHUNK))
        .expect("accepted");
    rig.run_for(Duration::from_secs(1));
    assert_eq!(rig.reads[reads_before].length, 8 * MIB);
}

#[test]
fn order_without_deadlines_reads_whole_jobs() {
    let rig = all_at_once(Order::Fcfs, Duration::from_secs(10));
    assert!(rig.reads.iter().all(|read| read.length == 8 * MIB));
}
