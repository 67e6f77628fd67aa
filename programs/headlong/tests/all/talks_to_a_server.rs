//! Verbs that query a running server, against a scripted one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread::JoinHandle;

use headlong_testkit::ProgramRun;

use super::command;

const DONE: &str =
    r#"{"state":"done","bytes":100,"bytes_there":100,"bytes_fetched":60,"fault":null}"#;
const UNDER_WAY: &str =
    r#"{"state":"yielding","bytes":100,"bytes_there":40,"bytes_fetched":0,"fault":null}"#;

/// Answers `answers` requests, each on its own connection, and returns their request lines. `None`:
/// closes the connection.
fn server(answers: Vec<Option<(u16, &'static str)>>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let thread = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            asked.push(take_request(&stream));
            if let Some((status, body)) = answer {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n");
                let text = format!("{head}connection: close\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).expect("written");
            }
        }
        asked
    });
    (address, thread)
}

/// The line of a request; its headers are read too, so that closing causes no reset.
fn take_request(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    first
}

fn headlong(args: &[&str], input: &str) -> ProgramRun {
    let mut child = command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("the process ends");
    output.into()
}

#[test]
fn fill_survives_restart_and_waits_for_other_fills() {
    let busy = "too many titles are being filled; try again later
";
    let answers = [
        None,
        Some((429, busy)),
        Some((200, UNDER_WAY)),
        Some((200, DONE)),
    ];
    let (address, asked) = server(answers.to_vec());
    let list = "# of the night\n\n  /vod/a b.mp4  \n";
    let ended = headlong(&["fill", "--admin", &address, "--list", "-"], list);
    let said = ended.exits_with(0).stdout;
    assert_eq!(said, "/vod/a b.mp4: complete, 60B of it fetched\n");
    let asked = asked.join().expect("no panic");
    assert!(asked.iter().all(|line| line == &asked[0]), "{asked:?}");
    assert!(asked[0].starts_with("POST /fill?path="), "{asked:?}");
    assert!(asked[0].contains("rate=20000000"), "{asked:?}");
}

#[test]
fn fill_ends_with_reason_when_refused_or_not_understood() {
    let full = r#"{"state":"full","bytes":1,"bytes_there":0,"bytes_fetched":0,"fault":null}"#;
    let failed =
        r#"{"state":"failed","bytes":1,"bytes_there":0,"bytes_fetched":0,"fault":"absent"}"#;
    let cases = [
        ((200, "hello"), "is not a Headlong server with fills", ""),
        (
            (404, "this path is not below a [pull]\n"),
            "not below a [pull]",
            "",
        ),
        ((200, full), "raise bytes_max", "no room"),
        ((200, failed), "1 of 1 titles failed", "failed: absent"),
    ];
    for (answer, error, output) in cases {
        let (address, asked) = server(vec![Some(answer)]);
        let ended = headlong(&["fill", "--admin", &address, "/vod/a.mp4"], "");
        let ended = ended.exits_with(2);
        let (said, why) = (ended.stdout, ended.stderr);
        assert!(why.contains(error), "{why}");
        assert!(said.contains(output), "{said}");
        asked.join().expect("no panic");
    }
    let list = ["fill", "--list", "/nonexistent/list"];
    let why = headlong(&list, "").stderr;
    assert!(why.contains("/nonexistent/list"), "{why}");
}

#[test]
fn health_is_the_word_of_the_server() {
    for (answer, code, said) in [
        ((200, "ok\n"), 0, "ok\n"),
        (
            (503, "every disk is out of service\n"),
            2,
            "503: every disk is out",
        ),
    ] {
        let (address, asked) = server(vec![Some(answer)]);
        let ended = headlong(&["health", "--admin", &address], "");
        let ended = ended.exits_with(code);
        let all = ended.stdout + &ended.stderr;
        assert!(all.contains(said), "{all}");
        assert_eq!(asked.join().expect("no panic"), ["GET /healthz HTTP/1.1"]);
    }
}

#[test]
fn verbs_without_a_server_name_its_address_and_the_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    drop(listener);
    for verb in [&["health"][..], &["root", "detach", "/x"]] {
        let ended = headlong(&[verb, &["--admin", &address]].concat(), "");
        let why = ended.exits_with(2).stderr;
        assert!(why.contains(&address), "{why}");
        assert!(why.contains("name its admin address by --admin"), "{why}");
    }
}
