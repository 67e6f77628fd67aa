//! `headlong workload` from the command line.

use std::fs;
use std::time::Duration;

use headlong_testkit::ProgramRun;

use super::{command, run_words};

fn workload(words: &str) -> ProgramRun {
    run_words(&format!("workload {words}"))
}

#[test]
fn same_command_writes_same_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.trace").display().to_string();
    let words = "generate youtube-sd --rate 2.5/s --length 1min --seed 3";
    let output = workload(&format!("{words} -o {file}")).exits_with(0);
    assert!(output.stdout.is_empty());
    let printed = workload(words);
    let written = fs::read_to_string(&file).expect("the trace");
    assert_eq!(printed.stdout, written);
    let head = r#"{"trace":{"version":2,"about":{"name":"youtube-sd","seed":3,"#;
    assert!(printed.stdout.starts_with(head));
    let described = workload(&format!("describe {file} --json"));
    assert!(described.stdout.contains("\"name\": \"youtube-sd\""));
}

#[test]
fn reports_all_mistakes_and_exits_with_64() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("a.trace").display().to_string();
    fs::write(&trace, "/a timeout=ten\n/b range=9-3\n").expect("written");
    let words = "generate youtube-sd --rate 5 --set request.size=1s";
    let output = workload(words).exits_with(64);
    assert!(output.stdout.is_empty());
    let expected = [
        "headlong: --set request.size: request: unknown table; did you mean [requests]?",
        "headlong: --rate: `5` does not fit; write sessions such as \"2.5/s\", or bytes that they \
         ask for such as \"60MiB/s\"",
    ];
    assert_eq!(output.stderr.lines().collect::<Vec<_>>(), expected);
    let stderr = workload(&format!("describe {trace}")).exits_with(64).stderr;
    assert!(
        stderr.contains(&format!("headlong: {trace}:1:12: `ten` is not a time")),
        "{stderr}"
    );
    assert!(
        stderr.contains(&format!("headlong: {trace}:2:10: `9-3` ends before")),
        "{stderr}"
    );
}

#[test]
fn fill_creates_verifies_and_keeps_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = folder.path().join("tiny.toml").display().to_string();
    let videos = folder.path().join("videos").display().to_string();
    fs::write(&spec, "[title.sd]\ncount = 5\ndurations = \"20s\"\n").expect("written");
    let fill = format!("fill {videos} --spec {spec} --chunked 512KiB");
    let output = workload(&fill).exits_with(0);
    assert!(
        output
            .stdout
            .starts_with("10 files written, 0 kept, 5242880 bytes written;")
    );
    assert!(
        workload(&fill)
            .stdout
            .starts_with("0 files written, 10 kept,")
    );
    let verify = format!("{fill} --verify all");
    let all_right = "10 files, 5242880 bytes: all right\n";
    assert_eq!(workload(&verify).stdout, all_right);
    let file = folder.path().join("videos/sd/000002/00001.bin");
    let mut bytes = fs::read(&file).expect("a chunk");
    bytes[77] ^= 1;
    fs::write(&file, bytes).expect("written");
    let output = workload(&verify).exits_with(2);
    assert!(output.stderr.contains("00001.bin: byte 77 is wrong"));
}

#[test]
fn text_of_preset_is_a_specification() {
    let folder = tempfile::tempdir().expect("a folder");
    let spec = folder.path().join("mine.toml");
    let text = workload("describe flashstream --text").stdout;
    fs::write(&spec, text).expect("written");
    let output = workload(&format!("generate {} --sessions 2", spec.display())).exits_with(0);
    assert_eq!(output.stdout.matches("{\"session\":").count(), 2);
}

#[test]
fn phased_workload_writes_log_and_files_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = folder.path().join("files.csv");
    let words = "generate netflix-2014-catalog --sessions 40 --log - --files";
    let output = workload(&format!("{words} {}", files.display())).exits_with(0);
    let log = &output.stdout;
    let mut lines = log.lines();
    assert_eq!(
        lines.next(),
        Some("ts,service_ms,session,device,file,offset,size,bytes,disk")
    );
    let column = |line: &str, number: usize| -> u64 {
        let word = line.split(',').nth(number).expect("a column");
        word.parse().expect("a number")
    };
    let times: Vec<u64> = lines.clone().map(|line| column(line, 0)).collect();
    assert!(times.len() > 1000 && times.is_sorted());
    let table = fs::read_to_string(&files).expect("a table of files");
    assert!(table.starts_with("file,title,kind,kbps,size,disk,duration_s\n"));
    let sizes: Vec<u64> = table.lines().skip(1).map(|line| column(line, 4)).collect();
    for line in lines {
        let (file, offset, bytes) = (column(line, 4), column(line, 5), column(line, 7));
        assert!(offset + bytes <= sizes[file as usize], "{line}");
    }
}

/// Bytes that a process has written.
fn written_bytes(pid: u32) -> u64 {
    let told = fs::read_to_string(format!("/proc/{pid}/io")).expect("a running process");
    let line = told.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.expect("a count").parse().expect("a number")
}

#[test]
fn killed_generation_leaves_no_part_of_a_log() {
    for name in ["log.csv", "log.parquet"] {
        let folder = tempfile::tempdir().expect("a folder");
        let words = format!("workload generate netflix-2014-catalog --log {name}");
        let mut child = command(words.split(' '))
            .current_dir(folder.path())
            .spawn()
            .expect("it starts");
        // A log of some GB is begun.
        while written_bytes(child.id()) < 4 << 20 {
            assert_eq!(child.try_wait().expect("a state"), None);
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 0, "{name}");
    }
}

#[test]
fn reports_limits_of_phased_workload_with_remedy() {
    for (words, part) in [
        (
            "generate netflix-2014-catalog --rate 2/s --no-pacing",
            "--no-pacing: netflix-2014-catalog is a workload of phases; its devices fill",
        ),
        (
            "generate netflix-2014-catalog",
            "does not fit in memory; write --sessions 1000",
        ),
        (
            "generate youtube-sd --log -",
            "youtube-sd is not a workload of phases and has no log",
        ),
        (
            "generate netflix-2014-catalog --rate=-2/s",
            "--rate: `-2/s` is not a rate",
        ),
        (
            "describe netflix-2014-catalog --set catalogue.zipf_alfa=1",
            "did you mean `catalogue.zipf_alpha`?",
        ),
        ("describe netflix-2014-catalogue", "netflix-2014-catalog"),
    ] {
        let told = workload(words).exits_with(64).stderr;
        assert!(told.contains(part), "{part}\nis missing in\n{told}");
    }
}

#[test]
fn describes_phased_workload_with_published_figures() {
    let output = workload("describe netflix-2014-catalog --sessions 60 --json");
    let json = output.exits_with(0).json();
    assert_eq!(json["sessions"], 60);
    let figures = json["figures"].as_array().expect("figures");
    let requests = figures
        .iter()
        .find(|row| row["figure"] == "requests, million");
    assert_eq!(requests.expect("one")["published"], 64.993469);
}
