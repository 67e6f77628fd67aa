//! Metering of an HTTP/2 connection's bytes.
//!
//! The frame heads of all incoming bytes are parsed ([`FrameMeter`]), to detect a flood of control
//! frames and to enforce a deadline on incomplete frames and header blocks. One turn delivers a few
//! dozen frames at most, since a frame can be costly.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use headlong_http::FrameMeter;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::info::ConnectionInfo;

/// Size of one read; it holds at most 56 of the shortest frames. A request of 91 bytes can take 12 KiB
/// in the library, and all requests of a read wait there.
const READ_BYTES_MAX: usize = 512;

/// A stream of frames whose preface was recognised and is still to be read.
#[derive(Debug)]
pub(super) struct MeteredStream<S> {
    inner: S,
    info: Arc<ConnectionInfo>,
    meter: FrameMeter,
    preface_left: usize,
    gate: Arc<ReadGate>,
}

/// Closed while requests wait in the library: it would decode more of them, each of which takes up
/// to the limit of header bytes and a hundredth of that on the wire.
#[derive(Debug, Default)]
pub(super) struct ReadGate {
    is_closed: AtomicBool,
}

impl ReadGate {
    pub(super) fn set_closed(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
}

impl<S> MeteredStream<S> {
    pub(super) fn new(
        inner: S,
        preface_bytes: usize,
        info: Arc<ConnectionInfo>,
        gate: Arc<ReadGate>,
    ) -> Self {
        let meter = FrameMeter::new(info.now());
        info.note_frames(0, meter.incomplete_since());
        Self {
            inner,
            info,
            meter,
            preface_left: preface_bytes,
            gate,
        }
    }

    fn note_read(&mut self, bytes: &[u8]) {
        let of_preface = self.preface_left.min(bytes.len());
        self.preface_left -= of_preface;
        let now = self.info.now();
        let frames = self.meter.handle_received(now, &bytes[of_preface..]);
        self.info.note_frames(frames, self.meter.incomplete_since());
        if self.meter.is_exhausted() {
            self.info.note_flood();
        }
    }

    fn note_written(&mut self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.meter.handle_delivered(*bytes as u64);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.gate.is_closed() {
            // Whoever closed it polls again.
            return Poll::Pending;
        }
        ready!(this.info.poll_turn(cx));
        if this.meter.is_exhausted() {
            // The connection is being closed; further input is ignored.
            return Poll::Pending;
        }
        let bytes_max = buffer.remaining().min(READ_BYTES_MAX);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(bytes_max));
        ready!(Pin::new(&mut this.inner).poll_read(cx, &mut part))?;
        let count = part.filled().len();
        this.note_read(part.filled());
        if this.meter.is_exhausted() {
            // Dozens of SETTINGS fit into one read, and each is costly.
            return Poll::Pending;
        }
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.note_written(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        this.note_written(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
