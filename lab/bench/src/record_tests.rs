use super::*;
use crate::climb::{Stretch, Work};
use crate::experiment::Cell;

/// Deviations of `value` from `schema`: missing and unknown fields; types are not compared.
pub(crate) fn differences(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let (Some(known), Some(fields)) = (schema["properties"].as_object(), value.as_object()) else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        if !fields.contains_key(name) {
            found.push(format!("{path}.{name} is missing"));
        }
    }
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match known.get(name) {
            Some(schema) => differences(schema, value, &path, found),
            None => found.push(format!("{path} is unknown to the schema")),
        }
    }
}

#[test]
fn record_matches_schema_and_round_trips() {
    let schema = include_str!("../../../docs/schemas/bench-1.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
    let mut record = some();
    let step = Stretch {
        ssd: Some(Work::default()),
        ..Stretch::default()
    };
    record.climbed = Some(StepLoadResult {
        filled_s: Some(1.0),
        fill: step,
        steps: vec![step],
    });
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
    let value = serde_json::to_value(&record).expect("JSON");
    let mut found = Vec::new();
    differences(&schema, &value, "record", &mut found);
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(
        serde_json::from_value::<RunRecord>(value).expect("a record"),
        record
    );
}

#[test]
fn finds_record_only_for_same_unrefused_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = Records::open(folder.path()).expect("a folder");
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

pub(crate) fn some() -> RunRecord {
    let text = "name = \"x\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n[files]\n\
                catalogue = \"youtube-sd\"\n[workload.sd]\npreset = \"youtube-sd\"\n\
                [server.a]\nkind = \"nginx\"\n";
    let experiment = crate::Experiment::from_text(Path::new("x.toml"), text, false);
    let cell = experiment.expect("right").cell(None, None).expect("one");
    record(&cell, 26_214_400.0, 1, OutcomeName::Passed)
}

/// A record with only an outcome.
pub(crate) fn record(cell: &Cell, rate: f64, seed: u64, outcome: OutcomeName) -> RunRecord {
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
        verdict: Verdict {
            outcome,
            refused_because: Vec::new(),
            limit: None,
            failure_share: 0.0,
            ramp_failures: 0,
            missed: Vec::new(),
            asked_for: Some(rate),
            delivered: rate,
        },
        load: Load::Measured(Value::Null),
        server_facts: ServerFacts::default(),
        disk: DiskFacts::default(),
        climbed: None,
        phases: Vec::new(),
        cpu: CpuUse::default(),
        setup: Setup {
            version: "0".into(),
            machine: Machine::this(),
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
