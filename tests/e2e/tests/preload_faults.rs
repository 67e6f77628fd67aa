//! Failures between a program and the reception do not change the result of the program.

use std::io::IoSlice;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::preload::{Reception, cool, library, under};
use headlong_testkit::{Scratch, pattern};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, listen, recv, sendmsg, socket_with,
};

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
        ("HEADLONG_WAIT_MS", "20".to_owned()),
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
                case.reads(&words, &inject);
                let text = std::fs::read_to_string(log).unwrap_or_default();
                let count = text.matches("(INJECTED").count() + text.matches("SIGWINCH").count();
                assert!(when == "2" || count > 0, "{inject}: no such call was made");
                injected += count;
            }
        }
    }
    assert!(injected > 90, "only {injected} calls failed");
    // The reception has survived all of it.
    case.reads(&under(&case.socket()), "afterwards");
    assert!(reception.calls("ready") > 0);
}

/// Behaviour of a listener at the reception's socket.
type Act = fn(&OwnedFd, &OwnedFd);

const ANSWER: [u8; 8] = [b'H', b'L', b'R', b'C', 1, 0, 1, 0];

const ACTS: &[(&str, Act)] = &[
    ("never answers", |connection, kept| keep(connection, kept)),
    ("hangs up", |_, _| {}),
    ("answers at once", |connection, _| say(connection, &ANSWER)),
    ("answers too little", |connection, _| {
        say(connection, &ANSWER[..5])
    }),
    ("answers nothing", |connection, _| say(connection, &[])),
    ("answers too much", |connection, _| {
        say(connection, &[b'H'; 4000])
    }),
    ("answers noise", |connection, _| say(connection, &[0xa5; 8])),
    ("answers in another version", |connection, _| {
        say(connection, &[b'H', b'L', b'R', b'C', 2, 0, 1, 0]);
    }),
    ("answers with an unknown code", |connection, _| {
        say(connection, &[b'H', b'L', b'R', b'C', 1, 0, 77, 0]);
    }),
    ("answers twice", |connection, _| {
        say(connection, &ANSWER);
        say(connection, &ANSWER);
    }),
    ("passes descriptors", |connection, kept| {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let passed = [kept.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&passed));
        let flags = SendFlags::NOSIGNAL;
        let _ = sendmsg(connection, &[IoSlice::new(&ANSWER)], &mut control, flags);
    }),
];

fn say(connection: &OwnedFd, bytes: &[u8]) {
    let _ = rustix::net::send(connection, bytes, SendFlags::NOSIGNAL);
}

/// Keeps the connection open, unanswered, longer than the library waits.
fn keep(connection: &OwnedFd, _listener: &OwnedFd) {
    let _ = recv(connection, &mut [0u8; 256], RecvFlags::empty());
    std::thread::sleep(Duration::from_millis(400));
}

fn listener(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
    let _ = std::fs::remove_file(path);
    bind(&socket, &SocketAddrUnix::new(path).expect("short")).expect("bound");
    listen(&socket, 4).expect("listens");
    socket
}

#[test]
fn invalid_answers_do_not_change_the_result() {
    let case = Case::new();
    for (what, act) in ACTS {
        let (listener, is_over) = (listener(&case.socket()), AtomicBool::new(false));
        let taken = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    match accept(&listener) {
                        Ok(connection) => {
                            taken.fetch_add(1, Ordering::Relaxed);
                            act(&connection, &listener);
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            });
            let read = || case.reads(&under(&case.socket()), what);
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
            is_over.store(true, Ordering::Relaxed);
            read.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        let taken = taken.into_inner();
        assert!(taken > 0, "{what}: no connection was made");
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
