//! Reports on small logs, among them the server's own access log, without options.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use headlong_chains::ChainRules;
use headlong_characterise::Characterisation;
use headlong_trace::{CharacteriseSettings, Intake, SilentProgress, characterise, page, take_in};

const HEADER: &str = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";

/// Characterises a log on that many threads, with tables in a folder.
fn characterise_log(log: &Path, threads: usize, tables: Option<PathBuf>) -> Characterisation {
    let intake = Intake {
        logs: vec![log.to_owned()],
        threads: 2,
        ..Intake::default()
    };
    let taken = take_in(&intake, &SilentProgress).expect("readable logs");
    let settings = CharacteriseSettings {
        rules: ChainRules::default(),
        threads,
        tables,
        title: String::new(),
        command: String::new(),
    };
    characterise(&taken, &settings, |_| ()).expect("characterised")
}

fn characterise_text(text: &str) -> Characterisation {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    std::fs::write(&path, text).expect("written");
    characterise_log(&path, 2, None)
}

fn characterise_lines(lines: &str) -> Characterisation {
    characterise_text(&format!("{HEADER}{lines}"))
}

#[test]
fn most_frequent_devices_are_listed_separately() {
    let mut lines = String::new();
    let mut session = 0;
    let mut push = |device: &str| {
        session += 1;
        writeln!(lines, "{session},100,{session},{device},1,0,1000,1000,1").expect("memory");
    };
    (0..70).for_each(|rare| push(&format!("A{rare:02}")));
    (0..1000).for_each(|_| push("windows"));
    (0..20).for_each(|_| push("phone"));
    let devices = characterise_lines(&lines).observed.devices;
    let sessions = |name: &str| {
        let of_name = devices.iter().find(|one| one.name == name);
        of_name.map(|one| one.sessions)
    };
    assert_eq!(sessions("windows"), Some(1000));
    assert_eq!(sessions("phone"), Some(20));
    assert_eq!((sessions("A00"), sessions("A69")), (Some(1), None));
    assert_eq!((devices.len(), sessions("others")), (64, Some(9)));
}

#[test]
fn fetching_each_segment_once_is_one_title() {
    let mut lines = String::new();
    for piece in 0..300 {
        let second = 100 + piece * 4;
        let name = format!("/film/720p/seg-{piece}.ts");
        writeln!(lines, "{second},500,1,tv,{name},0,,700000,1").expect("memory");
    }
    let told = characterise_lines(&lines);
    let figures: Vec<_> = told.figures().collect();
    let series = |figure: &str, series: &str| {
        let figure = figures
            .iter()
            .find(|one| one.id == figure)
            .expect("a figure");
        let all = figure.series.iter();
        let found: Vec<_> = all.filter(|one| one.name == series).collect();
        found[0].points.clone()
    };
    let fractions = series("figure-5.5", "combined");
    assert_eq!(fractions.last().map(|point| point[0]), Some(99.5));
    for (name, place) in [("start", 0.5), ("end", 99.5)] {
        let points = series("figure-5.7", name);
        let used: Vec<_> = points.iter().filter(|point| point[1] > 0.0).collect();
        assert_eq!(used, [&vec![place, 100.0]]);
    }
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
    let told = characterise_text(&own_log());
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
    let viewers = (0..40).map(|viewer| {
        let text = own_log().replace("\"one\"", &format!("\"viewer {viewer}\""));
        text + "\n"
    });
    let log = folder.path().join("access.log");
    std::fs::write(&log, viewers.collect::<String>()).expect("written");
    let tables = |threads: usize| {
        let folder = folder.path().join(format!("{threads}"));
        std::fs::create_dir(&folder).expect("made");
        let told = characterise_log(&log, threads, Some(folder.clone()));
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
