//! A TCP connection, of which the kernel may make and read the records of TLS.
//!
//! Above here nobody asks whether it does. What is not data ends what is read: the word that nothing more
//! comes, and a change of keys too, after which this kernel may read nothing; what is being sent then
//! is sent to its end. Records under one key are bounded as RFC 8446 5.5 demands.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::info::ConnectionInfo;
use super::kernel_tls::KernelKeys;
use super::outlet::Outlet;
use crate::raw::{InFile, Way, attach_tls, give_keys, receive_record, send_record};

/// Kinds of records (RFC 8446 5.1).
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The alert that nothing more comes (RFC 8446 6.1).
const CLOSE_NOTIFY: u8 = 0;
const LEVEL_WARNING: u8 = 1;
/// Most bytes of a record.
const RECORD_BYTES_MAX: usize = 1 << 14;
/// Most records under one key, a bit less than AES-GCM can bear; at half of them a connection is asked to
/// end.
const RECORDS_MAX: u64 = 1 << 24;

/// A TCP connection.
#[derive(Debug)]
pub(super) struct Connected {
    stream: TcpStream,
    /// With keys.
    kernel: Option<Box<ByKernel>>,
}

/// A session that the kernel goes on with.
#[derive(Debug)]
struct ByKernel {
    info: Arc<ConnectionInfo>,
    /// What was read before.
    early: Vec<u8>,
    given_bytes: usize,
    records: u64,
    /// Nothing more is read.
    is_ended: bool,
    /// The other end was told that nothing more comes.
    said_end: bool,
}

impl ByKernel {
    fn has_early(&self) -> bool {
        self.given_bytes < self.early.len()
    }

    fn give_early(&mut self, buffer: &mut ReadBuf<'_>) {
        let left = &self.early[self.given_bytes..];
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        self.given_bytes += count;
        if !self.has_early() {
            self.early = Vec::new();
            self.given_bytes = 0;
        }
    }

    /// What came as a record that is no data, or as nothing.
    fn take(&mut self, kind: Option<u8>, bytes: &[u8]) -> io::Result<()> {
        match (kind, bytes) {
            (None, []) | (Some(HANDSHAKE), _) | (Some(ALERT), [_, CLOSE_NOTIFY]) => {
                self.is_ended = true;
                Ok(())
            }
            (Some(ALERT), _) => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Bytes went out, in so many records at most.
    fn wrote(&mut self, bytes: usize) {
        let before = self.records;
        self.records += (bytes / RECORD_BYTES_MAX + 2) as u64;
        if (before..self.records).contains(&(RECORDS_MAX / 2)) {
            self.info.retire();
        }
    }
}

impl Connected {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            kernel: None,
        }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Whether another record may be sent.
    fn ask(&self) -> io::Result<()> {
        let records = self.kernel.as_ref().map_or(0, |kernel| kernel.records);
        match records < RECORDS_MAX {
            true => Ok(()),
            false => Err(io::Error::other("too much was sent under one key")),
        }
    }

    fn watch(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(kernel), Poll::Ready(Ok(bytes))) = (&mut self.kernel, &written) {
            kernel.wrote(*bytes);
        }
        written
    }

    fn poll_say_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(kernel) = self.kernel.as_mut().filter(|kernel| !kernel.said_end) else {
            return Poll::Ready(());
        };
        let alert = || send_record(&self.stream, ALERT, &[LEVEL_WARNING, CLOSE_NOTIFY]);
        while ready!(self.stream.poll_write_ready(cx)).is_ok() {
            match self.stream.try_io(Interest::WRITABLE, alert) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Who is not there need not be told.
                _ => break,
            }
        }
        kernel.said_end = true;
        Poll::Ready(())
    }
}

impl AsyncRead for Connected {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(kernel) = &mut this.kernel else {
            return Pin::new(&mut this.stream).poll_read(cx, buffer);
        };
        if kernel.has_early() {
            kernel.give_early(buffer);
            return Poll::Ready(Ok(()));
        }
        while !kernel.is_ended && buffer.remaining() > 0 {
            ready!(this.stream.poll_read_ready(cx))?;
            let space = buffer.initialize_unfilled();
            let receive = || receive_record(&this.stream, space);
            match this.stream.try_io(Interest::READABLE, receive) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                // One may be empty.
                Ok((0, Some(DATA))) => {}
                Ok((count, Some(DATA))) => {
                    buffer.advance(count);
                    break;
                }
                Ok((count, kind)) => kernel.take(kind, &buffer.initialize_unfilled()[..count])?,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connected {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.ask()?;
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.watch(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.ask()?;
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.watch(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_say_end(cx));
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl Outlet for Connected {
    fn sends_files(&self) -> bool {
        self.stream.sends_files()
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.ask()?;
        let written = Pin::new(&mut this.stream).poll_write_more(cx, slices);
        this.watch(written)
    }

    fn poll_send_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: InFile<'_>,
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.ask()?;
        let written = Pin::new(&mut this.stream).poll_send_file(cx, bytes);
        this.watch(written)
    }

    /// With the kernel's records, which are more bytes than were written: what is taken for confirmed
    /// is.
    fn unconfirmed_bytes(&self) -> Option<u64> {
        self.stream.unconfirmed_bytes()
    }

    fn is_reset(&self) -> bool {
        self.stream.is_reset()
    }

    fn delivery_rate(&self) -> Option<u64> {
        self.stream.delivery_rate()
    }

    fn unsent_bytes_max(&self) -> Option<u32> {
        self.stream.unsent_bytes_max()
    }

    fn set_unsent_bytes_max(&self, bytes: u32) {
        self.stream.set_unsent_bytes_max(bytes);
    }

    fn discard_when_closed(&self) {
        self.stream.discard_when_closed();
    }

    fn attach_keys(&self) -> io::Result<()> {
        attach_tls(&self.stream)
    }

    fn take_keys(
        &mut self,
        keys: &KernelKeys,
        early: Vec<u8>,
        info: &Arc<ConnectionInfo>,
    ) -> io::Result<()> {
        give_keys(&self.stream, Way::Out, &keys.send)?;
        give_keys(&self.stream, Way::In, &keys.receive)?;
        self.kernel = Some(Box::new(ByKernel {
            info: Arc::clone(info),
            early,
            given_bytes: 0,
            records: 0,
            is_ended: false,
            said_end: false,
        }));
        Ok(())
    }
}
