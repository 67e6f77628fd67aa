//! Ways out to a socket that copy nothing: bytes in a file are named to it, not handed to it.
//!
//! Only plain TCP has them; through anything else (TLS, the PROXY protocol) bytes go by memory.

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

use crate::raw::{InFile, Pinned, delivery_rate, is_reset, unconfirmed_bytes};

/// Bytes of a reply that are perhaps in a file.
pub trait Outgoing: Buf + Sized {
    /// Where a socket can take what is left of them.
    fn in_file(&self) -> Option<InFile<'_>> {
        None
    }

    /// To be held as long as a socket may hold what it took by [`Outgoing::in_file`].
    fn pin(&self) -> Option<Pinned> {
        None
    }

    /// Drops those that are sent.
    fn drop_all(sent: impl Iterator<Item = Self>) {
        sent.for_each(drop);
    }
}

impl Outgoing for Bytes {}

/// Where replies are written to.
pub trait Outlet: AsyncWrite {
    /// Whether [`Outlet::poll_send_file`] is to be used.
    fn sends_files(&self) -> bool {
        false
    }

    /// As `poll_write_vectored`; more follows at once.
    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, slices)
    }

    /// Sends bytes of a file; how many.
    fn poll_send_file(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        _bytes: InFile<'_>,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::Unsupported.into()))
    }

    /// Bytes that were written and that the other end has not confirmed; `None` if nobody knows.
    fn unconfirmed_bytes(&self) -> Option<u64> {
        None
    }

    /// Whether the other end has reset the connection, as far as anybody knows.
    fn is_reset(&self) -> bool {
        false
    }

    /// Bytes a second that it was measured to deliver when it had always more to send; `None` if it was
    /// not.
    fn delivery_rate(&self) -> Option<u64> {
        None
    }

    /// Bytes that may wait to be sent before the socket takes no more; `None` if nobody knows.
    fn unsent_bytes_max(&self) -> Option<u32> {
        None
    }

    /// Sets [`Outlet::unsent_bytes_max`], where there is such a thing.
    fn set_unsent_bytes_max(&self, _bytes: u32) {}

    /// When it is closed, what waits in it is thrown away, and the other end is told so by a reset.
    fn discard_when_closed(&self) {}
}

impl Outlet for TcpStream {
    fn sends_files(&self) -> bool {
        true
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Not TCP_CORK, which under bbr costs three times the processor time.
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
        bytes: InFile<'_>,
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
            tracing::debug!(%error, "a TCP option was refused");
        }
    }

    fn discard_when_closed(&self) {
        if let Err(error) = SockRef::from(self).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "a TCP option was refused");
        }
    }
}

/// Through TLS bytes go by memory.
impl<IO: Outlet> Outlet for tokio_rustls::server::TlsStream<IO>
where
    Self: AsyncWrite,
{
    fn is_reset(&self) -> bool {
        self.get_ref().0.is_reset()
    }
}

/// Behind a proxy's header bytes go by memory.
impl<IO: Outlet> Outlet for proxy_header::io::ProxiedStream<IO>
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
impl Outlet for tokio::io::DuplexStream {}

/// To hold fewer blocks costs less than to ask the kernel.
const HELD_MIN: usize = 4;

/// Blocks that a socket may still hold bytes of.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// With the count of bytes by whose confirmation they are free.
    held: VecDeque<(u64, Pinned)>,
    written_bytes: u64,
}

impl Pins {
    /// So many bytes went out.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
    }

    /// The last bytes were of this block.
    pub(super) fn hold(&mut self, pin: Pinned) {
        match self.held.back_mut() {
            Some((until, known)) if known.is_same(&pin) => *until = self.written_bytes,
            _ => self.held.push_back((self.written_bytes, pin)),
        }
    }

    /// Whether a socket still holds bytes of them.
    pub(super) fn are_held_by(&self, outlet: &impl Outlet) -> bool {
        !self.held.is_empty() && outlet.unconfirmed_bytes().is_some_and(|bytes| bytes > 0)
    }

    /// Lets go of what the other end has; it is asked only if there are several.
    pub(super) fn release(&mut self, outlet: &impl Outlet) {
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
