//! Descriptors and addresses of a program are its own, even where the preloaded library opens some
//! itself or reads the memory behind an address.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headlong_e2e_tests::have_or_skip;
use headlong_e2e_tests::preload::{cool, under};
use headlong_testkit::{Scratch, pattern};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with,
};

const SIZE: u64 = 1_000_001;

/// While a thread asks about a cold file, the program reuses the number of its socket for a file of
/// its own, which is read after the thread has continued.
const TAKER: &str = "
import os, sys, threading, time
film, own, how = sys.argv[1:]
file = os.open(film, os.O_RDONLY)
first = os.open(own, os.O_RDONLY)
def socket():
    for name in os.listdir('/proc/self/fd'):
        try:
            if os.readlink('/proc/self/fd/' + name).startswith('socket:'):
                return int(name)
        except FileNotFoundError:
            pass
number = None
for _ in range(100):
    # After a wait without an answer the library does not ask for a second.
    time.sleep(0.05)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    reader = threading.Thread(target=os.pread, args=(file, 65536, 0))
    reader.start()
    while number is None and reader.is_alive():
        number = socket()
    if number is not None:
        break
if how == 'replaced':
    os.dup2(first, number)
else:
    os.close(number) if how == 'closed' else os.closerange(number, number + 1)
    taken = first
    while taken != number:
        taken = os.open(own, os.O_RDONLY)
reader.join()
sys.stdout.write(os.read(number, 100).decode())
";

/// Calls with invalid addresses, for a file that the library handles.
const POINTER: &str = "
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.sendfile.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
film = os.open(sys.argv[1], os.O_RDONLY)
out = os.open('/dev/null', os.O_WRONLY)
for address in 1 << 16, 1 << 45, (1 << 45) + 1, 1 << 63:
    print(libc.sendfile(out, film, address, 100_000), errno.errorcode[ctypes.get_errno()])
offset = ctypes.c_long(12_345)
print(libc.sendfile(out, film, ctypes.addressof(offset), 100_000), offset.value)
";

/// A cold film, and a listener that never answers.
struct Case {
    scratch: Scratch,
    listener: OwnedFd,
}

impl Case {
    fn new() -> Self {
        let scratch = Scratch::new("preload-own").expect("a folder");
        let socket = scratch.path().join("socket");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let listener = socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
        bind(&listener, &SocketAddrUnix::new(&socket).expect("short")).expect("bound");
        listen(&listener, 16).expect("listens");
        Self { scratch, listener }
    }

    fn film(&self, number: u64) -> PathBuf {
        let path = self.scratch.path().join(format!("film-{number}"));
        pattern::write_file(&path, number, SIZE).expect("written");
        cool(&path);
        path
    }

    /// Output of a program that waits this long for an answer.
    fn run(&self, wait: &str, program: &[&str], files: &[&Path]) -> Vec<u8> {
        let words = under(&self.scratch.path().join("socket"));
        let mut words = words.iter().map(String::as_str).map(|word| match word {
            "200ms" => wait,
            other => other,
        });
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).args(program).args(files);
        let output = command.stdin(Stdio::null()).output().expect("started");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// Number of connections so far.
    fn connections(&self) -> usize {
        std::iter::from_fn(|| accept(&self.listener).ok()).count()
    }
}

#[test]
fn reused_descriptor_stays_open_and_unread() {
    if !have_or_skip("descriptors under preload", "python3") {
        return;
    }
    let case = Case::new();
    let own = case.scratch.path().join("own");
    fs::write(&own, "the program's own").expect("written");
    let film = case.film(1);
    for how in ["replaced", "closed", "range"] {
        cool(&film);
        let program = ["python3", "-c", TAKER];
        let printed = case.run("4s", &program, &[&film, &own, Path::new(how)]);
        assert_eq!(
            String::from_utf8_lossy(&printed),
            "the program's own",
            "{how}"
        );
    }
    assert!(case.connections() >= 3);
}

#[test]
fn invalid_address_is_refused_by_the_kernel() {
    if !have_or_skip("addresses under preload", "python3") {
        return;
    }
    let case = Case::new();
    let printed = case.run("200ms", &["python3", "-c", POINTER], &[&case.film(1)]);
    let printed = String::from_utf8_lossy(&printed);
    let (wrong, right) = ("-1 EFAULT\n".repeat(4), "100000 112345\n");
    assert_eq!(printed, format!("{wrong}{right}"));
}

#[test]
fn silent_reception_causes_one_wait_per_backoff() {
    let case = Case::new();
    let films: Vec<PathBuf> = (0..12).map(|number| case.film(number)).collect();
    let paths: Vec<&Path> = films.iter().map(PathBuf::as_path).collect();
    let printed = case.run("200ms", &["cat"], &paths);
    assert_eq!(printed.len() as u64, SIZE * 12);
    for (number, part) in (0..).zip(printed.chunks(SIZE as usize)) {
        assert_eq!(pattern::verify(number, 0, part), Ok(()));
    }
    // On a slow disk the reads take longer than the first backoff.
    let connections = case.connections();
    assert!((1..6).contains(&connections), "{connections}");
}
