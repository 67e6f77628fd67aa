use std::io::Read as _;
use std::path::PathBuf;

use super::*;
use crate::intake::{Intake, IntakeResult, SilentProgress, take_in};
use crate::read::DropReason;
use headlong_chains::Chain;
use proptest::prelude::*;

fn intake(log: PathBuf) -> Intake {
    Intake {
        logs: vec![log],
        threads: 2,
        memory_bytes_max: 128 << 20,
        ..Intake::default()
    }
}

fn taken(log: PathBuf) -> IntakeResult {
    take_in(&intake(log), &SilentProgress).expect("readable logs")
}

fn requests(taken: &IntakeResult) -> Vec<headlong_chains::Request> {
    let parts = taken.parts.each_unsorted(1, |_, requests| requests.clone());
    let mut requests = parts.expect("parts").concat();
    requests.sort_by_key(|request| (request.completed_ms, request.session, request.offset));
    requests
}

/// Writes rows as a table.
fn write_rows<R: TableRow>(path: &std::path::Path, rows: impl IntoIterator<Item = R>) {
    let mut table = TableWriter::create(path).expect("a table");
    for row in rows {
        table.push(&row).expect("a row");
    }
    table.finish().expect("finished");
}

/// Writes the requests of a log as a table.
fn write_requests(log: &IntakeResult, path: &std::path::Path) {
    let row = |request| RequestRow {
        names: log,
        request,
    };
    write_rows(path, requests(log).into_iter().map(row));
}

fn log() -> String {
    let mut text = "ts,service_ms,session,device,file,offset,size,bytes,disk\n".to_owned();
    for line in 0..200_000_u32 {
        let size = if line % 3 == 0 {
            String::new()
        } else {
            (line * 2).to_string()
        };
        text.push_str(&format!(
            "{},{},s{},tv,{},{line},{size},{},2\n",
            line / 10,
            line % 900,
            line % 50,
            line % 9,
            line % 1000
        ));
    }
    text
}

#[test]
fn table_of_requests_reads_as_its_original_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("a.csv");
    std::fs::write(&text, log()).expect("written");
    let first = taken(text);
    let path = folder.path().join("requests.parquet");
    write_requests(&first, &path);
    let again = taken(path);
    assert_eq!(again.told_format, "parquet");
    assert_eq!(again.requests, 200_000);
    assert_eq!(again.span_ms, first.span_ms);
    assert_eq!(again.session_names, first.session_names);
    let plain = |taken: &IntakeResult| {
        let mut all = requests(taken);
        all.iter_mut().for_each(|request| request.line = 0);
        all
    };
    assert_eq!(plain(&again), plain(&first));
}

#[test]
fn rows_beyond_the_line_limit_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("a.csv");
    std::fs::write(&text, log()).expect("written");
    let path = folder.path().join("requests.parquet");
    write_requests(&taken(text), &path);
    for lines in [1, 5000, 10_000] {
        let intake = Intake {
            lines_max: Some(lines),
            ..intake(path.clone())
        };
        assert_eq!(
            take_in(&intake, &SilentProgress)
                .expect("readable logs")
                .requests,
            lines
        );
    }
}

#[test]
fn unplaced_requests_survive_a_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("access.log");
    let line = |status: u32, bytes: u32| {
        format!(
            "192.0.2.1 - - [17/May/2015:08:05:32 +0000] \"GET /a.mp4 HTTP/1.1\" {status} {bytes} \
             \"-\" \"x\"\n"
        )
    };
    std::fs::write(&text, [line(200, 4096), line(206, 512)].concat()).expect("written");
    let taken = |log: PathBuf| {
        let intake = Intake {
            keep_unplaced: true,
            ..intake(log)
        };
        take_in(&intake, &SilentProgress).expect("readable logs")
    };
    let first = taken(text);
    let path = folder.path().join("requests.parquet");
    write_requests(&first, &path);
    let again = taken(path);
    assert_eq!((again.requests, again.dropped.count()), (2, 0));
    assert_eq!((first.unplaced, again.unplaced), (1, 1));
    let places = |taken: &IntakeResult| {
        let all = requests(taken).into_iter();
        all.map(|one| (one.offset, one.sent_bytes))
            .collect::<Vec<_>>()
    };
    assert_eq!(places(&again), places(&first));
}

#[test]
fn requests_are_equal_without_devices_and_drives() {
    let folder = tempfile::tempdir().expect("a folder");
    let (text, table) = (folder.path().join("a.csv"), folder.path().join("a.parquet"));
    std::fs::write(&text, log()).expect("written");
    let whole = taken(text.clone());
    write_requests(&whole, &table);
    let bare = |mut request: headlong_chains::Request| {
        (request.disk, request.device, request.line) = (0, 0, 0);
        request
    };
    let expected: Vec<_> = requests(&whole).into_iter().map(bare).collect();
    for log in [&text, &table] {
        let few = Intake {
            devices_and_drives: false,
            ..intake(log.clone())
        };
        let few = take_in(&few, &SilentProgress).expect("readable logs");
        assert!(few.disks.is_empty(), "{}", few.disks.len());
        let found: Vec<_> = requests(&few).into_iter().map(bare).collect();
        assert_eq!(found, expected);
        // A request of one log may repeat one of the other, except for the drive.
        let both = Intake {
            logs: vec![log.clone(), log.clone()],
            devices_and_drives: false,
            ..intake(log.clone())
        };
        let both = take_in(&both, &SilentProgress).expect("readable logs");
        assert_eq!(both.disks.len(), 1);
    }
}

#[test]
fn table_of_chains_leaves_estimated_rates_empty() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("a.csv");
    let line = "100,0,1,1,1,0,10,10,1\n";
    let header = "ts,service_ms,session,device,file,offset,size,bytes,disk\n";
    std::fs::write(&text, format!("{header}{line}")).expect("written");
    let names = taken(text);
    let chain = Chain {
        session: 0,
        file: 0,
        start: 0,
        length: 10,
        start_ms: 100_000,
        end_ms: 100_000,
        is_open: false,
        is_mixed: false,
        requests: 1,
        disk: 1,
    };
    let path = folder.path().join("chains.parquet");
    let names = &names;
    write_rows(&path, [ChainRow { names, chain }]);
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let file = std::fs::File::open(path).expect("opened");
    let reader = SerializedFileReader::new(file).expect("a table");
    let row = reader
        .get_row_iter(None)
        .expect("rows")
        .next()
        .expect("a row");
    let text = row.expect("a row").to_string();
    assert!(
        text.contains("file: \"1\"") && text.contains("open: false") && text.contains("kbps: null"),
        "{text}"
    );
}

#[test]
fn error_lists_the_columns_of_a_foreign_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.parquet");
    let columns = Columns::empty().text("colour", |red: &&str| Some(*red));
    let file = std::fs::File::create(&path).expect("created");
    let mut table = TableWriter::into_file(file, &path, columns).expect("a table");
    table.push(&"red").expect("a row");
    table.finish().expect("finished");
    let error = take_in(&intake(path.clone()), &SilentProgress)
        .expect_err("no log")
        .to_string();
    assert!(error.contains("lacks the columns of a request log") && error.contains("colour"));
    std::fs::write(&path, b"PAR1 and nothing else").expect("written");
    let error = take_in(&intake(path), &SilentProgress)
        .expect_err("no table")
        .to_string();
    assert!(error.contains("it is not a Parquet table"), "{error}");
}

#[test]
fn cloudfront_table_has_date_and_time_in_two_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("E2.parquet");
    // As CloudFront's standard logging, version 2, writes them: all columns are texts.
    const VALUES: [(&str, &str); 13] = [
        ("date", "2026-11-27"),
        ("time", "10:00:00"),
        ("x-edge-location", "FRA1"),
        ("sc-bytes", "1000400"),
        ("c-ip", "192.0.2.10"),
        ("cs-method", "GET"),
        ("cs-uri-stem", "/films/t.mp4"),
        ("sc-status", "206"),
        ("cs(User-Agent)", "P/1"),
        ("time-taken", "0.500"),
        ("sc-content-len", "1000000"),
        ("sc-range-start", "2000000"),
        ("sc-range-end", "2999999"),
    ];
    let columns = VALUES
        .into_iter()
        .fold(Columns::empty(), |columns, (name, value)| {
            columns.text(name, move |_: &()| Some(value))
        });
    let file = std::fs::File::create(&path).expect("created");
    let mut table = TableWriter::into_file(file, &path, columns).expect("a table");
    table.push(&()).expect("a row");
    table.finish().expect("finished");
    let taken = taken(path);
    let [request] = requests(&taken)[..] else {
        panic!("{taken:?}");
    };
    assert_eq!(taken.told_format, "parquet");
    assert_eq!(request.completed_ms, 1_795_773_600_000);
    assert_eq!(request.received_ms, 1_795_773_599_500);
    assert_eq!((request.offset, request.sent_bytes), (2_000_000, 1_000_000));
    assert_eq!(
        taken.file_names.get(request.file).to_string(),
        "/films/t.mp4"
    );
}

#[test]
fn missing_folder_of_a_table_is_named() {
    let outcome = TableWriter::<SessionRow<'_>>::create(std::path::Path::new("/none/a.parquet"));
    let error = outcome.expect_err("no folder").to_string();
    assert!(
        error.starts_with("cannot write the table /none/a.parquet"),
        "{error}"
    );
}

#[test]
fn unfinished_table_leaves_the_earlier_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.parquet");
    std::fs::write(&path, "earlier").expect("written");
    let table = TableWriter::<SessionRow<'_>>::create(&path).expect("a table");
    drop(table);
    assert_eq!(std::fs::read(&path).expect("a file"), b"earlier");
    let table = TableWriter::<SessionRow<'_>>::create(&path).expect("a table");
    table.finish().expect("finished");
    assert!(std::fs::read(&path).expect("a file").starts_with(b"PAR1"));
}

/// A row of numbers, including values that no log would have.
#[derive(Debug, Clone)]
struct OddRow {
    ts: Option<i64>,
    service_ms: Option<i64>,
    session: Option<i64>,
    /// As text.
    file: Option<String>,
    offset: Option<i64>,
    size: Option<i64>,
    bytes: Option<i64>,
    disk: Option<i64>,
}

impl TableRow for OddRow {
    fn columns() -> Columns<Self> {
        Columns::<Self>::empty()
            .int("ts", |row| row.ts)
            .int("service_ms", |row| row.service_ms)
            .int("session", |row| row.session)
            .text("file", |row| row.file.clone())
            .int("offset", |row| row.offset)
            .int("size", |row| row.size)
            .int("bytes", |row| row.bytes)
            .int("disk", |row| row.disk)
    }
}

fn odd() -> impl Strategy<Value = OddRow> {
    let number = |usual: std::ops::Range<i64>| {
        let odd = prop_oneof![
            Just(None),
            Just(Some(-1)),
            Just(Some(0)),
            Just(Some(1 << 50)),
            Just(Some((1 << 50) + 1)),
            Just(Some(i64::MAX)),
            Just(Some(i64::MIN)),
            any::<i64>().prop_map(Some),
        ];
        prop_oneof![8 => usual.prop_map(Some), 1 => odd]
    };
    let file = prop_oneof![
        8 => (0..9).prop_map(|file| Some(format!("/films/{file}.mp4"))),
        1 => prop_oneof![
            Just(None), Just(Some(String::new())), Just(Some("-".to_owned())),
            Just(Some("12".to_owned())), Just(Some("a, b".to_owned())),
        ],
    ];
    let who = (number(0..40), file, number(0..3));
    let times = (number(1000..100_000), number(0..4000));
    let bytes = (number(0..5_000_000), number(1..900_000), number(0..900_000));
    (who, times, bytes).prop_map(|(who, times, bytes)| OddRow {
        ts: times.0,
        service_ms: times.1,
        session: who.0,
        file: who.1,
        offset: bytes.0,
        size: bytes.1,
        bytes: bytes.2,
        disk: who.2,
    })
}

proptest! {
    // Each case writes and reads files.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn numeric_batches_agree_with_parsed_text(
        rows in proptest::collection::vec(odd(), 1..300),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log.parquet");
        write_rows(&path, rows);
        let mut lines = TableLines::open(&path).expect("readable").expect("a table");
        let mut text = Vec::new();
        lines.read_to_end(&mut text).expect("readable");
        let plain = folder.path().join("log.csv");
        std::fs::write(&plain, &text).expect("written");
        let [table, text] = [path, plain].map(taken);
        prop_assert_eq!(&table.session_names, &text.session_names);
        prop_assert_eq!(&table.file_names, &text.file_names);
        prop_assert_eq!(&table.disks, &text.disks);
        let counts = |taken: &IntakeResult| {
            // The header line is not a request.
            let lines = taken.dropped.by_reason().iter();
            let lines = lines.filter(|lines| lines.reason != DropReason::NotARequest);
            lines.map(|lines| (lines.reason, lines.count)).collect::<Vec<_>>()
        };
        prop_assert_eq!(counts(&table), counts(&text));
        prop_assert_eq!((table.untimed, table.span_ms), (text.untimed, text.span_ms));
        let numbered = |taken: &IntakeResult, head: u64| {
            let mut all = requests(taken);
            all.iter_mut().for_each(|request| request.line -= head);
            all.sort_by_key(|request| request.line);
            all
        };
        // Lines of text are counted from the header line.
        prop_assert_eq!(numbered(&table, 0), numbered(&text, 1));
    }
}

#[test]
fn table_as_text_quotes_cells_where_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.parquet");
    let row = OddRow {
        ts: Some(-7),
        service_ms: None,
        session: Some(3),
        file: Some("a, \"b\"".to_owned()),
        offset: Some(0),
        size: None,
        bytes: Some(i64::MAX),
        disk: Some(1),
    };
    write_rows(&path, vec![row; 5000]);
    let mut text = String::new();
    let lines = TableLines::open(&path).expect("readable");
    lines
        .expect("a table")
        .read_to_string(&mut text)
        .expect("readable");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("ts,service_ms,session,file,offset,size,bytes,disk")
    );
    let line = "-7,,3,\"a, \"\"b\"\"\",0,,9223372036854775807,1";
    assert!(lines.clone().all(|found| found == line), "{text}");
    assert_eq!(lines.count(), 5000);
    std::fs::write(&path, "file,size\n").expect("written");
    assert!(TableLines::open(&path).expect("readable").is_none());
}
