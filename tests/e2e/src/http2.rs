//! An HTTP/2 client of single frames, so that tests can send what no library sends.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use headlong_testkit::Server;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HEADERS with END_STREAM, without the dynamic table.
pub fn request(stream: u32, path: &str, range: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", path),
        ("range", range),
    ];
    let mut block = Vec::new();
    for text in fields.iter().flat_map(|(name, value)| [name, value]) {
        if text.starts_with(':') || *text == "range" {
            block.push(0);
        }
        block.push(text.len() as u8);
        block.extend(text.as_bytes());
    }
    frame(1, 5, stream, &block)
}

/// SETTINGS_INITIAL_WINDOW_SIZE.
pub fn initial_window(bytes: u32) -> Vec<u8> {
    let setting = [&[0, 4][..], &bytes.to_be_bytes()].concat();
    frame(4, 0, 0, &setting)
}

/// WINDOW_UPDATE.
pub fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(8, 0, stream, &bytes.to_be_bytes())
}

/// A client that sends any frames.
pub struct Client {
    /// Its connection.
    pub stream: TcpStream,
    heard: Vec<u8>,
}

impl Client {
    /// Connects, and sends the preface with these frames.
    ///
    /// # Panics
    /// If the server does not accept it.
    pub fn open(server: &Server, settings: &[u8]) -> Self {
        let stream = TcpStream::connect(server.address()).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        let mut client = Self {
            stream,
            heard: Vec::new(),
        };
        client.say(&[PREFACE, settings].concat());
        client
    }

    /// Sends bytes.
    ///
    /// # Panics
    /// If the connection has ended.
    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("open");
    }

    /// The next frame: kind, flags, stream, payload; `None` at the end of the connection.
    ///
    /// # Panics
    /// If neither comes in time.
    pub fn hear(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut space = [0; 65_536];
        loop {
            if let Some(head) = self.heard.first_chunk::<9>() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                if self.heard.len() >= 9 + length {
                    let (kind, flags) = (head[3], head[4]);
                    let payload = self.heard[9..9 + length].to_vec();
                    self.heard.drain(..9 + length);
                    return Some((kind, flags, stream, payload));
                }
            }
            match self.stream.read(&mut space) {
                Ok(0) => return None,
                Ok(count) => self.heard.extend(&space[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("neither a frame nor an end: {error}"),
            }
        }
    }

    /// The status of each reply, by the first byte of its header block: an index into the static
    /// table, or a literal.
    ///
    /// # Panics
    /// If the connection ends.
    pub fn hear_heads(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut heads = Vec::new();
        while heads.len() < count {
            let (kind, _, _, payload) = self.hear().expect("open");
            if kind == 1 {
                heads.push(payload);
            }
        }
        heads
    }

    /// Bytes of replies by stream, until each stream has this many.
    ///
    /// # Panics
    /// If the connection or a stream ends.
    pub fn hear_bodies(&mut self, streams: &[u32], bytes: usize) -> HashMap<u32, Vec<u8>> {
        let mut bodies = HashMap::<u32, Vec<u8>>::new();
        let is_short = |bodies: &HashMap<u32, Vec<u8>>| {
            let length = |stream| bodies.get(stream).map_or(0, Vec::len);
            streams.iter().any(|stream| length(stream) < bytes)
        };
        while is_short(&bodies) {
            let (kind, _, stream, payload) = self.hear().expect("open");
            assert_ne!(kind, 3, "stream {stream} was reset");
            if kind == 0 {
                bodies.entry(stream).or_default().extend(payload);
            }
        }
        bodies
    }
}
