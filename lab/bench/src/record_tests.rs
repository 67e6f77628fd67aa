use headlong_testkit::schema::differences;
use serde_json::json;

use super::*;
use crate::experiment::ExperimentCell;
use crate::step_load::{DriveWork, LoadStep};

fn schema() -> Value {
    let schema = include_str!("../../../docs/schemas/bench-1.json");
    serde_json::from_str(schema).expect("JSON")
}

#[test]
fn record_matches_schema_and_round_trips() {
    let schema = schema();
    assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
    let record = full();
    let value = serde_json::to_value(&record).expect("JSON");
    let found = differences(&schema, &value, "record");
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(
        serde_json::from_value::<RunRecord>(value).expect("a record"),
        record
    );
}

#[test]
fn detects_schema_violations_of_names_and_values() {
    let value = serde_json::to_value(full()).expect("JSON");
    for (place, change) in [
        ("/schema", json!("headlong-bench-2")),
        ("/seed", json!(1.5)),
        ("/verdict/outcome", json!("won")),
        ("/verdict/missed", json!([1])),
        ("/server_facts/died", json!(1)),
        ("/disk/pattern/sequence_cdf/0/1", json!("all")),
        ("/climbed/steps/0/is_whole", json!(1)),
        ("/setup/machine", json!({})),
    ] {
        let mut value = value.clone();
        *value.pointer_mut(place).expect(place) = change;
        assert!(
            !differences(&schema(), &value, "record").is_empty(),
            "{place}"
        );
    }
}

#[test]
fn finds_record_only_for_same_unrefused_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = RecordFolder::open(folder.path()).expect("a folder");
    let mut record = some();
    let key = RunKey {
        server: record.server.clone(),
        workload: record.workload.clone(),
        rate: record.rate,
        seed: record.seed,
        experiment: Value::Null,
    };
    assert_eq!(records.find(&key), None);
    records.keep(&key, &record).expect("kept");
    assert_eq!(records.find(&key).as_ref(), Some(&record));
    let other = RunKey {
        experiment: Value::Bool(true),
        ..key.clone()
    };
    assert_eq!(records.find(&other), None);
    record.verdict.outcome = OutcomeName::Refused;
    record.seed = 2;
    let refused = RunKey { seed: 2, ..key };
    records.keep(&refused, &record).expect("kept");
    assert_eq!(records.find(&refused), None);
}

/// A record with every list filled.
fn full() -> RunRecord {
    let mut record = some();
    record.verdict.refused_because = vec!["too slow".into()];
    record.verdict.missed = vec!["stalled".into()];
    record.server_facts.died = Some("exit status: 1".into());
    record.disk.pattern.sequence_cdf = vec![(512.0, 0.5), (1024.0, 1.0)];
    record.disk.pattern.excerpt = vec![(2048, 8)];
    let step = LoadStep {
        ssd: Some(DriveWork::default()),
        ..LoadStep::default()
    };
    record.climbed = Some(StepLoadResult {
        filled_s: Some(1.0),
        fill: step,
        steps: vec![step],
    });
    record.setup.commands = vec!["nginx".into()];
    record.phases = vec![RunPhase {
        name: "start".to_owned(),
        from_s: 0.0,
        to_s: 100.0,
        delivered: 1e6,
        read_bytes: 1 << 30,
        seeks: 200,
        jobs: Some(200),
        jobs_late: Some(3),
    }];
    record
}

pub(crate) fn some() -> RunRecord {
    let text = "name = \"x\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n[files]\n\
                catalogue = \"youtube-sd\"\n[workload.sd]\npreset = \"youtube-sd\"\n\
                [server.a]\nkind = \"nginx\"\n";
    let experiment = crate::Experiment::from_text(Path::new("x.toml"), text, false);
    let cell = experiment.expect("right").cell(None, None).expect("one");
    record(&cell, 26_214_400.0, 1, OutcomeName::Passed)
}

/// A record with only an outcome.
pub(crate) fn record(
    cell: &ExperimentCell,
    rate: f64,
    seed: u64,
    outcome: OutcomeName,
) -> RunRecord {
    RunRecord {
        schema: SCHEMA.to_owned(),
        experiment: "x".into(),
        server: cell.server_name.clone(),
        workload: cell.workload_name.clone(),
        rate,
        seed,
        time_scale: 5,
        started_unix: 0,
        wall_seconds: 1.0,
        verdict: RunVerdict {
            outcome,
            refused_because: Vec::new(),
            limit: None,
            failure_share: 0.0,
            ramp_failures: 0,
            missed: Vec::new(),
            asked_for: Some(rate),
            delivered: rate,
        },
        load: LoadFigures::Measured(Value::Null),
        server_facts: ServerFacts::default(),
        disk: DiskFacts::default(),
        climbed: None,
        phases: Vec::new(),
        cpu: CpuUsage::default(),
        setup: RunSetup {
            version: "0".into(),
            machine: MachineInfo::this(),
            experiment: Value::Null,
            queue: QueueSettings {
                scheduler: "none".into(),
                read_ahead_kb: 128,
                max_sectors_kb: 1280,
                max_hw_sectors_kb: 1280,
                is_rotational: true,
            },
            commands: Vec::new(),
            files: BTreeMap::new(),
        },
    }
}
