//! Listening and accepted sockets: TCP or unix.
//!
//! Code above does not distinguish them. Features that only TCP has (its options, the more-bytes
//! hint, `sendfile`) are omitted for unix sockets here.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use headlong_http::Peer;
use headlong_kernel::raw::{FileRange, unconfirmed_bytes};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::address::ListenAddress;
use super::reply_stream::ReplyStream;
use super::tcp::TcpOptions;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// Bound to an IP address.
    Tcp(TcpListener),
    /// Bound to a path.
    Unix(UnixListener),
}

impl Listener {
    /// Wraps a socket that is already listening.
    ///
    /// # Errors
    /// The error of the kernel; `InvalidInput` for a socket of another type.
    pub(super) fn of(socket: OwnedFd) -> io::Result<Self> {
        if socket_type(&socket)? != SocketType::STREAM {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if socket_domain(&socket)? == AddressFamily::UNIX {
            let listener = std::os::unix::net::UnixListener::from(socket);
            listener.set_nonblocking(true)?;
            return UnixListener::from_std(listener).map(Self::Unix);
        }
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(Self::Tcp)
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(ListenAddress::Ip),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address
                    .as_pathname()
                    .ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(ListenAddress::Unix(path.to_owned()))
            }
        }
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) async fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(listener) => Socket::Tcp(listener.accept().await?.0),
            Self::Unix(listener) => Socket::Unix(listener.accept().await?.0),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

/// An accepted socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// The peer.
    pub(super) fn peer(&self) -> io::Result<Peer> {
        match self {
            Self::Tcp(tcp) => tcp.peer_addr().map(Peer::At),
            Self::Unix(_) => Ok(Peer::Local),
        }
    }

    /// Sets the options that the socket supports.
    pub(super) fn apply(&self, options: &TcpOptions) {
        if let Self::Tcp(tcp) = self {
            options.apply(tcp);
        }
    }

    /// Registers the socket with the event loop of the current thread.
    pub(super) fn moved_here(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Self::Unix(stream) => Self::Unix(UnixStream::from_std(stream.into_std()?)?),
        })
    }
}

/// Applies an expression to the socket of either kind.
macro_rules! of_both {
    ($socket:expr, $stream:ident => $of_it:expr) => {
        match $socket {
            Socket::Tcp($stream) => $of_it,
            Socket::Unix($stream) => $of_it,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        // Both kinds support it.
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl ReplyStream for Socket {
    fn sends_files(&self) -> bool {
        of_both!(self, stream => stream.sends_files())
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_write_more(cx, slices))
    }

    fn poll_send_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: FileRange<'_>,
    ) -> Poll<io::Result<usize>> {
        of_both!(self.get_mut(), stream => Pin::new(stream).poll_send_file(cx, bytes))
    }

    fn unconfirmed_bytes(&self) -> Option<u64> {
        of_both!(self, stream => stream.unconfirmed_bytes())
    }

    fn is_reset(&self) -> bool {
        of_both!(self, stream => stream.is_reset())
    }

    fn delivery_rate(&self) -> Option<u64> {
        of_both!(self, stream => stream.delivery_rate())
    }

    fn unsent_bytes_max(&self) -> Option<u32> {
        of_both!(self, stream => stream.unsent_bytes_max())
    }

    fn set_unsent_bytes_max(&self, bytes: u32) {
        of_both!(self, stream => stream.set_unsent_bytes_max(bytes))
    }

    fn discard_when_closed(&self) {
        of_both!(self, stream => stream.discard_when_closed())
    }
}

/// Bytes are copied through memory: `sendfile` would need blocks held until the peer has the bytes,
/// and the kernel does not count acknowledged bytes here. It reports the memory that it holds for
/// unread bytes, which exceeds the bytes but shrinks as they are read; this is enough to see that a
/// client makes progress.
impl ReplyStream for UnixStream {
    fn unconfirmed_bytes(&self) -> Option<u64> {
        unconfirmed_bytes(self).ok()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{SocketFlags, socket_with};

    use super::*;

    #[tokio::test]
    async fn only_stream_sockets_are_accepted() {
        let of = |kind| {
            let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
            Listener::of(socket.expect("a socket"))
        };
        assert!(of(SocketType::STREAM).is_ok());
        assert!(of(SocketType::SEQPACKET).is_err());
    }
}
