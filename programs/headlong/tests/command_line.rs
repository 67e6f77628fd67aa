//! The binary's interface for operators: output streams and exit codes.

use std::fs;
use std::process::{Command, Output, Stdio};

fn headlong(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headlong"));
    command
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn version_is_on_standard_output() {
    let output = headlong(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    let version = text(&output.stdout);
    let plain = concat!("headlong ", env!("CARGO_PKG_VERSION"));
    let rest = version.strip_prefix(plain).expect("the version");
    let commit = rest.trim_end().strip_prefix(" (");
    let is_commit = commit.and_then(|rest| rest.strip_suffix(')'));
    let is_hash = |text: &str| text.len() >= 7 && text.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(rest == "\n" || is_commit.is_some_and(is_hash), "{version}");
}

#[test]
fn wrong_command_line_exits_with_64_without_result() {
    for args in [
        &["serve", "--colour", "red"][..],
        &["sreve"],
        &["check", "--memory"],
        &[],
    ] {
        let output = headlong(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{args:?}"
        );
    }
}

#[test]
fn all_mistakes_are_printed_at_once_before_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("h.toml");
    fs::write(&file, "memroy = \"1GiB\"\npolicy = \"lru\"\n").expect("written");
    let file = file.display().to_string();
    for command in ["serve", "check"] {
        let output = headlong(&[command, "--config", &file, "--admin", "here"]);
        assert_eq!(output.status.code(), Some(64));
        assert!(output.stdout.is_empty());
        let stderr = text(&output.stderr);
        let lines: Vec<_> = stderr.lines().collect();
        assert_eq!(lines.len(), 4, "{stderr}");
        assert_eq!(
            lines[0],
            format!("headlong: {file}:1: memroy: unknown key; did you mean `memory`?")
        );
        assert!(
            lines[1].contains(":2: policy: `lru` is unknown; the names are fixed,"),
            "{stderr}"
        );
        assert!(
            lines[3].starts_with("headlong: --admin: `here` is not"),
            "{stderr}"
        );
        assert!(
            lines[2].contains("name at least one folder: headlong serve DIR"),
            "{stderr}"
        );
    }
}

#[test]
fn server_without_roots_exits_so_that_service_is_retried() {
    let output = headlong(&["serve", "/nonexistent/videos"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("folder /nonexistent/videos: no such directory"),
        "{stderr}"
    );
}

#[test]
fn check_accepts_server_with_origin_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("edge.toml");
    let place = folder.path().display();
    let text_of =
        format!("[pull.\"/a/\"]\norigin = \"http://127.0.0.1:1/\"\nfolder = \"{place}\"\n");
    fs::write(&file, text_of).expect("written");
    let shown = headlong(&["check", "--config", &file.display().to_string()]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains(&format!("serves {place}\n")));
}

#[test]
fn check_prints_an_equivalent_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().display().to_string();
    let first = headlong(&[
        "check",
        &root,
        "--memory",
        "64MiB",
        "--order",
        "fcfs",
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert!(first.stderr.is_empty());
    let page = text(&first.stdout);
    assert!(page.contains(&format!("serves {root}\n")), "{page}");
    assert!(
        page.contains("64MiB of memory") && page.contains("order = \"fcfs\""),
        "{page}"
    );

    let file = folder.path().join("h.toml");
    fs::write(&file, &page).expect("written");
    let again = headlong(&["check", "--config", &file.display().to_string()]);
    assert_eq!(text(&again.stdout), page);

    let mut relative = Command::new(env!("CARGO_BIN_EXE_headlong"));
    let output = relative
        .args(["check", "."])
        .current_dir(&folder)
        .output()
        .expect("the binary starts");
    assert!(
        text(&output.stdout).contains(&format!("roots = [\"{root}/.\"]")),
        "{output:?}"
    );
}

#[test]
fn closed_reader_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_headlong"))
        .arg("check")
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the process ends");
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn disks_are_inspected_without_the_other_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let lonely = folder.path().join("headlong");
    fs::copy(env!("CARGO_BIN_EXE_headlong"), &lonely).expect("copied");
    let run = |args: &[&str]| {
        let mut command = Command::new(&lonely);
        let command = command.args(args).env("PATH", "").stdin(Stdio::null());
        command.output().expect("the binary starts")
    };
    for (args, code, words) in [
        (&["disk", "probe", "/no/such"][..], 64, "/no/such"),
        (
            &["disk", "probe", "/dev/null", "--settle", "101"],
            64,
            "--settle",
        ),
        (
            &["disk", "probe", "wd-red-wd10efrx"],
            2,
            "is part of headlong-lab",
        ),
        (&["disk", "emulate"], 2, "is part of headlong-lab"),
    ] {
        let output = run(args);
        let stderr = text(&output.stderr);
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_verb_of_this_program_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = headlong(&["manual", &folder.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let files = fs::read_dir(folder.path()).expect("a folder");
    let names = files.map(|file| file.expect("an entry").file_name());
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "headlong-check.1",
            "headlong-disk-probe.1",
            "headlong-disk.1",
            "headlong-fill.1",
            "headlong-flash-drop.1",
            "headlong-flash-format.1",
            "headlong-flash-status.1",
            "headlong-flash-verify.1",
            "headlong-flash.1",
            "headlong-mount.1",
            "headlong-reception.1",
            "headlong-run.1",
            "headlong-serve.1",
            "headlong-tune.1",
            "headlong.1",
            "headlong.toml.5",
        ]
    );
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a page");
    let serve = page("headlong-serve.1");
    assert!(
        serve.contains("headlong\\-serve") && serve.contains("\\-\\-listen"),
        "{serve}"
    );
    let first = page("headlong.1");
    assert!(first.contains("Play viewers against any HTTP server"));
    for hidden in ["completions", "keeper"] {
        assert!(!first.contains(hidden), "{first}");
    }

    let nowhere = headlong(&["manual", "/nonexistent/pages"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("/nonexistent/pages"));
}

#[test]
fn completions_contain_verbs_and_flags_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = headlong(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        for word in ["reception", "mount", "time-scale", "workload"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    assert_eq!(headlong(&["completions", "ksh"]).status.code(), Some(64));
}
