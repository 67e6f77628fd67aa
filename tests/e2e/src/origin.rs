//! An origin with injectable faults: hand-written HTTP with one mode for each fault.
//!
//! Its titles are `/o/NUMBER-SIZE`, with the bytes of that pattern, or of the pattern that the
//! query argument `v` names. It counts the bytes of the bodies that it sends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headlong_testkit::pattern;

/// How it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Correctly.
    Well,
    /// Closes every connection.
    Down,
    /// Sends half of each body, then stalls.
    Hang,
    /// Sends half of each body, then closes.
    Short,
    /// Reports a length that is one more than before.
    WrongTotal,
    /// Sends the range after the requested one.
    WrongRange,
    /// Does not support ranges.
    Whole,
    /// Serves other contents under another tag.
    Changed,
    /// Sends this tag, or no tag, and adds this number to the titles' pattern numbers.
    Tagged(Option<&'static str>, u64),
    /// Redirects to itself.
    Loop,
    /// Redirects to this URL.
    To(String),
    /// Sends bytes that are not HTTP.
    Garbage,
    /// Sends header fields without end.
    Endless,
    /// Has no titles.
    Absent,
}

/// A running origin; stopped when dropped.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mutex<Mode>,
    sent: AtomicU64,
    asked: AtomicU64,
    targets: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl Origin {
    /// Starts an origin without a fault.
    pub fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            mode: Mutex::new(Mode::Well),
            sent: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            targets: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let (Ok(stream), shared) = (stream, Arc::clone(&of_thread)) else {
                    continue;
                };
                std::thread::spawn(move || {
                    // A client that disconnects ends its thread.
                    let _ = shared.serve(&stream);
                });
            }
        });
        Ok(Self { address, shared })
    }

    /// Listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode.
    pub fn be(&self, mode: Mode) {
        *self
            .shared
            .mode
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// Bytes of bodies sent.
    pub fn sent_bytes(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Targets of all requests, in order.
    pub fn targets(&self) -> Vec<String> {
        let targets = self.shared.targets.lock();
        targets.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of requests received.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// The relevant fields of a request.
struct Wanted {
    target: String,
    is_head: bool,
    title: u64,
    size: u64,
    range: Option<(u64, u64)>,
    condition: Option<String>,
}

impl Shared {
    fn mode(&self) -> Mode {
        self.mode
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn serve(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        while let Some(wanted) = read_head(&mut reader)? {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
            targets.push(wanted.target.clone());
            drop(targets);
            match self.mode() {
                Mode::Down => return Ok(()),
                Mode::Garbage => return stream.write_all(b"\x00\x01garbage\r\n\r\n"),
                Mode::Absent => {
                    stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
                }
                Mode::Endless => {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
                    while !self.is_over.load(Ordering::Relaxed) {
                        stream.write_all(format!("X-A: {}\r\n", "a".repeat(1000)).as_bytes())?;
                    }
                }
                Mode::Loop => {
                    self.redirect(stream, &format!("/o/{}-{}", wanted.title, wanted.size))?
                }
                Mode::To(url) => self.redirect(stream, &url)?,
                mode => {
                    if !self.answer(stream, &wanted, &mode)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn redirect(&self, mut stream: &TcpStream, to: &str) -> std::io::Result<()> {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(head.as_bytes())
    }

    /// Returns whether the connection stays open.
    fn answer(
        &self,
        mut stream: &TcpStream,
        wanted: &Wanted,
        mode: &Mode,
    ) -> std::io::Result<bool> {
        let (tag, title) = match mode {
            Mode::Changed => (Some("\"other\""), wanted.title + 1000),
            Mode::Tagged(tag, more) => (*tag, wanted.title + more),
            _ => (Some("\"first\""), wanted.title),
        };
        let condition = wanted.condition.as_deref();
        let is_same = condition.is_none_or(|known| Some(known) == tag);
        let tag = tag.map_or(String::new(), |tag| format!("ETag: {tag}\r\n"));
        let range = wanted.range.filter(|_| is_same && *mode != Mode::Whole);
        let total = wanted.size + u64::from(*mode == Mode::WrongTotal);
        let shift = u64::from(*mode == Mode::WrongRange);
        let (status, first, end, more) = match range {
            None => ("200 OK", 0, total, String::new()),
            Some((first, last)) => {
                let (first, last) = (first + shift, (last + shift).min(wanted.size - 1));
                let more = format!("Content-Range: bytes {first}-{last}/{total}\r\n");
                ("206 Partial Content", first, last + 1, more)
            }
        };
        let length = end - first;
        let head = format!("HTTP/1.1 {status}\r\n{tag}Content-Length: {length}\r\n{more}\r\n");
        stream.write_all(head.as_bytes())?;
        if wanted.is_head {
            return Ok(true);
        }
        let is_half = matches!(mode, Mode::Hang | Mode::Short);
        let sent = if is_half { length / 2 } else { length };
        stream.write_all(&pattern::bytes(title, first..first + sent))?;
        self.sent.fetch_add(sent, Ordering::Relaxed);
        while *mode == Mode::Hang
            && self.mode() == Mode::Hang
            && !self.is_over.load(Ordering::Relaxed)
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(!is_half)
    }
}

fn read_head(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Wanted>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut words = first.split(' ');
    let is_head = words.next() == Some("HEAD");
    let target = words.next().unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let name = path.strip_prefix("/o/");
    let numbers = name.and_then(|name| name.split_once('-'));
    let numbers = numbers.and_then(|(title, size)| Some((title.parse().ok()?, size.parse().ok()?)));
    let (title, size) = numbers.unwrap_or((0, 0));
    let version = query.split('&').find_map(|pair| pair.strip_prefix("v="));
    let title = version.and_then(|v| v.parse().ok()).unwrap_or(title);
    let (mut range, mut condition) = (None, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let span = value
                    .trim()
                    .strip_prefix("bytes=")
                    .and_then(|span| span.split_once('-'));
                range =
                    span.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
            }
            "if-range" => condition = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    Ok(Some(Wanted {
        target,
        is_head,
        title,
        size,
        range,
        condition,
    }))
}
