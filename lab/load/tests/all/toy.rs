//! A server with known replies: a thread for each connection.
//!
//! The folder of a title selects its behaviour: `ok/000007.bin` is title 7 served correctly,
//! `wrong/...` has a wrong byte, and so on ([`ReplyBehaviour`]). Every title has [`TITLE_BYTES`].

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use headlong_workload::content::Content;

/// Bytes of every title.
pub(crate) const TITLE_BYTES: u64 = 1 << 20;
/// Offset of the wrong byte of a title in `wrong`.
pub(crate) const WRONG_AT: u64 = 12_345;
/// Bytes of a chunk, and of half a reply that ends too early.
const PART_BYTES: u64 = 64 << 10;

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

/// The server. Its threads end with the test program.
pub(crate) struct ToyServer {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
}

impl ToyServer {
    /// Starts the server.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                // An error is the end of the connection.
                std::thread::spawn(move || serve(stream, &counter).ok());
            }
        });
        Self { address, requests }
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

/// Answers the requests of a connection, in their order, until either side closes it.
fn serve(mut stream: TcpStream, requests: &AtomicU64) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if lines.read_line(&mut request)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        requests.fetch_add(1, Ordering::Relaxed);
        answer(&mut stream, &request)?;
    }
}

/// Answers a request; an error closes the connection.
fn answer(stream: &mut TcpStream, request: &str) -> io::Result<()> {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let behaviour = ReplyBehaviour::of(path);
    let range = request.split("Range: bytes=").nth(1).and_then(|range| {
        let (first, last) = range.split("\r\n").next()?.split_once('-')?;
        let last = last.parse().unwrap_or(TITLE_BYTES - 1);
        Some((first.parse().ok()?, last + 1))
    });
    let (start, end) = range.unwrap_or((0, TITLE_BYTES));
    let end: u64 = end.min(TITLE_BYTES);
    let status = match range {
        Some(_) => "206 Partial Content",
        None => "200 OK",
    };
    let shown = match behaviour {
        ReplyBehaviour::Hang => return Ok(()),
        ReplyBehaviour::Refuse => {
            return stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        }
        ReplyBehaviour::Noise => {
            stream.write_all(b"SSH-2.0-toy\r\n\r\n")?;
            return Err(ErrorKind::ConnectionAborted.into());
        }
        ReplyBehaviour::OtherRange => start + 8,
        _ => start,
    };
    let length = match behaviour {
        ReplyBehaviour::Chunked => "Transfer-Encoding: chunked".to_owned(),
        ReplyBehaviour::UntilClose | ReplyBehaviour::Reset => "Connection: close".to_owned(),
        _ => format!("Content-Length: {}", end - start),
    };
    let last = shown + (end - start) - 1;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Range: bytes {shown}-{last}/{TITLE_BYTES}\r\n{length}\r\n\r\n"
    )?;
    let (title, base) = headlong_workload::locate(path, Some(TITLE_BYTES)).unwrap_or((0, 0));
    let mut body = vec![0; (end - start) as usize];
    Content::of_title(title).fill(base + start, &mut body);
    match behaviour {
        ReplyBehaviour::Wrong if (start..end).contains(&WRONG_AT) => {
            body[(WRONG_AT - start) as usize] ^= 1;
        }
        ReplyBehaviour::Short => body.truncate(PART_BYTES as usize),
        _ => {}
    }
    if behaviour == ReplyBehaviour::Chunked {
        for chunk in body.chunks(PART_BYTES as usize) {
            write!(stream, "{:x}\r\n", chunk.len())?;
            stream.write_all(chunk)?;
            stream.write_all(b"\r\n")?;
        }
        return stream.write_all(b"0\r\n\r\n");
    }
    stream.write_all(&body)?;
    match behaviour {
        ReplyBehaviour::Reset => {
            // With a linger time of zero, closing resets the connection.
            rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO))?;
            Err(ErrorKind::ConnectionReset.into())
        }
        ReplyBehaviour::UntilClose | ReplyBehaviour::Stale | ReplyBehaviour::Short => {
            Err(ErrorKind::ConnectionAborted.into())
        }
        _ => Ok(()),
    }
}
