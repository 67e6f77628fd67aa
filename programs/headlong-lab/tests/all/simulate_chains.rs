//! `headlong simulate chains` and `simulate plan` from the command line.

use std::fs;

use headlong_engine::Policy;
use serde_json::Value;

use super::run_in;

/// 20 MB in two minutes from byte 5, and 1,000 bytes at one moment.
const CHAINS: &str = "file,session,start,length,t_start,t_end,open,kind,kbps,disk\n\
    a,1,5,20000000,0,120000,0,1,2000,1\n\
    b,1,0,1000,60500,60500,1,1,2000,0\n\
    b,1,0,many,60500,60500,1,1,2000,0\n";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("chains.csv"), CHAINS).expect("the folder exists");
    folder
}

#[test]
fn json_has_all_figures_of_each_rule_and_size() {
    let folder = folder();
    let words = "simulate chains chains.csv --algorithm fixed --size 8,16 --mb 1000000 --json";
    let json = run_in(folder.path(), words).exits_with(0).json();
    let points = json["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    let point = &points[0];
    assert_eq!(point["algorithm"], "fixed");
    // Prefetches of the long chain at 0, 48 and 96 s, of the short one at 60.5 s.
    assert_eq!(
        (&point["prefetches"], &point["read"]),
        (&4.into(), &32_000_000.into())
    );
    assert_eq!(
        (&point["util_drive"], &point["util_minute"]),
        (&1.into(), &0.into())
    );
    let busy = 16.0 / 125.5 / 60.0 + 2.0 / 39.4 / 60.0;
    let near = |name: &str, expected: f64| {
        let found = point[name].as_f64().expect(name);
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{name}: {found} {expected}"
        );
    };
    near("util", busy);
    // Two drives and three minutes, because the long chain ends when minute 2 begins.
    near("util_mean", busy * 2.0 / 6.0);
    // The short chain's buffer is held for 40 of the 60 s of minute 1.
    near("mem", 0.008 + 0.008 * 40.0 / 60.0);
    near("mem_touch", 0.016);
    near("mem_peak", 0.016);
    assert_eq!(json["source"]["dropped"]["lines"], 1);
}

#[test]
fn log_and_its_chain_table_give_same_figures() {
    let folder = folder();
    let log = "ts,service_ms,session,device,file,offset,size,bytes,disk\n\
        10,2000,1,tv,a,0,500000,500000,3\n12,2000,1,tv,a,500000,500000,500000,3\n\
        100,5000,1,tv,b,7,,9000000,2\n";
    let files = "file,title,kind,kbps,size,disk,duration_s\n\
        a,1,1,560,5000000,3,60\nb,1,1,3000,50000000,2,130\n";
    fs::write(folder.path().join("log.csv"), log).expect("the folder exists");
    fs::write(folder.path().join("files.csv"), files).expect("the folder exists");
    let run = |words: &str| run_in(folder.path(), words).exits_with(0);
    run("trace chains log.csv --files files.csv --out made.csv");
    let points = |words: &str| run(words).json()["points"].clone();
    let from_log = points("simulate chains --log log.csv --files files.csv --disks 4 --json");
    let from_table = points("simulate chains made.csv --files files.csv --disks 4 --json");
    assert_eq!(from_log, from_table);
    assert_eq!(
        from_log.as_array().map(Vec::len),
        Some(Policy::ALL.len() * 16)
    );
}

#[test]
fn reports_missing_column_and_nearest_rule() {
    let folder = folder();
    fs::write(folder.path().join("bad.csv"), "start,length\n0,1\n").expect("the folder exists");
    for (arguments, expected) in [
        ("chains bad.csv", "no column `t_start`"),
        ("chains none.csv", "none.csv"),
        ("chains chains.csv --algorithm fixd", "fixed"),
        ("chains chains.csv --mb 1000", "1048576 or 1000000"),
        ("chains", "<CHAINS>"),
        (
            "chains --log log.csv --memory 8MiB --threads 4",
            "8 MiB are too little memory for 4 threads",
        ),
        (
            "plan chains.csv --peak 1Gbit/s --drives wd-rad",
            "wd-red-wd10efrx",
        ),
        (
            "plan chains.csv --peak fast --drives wd-red-wd10efrx",
            "40Gbit/s",
        ),
    ] {
        let run = run_in(folder.path(), &format!("simulate {arguments}"));
        let stderr = run.exits_with(64).stderr;
        assert!(stderr.contains(expected), "{arguments}: {stderr}");
    }
}

#[test]
fn writes_page() {
    let folder = folder();
    let words = "simulate chains chains.csv --size 1,7 --fit --html report.html";
    run_in(folder.path(), words).exits_with(0);
    let html = fs::read_to_string(folder.path().join("report.html")).expect("it was written");
    assert!(html.contains("Figure 5.23"));
}

/// 240 viewers of three titles, 20 chunks each.
fn log() -> String {
    let mut log = String::from("ts,service_ms,session,device,file,offset,size,bytes,disk\n");
    for (session, chunk) in (0..240).flat_map(|session| (0..20).map(move |chunk| (session, chunk)))
    {
        let (ts, offset) = (10 + session * 6 + chunk * 4, chunk * 1_000_000);
        let (file, disk) = (session % 3, session % 2);
        log += &format!("{ts},500,{session},tv,{file},{offset},1000000,1000000,{disk}\n");
    }
    log
}

#[test]
fn plan_accepts_all_outputs_of_characterisation() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("log.csv"), log()).expect("written");
    let files = "file,title,kind,kbps,size,disk,duration_s\n0,0,1,2000,80000000,0,320\n\
                 1,1,1,2000,80000000,1,320\n2,2,1,2000,80000000,0,320\n";
    fs::write(path("files.csv"), files).expect("written");
    let run = |words: &str| run_in(folder.path(), words);
    let characterise =
        run("trace characterise log.csv --files files.csv --json --tables tables --spec s.toml");
    fs::write(path("told.json"), characterise.exits_with(0).stdout).expect("written");
    run("trace chains log.csv --files files.csv --out c.csv").exits_with(0);

    let plan = |source: &str| -> Value {
        let rest = "--peak 1Gbit/s --drives wd-red-wd10efrx --algorithm fixed --size 4 --json";
        let output = run(&format!("simulate plan {source} {rest}"));
        output.exits_with(0).json()
    };
    let drives = |plan: &Value| plan["needs"][0]["drives"]["count"]["value"].as_f64();
    let of_table = plan("c.csv");
    assert!(drives(&of_table) >= Some(1.0), "{of_table}");
    assert_eq!(plan("tables"), of_table, "the folder has the same chains");
    assert_eq!(plan("tables/chains.parquet"), of_table);
    let of_spec = plan("s.toml");
    assert!(drives(&of_spec) >= Some(1.0), "{of_spec}");
    assert_eq!(plan("told.json"), of_spec, "the JSON has the specification");

    fs::create_dir(path("empty")).expect("made");
    fs::write(path("other.json"), "{\"schema\": \"of another\"}").expect("written");
    for (source, says) in [("empty", "chains.parquet"), ("other.json", "of another")] {
        let output = run(&format!(
            "simulate plan {source} --peak 1Gbit/s --drives wd-red-wd10efrx"
        ));
        let stderr = output.exits_with(64).stderr;
        assert!(stderr.contains(says), "{stderr}");
    }
}
