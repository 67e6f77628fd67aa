use std::path::PathBuf;

use super::*;
use crate::intake::{Intake, Silent, TakenIn, take_in};
use headlong_chains::Chain;

fn intake(log: PathBuf) -> Intake {
    Intake {
        logs: vec![log],
        threads: 2,
        memory_bytes_max: 128 << 20,
        ..Intake::default()
    }
}

fn taken(log: PathBuf) -> TakenIn {
    take_in(&intake(log), &Silent).expect("taken in")
}

fn requests(taken: &TakenIn) -> Vec<headlong_chains::Request> {
    let parts = taken.parts.each(1, |_, requests| requests.clone());
    let mut requests = parts.expect("parts").concat();
    requests.sort_by_key(|request| (request.completed_ms, request.session, request.offset));
    requests
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
fn a_table_of_requests_is_a_log_that_reads_as_the_one_it_came_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("a.csv");
    std::fs::write(&text, log()).expect("written");
    let first = taken(text);
    let path = folder.path().join("requests.parquet");
    let mut table = TableWriter::create(&path).expect("a table");
    for request in requests(&first) {
        let row = RequestRow {
            names: &first,
            request,
        };
        table.push(&row).expect("a row");
    }
    table.finish().expect("finished");
    let again = taken(path);
    assert_eq!(again.told_format, "parquet");
    assert_eq!(again.requests, 200_000);
    assert_eq!(again.span_ms, first.span_ms);
    assert_eq!(again.session_names, first.session_names);
    let plain = |taken: &TakenIn| {
        let mut all = requests(taken);
        all.iter_mut().for_each(|request| request.line = 0);
        all
    };
    assert_eq!(plain(&again), plain(&first));
}

#[test]
fn the_other_tables_can_be_written() {
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
    let mut table = TableWriter::create(&path).expect("a table");
    table
        .push(&ChainRow {
            names: &names,
            chain,
        })
        .expect("a row");
    table.finish().expect("finished");
    let mut table = TableWriter::create(&folder.path().join("phases.parquet")).expect("a table");
    let phase = PhaseRow {
        names: &names,
        session: 0,
        kind: "stable",
        start_ms: 0,
        end_ms: 1,
        chains: 1,
        requests: 1,
        bytes: 10,
    };
    table.push(&phase).expect("a row");
    table.finish().expect("finished");
    let mut table = TableWriter::create(&folder.path().join("sessions.parquet")).expect("a table");
    let session = SessionRow {
        names: &names,
        session: 0,
        device: 0,
        title: 0,
        start_ms: 0,
        end_ms: 1,
        requests: 1,
        chains: 1,
        files: 1,
        bytes: 10,
        kbps_mean: 1.5,
        is_left_out: false,
    };
    table.push(&session).expect("a row");
    table.finish().expect("finished");
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    let file = std::fs::File::open(path).expect("it is there");
    let reader = SerializedFileReader::new(file).expect("a table");
    let row = reader
        .get_row_iter(None)
        .expect("rows")
        .next()
        .expect("a row");
    let text = row.expect("a row").to_string();
    assert!(
        text.contains("file: \"1\"") && text.contains("open: false"),
        "{text}"
    );
}

#[test]
fn a_table_without_the_columns_says_which_it_has() {
    struct Other;
    impl TableRow for Other {
        const COLUMNS: &'static [Column] = &[Column::new("colour", ColumnType::Text)];
        fn write(&self, cells: &mut Cells<'_>) {
            cells.text("red");
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.parquet");
    let mut table = TableWriter::create(&path).expect("a table");
    table.push(&Other).expect("a row");
    table.finish().expect("finished");
    let error = take_in(&intake(path.clone()), &Silent)
        .expect_err("no log")
        .to_string();
    assert!(error.contains("not the columns of a request log") && error.contains("colour"));
    std::fs::write(&path, b"PAR1 and nothing else").expect("written");
    let error = take_in(&intake(path), &Silent)
        .expect_err("no table")
        .to_string();
    assert!(error.contains("it is no Parquet table"), "{error}");
}

#[test]
fn a_table_in_a_folder_that_is_not_there_is_named() {
    let outcome = TableWriter::<SessionRow<'_>>::create(std::path::Path::new("/none/a.parquet"));
    let error = outcome.expect_err("no folder").to_string();
    assert!(
        error.starts_with("the table /none/a.parquet cannot be written"),
        "{error}"
    );
}
