//! A socket whose reader must keep reading, and which is closed so that its last words arrive.
//!
//! The send timeout counts only time in which a write waits: a viewer who asks for nothing is not
//! slow, and neither is one whose bytes are still on the disk. Within `send_timeout` of such
//! waiting the reader must take `send_bytes_min`, however the bytes are cut; one byte a second is
//! too little, and so is a last byte that never goes.
//!
//! Closing a socket with unread bytes in it makes the kernel send a reset, which can overtake the
//! reply on the way. So after the end of our side is sent, what still comes in (the rest of a
//! head that was too long) is read and thrown away, up to a bound in bytes and time. A connection
//! that makes room for another has nothing on its way, and somebody waits for its place.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use super::info::ConnectionInfo;
use super::outlet::Outlet;
use super::speed::{FAST_UNSENT_BYTES, Speed};
use crate::raw::InFile;

const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// A stream with a send timeout and a lingering close.
#[derive(Debug)]
pub struct TimedStream<S> {
    inner: S,
    info: Arc<ConnectionInfo>,
    /// Since when the present write waits.
    pending_since: Option<Instant>,
    /// Time that writes waited since the last `send_bytes_min` were taken.
    waited: Duration,
    /// Bytes taken in that time.
    taken_bytes: u64,
    speed: Speed,
    /// What usually may wait in the socket, while more may because the reader is fast.
    usual_unsent_bytes: Option<u32>,
    /// What the other end had not confirmed when the present write began to wait, if more may wait.
    unconfirmed_bytes: Option<u64>,
    /// Fires no later than the send timeout; only moved when it fires too early.
    alarm: Option<Pin<Box<Sleep>>>,
    closing: Closing,
}

#[derive(Debug)]
enum Closing {
    No,
    Lingering(Pin<Box<Sleep>>, usize),
    Done,
}

impl<S: AsyncRead + Outlet + Unpin> TimedStream<S> {
    pub(super) fn new(inner: S, info: Arc<ConnectionInfo>) -> Self {
        Self {
            inner,
            info,
            pending_since: None,
            waited: Duration::ZERO,
            taken_bytes: 0,
            speed: Speed::default(),
            usual_unsent_bytes: None,
            unconfirmed_bytes: None,
            alarm: None,
            closing: Closing::No,
        }
    }

    fn watch_write(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Ready(Ok(taken)) => {
                if let Some(since) = self.pending_since.take() {
                    let now = Instant::now();
                    self.waited += now - since;
                    self.info.note_write_goes(now);
                }
                self.taken_bytes += taken as u64;
                if self.taken_bytes >= self.info.limits().send_bytes_min {
                    self.taken_bytes = 0;
                    self.waited = Duration::ZERO;
                }
                if let Some(is_fast) = self.speed.took(Instant::now(), taken as u64) {
                    self.let_wait(is_fast);
                }
                outcome
            }
            Poll::Ready(Err(_)) => outcome,
            Poll::Pending => self.poll_send_timeout(cx),
        }
    }

    /// More may wait in the socket of a fast reader, where the usual is less.
    fn let_wait(&mut self, is_fast: bool) {
        if !is_fast {
            if let Some(usual) = self.usual_unsent_bytes.take() {
                self.inner.set_unsent_bytes_max(usual);
            }
            return;
        }
        let usual = self.inner.unsent_bytes_max();
        let usual = usual.filter(|usual| (1..FAST_UNSENT_BYTES).contains(usual));
        if usual.is_some() {
            self.inner.set_unsent_bytes_max(FAST_UNSENT_BYTES);
            self.usual_unsent_bytes = usual;
        }
    }

    /// Whether the other end took `send_bytes_min` from what waits in the socket. Where much may wait
    /// that is long before the socket takes more.
    fn goes_on(&mut self) -> bool {
        let Some(before) = self.unconfirmed_bytes else {
            return false;
        };
        self.unconfirmed_bytes = self.inner.unconfirmed_bytes();
        let left = self.unconfirmed_bytes.unwrap_or(before);
        before.saturating_sub(left) >= self.info.limits().send_bytes_min
    }

    fn poll_send_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.pending_since.is_none() && self.usual_unsent_bytes.is_some() {
            self.unconfirmed_bytes = self.inner.unconfirmed_bytes();
        }
        let since = match self.pending_since {
            Some(since) => since,
            None => {
                let now = Instant::now();
                self.pending_since = Some(now);
                self.info.note_write_waits(now);
                now
            }
        };
        let mut deadline = since + self.info.limits().send_timeout.saturating_sub(self.waited);
        let mut alarm = (self.alarm.take()).unwrap_or_else(|| Box::pin(sleep_until(deadline)));
        if alarm.deadline() > deadline {
            alarm.as_mut().reset(deadline);
        }
        while alarm.as_mut().poll(cx).is_ready() {
            if Instant::now() >= deadline && self.goes_on() {
                self.pending_since = Some(Instant::now());
                self.waited = Duration::ZERO;
                deadline = Instant::now() + self.info.limits().send_timeout;
            } else if Instant::now() >= deadline {
                self.info.note_send_timeout();
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the reader takes fewer bytes than send_bytes_min within send_timeout",
                )));
            }
            alarm.as_mut().reset(deadline);
        }
        self.alarm = Some(alarm);
        Poll::Pending
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Closing::Lingering(alarm, seen_bytes) = &mut self.closing else {
            return Poll::Ready(());
        };
        let mut space = [0; 4096];
        loop {
            if alarm.as_mut().poll(cx).is_ready() || *seen_bytes > LINGER_BYTES_MAX {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => *seen_bytes += buffer.filled().len(),
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + Outlet + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.info.note_read();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Outlet + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write(cx, bytes);
        this.watch_write(cx, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write_vectored(cx, slices);
        this.watch_write(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Closing::No = this.closing {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            this.closing = if this.info.is_shed() {
                Closing::Done
            } else {
                let alarm = Box::pin(sleep_until(Instant::now() + LINGER));
                Closing::Lingering(alarm, 0)
            };
        }
        ready!(this.poll_linger(cx));
        this.closing = Closing::Done;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Outlet + Unpin> Outlet for TimedStream<S> {
    fn sends_files(&self) -> bool {
        self.inner.sends_files()
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_write_more(cx, slices);
        this.watch_write(cx, outcome)
    }

    fn poll_send_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: InFile<'_>,
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_send_file(cx, bytes);
        this.watch_write(cx, outcome)
    }

    fn unconfirmed_bytes(&self) -> Option<u64> {
        self.inner.unconfirmed_bytes()
    }
}

#[cfg(test)]
#[path = "timed_tests.rs"]
mod tests;
