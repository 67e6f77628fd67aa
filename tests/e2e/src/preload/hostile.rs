//! A listener at a reception's socket that answers wrongly, late or not at all.

use std::fs::{File, Permissions};
use std::io::IoSlice;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept, bind, listen, recv, sendmsg, socket_with,
};

/// Behaviour of a listener at the reception's socket.
pub type Act = fn(&OwnedFd);

/// Ready.
const ANSWER: [u8; 8] = [b'H', b'L', b'R', b'C', 1, 0, 1, 0];

/// Each with its description.
pub const ACTS: &[(&str, Act)] = &[
    ("hangs up", |_| {}),
    ("hangs up after the question", hear),
    ("answers at once", |connection| say(connection, &ANSWER)),
    ("answers too little", |connection| {
        say(connection, &ANSWER[..5])
    }),
    ("answers nothing", |connection| say(connection, &[])),
    ("answers too much", |connection| {
        say(connection, &[b'H'; 4000])
    }),
    ("answers noise", |connection| say(connection, &[0xa5; 8])),
    ("answers in another version", |connection| {
        say(connection, &[b'H', b'L', b'R', b'C', 2, 0, 1, 0]);
    }),
    ("answers with an unknown code", |connection| {
        say(connection, &[b'H', b'L', b'R', b'C', 1, 0, 77, 0]);
    }),
    ("answers twice", |connection| {
        say(connection, &ANSWER);
        say(connection, &ANSWER);
    }),
    ("passes descriptors", |connection| {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let Ok(file) = File::open("/dev/null") else {
            return;
        };
        let passed = [file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&passed));
        let flags = SendFlags::NOSIGNAL;
        let _ = sendmsg(connection, &[IoSlice::new(&ANSWER)], &mut control, flags);
    }),
    // Last, because the library pauses afterwards.
    ("never answers", keep),
    ("answers too late", |connection| {
        hear(connection);
        std::thread::sleep(Duration::from_millis(250));
        say(connection, &ANSWER);
    }),
];

fn say(connection: &OwnedFd, bytes: &[u8]) {
    let _ = rustix::net::send(connection, bytes, SendFlags::NOSIGNAL);
}

fn hear(connection: &OwnedFd) {
    let _ = recv(connection, &mut [0u8; 256], RecvFlags::empty());
}

/// Keeps the connection open, unanswered, longer than the library waits.
fn keep(connection: &OwnedFd) {
    hear(connection);
    std::thread::sleep(Duration::from_millis(400));
}

/// A listener of the reception's kind.
///
/// # Panics
/// If it cannot be made.
pub fn listener(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket");
    let _ = std::fs::remove_file(path);
    bind(&socket, &SocketAddrUnix::new(path).expect("short")).expect("bound");
    // Like the reception's: programs of other users connect.
    std::fs::set_permissions(path, Permissions::from_mode(0o666)).expect("set");
    listen(&socket, 4).expect("listens");
    socket
}

/// A running one: its connections get these acts in turn. It stops listening when dropped.
pub struct HostileReception {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    taken: AtomicUsize,
}

impl HostileReception {
    /// Listens at this path.
    ///
    /// # Panics
    /// If it cannot.
    pub fn start(path: &Path, acts: &'static [(&'static str, Act)]) -> Self {
        let (shared, listener) = (Arc::<Shared>::default(), listener(path));
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !of_thread.is_over.load(Ordering::Relaxed) {
                let Ok(connection) = accept(&listener) else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let number = of_thread.taken.fetch_add(1, Ordering::Relaxed);
                let act = acts[number % acts.len()].1;
                std::thread::spawn(move || act(&connection));
            }
        });
        Self {
            shared,
            thread: Some(thread),
        }
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.taken.load(Ordering::Relaxed)
    }
}

impl Drop for HostileReception {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Runs this while a hostile reception serves each act in turn; it dies after a round, and
/// another one takes its place. `act` receives the number of connections to earlier ones.
pub fn with_dying_reception(socket: &Path, act: impl FnOnce(&AtomicUsize)) {
    let (is_over, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let reception = HostileReception::start(socket, ACTS);
                let is_young = || reception.connections() < ACTS.len();
                while is_young() && !is_over.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                taken.fetch_add(reception.connections(), Ordering::Relaxed);
            }
        });
        // Also after a panic, or the thread would never end.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| act(&taken)));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
