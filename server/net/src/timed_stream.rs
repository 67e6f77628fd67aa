//! A socket with a send timeout and a lingering close.
//!
//! The send timeout counts only time in which a write waits: a viewer that requests nothing is not
//! slow, nor is one whose bytes are still on the disk. Within `send_timeout` of such waiting the
//! client must take `send_bytes_min`, in whatever portions; one byte a second is too little, and so
//! is a last byte that is never taken. Progress is measured by acknowledged bytes: a socket may
//! buffer so much that it accepts nothing for half a minute although its viewer reads all the time.
//!
//! Closing a socket with unread bytes makes the kernel send a reset, which can overtake the reply.
//! Therefore, after our side is shut down, incoming bytes (the rest of a head that was too long)
//! are read and discarded, up to a limit in bytes and time. A connection that is shed skips this:
//! it has no bytes in flight, and a client waits for its slot.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use headlong_kernel::raw::FileRange;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use super::info::ConnectionInfo;
use super::reply_stream::ReplyStream;
use super::socket_buffer::{FAST_UNSENT_BYTES, ReaderSpeed};

/// A write waits this long before the acknowledged bytes are first checked; most wait for less.
const ACK_CHECK_DELAY: Duration = Duration::from_secs(1);
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 1 << 20;

/// A stream with a send timeout and a lingering close.
#[derive(Debug)]
pub struct TimedStream<S> {
    inner: S,
    info: Arc<ConnectionInfo>,
    /// Since when the current write waits.
    pending_since: Option<Instant>,
    /// Time that writes waited since the last `send_bytes_min` were taken.
    waited: Duration,
    /// Bytes taken in that time.
    taken_bytes: u64,
    speed: ReaderSpeed,
    /// The configured limit on unsent bytes, while a higher one is set for a fast reader.
    usual_unsent_bytes: Option<u32>,
    written_bytes: u64,
    /// Acknowledged bytes at the last check in that time.
    confirmed_bytes: Option<u64>,
    /// Fires no later than the next check is due; only moved when it would fire too late, or fired
    /// early.
    alarm: Option<Pin<Box<Sleep>>>,
    closing: LingeringClose,
}

#[derive(Debug)]
enum LingeringClose {
    No,
    Lingering(Pin<Box<Sleep>>, usize),
    Done,
}

impl<S: AsyncRead + ReplyStream + Unpin> TimedStream<S> {
    pub(super) fn new(inner: S, info: Arc<ConnectionInfo>) -> Self {
        Self {
            inner,
            info,
            pending_since: None,
            waited: Duration::ZERO,
            taken_bytes: 0,
            speed: ReaderSpeed::default(),
            usual_unsent_bytes: None,
            written_bytes: 0,
            confirmed_bytes: None,
            alarm: None,
            closing: LingeringClose::No,
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
                self.written_bytes += taken as u64;
                self.taken_bytes += taken as u64;
                if self.taken_bytes >= self.info.limits().send_bytes_min {
                    self.taken_bytes = 0;
                    self.waited = Duration::ZERO;
                    self.confirmed_bytes = None;
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

    /// Raises the limit on unsent bytes for a fast reader, if it is lower, and restores it
    /// afterwards.
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

    /// Checks the acknowledged bytes; returns whether they grew by `send_bytes_min` since the last
    /// check.
    fn check_progress(&mut self) -> bool {
        // If unknown, the count stays constant.
        let unconfirmed = self.inner.unconfirmed_bytes();
        let unconfirmed = unconfirmed.unwrap_or(self.written_bytes);
        let now = self.written_bytes.saturating_sub(unconfirmed);
        let before = self.confirmed_bytes.replace(now).unwrap_or(now);
        now.saturating_sub(before) >= self.info.limits().send_bytes_min.max(1)
    }

    fn poll_send_timeout(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut since = match self.pending_since {
            Some(since) => since,
            None => {
                let now = Instant::now();
                self.pending_since = Some(now);
                self.info.note_write_waits(now);
                now
            }
        };
        let mut due = self.due(since);
        let alarm = (self.alarm).get_or_insert_with(|| Box::pin(sleep_until(due)));
        if alarm.deadline() > due {
            alarm.as_mut().reset(due);
        }
        while let Some(alarm) = &mut self.alarm {
            ready!(alarm.as_mut().poll(cx));
            let now = Instant::now();
            if now >= self.deadline(since) {
                if !self.check_progress() {
                    self.info.note_send_timeout();
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "client took fewer bytes than send_bytes_min within send_timeout",
                    )));
                }
                since = now;
                self.pending_since = Some(now);
                self.waited = Duration::ZERO;
            } else if now >= due {
                self.check_progress();
            }
            due = self.due(since);
            if let Some(alarm) = &mut self.alarm {
                alarm.as_mut().reset(due);
            }
        }
        Poll::Pending
    }

    /// When a write that waits since then times out.
    fn deadline(&self, since: Instant) -> Instant {
        since + self.info.limits().send_timeout.saturating_sub(self.waited)
    }

    /// When the next check is due.
    fn due(&self, since: Instant) -> Instant {
        let deadline = self.deadline(since);
        match self.confirmed_bytes {
            None => deadline.min(since + ACK_CHECK_DELAY),
            Some(_) => deadline,
        }
    }

    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let LingeringClose::Lingering(alarm, seen_bytes) = &mut self.closing else {
            return Poll::Ready(());
        };
        let mut space = [0; 4096];
        loop {
            if alarm.as_mut().poll(cx).is_ready() || *seen_bytes > LINGER_BYTES_MAX {
                return Poll::Ready(());
            }
            ready!(self.info.poll_turn(cx));
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    self.info.note_read(buffer.filled().len());
                    *seen_bytes += buffer.filled().len();
                }
                Ok(()) | Err(_) => return Poll::Ready(()),
            }
        }
    }
}

impl<S: AsyncRead + ReplyStream + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.info.poll_turn(cx));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        let count = buffer.filled().len() - before;
        if count > 0 {
            this.info.note_read(count);
            if this.info.wants_delivery_rate() {
                this.info.note_delivery_rate(this.inner.delivery_rate());
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + ReplyStream + Unpin> AsyncWrite for TimedStream<S> {
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
        if let LingeringClose::No = this.closing {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            this.closing = if this.info.is_shed() {
                LingeringClose::Done
            } else {
                let alarm = Box::pin(sleep_until(Instant::now() + LINGER));
                LingeringClose::Lingering(alarm, 0)
            };
        }
        ready!(this.poll_linger(cx));
        this.closing = LingeringClose::Done;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + ReplyStream + Unpin> ReplyStream for TimedStream<S> {
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
        bytes: FileRange<'_>,
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let outcome = Pin::new(&mut this.inner).poll_send_file(cx, bytes);
        this.watch_write(cx, outcome)
    }

    fn unconfirmed_bytes(&self) -> Option<u64> {
        self.inner.unconfirmed_bytes()
    }

    fn is_reset(&self) -> bool {
        self.inner.is_reset()
    }

    fn discard_when_closed(&self) {
        self.inner.discard_when_closed();
    }
}

#[cfg(test)]
#[path = "timed_stream_tests.rs"]
mod tests;
