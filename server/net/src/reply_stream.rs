//! Zero-copy output to a socket: bytes of a file are sent by `sendfile`.
//!
//! Only plain TCP supports this; through other streams (TLS, the PROXY protocol) bytes are copied
//! through memory.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use rustix::net::{SendAncillaryBuffer, SendFlags};
use socket2::SockRef;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use headlong_kernel::raw::{BlockPin, FileRange, delivery_rate, is_reset, unconfirmed_bytes};

/// Bytes of a reply that may be in a file.
pub trait ReplyBuf: Buf + Sized {
    /// Where the remaining bytes are in a file, if they are.
    fn in_file(&self) -> Option<FileRange<'_>> {
        None
    }

    /// Keeps the block alive for as long as a socket may refer to bytes of [`ReplyBuf::in_file`].
    fn pin(&self) -> Option<BlockPin> {
        None
    }

    /// Drops pieces that are sent.
    fn drop_all(sent: impl Iterator<Item = Self>) {
        sent.for_each(drop);
    }
}

impl ReplyBuf for Bytes {}

/// A stream that replies are written to.
pub trait ReplyStream: AsyncWrite {
    /// Whether [`ReplyStream::poll_send_file`] is supported.
    fn sends_files(&self) -> bool {
        false
    }

    /// Like `poll_write_vectored`, with a hint that more bytes follow immediately.
    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, slices)
    }

    /// Sends bytes of a file; returns how many.
    fn poll_send_file(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _bytes: FileRange<'_>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Bytes written that the peer has not acknowledged; `None` if unknown.
    fn unconfirmed_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether the peer has reset the connection, as far as is known.
    fn is_reset(&self) -> bool {
        false
    }

    /// Measured delivery rate in bytes a second, while there was always more to send; `None` if it
    /// was not measured.
    fn delivery_rate(&self) -> Option<u64> {
        None
    }

    /// Limit on unsent bytes in the socket (TCP_NOTSENT_LOWAT); `None` if unknown.
    fn unsent_bytes_max(&self) -> Option<u32> {
        None
    }

    /// Sets [`ReplyStream::unsent_bytes_max`], where supported.
    fn set_unsent_bytes_max(&self, _bytes: u32) {}

    /// Makes a later close discard unsent bytes and reset the connection.
    fn discard_when_closed(&self) {}
}

impl ReplyStream for TcpStream {
    fn sends_files(&self) -> bool {
        true
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // TCP_CORK costs three times the processor time under bbr.
        let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
        let send = || {
            let sent =
                rustix::net::sendmsg(&*self, slices, &mut SendAncillaryBuffer::default(), flags);
            Ok(sent?)
        };
        loop {
            ready!(self.poll_write_ready(cx))?;
            match self.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_send_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: FileRange<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut offset = bytes.offset;
        let length = usize::try_from(bytes.length).unwrap_or(usize::MAX);
        loop {
            ready!(self.poll_write_ready(cx))?;
            let send = || {
                Ok(rustix::fs::sendfile(
                    &*self,
                    bytes.file,
                    Some(&mut offset),
                    length,
                )?)
            };
            match self.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn unconfirmed_bytes(&self) -> Option<u64> {
        unconfirmed_bytes(self).ok()
    }

    fn is_reset(&self) -> bool {
        is_reset(self)
    }

    fn delivery_rate(&self) -> Option<u64> {
        delivery_rate(self)
    }

    fn unsent_bytes_max(&self) -> Option<u32> {
        SockRef::from(self).tcp_notsent_lowat().ok()
    }

    fn set_unsent_bytes_max(&self, bytes: u32) {
        if let Err(error) = SockRef::from(self).set_tcp_notsent_lowat(bytes) {
            tracing::debug!(%error, "cannot set TCP option");
        }
    }

    fn discard_when_closed(&self) {
        if let Err(error) = SockRef::from(self).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "cannot set TCP option");
        }
    }
}

/// TLS encrypts in memory, so `sendfile` is not available.
impl<IO: ReplyStream> ReplyStream for tokio_rustls::server::TlsStream<IO>
where
    Self: AsyncWrite,
{
    fn is_reset(&self) -> bool {
        self.get_ref().0.is_reset()
    }
}

/// After a PROXY header bytes are copied through memory.
impl<IO: ReplyStream> ReplyStream for proxy_header::io::ProxiedStream<IO>
where
    Self: AsyncWrite,
{
    fn unconfirmed_bytes(&self) -> Option<u64> {
        self.get_ref().unconfirmed_bytes()
    }

    fn delivery_rate(&self) -> Option<u64> {
        self.get_ref().delivery_rate()
    }

    fn unsent_bytes_max(&self) -> Option<u32> {
        self.get_ref().unsent_bytes_max()
    }

    fn set_unsent_bytes_max(&self, bytes: u32) {
        self.get_ref().set_unsent_bytes_max(bytes);
    }

    fn is_reset(&self) -> bool {
        self.get_ref().is_reset()
    }
}

#[cfg(test)]
impl ReplyStream for tokio::io::DuplexStream {}

/// With fewer blocks, holding them costs less than asking the kernel.
const HELD_MIN: usize = 4;

/// Blocks that a socket may still refer to.
#[derive(Debug, Default)]
pub(super) struct SocketPins {
    /// Each with the byte count whose acknowledgement releases it.
    held: VecDeque<(u64, BlockPin)>,
    written_bytes: u64,
}

impl SocketPins {
    /// `bytes` were written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
    }

    /// The last bytes written belong to this block.
    pub(super) fn hold(&mut self, pin: BlockPin) {
        match self.held.back_mut() {
            Some((until, known)) if known.is_same(&pin) => *until = self.written_bytes,
            _ => self.held.push_back((self.written_bytes, pin)),
        }
    }

    /// Whether the socket still refers to bytes of the blocks.
    pub(super) fn are_held_by(&self, outlet: &impl ReplyStream) -> bool {
        !self.held.is_empty() && outlet.unconfirmed_bytes().is_some_and(|bytes| bytes > 0)
    }

    /// Releases the blocks that the peer has acknowledged. Asks the kernel only if several are
    /// held.
    pub(super) fn release(&mut self, outlet: &impl ReplyStream) {
        if self.held.len() < HELD_MIN {
            return;
        }
        let Some(unconfirmed) = outlet.unconfirmed_bytes() else {
            return;
        };
        let confirmed = self.written_bytes.saturating_sub(unconfirmed);
        while self
            .held
            .front()
            .is_some_and(|(until, _)| *until <= confirmed)
        {
            self.held.pop_front();
        }
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
    }
}
