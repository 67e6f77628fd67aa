//! How many reads at once a drive gets, by what it makes of several.

mod rig;

use headlong_engine::EngineConfig;
use headlong_units::{Duration, MIB};
use rig::{CHUNK, Device, HOUR_BYTES, Rig, fixed, range};

const VIEWERS: u64 = 40;

/// Forty viewers, each of a title of its own; most reads of the last five seconds were issued
/// with so many outstanding.
fn usual_outstanding(interleaves: bool) -> usize {
    let mut rig = Rig::new(EngineConfig {
        memory_bytes: 256 * MIB,
        sizing: fixed(3 * MIB),
        ..EngineConfig::default()
    });
    rig.device = Device {
        interleaves,
        ..Device::default()
    };
    for viewer in 1..=VIEWERS {
        rig.title(viewer, HOUR_BYTES, 2_000);
    }
    for second in 0..15 {
        for viewer in 1..=VIEWERS {
            let title = headlong_engine::StreamId(viewer);
            let _ = rig.ask(range(viewer, title, second * 3 * MIB, CHUNK));
        }
        rig.run_for(Duration::from_secs(1));
    }
    let mut last = rig.outstanding.split_off(rig.outstanding.len() * 2 / 3);
    last.sort_unstable();
    last[last.len() / 2]
}

#[test]
fn a_drive_that_goes_from_beginning_to_beginning_gets_one_read_at_a_time() {
    assert_eq!(usual_outstanding(true), 1);
}

#[test]
fn a_drive_that_stays_at_a_read_gets_several() {
    assert!(usual_outstanding(false) > 4);
}
