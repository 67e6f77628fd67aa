//! A blocking HTTP/1.1 connection that sends arbitrary bytes, also over TLS.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net;
use rustls::pki_types::ServerName;

use super::ClientError;
use super::head::{Framing, Head, Response};
use super::secure::{Version, config};

/// Timeout for the next bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    tls: Option<Box<rustls::ClientConnection>>,
    /// Bytes received and not yet consumed.
    received: Vec<u8>,
}

/// Sends one request on a new connection.
pub fn fetch(
    address: SocketAddr,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Result<Response, ClientError> {
    Connection::open(address)?.request(method, target, fields)
}

/// The text of a request without a body, to `localhost` unless the fields have a `host`: the admin
/// pages accept only known host names.
pub fn request_text(method: &str, target: &str, fields: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    if !fields.iter().any(|(name, _)| *name == "host") {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text + "\r\n"
}

impl Connection {
    /// Connects. All operations time out after a minute of silence.
    pub fn open(address: SocketAddr) -> Result<Self, ClientError> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE);
        Self::over(stream.map_err(ClientError::Connect)?)
    }

    /// Connects from a local address, such as any of 127.0.0.0/8.
    pub fn open_from(source: Ipv4Addr, address: SocketAddr) -> Result<Self, ClientError> {
        let connect = || {
            let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
            net::bind(&socket, &SocketAddr::from((source, 0)))?;
            net::connect(&socket, &address)?;
            Ok(TcpStream::from(socket))
        };
        let stream = connect().map_err(|error: rustix::io::Errno| error.into());
        Self::over(stream.map_err(ClientError::Connect)?)
    }

    fn over(stream: TcpStream) -> Result<Self, ClientError> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            tls: None,
            received: Vec::new(),
        })
    }

    /// Speaks TLS from now on, with a server of this name; trusts only `certificate` (DER).
    pub fn secured(mut self, certificate: &[u8], name: &str) -> Result<Self, ClientError> {
        let config = Arc::new(config(certificate, Version::Http1)?);
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let tls = rustls::ClientConnection::new(config, name);
        let mut tls = tls.map_err(|error| ClientError::Unexpected(error.to_string()))?;
        tls.complete_io(&mut self.stream)?;
        self.tls = Some(Box::new(tls));
        Ok(self)
    }

    /// The server's certificate (DER), over TLS.
    pub fn certificate(&self) -> Option<&[u8]> {
        let chain = self.tls.as_ref()?.peer_certificates()?;
        chain.first().map(|certificate| &**certificate)
    }

    /// Sets the timeout for the next bytes.
    pub fn set_patience(&self, patience: Duration) -> Result<(), ClientError> {
        Ok(self.stream.set_read_timeout(Some(patience))?)
    }

    /// Sends a request without a body and reads its reply.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Result<Response, ClientError> {
        self.send(request_text(method, target, fields).as_bytes())?;
        self.receive(method)
    }

    /// Sends a request and reads the head of its reply, a 200; the body stays unread.
    ///
    /// # Panics
    /// If the reply is another, or none.
    #[track_caller]
    pub fn begin(mut self, target: &str, fields: &[(&str, &str)]) -> Self {
        let request = request_text("GET", target, fields);
        self.send(request.as_bytes()).expect("sent");
        assert_eq!(self.receive_head().expect("a head").status, 200);
        self
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        match &mut self.tls {
            Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).write_all(bytes)?,
            None => self.stream.write_all(bytes)?,
        }
        Ok(())
    }

    /// Shuts down the sending direction.
    pub fn shut_down_writing(&self) {
        // The server may have closed the connection.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Reads the complete reply to a request with the given method.
    pub fn receive(&mut self, method: &str) -> Result<Response, ClientError> {
        let head = self.receive_head()?;
        let mut body = Vec::new();
        let done = match head.framing(method) {
            Framing::Length(length) => self.take_into(&mut body, length),
            Framing::Chunked => self.take_chunks_into(&mut body),
            Framing::Close => self.take_rest_into(&mut body),
        };
        match done {
            Ok(()) => Ok(Response { head, body }),
            Err(ClientError::Io(cause)) => {
                let received_bytes = body.len() as u64;
                Err(ClientError::CutShort {
                    status: head.status,
                    received_bytes,
                    cause,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the head of a reply and leaves its body.
    pub fn receive_head(&mut self) -> Result<Head, ClientError> {
        loop {
            if let Some((head, length)) = Head::parse(&self.received)? {
                self.received.drain(..length);
                return Ok(head);
            }
            match self.read_more() {
                Err(ClientError::Io(error))
                    if error.kind() == std::io::ErrorKind::UnexpectedEof
                        && self.received.is_empty() =>
                {
                    return Err(ClientError::Closed);
                }
                result => result?,
            }
        }
    }

    /// Reads exactly `length` bytes of a body.
    pub fn receive_body(&mut self, length: u64) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        self.take_into(&mut body, length)?;
        Ok(body)
    }

    /// Reads and drops everything until the server closes. Returns the number of bytes, and whether
    /// the connection was reset rather than closed in order.
    pub fn drain(&mut self) -> Result<(u64, bool), ClientError> {
        let mut total = self.received.len() as u64;
        self.received.clear();
        loop {
            match self.read_more() {
                Ok(()) => {
                    total += self.received.len() as u64;
                    self.received.clear();
                }
                Err(ClientError::Io(error)) => {
                    return Ok((total, error.kind() != std::io::ErrorKind::UnexpectedEof));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until bytes arrive or the connection ends.
    fn read_more(&mut self) -> Result<(), ClientError> {
        let mut buffer = [0; 64 << 10];
        // The kernel does not restart a read with a timeout after a signal.
        let read = loop {
            let read = match &mut self.tls {
                Some(tls) => rustls::Stream::new(&mut **tls, &mut self.stream).read(&mut buffer),
                None => self.stream.read(&mut buffer),
            };
            match read {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read? {
            0 => Err(ClientError::Io(std::io::ErrorKind::UnexpectedEof.into())),
            length => {
                self.received.extend_from_slice(&buffer[..length]);
                Ok(())
            }
        }
    }

    fn take_into(&mut self, body: &mut Vec<u8>, length: u64) -> Result<(), ClientError> {
        let mut left = length;
        loop {
            let ready = left.min(self.received.len() as u64) as usize;
            body.extend(self.received.drain(..ready));
            left -= ready as u64;
            if left == 0 {
                return Ok(());
            }
            self.read_more()?;
        }
    }

    fn take_chunks_into(&mut self, body: &mut Vec<u8>) -> Result<(), ClientError> {
        loop {
            let line = self.take_line()?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16)
                .map_err(|_| ClientError::Malformed(format!("chunk size {line:?}")))?;
            if size == 0 {
                while !self.take_line()?.is_empty() {}
                return Ok(());
            }
            self.take_into(body, size)?;
            self.take_line()?;
        }
    }

    fn take_rest_into(&mut self, body: &mut Vec<u8>) -> Result<(), ClientError> {
        loop {
            body.append(&mut self.received);
            match self.read_more() {
                Err(ClientError::Io(error))
                    if error.kind() == std::io::ErrorKind::UnexpectedEof =>
                {
                    return Ok(());
                }
                result => result?,
            }
        }
    }

    fn take_line(&mut self) -> Result<String, ClientError> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..end]).into_owned();
                self.received.drain(..end + 2);
                return Ok(line);
            }
            self.read_more()?;
        }
    }
}
