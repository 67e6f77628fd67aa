use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;

use headlong_chains::{ChainRules, GapRule, LinkRule};

use super::*;
use crate::intake::{Intake, IntakeResult, SilentProgress, take_in};

const HEADER: &str = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";

fn taken(folder: &Path, log: &str) -> IntakeResult {
    let path = folder.join("log.csv");
    fs::write(&path, format!("{HEADER}{log}")).expect("written");
    let intake = Intake {
        logs: vec![path],
        threads: 2,
        memory_bytes_max: 256 << 20,
        spill: Some(folder.to_owned()),
        ..Intake::default()
    };
    take_in(&intake, &SilentProgress).expect("a log")
}

fn settings() -> ChainSettings {
    ChainSettings {
        rules: ChainRules::default(),
        threads: 2,
        keep_bytes_max: 1 << 20,
    }
}

fn text(log: &IntakeResult, settings: &ChainSettings, folder: &Path) -> String {
    let table = ChainTable::join(log, settings, TableForm::Text, folder).expect("joined");
    let mut text = Vec::new();
    table.write(&mut text).expect("written");
    String::from_utf8(text).expect("UTF-8")
}

fn table(log: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let log = taken(folder.path(), log);
    let text = text(&log, &settings(), folder.path());
    text.strip_prefix("session,file,start,length,t_start,t_end,open,nreq\n")
        .expect("a header")
        .to_owned()
}

#[test]
fn requests_become_rows_by_the_rules() {
    let log = "\
        1,1500,7,tv,9,0,1000,1000,3\n\
        3,1000,7,tv,9,1000,1000,400,3\n\
        4,500,7,tv,9,1400,,600,3\n\
        5,500,7,tv,9,1400,600,600,3\n\
        5,0,7,tv,9,2000,600,0,3\n\
        60,100,7,tv,9,2000,,50,3\n";
    assert_eq!(
        table(log),
        "7,9,0,2000,-500,4000,0,3\n\
         7,9,1400,600,4500,5000,0,1\n\
         7,9,2000,50,59900,60000,1,1\n"
    );
}

#[test]
fn rows_are_sorted_by_names_then_start() {
    for (log, expected) in [
        (
            // By value if all names are numbers.
            "5,0,10,,10,0,,1,0\n5,0,9,,10,0,,1,0\n5,0,9,,9,0,,1,0\n5,0,100,,1,0,,1,0\n",
            "9,9,0,1,5000,5000,1,1\n9,10,0,1,5000,5000,1,1\n\
             10,10,0,1,5000,5000,1,1\n100,1,0,1,5000,5000,1,1\n",
        ),
        (
            // By bytes if one is not.
            "5,0,10,,/b,0,,1,0\n5,0,9,,/b,0,,1,0\n5,0,9,,/a,0,,1,0\n5,0,!,,10,0,,1,0\n\
             5,0,!,,9,0,,1,0\n5,0,!,,/c,0,,1,0\n",
            "!,/c,0,1,5000,5000,1,1\n!,10,0,1,5000,5000,1,1\n!,9,0,1,5000,5000,1,1\n\
             10,/b,0,1,5000,5000,1,1\n9,/a,0,1,5000,5000,1,1\n9,/b,0,1,5000,5000,1,1\n",
        ),
        (
            "5,0,1,,2,0,,1,0\n5,0,1,,1,7,,1,0\n5,0,1,,1,0,,1,0\n5,0,1,,1,0,,2,0\n\
             4,0,1,,3,0,,1,0\n",
            "1,3,0,1,4000,4000,1,1\n1,1,0,2,5000,5000,1,1\n1,1,0,1,5000,5000,1,1\n\
             1,1,7,1,5000,5000,1,1\n1,2,0,1,5000,5000,1,1\n",
        ),
        ("5,0,\"a,b\",,x,0,,1,0\n", "\"a,b\",x,0,1,5000,5000,1,1\n"),
    ] {
        assert_eq!(table(log), expected);
    }
}

#[test]
fn quotes_in_names_are_doubled() {
    let mut row = b"1,".to_vec();
    rows::put_name(&mut row, crate::names::Name::Text(b"a \"b\""));
    assert_eq!(String::from_utf8_lossy(&row), "1,\"a \"\"b\"\"\"");
}

/// A generated log of many sessions, optionally with some textual names.
fn many(names: bool) -> String {
    let mut log = String::new();
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % bound
    };
    for line in 0..5000 {
        let session = below(300);
        let is_open = below(4) == 0;
        let size = below(3) * 10;
        let prefix = if names && session.is_multiple_of(3) {
            "s"
        } else {
            ""
        };
        let asked = if is_open {
            String::new()
        } else {
            size.to_string()
        };
        let (file, offset, service_ms) = (below(3), below(4) * 10, below(3000));
        let ts = 100 + line / 50;
        writeln!(
            log,
            "{ts},{service_ms},{prefix}{session},,{file},{offset},{asked},{size},0"
        )
        .expect("written");
    }
    log
}

#[test]
fn table_is_independent_of_threads_and_memory() {
    for names in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = taken(folder.path(), &many(names));
        for (gap, link) in [
            (GapRule::Received, LinkRule::OneToOne),
            (GapRule::Idle, LinkRule::Component),
        ] {
            let rules = ChainRules {
                gap,
                link,
                ..ChainRules::default()
            };
            let with = |threads, keep_bytes_max| {
                let settings = ChainSettings {
                    rules,
                    threads,
                    keep_bytes_max,
                };
                let path = folder.path();
                let table = ChainTable::join(&log, &settings, TableForm::Text, path);
                let table = table.expect("joined");
                assert_eq!(table.sums.spilled_bytes > 0, keep_bytes_max < 100_000);
                text(&log, &settings, path)
            };
            let plain = with(1, 1 << 20);
            assert_eq!(plain.lines().count() as u64, 1 + sums(&log, rules).chains);
            assert_eq!(plain, with(3, 1 << 20));
            assert_eq!(plain, with(2, 0));
            assert_eq!(plain, with(2, 30_000));
        }
    }
}

fn sums(log: &IntakeResult, rules: ChainRules) -> ChainSums {
    let mut sums = ChainSums::default();
    let chains = log.parts.each_unsorted(1, |_, requests| {
        let mut chains = Vec::new();
        headlong_chains::chains(requests, &rules, &mut chains);
        chains
    });
    for chain in chains.expect("joined").into_iter().flatten() {
        sums.chains += 1;
        sums.joined += u64::from(chain.requests);
    }
    sums
}

#[test]
fn table_appears_only_when_complete() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = taken(folder.path(), "5,0,1,,2,0,,1,0\n");
    let path = folder.path().join("chains.csv");
    fs::write(&path, "previous contents").expect("written");
    let file = TableFile::begin(&path).expect("begun");
    assert_eq!(
        fs::read_to_string(&path).expect("readable"),
        "previous contents"
    );
    let sums = file.finish(&log, &settings()).expect("finished");
    assert_eq!(
        (sums.requests, sums.joined, sums.chains, sums.sessions),
        (1, 1, 1, 1)
    );
    assert!(
        fs::read_to_string(&path)
            .expect("readable")
            .ends_with("1,2,0,1,5000,5000,1,1\n")
    );

    drop(TableFile::begin(&path).expect("begun"));
    let names = fs::read_dir(folder.path()).expect("listed");
    assert_eq!(
        names.count(),
        2,
        "only the log and the table, no temporary file"
    );
}

#[test]
fn unwritable_path_is_reported_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(TableFile::begin(&folder.path().join("missing/chains.csv")).is_err());
    let error = TableFile::begin(folder.path()).expect_err("a folder");
    assert!(
        error
            .to_string()
            .contains(&folder.path().display().to_string())
    );
}

#[test]
fn parquet_and_text_tables_agree() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    for names in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = taken(folder.path(), &many(names));
        let path = folder.path().join("chains.parquet");
        let file = TableFile::begin(&path).expect("begun");
        file.finish(&log, &settings()).expect("finished");
        let file = fs::File::open(&path).expect("opened");
        let reader = SerializedFileReader::new(file).expect("a table");
        let mut lines = format!("{}\n", CHAIN_COLUMNS.join(","));
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            let cells: Vec<String> = row
                .get_column_iter()
                .map(|(_, field)| match field {
                    Field::Long(number) => number.to_string(),
                    Field::Bool(flag) => u8::from(*flag).to_string(),
                    Field::Str(text) => text.clone(),
                    other => panic!("unexpected {other:?}"),
                })
                .collect();
            writeln!(lines, "{}", cells.join(",")).expect("written");
        }
        let expected = text(&log, &settings(), folder.path());
        assert_eq!(lines, expected);
        let table = crate::TableLines::open(&path).expect("readable");
        let mut shown = String::new();
        let read = table.expect("a table").read_to_string(&mut shown);
        read.expect("read");
        assert_eq!(shown, expected);
    }
}
