//! `headlong trace chains` from the command line.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use headlong_testkit::ProgramRun;

use super::{command, run_in};

const LOG: &str = "ts,service_ms,session,device,file,offset,size,bytes,disk\n\
    1,1500,7,tv,9,0,1000,1000,3\n\
    3,1000,7,tv,9,1000,1000,1000,3\n\
    45,100,7,tv,9,2000,,500,3\n\
    46,100,7,tv,9,2000,500,0,3\n\
    this is no request\n";

fn chains(folder: &Path, words: &str) -> ProgramRun {
    run_in(folder, &format!("trace chains --allow-dropped {words}"))
}

#[test]
fn log_becomes_table_of_chains() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("log.csv"), LOG).expect("the folder exists");
    let files = "file,title,kind,kbps,size,disk,duration_s\n9,1,1,560,3000,3,40\n";
    fs::write(folder.path().join("files.csv"), files).expect("the folder exists");
    let words = "log.csv --files files.csv --out chains.csv";
    let output = chains(folder.path(), words).exits_with(0);
    let table = fs::read_to_string(folder.path().join("chains.csv")).expect("it was written");
    assert_eq!(
        table,
        "session,file,start,length,t_start,t_end,open,nreq\n\
         7,9,0,2000,-500,3000,0,2\n\
         7,9,2000,500,44900,45000,1,1\n"
    );
    let stdout = &output.stdout;
    assert!(
        stdout.contains("\n2 chains of 3 requests in 1 sessions\n"),
        "{stdout}"
    );
    assert!(stdout.contains("1 requests got no byte"), "{stdout}");
    assert!(
        stdout.contains("1 line dropped") && stdout.contains("log.csv:6"),
        "{stdout}"
    );
    assert!(
        !stdout.contains("log.csv:1"),
        "a header is not missed: {stdout}"
    );
}

#[test]
fn variants_join_differently() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = LOG.replace("45,100,7", "43,100,7");
    fs::write(folder.path().join("log.csv"), log).expect("the folder exists");
    let chains = |options: &str| {
        let output = chains(folder.path(), &format!("log.csv --out -{options}"));
        output.exits_with(0).stdout.lines().count() - 1
    };
    assert_eq!(chains(""), 2, "received more than 40 s apart");
    assert_eq!(
        chains(" --gap idle"),
        1,
        "received 40 s after the previous one completed"
    );
    assert_eq!(chains(" --link component"), 2);
}

#[test]
fn reads_log_from_pipe_and_prints_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = "trace chains - --out chains.parquet --json --allow-dropped";
    let mut command = command(words.split(' '));
    command.current_dir(folder.path()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary exists");
    let mut stdin = child.stdin.take().expect("it has one");
    stdin.write_all(LOG.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let json = ProgramRun::from(output).exits_with(0).json();
    assert_eq!(
        (&json["chains"], &json["joined"]),
        (&2.into(), &3.into()),
        "{json}"
    );
    let table = fs::read(folder.path().join("chains.parquet")).expect("it was written");
    assert!(table.starts_with(b"PAR1"));
}

#[test]
fn reports_usage_errors_before_any_io() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("log.csv"), LOG).expect("the folder exists");
    for (words, word) in [
        ("log.csv --out missing/chains.csv", "missing/chains.csv"),
        ("none.csv --out chains.csv", "none.csv"),
    ] {
        let stderr = chains(folder.path(), words).exits_with(64).stderr;
        assert!(stderr.contains(word), "{stderr}");
    }
    let left = fs::read_dir(folder.path()).expect("the folder exists");
    assert_eq!(left.count(), 1, "only the log");
}

#[test]
fn parquet_and_text_are_equivalent() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |words: &str| run_in(folder.path(), words).exits_with(0);
    let mut points = Vec::new();
    for kind in ["csv", "parquet"] {
        run(&format!(
            "workload generate netflix-2014-catalog --sessions 30 --log log.{kind} --files files.csv"
        ));
        run(&format!("trace chains log.{kind} --out of-{kind}.csv"));
        run(&format!("trace chains log.csv --out chains.{kind}"));
        let simulated = run(&format!(
            "simulate chains chains.{kind} --files files.csv --size 2,7 --json"
        ));
        points.push(simulated.json()["points"].clone());
    }
    let read = |name: &str| fs::read(folder.path().join(name)).expect("it was written");
    assert!(read("log.parquet").starts_with(b"PAR1"));
    assert!(read("of-csv.csv").len() > 1000);
    assert_eq!(read("of-csv.csv"), read("of-parquet.csv"));
    assert!(
        points[0]
            .as_array()
            .is_some_and(|points| !points.is_empty())
    );
    assert_eq!(points[0], points[1]);
}
