//! Simulated worlds: small ones with known results, and the server's behaviour in larger ones.

mod adaptive;
mod client_hints;
mod determinism;
mod disks;
mod fleet;
mod fleet_plan;
mod load_steps;
mod loss_bound;
mod phases;
mod restart;
mod world;

use headlong_drive::preset;
use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_sim::{
    FlashSetup, LayoutFile, MeasuredWindow, VirtualExperiment, WarmContent, WorldSetup,
};
use headlong_units::{BitRate, ByteRange, Duration, Instant, KIB};
use headlong_workload::{NetworkClass, Session, Specification, Trace};

const CHUNK_BYTES: u64 = 512 * KIB;

fn seconds(count: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(count)
}

/// A window between two times in seconds.
fn window(from: u64, to: u64) -> MeasuredWindow {
    MeasuredWindow {
        from: seconds(from),
        to: seconds(to),
    }
}

/// A workload on a drive of 1 TB.
fn experiment(workload: &str, changes: &[(&str, &str)], setup: WorldSetup) -> VirtualExperiment {
    let changes = changes.iter();
    let changes: Vec<_> = changes
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let workload = Specification::preset(workload, &changes);
    VirtualExperiment {
        workload: workload.unwrap_or_else(|errors| panic!("{errors}")),
        drive: preset("wd-red-wd10efrx").expect("a preset"),
        setup,
        steps: Vec::new(),
    }
}

/// A warm tier.
fn tier(ssds: u16, bytes: u64, block_bytes: u32) -> FlashSetup {
    FlashSetup {
        drive: preset("ssd-sata-low-end").expect("a preset"),
        ssds,
        bytes,
        block_bytes,
        is_warm: true,
        content: WarmContent::default(),
    }
}

/// Titles in files of their own, assigned to disks in turn.
fn titles(count: u32, chunks: u64, disks: u32) -> Vec<LayoutFile> {
    let title = |index| LayoutFile {
        object: Some(ObjectId(index)),
        size_bytes: chunks * CHUNK_BYTES,
        bit_rate: None,
        part: None,
        disk: index % disks,
    };
    (0..count).map(title).collect()
}

/// A viewer that requests `count` chunks of a title from the start, the first three at once, the
/// others paced.
fn visit(arrival: Duration, title: u32, count: u64) -> Session {
    let call = |index: u64| ScriptCall {
        object: ObjectId(title),
        range: Some(ByteRange::new(
            index * CHUNK_BYTES,
            (index + 1) * CHUNK_BYTES,
        )),
        expected_bytes: Some(CHUNK_BYTES),
        timeout: Some(Duration::from_secs(10)),
        pace: (index >= 3).then_some(Duration::from_secs(10)),
        think: None,
        with_previous: false,
    };
    Session {
        arrival,
        class: 0,
        plan: SessionPlan::Script(Script::new((0..count).map(call).collect())),
    }
}

fn trace(bandwidth: Option<BitRate>, sessions: Vec<Session>) -> Trace {
    Trace {
        classes: vec![NetworkClass {
            name: "only".to_owned(),
            bandwidth,
            delay: Duration::from_millis(50),
            share: 1.0,
        }],
        sessions,
        ..Trace::default()
    }
}
