//! Whether a client that says no more is still there.
//!
//! The end of what a client sends (FIN) looks the same whether it has closed its socket or only has no
//! more to say. The one has left, and what is read for it is wasted; the other (`nc -N`, some scripts)
//! waits for its reply, and HTTP allows that. Only a byte tells them apart: the system of a client that
//! has left answers it with a reset. A reply begins with the same bytes whatever its status
//! ([`opening`](super::head::opening)), so a client that waits for one is sent these, one at a time:
//! one that is there has the beginning of its reply, and one that is not is found out.
//!
//! In the midst of a reply there is no such byte: what comes next tells. That may be long in coming,
//! but who reads on ends its side with its request. Who does so later, and can be sent nothing for
//! [`PATIENCE`], has left.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;
use tokio::time::{Duration, Instant, Sleep, sleep};

use super::outlet::Outlet;

/// Between two looks: longer than most reads of a disk, so that few replies are cut in two packets.
const LOOKS_EVERY: Duration = Duration::from_millis(500);
/// So long is waited in the midst of a reply.
const PATIENCE: Duration = Duration::from_secs(2);
/// Who ends its side within so long of the beginning of the reply did it with its request.
const WITH_REQUEST: Duration = Duration::from_secs(1);

/// A client that says no more.
#[derive(Debug)]
pub(super) struct Silence {
    began: Instant,
    /// Whether what it is sent tells: there was something since, or it may well read on.
    is_trusted: bool,
    /// When it is looked at next.
    alarm: Pin<Box<Sleep>>,
}

impl Silence {
    /// It begins when the present reply has lasted so long.
    pub(super) fn begin(lasted: Duration) -> Self {
        Self {
            began: Instant::now(),
            is_trusted: lasted < WITH_REQUEST,
            alarm: Box::pin(sleep(LOOKS_EVERY)),
        }
    }

    /// It is sent bytes of a reply, and need not be looked at for a while.
    pub(super) fn answer(&mut self) {
        self.is_trusted = true;
        self.alarm.as_mut().reset(Instant::now() + LOOKS_EVERY);
    }

    /// Looks now and then, while there is nothing to be sent. `opening` is what is left of the bytes
    /// that may be sent already.
    ///
    /// # Errors
    /// It has left.
    pub(super) fn watch<IO: AsyncWrite + Outlet + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut IO,
        opening: &mut &[u8],
    ) -> io::Result<()> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let is_vain = !self.is_trusted && opening.is_empty() && now >= self.began + PATIENCE;
            if is_vain || stream.is_reset() {
                let text = "the client closed its connection";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, text));
            }
            if let Some(byte) = opening.get(..1) {
                let mut stream = Pin::new(&mut *stream);
                if let Poll::Ready(written) = stream.as_mut().poll_write(cx, byte)? {
                    *opening = &opening[written..];
                    self.is_trusted |= written > 0;
                }
                // What does not leave now leaves with what comes next.
                let _ = stream.poll_flush(cx)?;
            }
            self.alarm.as_mut().reset(now + LOOKS_EVERY);
        }
        Ok(())
    }
}
