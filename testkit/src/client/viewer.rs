//! A viewer: requests a title in order, reads it at its pace, and verifies every byte.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::ClientError;
use super::connection::request_text;
use super::head::Head;
use crate::pattern;

/// Timeout for the next bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Small receive buffer, so that a slow reader causes backpressure at the server.
const RECEIVE_BUFFER_BYTES: u32 = 64 << 10;

/// How the viewer requests the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Consecutive range requests of this size on one connection.
    Chunks(u64),
    /// One open-ended request from the start.
    OpenEnded,
}

/// A viewer's title and behaviour.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// The server.
    pub address: SocketAddr,
    /// Path of the title.
    pub target: String,
    /// Number of the title (see [`pattern`]).
    pub title: u64,
    /// Size of the title.
    pub size_bytes: u64,
    /// First byte to watch.
    pub start: u64,
    /// Bytes to watch; fewer if the title ends.
    pub watch_bytes: u64,
    /// Pace; unlimited if `None`.
    pub bytes_per_second: Option<u64>,
    /// How it requests the title.
    pub asking: Asking,
    /// Additional header fields, e.g. CMCD.
    pub fields: Vec<(String, String)>,
}

/// Result of a viewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewerReport {
    /// Bytes received, all of them verified.
    pub bytes: u64,
    /// Requests answered.
    pub requests: u64,
    /// Longest time to the first byte of a reply.
    pub first_byte_max: Duration,
    /// Longest time by which the end of a reply was behind the pace: the playout buffer that a
    /// player would need. Zero without a pace.
    pub behind_max: Duration,
}

impl Viewer {
    /// A viewer of a whole title, at unlimited pace, open-ended.
    pub fn new(address: SocketAddr, target: &str, title: u64, size_bytes: u64) -> Self {
        Self {
            address,
            target: target.to_owned(),
            title,
            size_bytes,
            start: 0,
            watch_bytes: size_bytes,
            bytes_per_second: None,
            asking: Asking::OpenEnded,
            fields: Vec::new(),
        }
    }

    /// Adds a session id (CMCD `sid`), which distinguishes the viewer from others at its address.
    pub fn with_session(mut self, session: u64) -> Self {
        self.fields.push((
            "CMCD-Session".to_owned(),
            format!("sid=\"viewer-{session}\""),
        ));
        self
    }

    /// Watches; ends early at the first wrong byte or failed reply.
    pub async fn watch(&self) -> Result<ViewerReport, ClientError> {
        let mut wire = BufferedStream::connect(self.address).await?;
        let mut report = ViewerReport::default();
        let begun = Instant::now();
        let end = self
            .start
            .saturating_add(self.watch_bytes)
            .min(self.size_bytes);
        let mut at = self.start;
        while at < end {
            let last = match self.asking {
                Asking::Chunks(bytes) => at.saturating_add(bytes.max(1)).min(end) - 1,
                Asking::OpenEnded => self.size_bytes - 1,
            };
            self.pause(begun, at - self.start).await;
            let until = (last + 1).min(end);
            self.take_reply(&mut wire, at..until, last, begun, &mut report)
                .await?;
            if let Some(due) = self.due(at - self.start) {
                let behind = begun.elapsed().saturating_sub(due);
                report.behind_max = report.behind_max.max(behind);
            }
            at = until;
        }
        Ok(report)
    }

    /// Sends one request and reads the bytes in `range` of its reply; `last` is the last requested
    /// byte.
    async fn take_reply(
        &self,
        wire: &mut BufferedStream,
        range: std::ops::Range<u64>,
        last: u64,
        begun: Instant,
        report: &mut ViewerReport,
    ) -> Result<(), ClientError> {
        let asked = match self.asking {
            Asking::Chunks(_) => format!("bytes={}-{last}", range.start),
            Asking::OpenEnded => format!("bytes={}-", range.start),
        };
        let mut fields = vec![("Range", asked.as_str())];
        fields.extend(
            self.fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let sent = Instant::now();
        wire.send(request_text("GET", &self.target, &fields).as_bytes())
            .await?;
        let head = wire.head().await?;
        let expected = (range.start, last, self.size_bytes);
        if head.status != 206 || head.content_range() != Some(expected) {
            let range = head.field("content-range").map(str::to_owned);
            let text = format!("{} {range:?} for {asked} of {}", head.status, self.target);
            return Err(ClientError::Unexpected(text));
        }
        let mut at = range.start;
        while at < range.end {
            let wanted = (range.end - at).min(16 << 10) as usize;
            let cut = |error| match error {
                ClientError::Io(cause) => ClientError::CutShort {
                    status: head.status,
                    received_bytes: at - range.start,
                    cause,
                },
                other => other,
            };
            let bytes = wire.some_bytes(wanted).await.map_err(cut)?;
            if at == range.start {
                report.first_byte_max = report.first_byte_max.max(sent.elapsed());
            }
            pattern::verify(self.title, at, &bytes).map_err(ClientError::Wrong)?;
            at += bytes.len() as u64;
            report.bytes += bytes.len() as u64;
            if self.asking == Asking::OpenEnded {
                self.pause(begun, at - self.start).await;
            }
        }
        report.requests += 1;
        Ok(())
    }

    /// When a player at this pace needs the byte after `done` bytes, from its start.
    fn due(&self, done: u64) -> Option<Duration> {
        let rate = self.bytes_per_second?;
        Some(Duration::from_secs_f64(done as f64 / rate.max(1) as f64))
    }

    /// Sleeps until a player at this pace needs the byte after `done` bytes.
    async fn pause(&self, begun: Instant, done: u64) {
        let Some(due) = self.due(done) else {
            return;
        };
        let left = due.saturating_sub(begun.elapsed());
        if !left.is_zero() {
            tokio::time::sleep(left).await;
        }
    }
}

/// A connection with bytes received and not consumed.
struct BufferedStream {
    stream: TcpStream,
    received: Vec<u8>,
}

impl BufferedStream {
    async fn connect(address: SocketAddr) -> Result<Self, ClientError> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        };
        let socket = socket.map_err(ClientError::Connect)?;
        socket
            .set_recv_buffer_size(RECEIVE_BUFFER_BYTES)
            .map_err(ClientError::Connect)?;
        let connecting = tokio::time::timeout(PATIENCE, socket.connect(address));
        let stream = connecting.await.map_err(|_| ClientError::TimedOut)?;
        let stream = stream.map_err(ClientError::Connect)?;
        Ok(Self {
            stream,
            received: Vec::new(),
        })
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        Ok(self.stream.write_all(bytes).await?)
    }

    async fn head(&mut self) -> Result<Head, ClientError> {
        loop {
            if let Some((head, length)) = Head::parse(&self.received)? {
                self.received.drain(..length);
                return Ok(head);
            }
            let fresh = self.read(4096).await;
            match fresh {
                Err(ClientError::Io(error))
                    if error.kind() == std::io::ErrorKind::UnexpectedEof
                        && self.received.is_empty() =>
                {
                    return Err(ClientError::Closed);
                }
                result => self.received.extend(result?),
            }
        }
    }

    /// Reads at least one byte, at most `most`.
    async fn some_bytes(&mut self, most: usize) -> Result<Vec<u8>, ClientError> {
        if self.received.is_empty() {
            return self.read(most).await;
        }
        let length = most.min(self.received.len());
        Ok(self.received.drain(..length).collect())
    }

    async fn read(&mut self, most: usize) -> Result<Vec<u8>, ClientError> {
        let mut buffer = vec![0; most];
        let reading = tokio::time::timeout(PATIENCE, self.stream.read(&mut buffer));
        match reading.await.map_err(|_| ClientError::TimedOut)?? {
            0 => Err(ClientError::Io(std::io::ErrorKind::UnexpectedEof.into())),
            length => {
                buffer.truncate(length);
                Ok(buffer)
            }
        }
    }
}
