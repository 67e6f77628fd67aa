//! `headlong top` of a running server: once, as JSON, and on a terminal.

use std::io::Read as _;
use std::process::{Command, Stdio};

use headlong_e2e_tests::{Library, have_or_skip};
use headlong_testkit::client::fetch;
use headlong_testkit::server::{self, Server, ServerBuilder, free_address};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A server that has served one title of 4 MiB.
fn served() -> (Server, Library) {
    let library = Library::new(1, 4 * MIB).expect("a library");
    let server = ServerBuilder::new([library.root()])
        .start()
        .expect("a server");
    let reply = fetch(server.address(), "GET", &library.titles[0].target, &[]);
    assert_eq!(reply.expect("served").status(), 200);
    (server, library)
}

fn top(address: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut top = Command::new(server::binary());
    let top = top.args(["top", address, "--interval", "100ms"]);
    let output = top.args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn once_prints_a_table_or_json() {
    let (server, _library) = served();
    let address = server.admin().to_string();
    let (code, table, stderr) = top(&address, &["--once"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{table}");
    let status = server.status().expect("/status");
    let name = status.devices()[0]["name"].as_str().expect("a name");
    let row = table.lines().find(|line| line.starts_with(name));
    assert!(row.is_some_and(|row| row.contains(" online ")), "{table}");
    assert!(
        table.contains("BUSY") && table.contains("UNREAD"),
        "{table}"
    );
    assert!(!table.contains('\x1b'), "no screen, no commands to it");

    let (code, lines, stderr) = top(&address, &["--once", "--json"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let sample: Value = serde_json::from_str(&lines).expect("JSON");
    let disk = &sample["disks"][0];
    assert_eq!(disk["name"], name);
    assert!(disk["rates"]["busy_share"].is_number(), "{lines}");
    let memory = disk["memory"].as_object().expect("classes");
    let bytes = |class: &str| memory[class].as_u64().expect("bytes");
    let classes = memory.keys().filter(|class| *class != "budget_bytes");
    let sum: u64 = classes.map(|class| bytes(class)).sum();
    assert!(sum > 0 && sum <= bytes("budget_bytes"), "{lines}");
}

#[test]
fn reports_missing_server_and_fails() {
    let address = free_address().to_string();
    let (code, stdout, stderr) = top(&address, &["--once"]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains(&address), "{stderr}");
    // Another server, with an unexpected answer.
    let (server, _library) = served();
    let (code, _, stderr) = top(&server.address().to_string(), &["--once"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("404"), "{stderr}");
    let (code, _, stderr) = top(&address, &["--interval", "1us"]);
    assert_eq!(code, Some(64));
    assert!(stderr.contains("--interval"), "{stderr}");
}

#[test]
fn redraws_in_place_on_a_terminal() {
    let test = "on_a_terminal_each_look_is_written_over";
    if !have_or_skip(test, "script") {
        return;
    }
    let (server, _library) = served();
    let top = format!(
        "exec {} top {} --interval 100ms",
        server::binary().display(),
        server.admin()
    );
    let mut screen = Command::new("script")
        .args(["--quiet", "--flush", "--command", &top, "/dev/null"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut out = screen.stdout.take().expect("piped");
    let mut shown = String::new();
    let mut buffer = [0; 4096];
    while shown.matches("\x1b[H").count() < 3 {
        let length = out.read(&mut buffer).expect("a terminal");
        assert!(length > 0, "it ended: {shown}");
        shown.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    // Closing its terminal also ends the program that runs there.
    screen.kill().expect("it runs");
    screen.wait().expect("it ends");
    let pages: Vec<&str> = shown.split("\x1b[H").collect();
    assert!(pages[0].is_empty(), "{shown:?}");
    assert!(pages[1].contains("BUSY") && pages[1].contains("online"));
    assert!(pages[1].ends_with("\x1b[J"), "{shown:?}");
}
