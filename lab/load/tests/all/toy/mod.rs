//! A server with a known response time distribution: one thread, any number of connections.
//!
//! The folder of a title selects its behaviour: `ok/000007.bin` is title 7 served correctly,
//! `wrong/...` has a wrong byte, and so on ([`ReplyBehaviour`]). Every title has [`TITLE_BYTES`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headlong_workload::content::Content;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

/// Bytes of every title.
pub(crate) const TITLE_BYTES: u64 = 1 << 20;
/// Offset of the wrong byte of a title in `wrong`.
pub(crate) const WRONG_AT: u64 = 12_345;

/// Pauses: during the first `length` of every `period` the server sends nothing; requests wait for
/// the end of the pause.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerStalls {
    pub period: Duration,
    pub length: Duration,
}

impl ServerStalls {
    /// Rest of the current pause, at this time after its start.
    fn left(self, now: Duration) -> Duration {
        if self.period.is_zero() {
            return Duration::ZERO;
        }
        let phase = Duration::from_nanos((now.as_nanos() % self.period.as_nanos()) as u64);
        self.length.saturating_sub(phase)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyBehaviour {
    Ok,
    /// One byte is wrong.
    Wrong,
    /// The connection is closed in the middle.
    Short,
    /// In chunks.
    Chunked,
    /// Status 503.
    Refuse,
    /// Never replies.
    Hang,
    /// Without a length; closing the connection ends the reply.
    UntilClose,
    /// The same, but the connection is reset instead of closed.
    Reset,
    /// Closes after each reply without announcing it.
    Stale,
    /// Replies with another range.
    OtherRange,
    /// Sends bytes that are not HTTP.
    Noise,
}

impl ReplyBehaviour {
    fn of(path: &str) -> Self {
        match path.trim_start_matches('/').split('/').next() {
            Some("wrong") => Self::Wrong,
            Some("short") => Self::Short,
            Some("chunked") => Self::Chunked,
            Some("refuse") => Self::Refuse,
            Some("hang") => Self::Hang,
            Some("until-close") => Self::UntilClose,
            Some("reset") => Self::Reset,
            Some("stale") => Self::Stale,
            Some("other-range") => Self::OtherRange,
            Some("noise") => Self::Noise,
            _ => Self::Ok,
        }
    }
}

/// The rest of a reply.
struct ToyReply {
    behaviour: ReplyBehaviour,
    head: Vec<u8>,
    content: Content,
    next: u64,
    end: u64,
}

struct ToyConnection {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Option<ToyReply>,
    /// Bytes that the socket did not accept.
    unsent: Vec<u8>,
    /// When to reply.
    due: Option<Instant>,
}

/// The server; it stops when dropped.
pub(crate) struct ToyServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl ToyServer {
    /// Starts the server.
    pub(crate) fn start(stalls: ServerStalls) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = Arc::new(AtomicBool::new(false));
        let requests = Arc::new(AtomicU64::new(0));
        let mut serving = ToyServerLoop::new(listener, stalls, requests.clone()).expect("an epoll");
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || serving.run(&stopped).expect("it serves"));
        Self {
            address,
            stop,
            requests,
            thread: Some(thread),
        }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Number of requests received.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for ToyServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

const LISTENER: u64 = u64::MAX;

struct ToyServerLoop {
    listener: TcpListener,
    epoll: OwnedFd,
    stalls: ServerStalls,
    start: Instant,
    connections: HashMap<u64, ToyConnection>,
    next_token: u64,
    /// Connections that wait for the end of a pause, in request order.
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    requests: Arc<AtomicU64>,
    buffer: Vec<u8>,
}

impl ToyServerLoop {
    fn new(
        listener: TcpListener,
        stalls: ServerStalls,
        requests: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        // The standard library's backlog is too short for a crowd.
        rustix::net::listen(&listener, 4096)?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        Ok(Self {
            listener,
            epoll,
            stalls,
            start: Instant::now(),
            connections: HashMap::new(),
            next_token: 0,
            due: BinaryHeap::new(),
            requests,
            buffer: vec![0; 64 << 10],
        })
    }

    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        while !stop.load(Ordering::Relaxed) {
            let look = Duration::from_millis(20);
            let wait = self.due.peek().map_or(look, |Reverse((due, _))| {
                look.min(due.saturating_duration_since(Instant::now()))
            });
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(wait.subsec_nanos()),
            };
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    token => self.serve(token),
                }
            }
            while let Some(Reverse((due, token))) = self.due.peek().copied() {
                if due > Instant::now() {
                    break;
                }
                self.due.pop();
                self.serve(token);
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => continue,
            };
            stream.set_nonblocking(true)?;
            let token = self.next_token;
            self.next_token += 1;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            epoll::add(&self.epoll, &stream, EventData::new_u64(token), flags)?;
            let connection = ToyConnection {
                stream,
                request: Vec::new(),
                reply: None,
                unsent: Vec::new(),
                due: None,
            };
            self.connections.insert(token, connection);
        }
    }

    /// Makes progress on a connection; closes it at its end.
    fn serve(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(&token) else {
            return;
        };
        if self.go_on(token, &mut connection).is_ok() {
            self.connections.insert(token, connection);
        }
    }

    fn go_on(&mut self, token: u64, connection: &mut ToyConnection) -> io::Result<()> {
        loop {
            if let Some(due) = connection.due {
                if due > Instant::now() {
                    return Ok(());
                }
                connection.due = None;
            }
            if connection.reply.is_some() || !connection.unsent.is_empty() {
                if !send(connection, &mut self.buffer)? {
                    return Ok(());
                }
                continue;
            }
            if !receive(connection, &mut self.buffer)? {
                return Ok(());
            }
            self.requests.fetch_add(1, Ordering::Relaxed);
            answer(connection)?;
            let now = Instant::now();
            let left = self.stalls.left(now - self.start);
            if !left.is_zero() {
                connection.due = Some(now + left);
                self.due.push(Reverse((now + left, token)));
            }
        }
    }
}

/// Whether a complete request has arrived.
fn receive(connection: &mut ToyConnection, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        if connection.request.ends_with(b"\r\n\r\n") {
            return Ok(true);
        }
        match connection.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => connection.request.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Prepares the reply to the request.
fn answer(connection: &mut ToyConnection) -> io::Result<()> {
    let request = core::mem::take(&mut connection.request);
    let text = String::from_utf8_lossy(&request);
    let path = text.split(' ').nth(1).unwrap_or_default();
    let behaviour = ReplyBehaviour::of(path);
    let range = text.split("Range: bytes=").nth(1).and_then(|range| {
        let (first, last) = range.split("\r\n").next()?.split_once('-')?;
        let last = last.parse().unwrap_or(TITLE_BYTES - 1);
        Some((first.parse().ok()?, last + 1))
    });
    let (start, end) = range.unwrap_or((0, TITLE_BYTES));
    let end = end.min(TITLE_BYTES);
    let (title, base) = headlong_workload::locate(path, Some(TITLE_BYTES)).unwrap_or((0, 0));
    let status = if range.is_some() {
        "206 Partial Content"
    } else {
        "200 OK"
    };
    let shown = if behaviour == ReplyBehaviour::OtherRange {
        start + 8
    } else {
        start
    };
    let mut head = match behaviour {
        ReplyBehaviour::Refuse => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_string(),
        ReplyBehaviour::Noise => "SSH-2.0-toy\r\n\r\n".to_string(),
        ReplyBehaviour::Hang => return Ok(()),
        _ => {
            let last = shown + (end - start) - 1;
            format!("HTTP/1.1 {status}\r\nContent-Range: bytes {shown}-{last}/{TITLE_BYTES}\r\n")
        }
    };
    let no_body = matches!(behaviour, ReplyBehaviour::Refuse | ReplyBehaviour::Noise);
    match behaviour {
        _ if no_body => {}
        ReplyBehaviour::Chunked => head.push_str("Transfer-Encoding: chunked\r\n\r\n"),
        ReplyBehaviour::UntilClose | ReplyBehaviour::Reset => {
            head.push_str("Connection: close\r\n\r\n")
        }
        _ => head.push_str(&format!("Content-Length: {}\r\n\r\n", end - start)),
    }
    connection.reply = Some(ToyReply {
        behaviour,
        head: head.into_bytes(),
        content: Content::of_title(title),
        next: base + start,
        end: base + if no_body { start } else { end },
    });
    Ok(())
}

/// Sends as much as the socket accepts; returns whether the reply is complete. An error closes the
/// connection.
fn send(connection: &mut ToyConnection, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        while !connection.unsent.is_empty() {
            match connection.stream.write(&connection.unsent) {
                Ok(count) => drop(connection.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let Some(reply) = &mut connection.reply else {
            return Ok(true);
        };
        connection.unsent = core::mem::take(&mut reply.head);
        let count = (reply.end - reply.next).min(buffer.len() as u64) as usize;
        let part = &mut buffer[..count];
        reply.content.fill(reply.next, part);
        let wrong = reply.next..reply.next + count as u64;
        if reply.behaviour == ReplyBehaviour::Wrong && wrong.contains(&WRONG_AT) {
            part[(WRONG_AT - reply.next) as usize] ^= 1;
        }
        reply.next += count as u64;
        let chunked = reply.behaviour == ReplyBehaviour::Chunked;
        if chunked {
            let size = format!("{count:x}\r\n");
            connection.unsent.extend_from_slice(size.as_bytes());
        }
        connection.unsent.extend_from_slice(part);
        if chunked {
            connection.unsent.extend_from_slice(b"\r\n");
        }
        // An empty chunk is the last one.
        let is_last = reply.next == reply.end && (!chunked || count == 0);
        let half = reply.behaviour == ReplyBehaviour::Short;
        if !is_last && !half {
            continue;
        }
        let closes = matches!(
            reply.behaviour,
            ReplyBehaviour::UntilClose
                | ReplyBehaviour::Reset
                | ReplyBehaviour::Stale
                | ReplyBehaviour::Short
                | ReplyBehaviour::Noise
        );
        let resets = reply.behaviour == ReplyBehaviour::Reset;
        connection.reply = None;
        if closes {
            // The rest is sent blocking; these replies are short.
            connection.stream.set_nonblocking(false)?;
            connection.stream.write_all(&connection.unsent)?;
            if resets {
                // With a linger time of zero, closing resets the connection.
                rustix::net::sockopt::set_socket_linger(&connection.stream, Some(Duration::ZERO))?;
            }
            return Err(ErrorKind::ConnectionAborted.into());
        }
    }
}
