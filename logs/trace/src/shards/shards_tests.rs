use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use headlong_chains::{ChainRules, LinkRule};
use proptest::prelude::*;

use super::*;
use crate::{CharacteriseSettings, Intake, IntakeResult, SilentProgress, characterise, take_in};

const LOADED_BYTES: u64 = 64 << 20;

/// A line of a log, of a viewer with or without a session id.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    viewer: u32,
    has_id: bool,
    ms: u64,
    service_ms: u64,
    file: u32,
    offset: u64,
    is_open: bool,
    bytes: u64,
}

pub(crate) fn lines(most: usize) -> impl Strategy<Value = Vec<Line>> {
    let line = (
        (0u32..90, prop::bool::weighted(0.7)),
        (0u64..9_000_000, 0u64..90_000),
        (0u32..30, 0u64..4 << 20),
        (any::<bool>(), 0u64..3 << 20),
    )
        .prop_map(
            |((viewer, has_id), (ms, service_ms), (file, offset), (is_open, bytes))| Line {
                viewer,
                has_id,
                ms,
                service_ms,
                file,
                // Many reads continue another one.
                offset: if offset % 3 == 0 { offset } else { 0 },
                is_open,
                bytes,
            },
        );
    prop::collection::vec(line, 1..most)
}

pub(crate) fn text_of(lines: &[Line]) -> String {
    let mut text =
        String::from("ts_ms,service_ms,session,address,agent,device,file,offset,size,bytes\n");
    for line in lines {
        let Line {
            viewer,
            ms,
            service_ms,
            file,
            offset,
            bytes,
            ..
        } = line;
        let (kind, end) = match file % 5 {
            0 => ("audio", "m4a"),
            1 => ("seg", "ts"),
            _ => ("film", "mp4"),
        };
        let id = if line.has_id {
            format!("s{viewer}")
        } else {
            String::new()
        };
        let size = if line.is_open {
            String::new()
        } else {
            bytes.to_string()
        };
        let _ = writeln!(
            text,
            "{ms},{service_ms},{id},10.0.0.{viewer},agent-{},device-{viewer},/t{}/{kind}-{file}.{end},{offset},{size},{bytes}",
            viewer % 7,
            file % 4,
        );
    }
    text.push_str("not a line\n");
    text
}

pub(crate) fn taken(folder: &Path, text: &str) -> IntakeResult {
    let log = folder.join("requests.csv");
    std::fs::write(&log, text).expect("written");
    let intake = Intake {
        logs: vec![log],
        threads: 2,
        memory_bytes_max: 128 << 20,
        keep_unplaced: true,
        ..Intake::default()
    };
    take_in(&intake, &SilentProgress).expect("a readable log")
}

fn settings() -> CharacteriseSettings {
    CharacteriseSettings {
        rules: ChainRules::default(),
        threads: 2,
        tables: None,
        title: "A title".to_owned(),
        command: "a command".to_owned(),
    }
}

fn shards(folder: &Path, log: &IntakeResult, count: u32) -> Vec<PathBuf> {
    let folder = folder.join(format!("of-{count}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let settings = SplitSettings {
        folder,
        shards: count,
        threads: 2,
        words: Vec::new(),
    };
    split(log, &settings, |_| {}).expect("split")
}

fn summed(shard: &Path) -> PartialSums {
    let shard = Shard::open(shard, LOADED_BYTES).expect("a shard");
    PartialSums::of(&shard, ChainRules::default(), 2, |_| {}).expect("summed")
}

/// Sums as another process reads them.
fn stored(shard: &Path) -> PartialSums {
    let bytes = summed(shard).to_bytes();
    PartialSums::from_bytes(&shard.display().to_string(), &bytes).expect("readable")
}

pub(crate) fn merged(parts: Vec<PartialSums>) -> Result<String, ShardError> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().expect("a part");
    for part in parts {
        all.merge(part)?;
    }
    let report = all.report("A title", "a command")?;
    Ok(serde_json::to_string(&report).expect("JSON"))
}

pub(crate) fn one_run(log: &IntakeResult) -> String {
    let report = characterise(log, &settings(), |_| {}).expect("a report");
    serde_json::to_string(&report).expect("JSON")
}

/// A log of a few sessions, split into three.
fn split_log() -> (tempfile::TempDir, IntakeResult, Vec<PathBuf>) {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |number: u32| Line {
        viewer: number % 20,
        has_id: true,
        ms: u64::from(number) * 10_000,
        service_ms: 500,
        file: number % 6,
        offset: u64::from(number / 20) << 20,
        is_open: false,
        bytes: 1 << 20,
    };
    let lines: Vec<Line> = (0..400).map(line).collect();
    let log = taken(folder.path(), &text_of(&lines));
    let shards = shards(folder.path(), &log, 3);
    (folder, log, shards)
}

fn told(result: Result<impl Sized, ShardError>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

/// Compares one run with the merged sums of so many shards, in a random order.
fn assert_merge_equals_one_run(lines: &[Line], seed: u64, counts: &[u32]) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = taken(folder.path(), &text_of(lines));
    let expected = one_run(&log);
    for count in counts {
        let shards = shards(folder.path(), &log, *count);
        let mut parts: Vec<_> = shards.iter().map(|shard| stored(shard)).collect();
        let key = |part: &PartialSums| seed ^ u64::from(part.shards()[0]);
        parts.sort_by_key(|part| crate::names::hash_number(key(part)));
        assert_eq!(merged(parts).expect("merged"), expected, "{count} shards");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn merge_in_any_order_equals_one_run(lines in lines(400), seed in any::<u64>()) {
        assert_merge_equals_one_run(&lines, seed, &[1, 2, 7]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1))]

    #[test]
    fn merge_of_many_shards_equals_one_run(lines in lines(400), seed in any::<u64>()) {
        assert_merge_equals_one_run(&lines, seed, &[64]);
    }
}

#[test]
fn shards_are_equal_for_any_number_of_threads() {
    let (folder, log, shards) = split_log();
    let again = folder.path().join("again");
    std::fs::create_dir(&again).expect("a folder");
    let settings = SplitSettings {
        folder: again,
        shards: 3,
        threads: 1,
        words: Vec::new(),
    };
    for (one, other) in shards
        .iter()
        .zip(split(&log, &settings, |_| {}).expect("split"))
    {
        let read = |path: &Path| std::fs::read(path).expect("readable");
        assert_eq!(read(one), read(&other));
    }
}

#[test]
fn session_is_in_one_shard() {
    let (_folder, log, shards) = split_log();
    let mut all = 0;
    for path in &shards {
        let shard = Shard::open(path, LOADED_BYTES).expect("a shard");
        let outcomes = shard
            .parts()
            .each_unsorted(1, |_, requests| shard.check(requests));
        assert!(
            outcomes
                .expect("read")
                .into_iter()
                .all(|outcome| outcome.is_ok())
        );
        all += shard.requests();
    }
    assert_eq!(all, log.requests);
}

#[test]
fn missing_and_repeated_shards_are_named() {
    let (_folder, _, shards) = split_log();
    let part = |number: usize| stored(&shards[number]);
    let missing = told(merged(vec![part(0), part(2)]));
    assert!(
        missing.contains("only 2 of 3 shards are here, shard 1 is missing"),
        "{missing}"
    );
    let twice = told(merged(vec![part(0), part(1), part(2), part(1)]));
    let place = shards[1].display().to_string();
    assert!(
        twice.starts_with(&place) && twice.contains("shard 1 of 3 is already in"),
        "{twice}"
    );
}

#[test]
fn parts_of_other_splits_and_rules_are_named() {
    let (folder, log, shards) = split_log();
    let of_four = self::shards(folder.path(), &log, 4);
    let other = told(merged(vec![stored(&shards[0]), stored(&of_four[1])]));
    assert!(
        other.contains("of-4/shard-001: is part of another log or split"),
        "{other}"
    );
    let rules = ChainRules {
        link: LinkRule::Component,
        ..ChainRules::default()
    };
    let shard = Shard::open(&shards[1], LOADED_BYTES).expect("a shard");
    let by_others = PartialSums::of(&shard, rules, 1, |_| {}).expect("summed");
    let rules = told(merged(vec![stored(&shards[0]), by_others]));
    assert!(
        rules.contains("other rules (received, component)"),
        "{rules}"
    );
}

#[test]
fn failed_merge_adds_nothing() {
    let (_folder, log, shards) = split_log();
    let mut all = stored(&shards[0]);
    assert!(all.merge(stored(&shards[0])).is_err());
    let parts = vec![all, stored(&shards[1]), stored(&shards[2])];
    assert_eq!(merged(parts).expect("merged"), one_run(&log));
}

#[test]
fn cut_or_changed_files_are_named() {
    let (folder, _, shards) = split_log();
    let shard = std::fs::read(&shards[0]).expect("readable");
    let partial = summed(&shards[0]).to_bytes();
    let path = folder.path().join("changed");
    let open = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        Shard::open(&path, LOADED_BYTES)
    };
    for cut in [0, 10, 60, 300] {
        let words = if cut < 60 {
            "changed: is not a shard"
        } else {
            "changed: is cut or damaged"
        };
        assert!(told(open(&shard[..cut])).contains(words), "{cut}");
        let words = if cut < 60 {
            "x: is not a partial sum"
        } else {
            "x: is cut or damaged"
        };
        assert!(
            told(PartialSums::from_bytes("x", &partial[..cut])).contains(words),
            "{cut}"
        );
    }
    for place in (60..shard.len()).step_by(997) {
        let mut changed = shard.clone();
        changed[place] ^= 1;
        assert!(
            told(open(&changed)).contains("is cut or damaged"),
            "{place}"
        );
    }
    let mut changed = partial.clone();
    changed[partial.len() / 2] ^= 1;
    assert!(told(PartialSums::from_bytes("x", &changed)).contains("x: is cut or damaged"));
    assert!(told(PartialSums::from_bytes("x", &shard)).contains("x: is not a partial sum"));
    assert!(told(open(&partial)).contains("changed: is not a shard"));
}

#[test]
fn other_version_is_named() {
    let (_folder, _, shards) = split_log();
    let partial = summed(&shards[0]).to_bytes();
    let text = String::from_utf8_lossy(&partial[..60]).replace("partial 1 ", "partial 9 ");
    let changed = [&text.as_bytes()[..60], &partial[60..]].concat();
    let error = told(PartialSums::from_bytes("x", &changed));
    assert!(
        error.starts_with("x: was written as `headlong partial 9 headlong-char"),
        "{error}"
    );
}

#[test]
fn session_of_another_shard_is_named() {
    let (_folder, _, shards) = split_log();
    let [one, other] =
        [0, 1].map(|number| Shard::open(&shards[number], LOADED_BYTES).expect("a shard"));
    let requests = other
        .parts()
        .each_unsorted(1, |_, requests| requests.clone())
        .expect("read");
    let error = told(one.check(&requests.concat()));
    assert!(
        error.contains("belongs to shard 1 of 3, not to 0"),
        "{error}"
    );
}

#[test]
fn too_many_shards_are_refused() {
    let (folder, log, _) = split_log();
    for count in [0, SHARDS_MAX + 1] {
        let settings = SplitSettings {
            folder: folder.path().to_owned(),
            shards: count,
            threads: 1,
            words: Vec::new(),
        };
        assert!(told(split(&log, &settings, |_| {})).contains("1 to 512 shards, not"));
    }
}
