//! The server's own access log is characterised without options.

use std::io::Write as _;
use std::path::PathBuf;

use headlong_chains::ChainRules;
use headlong_characterise::Characterisation;
use headlong_trace::{CharacteriseSettings, Intake, SilentProgress, characterise, page, take_in};

fn settings() -> CharacteriseSettings {
    CharacteriseSettings {
        rules: ChainRules::default(),
        threads: 2,
        tables: None,
        title: String::new(),
        command: String::new(),
    }
}

fn characterise_logs(logs: Vec<PathBuf>, settings: &CharacteriseSettings) -> Characterisation {
    let intake = Intake {
        logs,
        threads: 2,
        ..Intake::default()
    };
    let taken = take_in(&intake, &SilentProgress).expect("read");
    characterise(&taken, settings, |_| ()).expect("characterised")
}

/// Two viewers of one film, as written with `log.format = "json"`: one reads 20 chunks
/// sequentially, the other leaves after a short look.
fn own_log() -> String {
    let mut lines = Vec::new();
    let mut line = |session: &str, start_ms: u64, seconds: f64, from: u64, bytes: u64| {
        let (end, total) = (from + bytes - 1, bytes);
        lines.push(format!(
            "{{\"start_unix_ms\":{start_ms},\"service_seconds\":{seconds},\"first_byte_seconds\":0.01,\
             \"remote\":\"192.0.2.7:4711\",\"method\":\"GET\",\"target\":\"/films/a.mp4?token=1\",\
             \"version\":\"HTTP/1.1\",\"range\":\"bytes={from}-{end}\",\"status\":206,\
             \"bytes_sent\":{total},\"bytes_from_ram\":0,\"bytes_from_disk\":{total},\
             \"session\":\"{session}\",\"session_from\":\"cmcd\",\"device\":\"sda\",\
             \"user_agent\":\"Player/1.0\",\"bit_rate_bps\":2000000}}"
        ));
    };
    for chunk in 0..20 {
        line(
            "one",
            784_111_777_000 + chunk * 4000,
            0.5,
            chunk * 1_000_000,
            1_000_000,
        );
    }
    line("two", 784_111_790_000, 0.2, 0, 500_000);
    lines.push("cut off in the mid".into());
    lines.join("\n")
}

#[test]
fn own_log_is_characterised_without_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    std::fs::write(&path, own_log()).expect("written");
    let told = characterise_logs(vec![path], &settings());
    let number = |table: &str, row: &str, column: &str| told.number(table, row, column);
    assert_eq!(number("table-5.1", "sessions", "value"), Some(2.0));
    assert_eq!(number("table-5.1", "requests", "value"), Some(21.0));
    assert_eq!(number("table-chain-lengths", "chains", "value"), Some(2.0));
    assert_eq!(
        number("table-phase-counts", "stable", "without-audio"),
        Some(1.0)
    );
    assert_eq!(
        told.about
            .dropped
            .iter()
            .map(|dropped| dropped.count)
            .sum::<u64>(),
        1
    );
    let html = page(&told).to_html();
    assert!(
        html.contains("are estimates"),
        "the page reports the missing files table"
    );
}

#[test]
fn tables_are_independent_of_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("access.log");
    let mut log = std::fs::File::create(&path).expect("created");
    for viewer in 0..40 {
        let text = own_log().replace("\"one\"", &format!("\"viewer {viewer}\""));
        writeln!(log, "{text}").expect("written");
    }
    let tables = |threads: usize| {
        let folder = folder.path().join(format!("{threads}"));
        std::fs::create_dir(&folder).expect("made");
        let settings = CharacteriseSettings {
            threads,
            tables: Some(folder.clone()),
            ..settings()
        };
        let told = characterise_logs(vec![path.clone()], &settings);
        let names = ["requests", "chains", "phases", "sessions"];
        let all = names.map(|name| {
            std::fs::read(folder.join(format!("{name}.parquet"))).expect("it was written")
        });
        (told, all)
    };
    let (one, four) = (tables(1), tables(4));
    assert!(one == four);
    assert!(
        one.1
            .iter()
            .all(|table| table.starts_with(b"PAR1") && table.ends_with(b"PAR1"))
    );
}
