//! The daemon: a socket, a thread that listens, and a thread for each device.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration as Wall, Instant as Clock};

use headlong_engine::{ConfigError, Shard};
use headlong_library::Places;
use headlong_protocol::{ANSWERED_MS, ASK_BYTES_MAX, Answer, Kind};
use headlong_units::{Duration, MIB};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, accept_with, bind, connect,
    listen, socket_with,
};
use serde_json::json;

use crate::answering::{Answering, say};
use crate::clients::Clients;
use crate::describe::Question;
use crate::device::{Ask, DeviceThread, Message, Note, Start};
use crate::file::version;
use crate::limits::raise_limits;
use crate::readers::{How, Readers};
use crate::receive::{Received, receive};
use crate::settings::{Mode, Settings};
use crate::status::{Counters, STATUS_BYTES_MAX};
use crate::walks::{Waited, Walks};
use headlong_report::say;
use headlong_serve::service_manager::{self, Heartbeat, NotifyState};

/// Connections that the kernel keeps for us while we are busy.
const BACKLOG: i32 = 1024;
/// Connections that have said nothing yet.
const SILENT_MAX: usize = 256;
/// One that says nothing for so long is closed.
const SILENT_TIME: Wall = Wall::from_secs(1);
/// How often a stop is looked for while nothing happens.
const STOP_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// Messages that wait for the thread of one device.
const MESSAGES_MAX: usize = 8192;
/// Threads that find out about files of a device.
const DESCRIBERS: usize = 8;
/// Devices with a thread; files on others are left alone.
const DEVICES_MAX: usize = 64;
/// What a program asks for comes piece by piece, and it reads once all of it is there: on a disk that
/// is full that takes seconds.
const COMES_WITHIN: Duration = Duration::from_secs(8);
/// How long a status waits for each device.
const SHOW_WAIT: Wall = Wall::from_secs(1);

/// Why the reception did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The path is no socket's, or is not to be had.
    #[error("cannot listen on {path}: {error}; choose another path with --socket")]
    Socket {
        /// The path.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Somebody listens there.
    #[error("another reception listens on {0}; stop it, or choose another path with --socket")]
    Taken(PathBuf),
    /// Something else has that name.
    #[error(
        "{0} is there and is no socket, so it stays; choose another path with --socket, or remove \
         it yourself"
    )]
    NoSocket(PathBuf),
    /// Signals cannot be caught.
    #[error("cannot catch signals: {0}")]
    Signals(io::Error),
    /// Waiting for connections failed.
    #[error("cannot wait for connections: {0}")]
    Poll(io::Error),
}

/// Removes the socket's name when the reception ends.
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Reads for programs until SIGTERM or SIGINT.
///
/// # Errors
/// Why it did not start.
pub fn run(settings: &Settings) -> Result<(), RunError> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(RunError::Signals)?;
    }
    let path = Path::new(&settings.socket);
    let listener = open_socket(path)?;
    let _named = Named(path.to_path_buf());
    let of_walk = match settings.small_files_ahead {
        true => headlong_walk::FILES_MAX as u64,
        false => 0,
    };
    let files = settings.engine.streams_max as u64 + BACKLOG as u64 * 2 + of_walk;
    raise_limits(settings, files);
    let reception = Reception {
        settings: settings.clone(),
        counters: Arc::default(),
        clients: Clients::default(),
        places: Arc::new(Places::beneath(Path::new("/"))),
        devices: Arc::default(),
        walks: Walks::default(),
        started: Clock::now(),
        is_showing: Arc::default(),
    };
    say!(
        "headlong: reception listens on {} in mode {}",
        path.display(),
        settings.mode.name()
    );
    service_manager::notify(&[NotifyState::Ready]);
    reception.listen(&listener, &stop)
}

/// A socket on which every user may ask.
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
    // To connect to an ordinary file is refused too.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(RunError::NoSocket(path.to_path_buf()));
    }
    match new().and_then(|socket| connect(&socket, &address)) {
        Ok(()) | Err(rustix::io::Errno::AGAIN) => return Err(RunError::Taken(path.to_path_buf())),
        // What one that was killed has left.
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path).map_err(wrong)?,
        Err(_) => {}
    }
    let socket = new().map_err(|error| wrong(error.into()))?;
    bind(&socket, &address).map_err(|error| wrong(error.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(wrong)?;
    listen(&socket, BACKLOG).map_err(|error| wrong(error.into()))?;
    Ok(socket)
}

type Devices = BTreeMap<usize, Running>;

/// The thread of a device; it ends when this is dropped, and what it holds is let go.
#[derive(Debug)]
struct Running {
    messages: SyncSender<Message>,
    is_over: Arc<AtomicBool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

struct Reception {
    settings: Settings,
    counters: Arc<Counters>,
    clients: Clients,
    places: Arc<Places>,
    devices: Arc<Mutex<Devices>>,
    walks: Walks,
    started: Clock,
    is_showing: Arc<AtomicBool>,
}

impl Reception {
    fn listen(&self, listener: &OwnedFd, stop: &AtomicBool) -> Result<(), RunError> {
        let mut silent: HashMap<u64, (OwnedFd, Clock)> = HashMap::new();
        let mut next_id = 0;
        // Not the devices' threads: a disk that hangs is no reason to end what others are read for.
        let mut heartbeat = Heartbeat::asked_for();
        while !stop.load(Ordering::Relaxed) {
            heartbeat.beat();
            let ids: Vec<u64> = silent.keys().copied().collect();
            let mut polled = vec![PollFd::new(listener, PollFlags::IN)];
            let connections = ids.iter().map(|id| silent[id].0.as_fd());
            polled.extend(connections.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match poll(&mut polled, Some(&STOP_INTERVAL)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
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
                    && let Some(connection) = self.hear(connection)
                {
                    silent.insert(*id, (connection, since));
                }
            }
            silent.retain(|_, (_, since)| since.elapsed() < SILENT_TIME);
            while let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) {
                // Nearly always its message is there already.
                if let Some(connection) = self.hear(connection)
                    && silent.len() < SILENT_MAX
                {
                    next_id += 1;
                    silent.insert(next_id, (connection, Clock::now()));
                }
            }
        }
        Ok(())
    }

    /// Takes the message of a connection; gives it back if there is none yet.
    fn hear(&self, connection: OwnedFd) -> Option<OwnedFd> {
        let (message, passed, sender) = match receive(&connection) {
            Received::Nothing => return Some(connection),
            Received::Wrong => {
                self.counters.misheard();
                return None;
            }
            Received::Message(message, passed, sender) => (message, passed, sender),
        };
        self.counters.heard(&message);
        let range = (message.offset, message.length.min(ASK_BYTES_MAX));
        match (message.kind, passed) {
            (Kind::Ask, Some(passed)) => self.hear_ask(connection, passed, sender, range),
            (Kind::Note, _) => {
                let note = Note {
                    file: message.file,
                    uid: sender.uid.as_raw(),
                    offset: range.0,
                    length: range.1,
                };
                // Whoever does not know the file does nothing.
                for device in self.lock().values() {
                    let _ = device.messages.try_send(Message::Note(note));
                }
            }
            (Kind::Waited, Some(passed)) => {
                self.hear_waited(connection, passed, sender, message.length);
            }
            (Kind::Status, _) => self.show(connection),
            (Kind::Ask | Kind::Waited, None) => say(&connection, Answer::LeaveAlone),
            (Kind::Count, _) => {}
        }
        None
    }

    fn hear_ask(
        &self,
        connection: OwnedFd,
        passed: OwnedFd,
        sender: UCred,
        (offset, length): (u64, u64),
    ) {
        let counters = &self.counters;
        let Some(version) = version(&passed) else {
            say(&connection, Answer::LeaveAlone);
            return counters.answered(Answer::LeaveAlone, 0);
        };
        let length = length.min(version.size.saturating_sub(offset));
        let seat = self.clients.seat(sender.pid.as_raw_nonzero().get());
        let (Some(seat), true) = (
            seat.filter(|_| self.settings.mode != Mode::Track),
            length > 0,
        ) else {
            drop(passed);
            say(&connection, Answer::GoOn);
            return counters.answered(Answer::GoOn, 0);
        };
        let answering = Answering::new(connection, seat);
        let file = fs::File::from(passed);
        let device = self.places.device_of(&file).ok();
        let ask = Ask {
            passed: file.into(),
            version,
            uid: sender.uid.as_raw(),
            offset,
            length,
            answering,
        };
        let Some(device) = device.and_then(|device| self.device(device)) else {
            return go_on(ask, counters);
        };
        let unsent = device.try_send(Message::Ask(Box::new(ask)));
        if let Err(TrySendError::Full(message) | TrySendError::Disconnected(message)) = unsent
            && let Message::Ask(ask) = message
        {
            go_on(*ask, counters);
        }
    }

    /// A program waited for the disk at a small file. Who is not answered goes on.
    fn hear_waited(&self, connection: OwnedFd, passed: OwnedFd, sender: UCred, found: u64) {
        let pid = sender.pid.as_raw_nonzero().get();
        let is_on = self.settings.mode == Mode::Full && self.settings.small_files_ahead;
        let is_wanted = is_on && version(&passed).is_some();
        let Some(seat) = self.clients.seat(pid).filter(|_| is_wanted) else {
            drop(passed);
            return say(&connection, Answer::GoOn);
        };
        let waited = Waited {
            answering: Answering::new(connection, seat),
            program: u64::from(pid.unsigned_abs()),
            found: u32::try_from(found).unwrap_or(u32::MAX),
            passed: passed.into(),
        };
        if let Ok(device) = self.places.device_of(&waited.passed) {
            self.walks
                .hear(device, &self.places, &self.counters, waited);
        }
    }

    /// The thread of a device, started if it is new. Memory is for all together: when one more comes,
    /// those that are there begin again with less. It costs what was prefetched for them, once.
    fn device(&self, index: usize) -> Option<SyncSender<Message>> {
        let mut devices = self.lock();
        if let Some(device) = devices.get(&index) {
            return Some(device.messages.clone());
        }
        if devices.len() >= DEVICES_MAX {
            return None;
        }
        let share = self.settings.engine.memory_bytes / (devices.len() as u64 + 1);
        let start = |index: usize| {
            let started = self.start(index, share);
            if let Err(error) = &started {
                say!("headlong: no help for files on device {index}: {error}");
            }
            started.ok()
        };
        let device = start(index)?;
        let messages = device.messages.clone();
        let others: Vec<usize> = devices.keys().copied().collect();
        devices.clear();
        let others = others.into_iter().map(|other| (other, start(other)));
        devices.extend(others.filter_map(|(other, device)| Some((other, device?))));
        devices.insert(index, device);
        Some(messages)
    }

    fn start(&self, index: usize, memory_bytes: u64) -> io::Result<Running> {
        let info = self.places.devices().into_iter().nth(index);
        let info = info.ok_or(io::ErrorKind::NotFound)?;
        let mut engine = self.settings.engine.for_device(info.rotates());
        engine.memory_bytes = memory_bytes;
        // Programs count by the clock on the wall.
        let stays = Duration::from_millis(ANSWERED_MS) + COMES_WITHIN;
        engine.sent_stays = stays.times(self.settings.time_scale.into());
        let request_bytes = info.request_bytes_max.unwrap_or(engine.request_bytes_max);
        let how = How {
            piece_bytes: engine.piece_bytes,
            request_bytes: request_bytes.clamp(engine.piece_bytes, 16 * MIB),
        };
        // Pages of the cache lie anywhere, so that each may be a segment of its own.
        let segments = info.request_segments_max.unwrap_or(u64::MAX);
        let of_pages = segments.saturating_mul(rustix::param::page_size() as u64);
        engine.request_bytes_max = request_bytes.min(of_pages);
        let count = match self.settings.mode {
            Mode::Serialize => 1,
            Mode::Full | Mode::Track => engine.outstanding_reads_max,
        };
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let shard = Shard::new(engine).map_err(|error: ConfigError| io::Error::other(error))?;
        let done = sender.clone();
        let readers = Readers::start(&info.name, count, how, move |what| {
            let _ = done.send(Message::Done(what));
        })?;
        let describe = self.describer(&sender)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let start = Start {
            is_over: Arc::clone(&is_over),
            name: info.name.clone(),
            mode: self.settings.mode,
            keep_open: self.settings.keep_open,
            time_scale: self.settings.time_scale,
            shard,
            readers,
            describe,
            counters: Arc::clone(&self.counters),
        };
        let thread = DeviceThread::new(start);
        std::thread::Builder::new()
            .name(format!("disk-{}", info.name))
            .spawn(move || thread.run(&messages))?;
        Ok(Running {
            messages: sender,
            is_over,
        })
    }

    /// Threads that ask the file system what files are one of and where they lie, which waits for the
    /// disk: where hundreds of titles are begun at once, each waits for a few blocks.
    fn describer(&self, device: &SyncSender<Message>) -> io::Result<crate::device::Describe> {
        let (files, asked) = channel::<Question>();
        let asked = Arc::new(Mutex::new(asked));
        let with_chunks = self.settings.mode == Mode::Full && self.settings.chunk_files_ahead;
        let follows = with_chunks.then(|| Arc::new(headlong_walk::Follows::default()));
        for _ in 0..DESCRIBERS {
            let (places, device) = (Arc::clone(&self.places), device.clone());
            let (asked, follows) = (Arc::clone(&asked), follows.clone());
            let next = move || asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
            std::thread::Builder::new()
                .name("describe".to_owned())
                .spawn(move || {
                    while let Ok(question) = next() {
                        let found = question.answer(&places, follows.as_deref());
                        if device.send(Message::Found(found)).is_err() {
                            return;
                        }
                    }
                })?;
        }
        Ok(Box::new(move |question| {
            let _ = files.send(question);
        }))
    }

    /// Answers with the status, from a thread of its own: a device may take its time.
    fn show(&self, connection: OwnedFd) {
        if self.is_showing.swap(true, Ordering::Relaxed) {
            return;
        }
        let devices: Vec<SyncSender<Message>> = (self.lock().values())
            .map(|device| device.messages.clone())
            .collect();
        let (counters, clients) = (Arc::clone(&self.counters), self.clients.clone());
        let (settings, started) = (self.settings.clone(), self.started);
        let is_showing = Arc::clone(&self.is_showing);
        let show = move || {
            let (sender, shown) = channel();
            let asked = devices.iter().filter(|device| {
                let message = Message::Show(sender.clone());
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
            // Before it is sent: who has it may ask for the next at once.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Devices> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is done for a call.
fn go_on(ask: Ask, counters: &Counters) {
    drop(ask.passed);
    let waited = ask.answering.answer(Answer::GoOn);
    counters.answered(Answer::GoOn, waited);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
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
        let error = open_socket(&socket).expect_err("somebody listens");
        assert!(matches!(error, RunError::Taken(_)), "{error}");
        drop(first);
        open_socket(&socket).expect("what was left is replaced");
    }
}
