//! A bucket that responds as a test wants. It verifies no signature: it is the hostile party.
//!
//! Its titles are `/o/NUMBER`, of one size, with the bytes of that pattern.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use headlong_testkit::pattern;

/// Size of each title.
pub const SIZE: u64 = 200_000;

/// A request of the edge.
pub struct Question {
    /// Whether it is HEAD.
    pub is_head: bool,
    /// Pattern of the title.
    pub title: u64,
    /// First and last byte.
    pub range: Option<(u64, u64)>,
    /// Requests before this one.
    pub number: u64,
}

impl Question {
    /// Status, fields and body of a correct response.
    pub fn right(&self, tag: &str) -> (String, Vec<u8>) {
        let (status, first, end) = match self.range {
            None => ("200 OK", 0, SIZE),
            Some((first, last)) => ("206 Partial Content", first, (last + 1).min(SIZE)),
        };
        let mut head = format!(
            "HTTP/1.1 {status}\r\nETag: \"{tag}\"\r\nContent-Length: {}\r\n",
            end - first
        );
        if self.range.is_some() {
            head += &format!("Content-Range: bytes {first}-{}/{SIZE}\r\n", end - 1);
        }
        (head, pattern::bytes(self.title, first..end))
    }
}

/// The response of a bucket; afterwards the connection is closed, unless this is `true`.
pub type Act = fn(&Question, &mut TcpStream) -> std::io::Result<bool>;

/// Sends a head and, unless it is for HEAD, a body.
///
/// # Errors
/// If the edge has closed the connection.
pub fn send(
    stream: &mut TcpStream,
    asked: &Question,
    head: &str,
    body: &[u8],
) -> std::io::Result<()> {
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    match asked.is_head {
        true => Ok(()),
        false => stream.write_all(body),
    }
}

/// A correct response.
///
/// # Errors
/// If the edge has closed the connection.
pub fn well(asked: &Question, stream: &mut TcpStream) -> std::io::Result<bool> {
    let (head, body) = asked.right("first");
    send(stream, asked, &head, &body)?;
    Ok(true)
}

/// A running bucket; stopped when dropped.
pub struct HostileBucket {
    /// Listening address.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    act: Mutex<Act>,
    asked: AtomicU64,
    is_over: AtomicBool,
}

impl HostileBucket {
    /// Starts a bucket that responds correctly.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            act: Mutex::new(well),
            asked: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if of_thread.is_over.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&of_thread);
                // It ends when the edge closes the connection.
                std::thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { address, shared }
    }

    /// Responds like this from now on.
    pub fn be(&self, act: Act) {
        *self.shared.act() = act;
    }

    /// Number of requests so far.
    pub fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }
}

impl Drop for HostileBucket {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn act(&self) -> std::sync::MutexGuard<'_, Act> {
        self.act.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(mut asked) = read_question(&mut reader)? {
            asked.number = self.asked.fetch_add(1, Ordering::Relaxed);
            let act = *self.act();
            if !act(&asked, &mut stream)? {
                break;
            }
        }
        Ok(())
    }
}

fn read_question(reader: &mut impl std::io::BufRead) -> std::io::Result<Option<Question>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let target = first.split(' ').nth(1).unwrap_or_default();
    let name = target.split('?').next().unwrap_or_default();
    let title = name.rsplit('/').next().and_then(|name| name.parse().ok());
    let mut range = None;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("range") {
            let span = value.trim().strip_prefix("bytes=");
            let span = span.and_then(|span| span.split_once('-'));
            range = span.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        }
    }
    Ok(Some(Question {
        is_head: first.starts_with("HEAD"),
        title: title.unwrap_or(0),
        range,
        number: 0,
    }))
}
