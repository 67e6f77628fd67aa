//! Peer liveness after a half-close.
//!
//! A FIN from a client does not show whether the client has closed its socket or only its sending
//! side. In the first case it has left, and reading for it is wasted; in the second (`nc -N`, some
//! scripts) it waits for its reply, which HTTP allows. Only sending a byte tells: the system of a
//! client that has left answers with a reset. A reply begins with the same bytes whatever its
//! status ([`opening`](super::head::opening)), so a client that waits for one is sent these, one at
//! a time: they are the beginning of its reply if it is present, and provoke a reset if it has
//! left.
//!
//! In the middle of a reply there is no such byte, and the next bytes may be ready late. A client
//! that keeps reading half-closes together with its request; one that half-closes later, and cannot
//! be sent anything for [`PATIENCE`], counts as having left.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::time::{Duration, Instant, Sleep, sleep};

use super::reply_stream::ReplyStream;

/// Probe interval: longer than most disk reads, so that few replies are split into two packets.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Time until a client that half-closed in the middle of a reply counts as having left.
const PATIENCE: Duration = Duration::from_secs(2);
/// A half-close within this time of the reply's beginning counts as sent with the request.
const WITH_REQUEST: Duration = Duration::from_secs(1);

/// A client that has half-closed its connection.
#[derive(Debug)]
pub(super) struct HalfClosedPeer {
    began: Instant,
    /// Whether the client may still read: bytes were sent since the half-close, or it came with the
    /// request.
    is_trusted: bool,
    /// Time of the next probe.
    alarm: Pin<Box<Sleep>>,
}

impl HalfClosedPeer {
    /// Begins to watch; `lasted` is the age of the current reply.
    pub(super) fn begin(lasted: Duration) -> Self {
        Self {
            began: Instant::now(),
            is_trusted: lasted < WITH_REQUEST,
            alarm: Box::pin(sleep(PROBE_INTERVAL)),
        }
    }

    /// Bytes of a reply are sent, so no probe is needed for a while.
    pub(super) fn answer(&mut self) {
        self.is_trusted = true;
        self.alarm.as_mut().reset(Instant::now() + PROBE_INTERVAL);
    }

    /// Probes the client at intervals while there is nothing to send. `opening` are the remaining
    /// bytes of the reply that may be sent early.
    ///
    /// # Errors
    /// The client has left.
    pub(super) fn watch<IO: AsyncWrite + ReplyStream + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut IO,
        opening: &mut &[u8],
    ) -> io::Result<()> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let is_vain = !self.is_trusted && opening.is_empty() && now >= self.began + PATIENCE;
            if is_vain || stream.is_reset() {
                let text = "client closed the connection";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
            }
            if let Some(byte) = opening.get(..1) {
                let mut stream = Pin::new(&mut *stream);
                if let Poll::Ready(written) = stream.as_mut().poll_write(cx, byte)? {
                    *opening = &opening[written..];
                    self.is_trusted |= written > 0;
                }
                // Unflushed bytes are sent with the following ones.
                let _ = stream.poll_flush(cx)?;
            }
            self.alarm.as_mut().reset(now + PROBE_INTERVAL);
        }
        Ok(())
    }
}
