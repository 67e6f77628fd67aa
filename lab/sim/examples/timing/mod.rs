//! Shared by the two speed examples: the experiment and the timing.

use std::time::Instant as WallInstant;

use headlong_drive::preset;
use headlong_sim::{MeasuredWindow, VirtualExperiment, WorldSetup};
use headlong_units::{Duration, GIB, Instant};
use headlong_workload::Specification;

/// A workload with calls of a given size or duration, on a WD Red with 3.5 GiB of memory.
pub(crate) fn experiment(workload: &str, call: &str, seconds: u64) -> VirtualExperiment {
    let mut setup = WorldSetup {
        window: MeasuredWindow {
            from: Instant::ZERO,
            to: Instant::ZERO + Duration::from_secs(seconds),
        },
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = 7 * GIB / 2;
    let calls = [("requests.size".into(), call.into())];
    VirtualExperiment {
        workload: Specification::preset(workload, &calls).expect("a preset"),
        drive: preset("wd-red-wd10efrx").expect("a preset"),
        setup,
        steps: Vec::new(),
    }
}

/// The fastest of three runs: wall-clock seconds and the result.
pub(crate) fn fastest<T>(run: impl Fn() -> T) -> (f64, T) {
    let timed = || {
        let started = WallInstant::now();
        let result = run();
        (started.elapsed().as_secs_f64(), result)
    };
    let first = timed();
    (0..2).map(|_| timed()).fold(
        first,
        |best, next| {
            if next.0 < best.0 { next } else { best }
        },
    )
}
