//! Agreement of pairs with known results.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::search::SearchResult;

const MIB: f64 = 1_048_576.0;
const TEXT: &str = r#"
name = "small"
time_scale = 10
[drive]
preset = "wd-red-wd10efrx"
size = "4GB"
[files]
catalogue = "youtube-sd"
set.title.sd.count = 60
set.title.hd.count = 4
[phases]
ramp_up = "10s"
measured = "30s"
ramp_down = "10s"
[workload.sd]
preset = "youtube-sd"
[server.headlong]
kind = "headlong"
config = { admission = "accept" }
[server.nginx]
kind = "nginx"
"#;

fn cell(server: &str) -> (Experiment, ExperimentCell) {
    let experiment = Experiment::from_text(Path::new("x.toml"), TEXT, false).expect("right");
    let cell = experiment
        .cell(Some(server), None)
        .expect("one server, one workload");
    (experiment, cell)
}

fn limit(cell: &ExperimentCell, rate: f64, refused: Option<f64>) -> ServerLimit {
    let record = crate::record::tests::record(cell, rate * MIB, 1, OutcomeName::Passed);
    let found = SearchResult {
        rate: Some(rate * MIB),
        failed: None,
        refused: refused.map(|rate| rate * MIB),
        is_settled: true,
        probes: 3,
    };
    ServerLimit {
        found,
        ..ServerLimit::of_run(cell, record)
    }
}

fn paired(server: &str, real: (f64, Option<f64>), simulated: f64) -> ValidationPair {
    let (experiment, cell) = cell(server);
    let bench = VirtualBench::new(&experiment, Duration::ZERO, "headlong simulate x.toml");
    let (real, simulated) = (limit(&cell, real.0, real.1), limit(&cell, simulated, None));
    pair(&cell, &[real], &[simulated], &bench, false).expect("imitable")
}

#[test]
fn rates_agree_within_tolerance_of_server_kind() {
    assert!(paired("headlong", (6.0, None), 6.5).agrees);
    assert!(!paired("headlong", (6.0, None), 6.7).agrees);
    assert!(!paired("headlong", (6.0, None), 5.3).agrees);
    assert!(paired("nginx", (6.0, None), 7.1).agrees);
    assert!(!paired("nginx", (6.0, None), 7.3).agrees);
}

#[test]
fn machine_limited_real_rate_is_lower_bound() {
    assert!(paired("headlong", (6.0, Some(6.5)), 9.0).agrees);
    assert!(!paired("headlong", (6.0, Some(6.5)), 5.0).agrees);
}

#[test]
fn figures_come_from_same_record_fields() {
    let (_, cell) = cell("headlong");
    let mut record = crate::record::tests::record(&cell, 8.0 * MIB, 1, OutcomeName::Passed);
    record.server_facts.status = json!({ "devices": [{ "counters": {
        "jobs": 10, "job_bytes": 80, "bytes_sent": 200, "bytes_reused": 50,
        "bytes_read": 100, "prefetch_evicted_bytes": 5, "reads_done": 20,
    } }] });
    record.disk.counters =
        json!({ "counters": { "busy_ns": 5_000_000_000_u64, "elapsed_ns": 10_000_000_000_u64 } });
    let figures = ValidationFigures::of(&record);
    assert_eq!(figures.prefetch_bytes, Some(8.0));
    assert_eq!(figures.hit_ratio, Some(0.25));
    assert_eq!(figures.evicted_ratio, Some(0.05));
    assert_eq!(figures.disk_busy, Some(0.5));
    assert_eq!(figures.reads_per_second, Some(2.0));
    record.server_facts.status = Value::Null;
    let figures = ValidationFigures::of(&record);
    assert_eq!(
        (figures.prefetch_bytes, figures.hit_ratio),
        (None, Some(1.0))
    );
}

#[test]
fn turnaround_is_read_time_beyond_drive_busy_time() {
    let (_, cell) = cell("headlong");
    let mut limit = limit(&cell, 6.0, None);
    let best = limit.best.as_mut().expect("a passing run");
    best.server_facts.status =
        json!({ "devices": [{ "counters": { "busy_seconds": 12.0, "reads_done": 1000 } }] });
    best.disk.counters = json!({ "counters": { "busy_ns": 10_000_000_000_u64 } });
    let (cells, limits) = ([cell], [limit.clone()]);
    let found = turnaround(&limits, &cells, 10);
    assert_eq!(found, Some(Duration::from_micros(200)));
    limit.server = "nginx".into();
    assert_eq!(turnaround(&[limit], &cells, 10), None);
}

fn phase(name: &str, delivered: f64, seeks: u64, late: Option<u64>) -> RunPhase {
    RunPhase {
        name: name.to_owned(),
        from_s: 0.0,
        to_s: 100.0,
        delivered,
        read_bytes: 1_000_000,
        seeks,
        jobs: late.map(|_| 100),
        jobs_late: late,
    }
}

#[test]
fn phases_of_both_runs_are_compared_at_five_percent() {
    let real = [
        phase("start", 100.0, 100, Some(0)),
        phase("ramp", 1.0, 1, None),
    ];
    let simulated = [
        phase("start", 104.0, 90, Some(0)),
        phase("steady", 1.0, 1, None),
    ];
    let found = compare_phases(&real, &simulated);
    let told: Vec<_> = found.iter().map(|one| (one.figure, one.agrees)).collect();
    assert_eq!(
        told,
        [
            (PhaseFigure::Delivered, Some(true)),
            (PhaseFigure::BytesPerSeek, Some(false)),
            (PhaseFigure::LateJobs, Some(true)),
        ]
    );
    let difference = found[1].difference.expect("both have it");
    assert!((difference - 1.0 / 9.0).abs() < 1e-12, "{difference}");
    assert_eq!(found[2].difference, None);
}

#[test]
fn figure_that_one_side_lacks_has_no_verdict() {
    let found = compare_phases(
        &[phase("start", 1.0, 0, Some(5))],
        &[phase("start", 1.0, 10, None)],
    );
    let agrees: Vec<_> = found.iter().map(|one| one.agrees).collect();
    assert_eq!(agrees, [Some(true), None, None]);
}
