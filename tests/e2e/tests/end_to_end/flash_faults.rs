//! SSDs of the flash tier that fail under a server: viewers get every byte, from the disk if
//! necessary, and the SSD is used again after recovery.

use std::time::Duration;

use headlong_e2e_tests::{eventually, tier, until_logged};
use headlong_testkit::server::Server;
use headlong_testkit::slow_disk::DriveModel;
use headlong_testkit::{Scratch, Seed, SlowDisk};

const SSD_BYTES: u64 = 128 << 20;
/// A small SSD: a fifth of a millisecond of latency, then 200 MB/s.
const SSD: DriveModel = DriveModel {
    capacity_bytes: SSD_BYTES,
    bytes_per_second: 200_000_000,
    settle: Duration::ZERO,
    full_stroke: Duration::ZERO,
    turn: Duration::from_micros(400),
};

/// A server that has already served from its SSD.
struct Rig {
    seed: Seed,
    server: Server,
    ssd: SlowDisk,
    _scratch: Scratch,
}

impl Rig {
    /// `None` where this machine has no emulated SSD.
    fn new(test: &str) -> Option<Self> {
        if !SlowDisk::available_or_skip(test) {
            return None;
        }
        let scratch = Scratch::new("flash-faults").expect("a folder");
        let root = tier::library(&scratch, "root");
        let ssd = SlowDisk::new(SSD_BYTES, SSD, 1.0).expect("an SSD");
        tier::format(&ssd.path(), &["--block", "1MiB"]);
        ssd.switch_timing(true);
        let server = tier::start(&root, &[&ssd.path()]);
        let mut rig = Self {
            seed: Seed::announced(test, 22),
            server,
            ssd,
            _scratch: scratch,
        };
        rig.play_until("reads from the SSD", |server| {
            tier::flash_counter(server, "read_bytes") > Some(2 << 20)
        });
        Some(rig)
    }

    fn play_until(&mut self, what: &str, is_so: impl Fn(&Server) -> bool) {
        tier::play_until(&self.server, &mut self.seed, what, is_so);
    }

    fn play_until_state(&mut self, state: &str) {
        self.play_until(state, |server| tier::states(server) == [state]);
        let metric = format!("ssd=\"0\",state=\"{state}\"}} 1");
        let metrics = self.server.metrics();
        assert!(metrics.contains(&metric), "{metric}: {metrics}");
    }

    /// The SSD recovers without operator action, and serves again.
    fn heal_and_serve(&mut self) {
        self.ssd.heal();
        let states = || tier::states(&self.server);
        eventually("online again", states, |states| states == &["online"]);
        until_logged(&self.server, "ssd is online again");
        let before = tier::flash_counter(&self.server, "read_bytes");
        self.play_until("reads from the SSD again", |server| {
            tier::flash_counter(server, "read_bytes") > before.map(|bytes| bytes + (1 << 20))
        });
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A hung request would keep the server from ending.
        self.ssd.heal();
    }
}

#[test]
fn unreadable_bytes_of_ssd_come_from_the_disk() {
    let Some(mut rig) = Rig::new("unreadable_bytes_come_from_the_disk") else {
        return;
    };
    for start in (16 << 20..SSD_BYTES).step_by(8 << 20) {
        rig.ssd.fail_reads(start..start + (2 << 20));
    }
    rig.play_until("failed reads", |server| {
        tier::flash_counter(server, "reads_failed") > Some(3)
    });
    let before = tier::flash_counter(&rig.server, "reads");
    rig.play_until("reads from the rest of the SSD", |server| {
        tier::flash_counter(server, "reads") > before.map(|reads| reads + 20)
    });
    assert_eq!(tier::flash_counter(&rig.server, "reads_wrong"), Some(0));
}

#[test]
fn hung_ssd_delays_no_viewer_and_recovers() {
    let Some(mut rig) = Rig::new("hung_ssd_delays_no_viewer") else {
        return;
    };
    rig.ssd.hang(None);
    rig.play_until_state("slow");
    rig.heal_and_serve();
}

#[test]
fn slow_ssd_is_bypassed_and_recovers() {
    let Some(mut rig) = Rig::new("slow_ssd_is_bypassed") else {
        return;
    };
    rig.ssd.slow_down(100.0);
    rig.play_until_state("slow");
    rig.heal_and_serve();
}

#[test]
fn vanished_ssd_is_bypassed_and_recovers() {
    let Some(mut rig) = Rig::new("vanished_ssd_is_bypassed") else {
        return;
    };
    rig.ssd.vanish();
    rig.play_until_state("offline");
    rig.heal_and_serve();
}

#[test]
fn ssd_with_foreign_contents_is_not_used() {
    let Some(mut rig) = Rig::new("ssd_with_foreign_contents_is_not_used") else {
        return;
    };
    rig.ssd.vanish();
    rig.play_until_state("offline");
    rig.ssd.blank().expect("blank");
    let before = rig.ssd.counters().written_bytes;
    rig.ssd.heal();
    eventually(
        "the log message",
        || rig.server.output(),
        |output| output.contains("something else is on the ssd"),
    );
    let titles = tier::flash_counter(&rig.server, "reads");
    let mut left = 4;
    let left = std::cell::Cell::from_mut(&mut left);
    let seed = &mut rig.seed;
    tier::play_until(&rig.server, seed, "viewers continue", |_| {
        left.set(left.get() - 1);
        left.get() == 0
    });
    assert_eq!(tier::states(&rig.server), ["offline"]);
    assert_eq!(tier::flash_counter(&rig.server, "reads"), titles);
    assert_eq!(
        rig.ssd.counters().written_bytes,
        before,
        "no write to the SSD"
    );
}

#[test]
fn flipped_bits_on_ssd_are_misses() {
    let Some(mut rig) = Rig::new("flipped_bits") else {
        return;
    };
    rig.ssd.flip_bits(1 << 20..SSD_BYTES);
    rig.play_until("detected damage", |server| {
        tier::flash_counter(server, "reads_wrong") > Some(8)
    });
    rig.ssd.heal();
    let before = tier::flash_counter(&rig.server, "read_bytes");
    rig.play_until("reads from the SSD again", |server| {
        tier::flash_counter(server, "read_bytes") > before.map(|bytes| bytes + (1 << 20))
    });
}

#[test]
fn read_only_ssd_is_still_read() {
    let Some(mut rig) = Rig::new("read_only_ssd_is_still_read") else {
        return;
    };
    rig.ssd.refuse_writes();
    rig.play_until_state("read-only");
    let before = tier::flash_counter(&rig.server, "reads");
    rig.play_until("reads from the read-only SSD", |server| {
        tier::flash_counter(server, "reads") > before.map(|reads| reads + 8)
    });
    rig.ssd.heal();
    let states = || tier::states(&rig.server);
    eventually("written again", states, |states| states == &["online"]);
}

#[test]
fn server_stops_while_its_ssd_hangs() {
    let Some(mut rig) = Rig::new("server_stops_while_its_ssd_hangs") else {
        return;
    };
    rig.ssd.hang(None);
    rig.play_until_state("slow");
    rig.server
        .signal(rustix::process::Signal::TERM)
        .expect("asked to stop");
    let output = || rig.server.output();
    eventually("it does not wait", output, |output| {
        output.contains("an ssd does not respond")
    });
    // A process cannot end before the kernel has returned its last request.
    rig.ssd.heal();
    let ended = rig.server.wait(Duration::from_secs(60));
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}
