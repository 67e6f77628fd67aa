//! One connection of a viewer: its socket, its current call, and the reply.
//!
//! It connects, sends and reads without blocking; [`crate::viewer`] decides when.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};

use headlong_player::{CallId, ObjectId, PartialRead};
use headlong_units::{ByteRange, Duration, Instant};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use socket2::{Domain, Socket, Type};

use crate::reply::ReplyParser;

/// Largest TCP segment, as on Ethernet. Loopback segments of 64 KiB would not fit into a small
/// receive buffer, and the sender would stall on every window.
const SEGMENT_BYTES: u32 = 1448;

/// State of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionStage {
    /// Without a socket.
    Closed,
    /// Open, without a call.
    Idle,
    /// The request is in transit to the socket, and arrives at this time of the run.
    Departing(Instant),
    /// Waiting for the server to accept.
    Connecting,
    /// Part of the request has been written.
    Sending,
    /// Waiting for the reply.
    Reading,
}

/// The current call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CurrentCall {
    pub(crate) call: CallId,
    pub(crate) object: ObjectId,
    pub(crate) range: Option<ByteRange>,
    /// Whether the number of bytes requested is known before the reply.
    pub(crate) is_sized: bool,
    /// The part of the reply that is read.
    pub(crate) reading: Option<PartialRead>,
    /// Time of the run at which the player sent it.
    pub(crate) sent: Instant,
    /// Bytes of the body read from the socket.
    pub(crate) received: u64,
    /// Status of the reply, 0 before its head.
    pub(crate) status: u16,
    /// Schedule error: actual minus intended time of sending.
    pub(crate) late: Duration,
}

impl CurrentCall {
    /// When the viewer has room for `slice` more bytes.
    pub(crate) fn room_at(&self, slice: u64) -> Option<Instant> {
        let reading = self.reading?;
        let most = reading.bytes.max(self.received.saturating_add(1));
        let wanted = self.received.saturating_add(slice).min(most);
        Some(self.sent + reading.room_at(wanted))
    }
}

/// Parameters of new connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionSettings {
    pub(crate) address: SocketAddr,
    /// Source address, for viewers with their own.
    pub(crate) source: Option<Ipv4Addr>,
    /// Size of the receive buffer; the kernel's default if `None`.
    pub(crate) receive_bytes: Option<usize>,
}

/// A connection, open or not.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: Option<Socket>,
    registered: bool,
    /// Whether epoll will report the next readiness.
    pub(crate) armed: bool,
    pub(crate) stage: ConnectionStage,
    pub(crate) asked: Option<CurrentCall>,
    pub(crate) reply: ReplyParser,
    /// Unwritten rest of a request.
    unsent: Vec<u8>,
    /// Whether it has had a reply: then the server may have closed it unnoticed.
    pub(crate) used: bool,
    /// Nothing is read before, because the viewer has no room: flow control.
    pub(crate) paused_until: Option<Instant>,
}

impl Connection {
    /// A closed connection.
    pub(crate) fn new() -> Self {
        Self {
            socket: None,
            registered: false,
            armed: false,
            stage: ConnectionStage::Closed,
            asked: None,
            reply: ReplyParser::new(),
            unsent: Vec::new(),
            used: false,
            paused_until: None,
        }
    }

    /// Whether there is a socket.
    pub(crate) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether there may be data to read without a pending epoll notification.
    pub(crate) fn is_hungry(&self) -> bool {
        self.stage == ConnectionStage::Reading && !self.armed && self.paused_until.is_none()
    }

    /// Closes the socket; the current call is kept.
    pub(crate) fn close(&mut self) {
        self.socket = None;
        self.registered = false;
        self.armed = false;
        self.used = false;
        self.paused_until = None;
        self.stage = ConnectionStage::Closed;
        self.unsent = Vec::new();
    }

    /// Starts to connect. Returns `true` if it completed at once, as on loopback.
    pub(crate) fn open(&mut self, opening: &ConnectionSettings) -> io::Result<bool> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(opening.address), kind, None)?;
        if let Some(bytes) = opening.receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
            socket.set_tcp_mss(SEGMENT_BYTES)?;
        }
        if let Some(source) = opening.source {
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        let connected = match socket.connect(&opening.address.into()) {
            Ok(()) => true,
            // EINPROGRESS has no `ErrorKind`.
            Err(error) if error.raw_os_error() == Some(IN_PROGRESS) => false,
            Err(error) => return Err(error),
        };
        self.socket = Some(socket);
        if !connected {
            self.stage = ConnectionStage::Connecting;
        }
        Ok(connected)
    }

    /// The error of an asynchronous connect, if it failed.
    pub(crate) fn connect_error(&self) -> Option<io::Error> {
        let Some(socket) = &self.socket else {
            return Some(ErrorKind::NotConnected.into());
        };
        match socket.take_error() {
            Ok(None) => socket.peer_addr().err(),
            Ok(error) => error,
            Err(error) => Some(error),
        }
    }

    /// Writes a request, as far as it fits.
    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.reply = ReplyParser::new();
        self.paused_until = None;
        self.unsent.clear();
        self.unsent.extend_from_slice(self.write(request)?);
        self.stage = match self.unsent.is_empty() {
            true => ConnectionStage::Reading,
            false => ConnectionStage::Sending,
        };
        Ok(())
    }

    /// Writes the rest of a request that did not fit.
    pub(crate) fn send_more(&mut self) -> io::Result<()> {
        let unsent = core::mem::take(&mut self.unsent);
        self.unsent = self.write(&unsent)?.to_vec();
        if self.unsent.is_empty() {
            self.stage = ConnectionStage::Reading;
        }
        Ok(())
    }

    /// Writes and returns the unwritten rest.
    fn write<'a>(&self, mut bytes: &'a [u8]) -> io::Result<&'a [u8]> {
        let mut socket = self.socket()?;
        while !bytes.is_empty() {
            match socket.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }

    /// Reads the available data, up to the size of `buffer`; `None` if there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut socket = self.socket()?;
        loop {
            match socket.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Requests one epoll notification for the next step of the current stage.
    pub(crate) fn arm(&mut self, epoll: &OwnedFd, token: u64) -> io::Result<()> {
        let wanted = match self.stage {
            ConnectionStage::Connecting | ConnectionStage::Sending => EventFlags::OUT,
            _ => EventFlags::IN | EventFlags::RDHUP,
        };
        let flags = wanted | EventFlags::ONESHOT;
        let data = EventData::new_u64(token);
        let fd = self.socket()?.as_fd();
        match self.registered {
            true => epoll::modify(epoll, fd, data, flags)?,
            false => epoll::add(epoll, fd, data, flags)?,
        }
        self.registered = true;
        self.armed = true;
        Ok(())
    }

    fn socket(&self) -> io::Result<&Socket> {
        self.socket.as_ref().ok_or(ErrorKind::NotConnected.into())
    }
}

/// `EINPROGRESS`.
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();
