//! Failures between a program and the reception do not change the result of the program.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::preload::{
    ACTS, HostileReception, Reception, cool, library, listener, under,
};
use headlong_testkit::{Scratch, pattern};

const SIZE: u64 = 1_000_001;

struct Case {
    scratch: Scratch,
    file: PathBuf,
}

impl Case {
    fn new() -> Self {
        let scratch = Scratch::new("preload-faults").expect("a folder");
        let file = scratch.path().join("file");
        pattern::write_file(&file, 5, SIZE).expect("written");
        Self { scratch, file }
    }

    fn socket(&self) -> PathBuf {
        self.scratch.path().join("socket")
    }

    /// Command of a program that reads the whole file by several calls.
    fn reading(&self) -> Vec<String> {
        let file = self.file.to_str().expect("UTF-8").to_owned();
        vec!["head".into(), "-c".into(), "99999999".into(), file]
    }

    /// Runs the program behind the prefix `before`, which preloads the library; fails unless it
    /// outputs the file.
    fn reads(&self, before: &[String], when: &str) {
        cool(&self.file);
        let words = [before, &self.reading()].concat();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        self.is_right(&command.output().expect("started"), when);
    }

    fn is_right(&self, output: &Output, when: &str) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{when}: {}: {said}", output.status);
        assert_eq!(said, "", "{when}");
        assert_eq!(output.stdout.len() as u64, SIZE, "{when}");
        assert_eq!(pattern::verify(5, 0, &output.stdout), Ok(()), "{when}");
    }
}

/// Calls that only the library makes in that program, and the errors to inject into each.
const FAULTS: &[(&str, &[&str])] = &[
    (
        "socket",
        &[
            "error=EMFILE",
            "error=ENFILE",
            "error=ENOMEM",
            "error=EACCES",
            "error=EINTR",
        ],
    ),
    (
        "connect",
        &[
            "error=ECONNREFUSED",
            "error=EAGAIN",
            "error=EINTR",
            "error=EPERM",
            "error=ENOENT",
        ],
    ),
    (
        "getsockopt",
        &["error=ENOPROTOOPT", "error=EFAULT", "retval=0"],
    ),
    ("geteuid", &["retval=65534"]),
    (
        "sendmsg",
        &[
            "error=EPIPE",
            "error=EAGAIN",
            "error=ENOBUFS",
            "error=EINTR",
            "error=EBADF",
            "retval=3",
        ],
    ),
    (
        "ppoll",
        &["error=EINTR", "error=ENOMEM", "retval=0", "signal=SIGWINCH"],
    ),
    (
        "recvfrom",
        &[
            "error=ECONNRESET",
            "error=EAGAIN",
            "error=EINTR",
            "retval=0",
            "retval=8",
            "retval=5",
        ],
    ),
    ("fstat", &["error=EBADF", "error=EOVERFLOW"]),
];

#[test]
fn failed_call_to_reception_changes_nothing() {
    if !have_or_skip("faults under preload", "strace") {
        return;
    }
    let case = Case::new();
    // A reception that reads no more than requested is asked often.
    let reception = Reception::start_with(&case.socket(), &["--mode", "serialize"]);
    let log = case.scratch.path().join("calls");
    let log = log.to_str().expect("UTF-8");
    let environment = [
        ("LD_PRELOAD", library().display().to_string()),
        ("HEADLONG_SOCKET", case.socket().display().to_string()),
        ("HEADLONG_WAIT_MS", "60".to_owned()),
    ];
    let mut injected = 0;
    for (call, outcomes) in FAULTS {
        for outcome in *outcomes {
            // The first, the second, and all calls.
            for when in ["1", "2", "1+"] {
                let inject = format!("{call}:{outcome}:when={when}");
                let words = [
                    "strace",
                    "-f",
                    "-qq",
                    "-o",
                    log,
                    "-e",
                    &format!("trace={call}"),
                ];
                let mut words: Vec<String> = words.map(str::to_owned).to_vec();
                words.extend(["-e".into(), format!("inject={inject}")]);
                // Not through `headlong run`, which would be affected by the faults as well.
                for (name, value) in &environment {
                    words.extend(["-E".into(), format!("{name}={value}")]);
                }
                // On a busy machine the program may give up waiting before the call.
                let counts = (0..5).map(|_| {
                    case.reads(&words, &inject);
                    let text = std::fs::read_to_string(log).unwrap_or_default();
                    text.matches("(INJECTED").count() + text.matches("SIGWINCH").count()
                });
                let mut counts = counts.skip_while(|count| when != "2" && *count == 0);
                let count = counts.next();
                injected += count.unwrap_or_else(|| panic!("{inject}: no such call was made"));
            }
        }
    }
    assert!(injected > 90, "only {injected} calls failed");
    // The reception has survived all of it.
    case.reads(&under(&case.socket()), "afterwards");
    assert!(reception.calls("ready") > 0);
}

#[test]
fn invalid_answers_do_not_change_the_result() {
    let case = Case::new();
    for act in ACTS.chunks(1) {
        let reception = HostileReception::start(&case.socket(), act);
        case.reads(&under(&case.socket()), act[0].0);
        assert!(
            reception.connections() > 0,
            "{}: no connection was made",
            act[0].0
        );
    }
    // A listener that accepts no connection: its queue is full.
    let _listener = listener(&case.socket());
    case.reads(&under(&case.socket()), "accepts no connection");
}

#[test]
fn full_reception_does_not_block_programs() {
    let case = Case::new();
    let folder = case.scratch.path();
    let files: Vec<PathBuf> = (0..24u64)
        .map(|index| {
            let file = folder.join(format!("file-{index}"));
            pattern::write_file(&file, index, SIZE).expect("written");
            cool(&file);
            file
        })
        .collect();
    let arguments = ["--memory", "1MiB", "--prefetch", "256KiB"];
    let reception = Reception::start_with(&case.socket(), &arguments);
    let words = under(&case.socket());
    let programs = files.iter().map(|file| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("cat").arg(file);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("started")
    });
    let programs: Vec<_> = programs.collect();
    std::thread::scope(|scope| {
        for (index, program) in programs.into_iter().enumerate() {
            scope.spawn(move || {
                let output = program.wait_with_output().expect("the program ends");
                assert!(output.status.success() && output.stderr.is_empty());
                assert_eq!(output.stdout.len() as u64, SIZE);
                assert_eq!(pattern::verify(index as u64, 0, &output.stdout), Ok(()));
            });
        }
    });
    let status = reception.status();
    let memory = &status["devices"][0]["memory"];
    let held = memory["held_bytes"].as_u64().expect("told");
    assert!(held <= 1 << 20, "{status}");
    assert!(reception.calls("asked") > 24, "{status}");
}
