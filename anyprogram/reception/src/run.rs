//! The daemon: a socket, a listening thread, and a thread for each device.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, channel};
use std::time::{Duration as Wall, Instant as Clock};

use headlong_library::BlockMap;
use headlong_protocol::{Answer, MessageKind, REQUEST_BYTES_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, accept_with, bind, connect,
    listen, socket_with,
};
use serde_json::json;

use crate::clients::CallLimits;
use crate::device::{DeviceMessage, ReadNotice, ReadRequest};
use crate::disks::Disks;
use crate::engines::Engines;
use crate::file::version;
use crate::job_queues::{JOBS_MAX, JobQueues};
use crate::limits::raise_limits;
use crate::pending_answer::{PendingAnswer, send_answer};
use crate::receive::{ReceiveResult, receive};
use crate::settings::{Mode, Settings};
use crate::status::{Counters, STATUS_BYTES_MAX};
use crate::walks::{WaitedProgram, WalkThreads};
use headlong_report::say;
use headlong_serve::service_manager::{self, Heartbeat, NotifyState};

/// Length of the kernel's accept queue.
const BACKLOG: i32 = 1024;
/// Connections that have not sent a message yet.
const SILENT_MAX: usize = 256;
/// A silent connection is closed after this time.
const SILENT_TIME: Wall = Wall::from_secs(1);
/// Interval of checks for a stop signal while idle.
const STOP_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// Retry interval while no descriptor is available for a connection.
const REST_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// How long a status request waits for each device.
const SHOW_WAIT: Wall = Wall::from_secs(1);

/// Why the daemon failed to start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The path is invalid or unavailable.
    #[error("cannot listen on {path}: {error}; choose another path with --socket")]
    Socket {
        /// The path.
        path: PathBuf,
        /// The error of the kernel.
        error: io::Error,
    },
    /// Another process listens there.
    #[error("another reception listens on {0}; stop it, or choose another path with --socket")]
    Taken(PathBuf),
    /// The path exists and is not a socket.
    #[error(
        "{0} exists and is not a socket, so it stays; choose another path with --socket, or remove \
         the file"
    )]
    NoSocket(PathBuf),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// A thread cannot be created.
    #[error("cannot start a thread: {0}; raise TasksMax, or `ulimit -u`")]
    Thread(io::Error),
    /// Waiting for connections failed.
    #[error("cannot wait for connections: {0}")]
    Poll(io::Error),
}

/// Removes the socket file when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Serves programs until SIGTERM or SIGINT.
///
/// # Errors
/// Why it failed to start.
pub fn run(settings: &Settings) -> Result<(), RunError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(RunError::Signals)?;
    }
    let path = Path::new(&settings.socket);
    let listener = open_socket(path)?;
    let _named = SocketFile(path.to_path_buf());
    let of_walk = match settings.small_files_ahead {
        true => headlong_walk::FILES_MAX as u64,
        false => 0,
    };
    // A job has a descriptor, and the connection of the call that waits for it.
    let of_errands = JOBS_MAX as u64 * 2;
    let files = settings.engine.streams_max as u64 + BACKLOG as u64 * 2 + of_walk + of_errands;
    raise_limits(settings, files);
    let (counters, places) = (Arc::default(), Arc::new(BlockMap::beneath(Path::new("/"))));
    let reception = Arc::new(Reception {
        settings: settings.clone(),
        engines: Engines::new(settings, &counters, &places),
        disks: Disks::new(Arc::clone(&places)),
        errands: JobQueues::new().map_err(RunError::Thread)?,
        counters,
        clients: CallLimits::default(),
        places,
        walks: WalkThreads::default(),
        started: Clock::now(),
        is_showing: Arc::default(),
    });
    say!(
        "headlong: reception listens on {} in mode {}",
        path.display(),
        settings.mode.name()
    );
    service_manager::notify(&[NotifyState::Ready]);
    reception.listen(&listener, &stop)
}

/// Creates a socket to which every user may connect.
fn open_socket(path: &Path) -> Result<OwnedFd, RunError> {
    let wrong = |error: io::Error| RunError::Socket {
        path: path.to_path_buf(),
        error,
    };
    let new = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
    };
    let address = SocketAddrUnix::new(path).map_err(|error| wrong(error.into()))?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    // Connecting to a regular file is refused, too.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(RunError::NoSocket(path.to_path_buf()));
    }
    match new().and_then(|socket| connect(&socket, &address)) {
        Ok(()) | Err(Errno::AGAIN) => return Err(RunError::Taken(path.to_path_buf())),
        // Left behind by a killed daemon.
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(wrong)?,
        Err(_) => {}
    }
    let socket = new().map_err(|error| wrong(error.into()))?;
    bind(&socket, &address).map_err(|error| wrong(error.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(wrong)?;
    listen(&socket, BACKLOG).map_err(|error| wrong(error.into()))?;
    Ok(socket)
}

struct Reception {
    settings: Settings,
    counters: Arc<Counters>,
    clients: CallLimits,
    places: Arc<BlockMap>,
    disks: Disks,
    engines: Engines,
    errands: JobQueues,
    walks: WalkThreads,
    started: Clock,
    is_showing: Arc<AtomicBool>,
}

impl Reception {
    /// The single thread for all programs: it never blocks on a file system or a disk.
    fn listen(self: &Arc<Self>, listener: &OwnedFd, stop: &AtomicBool) -> Result<(), RunError> {
        let mut silent: HashMap<u64, (OwnedFd, Clock)> = HashMap::new();
        let mut next_id = 0;
        let mut has_descriptors = true;
        // Device threads are not watched: a hung disk is no reason to end service for the others.
        let mut heartbeat = Heartbeat::asked_for();
        while !stop.load(Ordering::Relaxed) {
            heartbeat.beat();
            let ids: Vec<u64> = silent.keys().copied().collect();
            let (events, interval) = match has_descriptors {
                true => (PollFlags::IN, STOP_INTERVAL),
                // A pending connection would wake the thread at once, and could not be accepted.
                false => (PollFlags::empty(), REST_INTERVAL),
            };
            let mut polled = vec![PollFd::new(listener, events)];
            let connections = ids.iter().map(|id| silent[id].0.as_fd());
            polled.extend(connections.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match poll(&mut polled, Some(&interval)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(RunError::Poll(error.into())),
            }
            let has_spoken: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(polled);
            for (id, _) in ids
                .iter()
                .zip(&has_spoken[1..])
                .filter(|(_, spoken)| **spoken)
            {
                if let Some((connection, since)) = silent.remove(id)
                    && let Some(connection) = self.receive_message(connection)
                {
                    silent.insert(*id, (connection, since));
                }
            }
            silent.retain(|_, (_, since)| since.elapsed() < SILENT_TIME);
            let refused = loop {
                let connection = match accept_with(listener, SocketFlags::CLOEXEC) {
                    Ok(connection) => connection,
                    Err(error) => break error,
                };
                // Its message has nearly always arrived.
                if let Some(connection) = self.receive_message(connection)
                    && silent.len() < SILENT_MAX
                {
                    next_id += 1;
                    silent.insert(next_id, (connection, Clock::now()));
                }
            };
            let is_short = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
            has_descriptors = !is_short.contains(&refused);
        }
        Ok(())
    }

    /// Receives the message of a connection; returns the connection if there is none yet.
    fn receive_message(self: &Arc<Self>, connection: OwnedFd) -> Option<OwnedFd> {
        let (message, mut passed, sender) = match receive(&connection, self.errands.has_room()) {
            ReceiveResult::Nothing => return Some(connection),
            ReceiveResult::Wrong(passed) => {
                self.counters.misheard();
                self.close(passed);
                return None;
            }
            ReceiveResult::Message(message, passed, sender) => (message, passed, sender),
        };
        self.counters.count(&message);
        let range = (message.offset, message.length.min(REQUEST_BYTES_MAX));
        let is_asked = matches!(message.kind, MessageKind::Ask | MessageKind::Waited);
        let is_wanted = is_asked && passed.all.len() == 1;
        let only = passed.all.pop_if(|_| is_wanted);
        self.close(passed.all);
        match (message.kind, only) {
            (MessageKind::Ask, Some(passed)) => self.handle_ask(connection, passed, sender, range),
            (MessageKind::Note, _) => {
                let note = ReadNotice {
                    file: message.file,
                    uid: sender.uid.as_raw(),
                    offset: range.0,
                    length: range.1,
                };
                self.engines.note(note);
            }
            (MessageKind::Waited, Some(passed)) => {
                self.handle_waited(connection, passed, sender, message.length);
            }
            (MessageKind::Status, _) => self.show(connection),
            // A temporary shortage of room for its descriptor.
            (MessageKind::Ask | MessageKind::Waited, None) if passed.is_cut => {
                send_answer(&connection, Answer::GoOn)
            }
            (MessageKind::Ask | MessageKind::Waited, None) => {
                send_answer(&connection, Answer::LeaveAlone)
            }
            (MessageKind::Count, _) => {}
        }
        None
    }

    /// Closes unneeded descriptors.
    fn close(&self, passed: Vec<OwnedFd>) {
        for passed in passed {
            self.errands.close(passed, || ());
        }
    }

    fn handle_ask(
        self: &Arc<Self>,
        connection: OwnedFd,
        passed: OwnedFd,
        sender: UCred,
        (offset, length): (u64, u64),
    ) {
        let refuse = |passed, connection: OwnedFd, answer| {
            self.counters.answered(answer, 0);
            self.errands
                .close(passed, move || send_answer(&connection, answer));
        };
        let Some(version) = version(&passed) else {
            return refuse(passed, connection, Answer::LeaveAlone);
        };
        let length = length.min(version.size.saturating_sub(offset));
        let is_helped = self.settings.mode != Mode::Track && length > 0;
        let seat = self.clients.seat(sender.pid.as_raw_nonzero().get());
        let Some(seat) = seat.filter(|_| is_helped) else {
            return refuse(passed, connection, Answer::GoOn);
        };
        let ask = ReadRequest {
            passed,
            version,
            uid: sender.uid.as_raw(),
            offset,
            length,
            answering: PendingAnswer::new(connection, seat),
        };
        let file_system = version.key.dev;
        let device = self.disks.device_of(file_system);
        match device.and_then(|device| self.engines.running(device)) {
            Some(engine) => self.pass_on(ask, &engine),
            None => {
                let reception = Arc::clone(self);
                self.errands
                    .add(file_system, move || reception.find_device(ask));
            }
        }
    }

    /// Finds the device of a file, and passes the call to its engine. Blocks on its file system.
    fn find_device(&self, mut ask: ReadRequest) {
        let file = fs::File::from(ask.passed);
        let device = self.disks.find(&file, ask.version.key.dev);
        ask.passed = file.into();
        match device.map(|device| self.engines.of(device)) {
            Some(Some(engine)) => self.pass_on(ask, &engine),
            Some(None) => self.refuse(ask, Answer::GoOn),
            None => self.refuse(ask, Answer::LeaveAlone),
        }
    }

    fn pass_on(&self, ask: ReadRequest, engine: &SyncSender<DeviceMessage>) {
        let unsent = engine.try_send(DeviceMessage::Ask(Box::new(ask)));
        if let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) = unsent
            && let DeviceMessage::Ask(ask) = message
        {
            self.refuse(*ask, Answer::GoOn);
        }
    }

    /// Refuses a call. The answer is sent once the passed descriptor is closed.
    fn refuse(&self, ask: ReadRequest, answer: Answer) {
        let ReadRequest {
            passed, answering, ..
        } = ask;
        let counters = Arc::clone(&self.counters);
        self.errands.close(passed, move || {
            let waited = answering.answer(answer);
            counters.answered(answer, waited);
        });
    }

    /// A program waited for the disk at a small file. Without an answer it continues.
    fn handle_waited(
        self: &Arc<Self>,
        connection: OwnedFd,
        passed: OwnedFd,
        sender: UCred,
        found: u64,
    ) {
        let pid = sender.pid.as_raw_nonzero().get();
        let is_on = self.settings.mode == Mode::Full && self.settings.small_files_ahead;
        let version = version(&passed).filter(|_| is_on);
        let seat = version.and_then(|version| Some((version.key.dev, self.clients.seat(pid)?)));
        let Some((file_system, seat)) = seat else {
            let go_on = move || send_answer(&connection, Answer::GoOn);
            return self.errands.close(passed, go_on);
        };
        let waited = WaitedProgram {
            answering: PendingAnswer::new(connection, seat),
            program: u64::from(pid.unsigned_abs()),
            found: u32::try_from(found).unwrap_or(u32::MAX),
            passed: passed.into(),
        };
        if let Some(device) = self.disks.device_of(file_system) {
            return self.walk(device, waited);
        }
        let reception = Arc::clone(self);
        self.errands.add(file_system, move || {
            if let Some(device) = reception.disks.find(&waited.passed, file_system) {
                reception.walk(device, waited);
            }
        });
    }

    /// Passes the call to the walk thread of a device, unless that is too busy.
    fn walk(&self, device: usize, waited: WaitedProgram) {
        let (places, counters) = (&self.places, &self.counters);
        let untaken = self.walks.enqueue(device, places, counters, waited);
        if let Some(WaitedProgram {
            passed, answering, ..
        }) = untaken
        {
            self.errands.close(passed.into(), || drop(answering));
        }
    }

    /// Answers with the status, on its own thread, since a device may respond slowly.
    fn show(&self, connection: OwnedFd) {
        if self.is_showing.swap(true, Ordering::Relaxed) {
            return;
        }
        let devices = self.engines.all();
        let (counters, clients) = (Arc::clone(&self.counters), self.clients.clone());
        let (settings, started) = (self.settings.clone(), self.started);
        let is_showing = Arc::clone(&self.is_showing);
        let show = move || {
            let (sender, shown) = channel();
            let asked = devices.iter().filter(|device| {
                let message = DeviceMessage::Show(sender.clone());
                device.try_send(message).is_ok()
            });
            let count = asked.count();
            let devices = (0..count).filter_map(|_| shown.recv_timeout(SHOW_WAIT).ok());
            let status = json!({
                "version": env!("CARGO_PKG_VERSION"),
                "socket": settings.socket,
                "mode": settings.mode.name(),
                "uptime_seconds": started.elapsed().as_secs(),
                "programs_waiting": clients.count(),
                "calls": counters.show(),
                "devices": devices.collect::<Vec<_>>(),
            });
            let text = status.to_string();
            // Before sending: the receiver may send the next request at once.
            is_showing.store(false, Ordering::Relaxed);
            if text.len() <= STATUS_BYTES_MAX {
                let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
                let _ = rustix::net::send(&connection, text.as_bytes(), flags);
            }
        };
        let thread = std::thread::Builder::new().name("status".to_owned());
        if thread.spawn(show).is_err() {
            self.is_showing.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "precious").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        for path in [&file, &link] {
            let error = open_socket(path).expect_err("no socket").to_string();
            let name = path.display().to_string();
            assert!(
                error.contains(&name) && error.contains("--socket"),
                "{error}"
            );
        }
        assert_eq!(fs::read(&link).expect("there"), b"precious");
        let socket = folder.path().join("socket");
        let first = open_socket(&socket).expect("opens");
        let error = open_socket(&socket).expect_err("in use");
        assert!(matches!(error, RunError::Taken(_)), "{error}");
        drop(first);
        open_socket(&socket).expect("a stale socket is replaced");
    }
}
