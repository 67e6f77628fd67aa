//! Server of the control socket: a thread that accepts, and one for each connection.

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::protocol::{handle_line, refusal};
use super::stop::StopSignal;
use crate::disk_components::DiskComponents;
use crate::error::Error;

const CONNECTIONS_MAX: usize = 32;
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Listens until dropped; then all connections are closed and their threads have ended.
pub(crate) struct ControlServer {
    path: PathBuf,
    shared: Arc<ControlState>,
    acceptor: Option<JoinHandle<()>>,
}

struct ControlState {
    parts: Mutex<Option<Arc<DiskComponents>>>,
    stop: StopSignal,
    connections: Mutex<Vec<ClientConnection>>,
}

struct ClientConnection {
    stream: UnixStream,
    thread: JoinHandle<()>,
}

impl ControlServer {
    pub(crate) fn start(
        path: &Path,
        parts: Arc<DiskComponents>,
        stop: StopSignal,
    ) -> Result<Self, Error> {
        let doing = || format!("control socket {}", path.display());
        forget_dead(path).map_err(Error::system(doing()))?;
        let listener = UnixListener::bind(path).map_err(Error::system(doing()))?;
        let shared = Arc::new(ControlState {
            parts: Mutex::new(Some(parts)),
            stop,
            connections: Mutex::default(),
        });
        let mut server = Self {
            path: path.to_owned(),
            shared: Arc::clone(&shared),
            acceptor: None,
        };
        let acceptor = std::thread::Builder::new().name("disk-control".into());
        let acceptor = acceptor.spawn(move || shared.accept(&listener));
        server.acceptor = Some(acceptor.map_err(Error::system(doing()))?);
        Ok(server)
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        *lock(&self.shared.parts) = None;
        // Wakes the acceptor, which then finds that the disk has ended.
        let woken = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        if let Some(acceptor) = self.acceptor.take()
            && woken.is_ok()
        {
            let _ = acceptor.join();
        }
        for connection in std::mem::take(&mut *lock(&self.shared.connections)) {
            // An answer in progress is still sent.
            let _ = connection.stream.shutdown(std::net::Shutdown::Read);
            let _ = connection.thread.join();
        }
    }
}

impl ControlState {
    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for stream in listener.incoming() {
            if lock(&self.parts).is_none() {
                return;
            }
            // For example too many open files: a later attempt may succeed.
            let Ok(stream) = stream else {
                std::thread::sleep(std::time::Duration::from_millis(10));
                continue;
            };
            let _ = self.serve(stream);
        }
    }

    fn serve(self: &Arc<Self>, mut stream: UnixStream) -> io::Result<()> {
        let mut connections = lock(&self.connections);
        connections.retain(|connection| !connection.thread.is_finished());
        if connections.len() == CONNECTIONS_MAX {
            let text = format!("{CONNECTIONS_MAX} connections are open; close one");
            return writeln!(stream, "{}", refusal(&text));
        }
        let ours = stream.try_clone()?;
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().name("disk-control".into());
        let thread = thread.spawn(move || {
            let _ = shared.answer(&ours);
            let _ = ours.shutdown(std::net::Shutdown::Both);
        })?;
        connections.push(ClientConnection { stream, thread });
        Ok(())
    }

    fn answer(&self, stream: &UnixStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        loop {
            line.clear();
            if reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim().is_empty() {
                continue;
            }
            let parts = lock(&self.parts).clone();
            let answer = match parts {
                Some(parts) => handle_line(&line, &parts, &self.stop),
                None => refusal("the disk is stopping"),
            };
            let mut writer = stream;
            writeln!(writer, "{answer}")?;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the socket of a disk that was killed; fails if a live one listens.
fn forget_dead(path: &Path) -> io::Result<()> {
    // Connecting to an ordinary file is refused, too.
    if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
        return Err(io::Error::other(
            "this exists and is no socket; give another path, or remove it",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::other(
            "another disk listens there; give another path, or stop that disk",
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "precious").expect("written");
        std::os::unix::fs::symlink("file", &link).expect("a link");
        for path in [&file, &link] {
            let error = forget_dead(path).expect_err("no socket").to_string();
            assert!(error.contains("no socket"), "{error}");
        }
        assert_eq!(fs::read(&link).expect("the file"), b"precious");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("bound");
        forget_dead(&socket).expect_err("a live listener");
        // A process that another test starts meanwhile inherits the socket for a moment.
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).expect("open");
        drop(listener);
        forget_dead(&socket).expect("the stale socket is removed");
        assert!(!socket.exists());
    }
}
