//! A reply over HTTP/1.1 while it is sent: its head, and the pieces of its body that are not
//! written yet.
//!
//! A head and all pieces that are ready go out in one call. A small reply is copied into one buffer
//! with its head; pieces in a file for `sendfile` are sent from there, adjoining ones together.
//!
//! A reply that its client does not read releases its pieces while memory is scarce ([`HOLD_TIME`]);
//! a copy of its next bytes stays, which the socket takes when the client reads again. After that the
//! reply takes no more ahead than it has sent since, and one piece, so that a client that reads
//! little at a time causes few bytes to be read twice.
//!
//! Invariant: the body never exceeds the length in the head.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::Body;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use super::BoxError;
use super::head::JOINED_BYTES_MAX;
use super::reply_body::{HELD_PIECES_MAX, ReplyBytes};
use super::reply_stream::{ReplyBuf, ReplyStream, SocketPins};

/// Most bytes taken out of a body before some have been written.
const AHEAD_BYTES_MAX: usize = 2 << 20;

/// A reply whose socket has taken nothing for this time releases its pieces if memory is scarce.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// Time until a blocked reply checks again whether memory has become scarce.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes that stay when pieces are released.
const KEPT_BYTES: usize = 1024;

/// A reply while it is sent.
pub(super) struct ReplyWriter<D> {
    head: io::Cursor<Vec<u8>>,
    /// Taken out of the body and not written yet.
    pieces: VecDeque<D>,
    ahead_bytes: usize,
    /// Nothing more is taken out of the body while this much is ahead.
    ahead_bytes_max: usize,
    /// Bytes of the body at the end of `head`.
    joined_bytes: usize,
    /// The pieces were released; nothing is taken out of the body until the head is written.
    is_released: bool,
    /// Since when the socket has taken nothing.
    blocked_since: Option<Instant>,
    alarm: Option<Pin<Box<Sleep>>>,
    /// Bytes that the body still has to yield, if its length is known.
    left_bytes: Option<u64>,
    /// The body has yielded all its data.
    pub(super) is_ended: bool,
    /// Error to report once the pieces at hand are written.
    pub(super) broken: Option<BoxError>,
}

impl<D: ReplyBuf> ReplyWriter<D> {
    /// A reply with a head and a body of `length`, if known; nothing is written yet.
    pub(super) fn new(head: io::Cursor<Vec<u8>>, length: Option<u64>) -> Self {
        Self {
            head,
            pieces: VecDeque::new(),
            ahead_bytes: 0,
            ahead_bytes_max: AHEAD_BYTES_MAX,
            joined_bytes: 0,
            is_released: false,
            blocked_since: None,
            alarm: None,
            left_bytes: length,
            is_ended: false,
            broken: None,
        }
    }

    /// Takes pieces that are ready out of the body.
    pub(super) fn gather<B>(&mut self, cx: &mut Context<'_>, body: &mut Pin<&mut B>)
    where
        B: Body<Data = D>,
        B::Error: Into<BoxError>,
    {
        self.is_released &= self.head.has_remaining();
        while !self.is_released
            && !self.is_ended
            && self.broken.is_none()
            && self.pieces.len() < HELD_PIECES_MAX
            && self.ahead_bytes < self.ahead_bytes_max
        {
            if body.is_end_stream() {
                self.is_ended = true;
                return;
            }
            match body.as_mut().poll_frame(cx) {
                Poll::Pending => return,
                Poll::Ready(None) => self.is_ended = true,
                Poll::Ready(Some(Err(error))) => self.broken = Some(error.into()),
                Poll::Ready(Some(Ok(frame))) => {
                    // Trailers would need chunked coding; the service sends none.
                    if let Ok(data) = frame.into_data() {
                        self.take(data);
                    }
                }
            }
        }
    }

    /// Copies a small complete reply behind its head.
    pub(super) fn join(&mut self) {
        let is_begun = self.head.position() > 0 || !self.head.has_remaining();
        let is_small = self.is_ended && self.ahead_bytes <= JOINED_BYTES_MAX;
        if is_begun || !is_small || self.pieces.is_empty() {
            return;
        }
        for piece in &mut self.pieces {
            while piece.has_remaining() {
                let chunk = piece.chunk();
                self.head.get_mut().extend_from_slice(chunk);
                piece.advance(chunk.len());
            }
        }
        self.joined_bytes = std::mem::take(&mut self.ahead_bytes);
        D::drop_all(self.pieces.drain(..));
    }

    /// The socket takes nothing now: releases the pieces if it has not for [`HOLD_TIME`] and their
    /// memory is scarce.
    pub(super) fn poll_hold<B>(&mut self, cx: &mut Context<'_>, body: &mut Pin<&mut B>)
    where
        B: ReplyBytes<Data = D>,
    {
        if self.pieces.is_empty() || self.broken.is_some() {
            return;
        }
        let now = Instant::now();
        let blocked_since = *self.blocked_since.get_or_insert(now);
        let is_scarce = body.holds_scarce_memory();
        let due = match is_scarce {
            true => blocked_since + HOLD_TIME,
            false => now + CHECK_INTERVAL,
        };
        if due <= now {
            return self.release(body);
        }
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if is_scarce && due < alarm.deadline() {
            alarm.as_mut().reset(due);
        }
        while alarm.as_mut().poll(cx).is_ready() {
            alarm.as_mut().reset(due);
        }
    }

    fn release<B: ReplyBytes<Data = D>>(&mut self, body: &mut Pin<&mut B>) {
        let mut kept = Vec::with_capacity(KEPT_BYTES);
        for piece in &self.pieces {
            let chunk = piece.chunk();
            kept.extend_from_slice(&chunk[..chunk.len().min(KEPT_BYTES - kept.len())]);
        }
        let released_bytes = (self.ahead_bytes - kept.len()) as u64;
        if !body.as_mut().suspend(released_bytes) {
            return;
        }
        D::drop_all(self.pieces.drain(..));
        if !self.head.has_remaining() {
            // Written bytes would otherwise accumulate with each release.
            self.head.get_mut().clear();
            self.head.set_position(0);
            self.joined_bytes = 0;
        }
        self.head.get_mut().extend_from_slice(&kept);
        self.joined_bytes += kept.len();
        self.ahead_bytes = 0;
        // One piece, however long it is.
        self.ahead_bytes_max = 1;
        if let Some(left) = &mut self.left_bytes {
            *left += released_bytes;
        }
        self.is_ended = false;
        self.is_released = true;
    }

    fn take(&mut self, data: D) {
        let bytes = data.remaining();
        if bytes == 0 {
            return;
        }
        match &mut self.left_bytes {
            Some(left) if *left < bytes as u64 => {
                // The client would take excess bytes for the next reply.
                self.broken = Some("reply body is longer than its content-length".into());
                return;
            }
            Some(left) => *left -= bytes as u64,
            None => {}
        }
        self.ahead_bytes += bytes;
        self.pieces.push_back(data);
    }

    /// Unwritten bytes of the body, as far as its length is known.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.left_bytes.unwrap_or(0) + self.ahead_bytes as u64
    }

    /// Unwritten bytes that were taken out of the body.
    pub(super) fn held_bytes(&self) -> u64 {
        let joined_bytes = self.joined_bytes.min(self.head.remaining());
        (self.ahead_bytes + joined_bytes) as u64
    }

    pub(super) fn has_something(&self) -> bool {
        self.head.has_remaining() || !self.pieces.is_empty()
    }

    /// Writes some of the pending bytes.
    pub(super) fn poll_write<S: ReplyStream + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        pins: &mut SocketPins,
    ) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(stream);
        let sends_files = stream.sends_files();
        let by_file = |piece: &&D| sends_files && piece.in_file().is_some();
        let is_first_in_file = self.pieces.front().as_ref().is_some_and(by_file);
        if !self.head.has_remaining() && is_first_in_file {
            let written = ready!(self.poll_send_files(cx, stream))?;
            pins.wrote(written);
            if let Some(pin) = self.pieces.front().and_then(ReplyBuf::pin) {
                pins.hold(pin);
            }
            self.advance(written);
            return Poll::Ready(Ok(()));
        }
        let mut slices = [IoSlice::new(&[]); HELD_PIECES_MAX + 1];
        let mut count = self.head.chunks_vectored(&mut slices);
        let mut is_file_next = false;
        for piece in &self.pieces {
            is_file_next = by_file(&piece);
            if is_file_next {
                break;
            }
            count += piece.chunks_vectored(&mut slices[count..]);
        }
        let slices = &slices[..count];
        let written = match (is_file_next, slices) {
            (true, _) => stream.as_mut().poll_write_more(cx, slices),
            (false, [only]) => stream.as_mut().poll_write(cx, only),
            (false, _) => stream.as_mut().poll_write_vectored(cx, slices),
        };
        let written = ready!(written)?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        pins.wrote(written);
        self.advance(written);
        Poll::Ready(Ok(()))
    }

    /// Sends the first piece by `sendfile`, together with following pieces that adjoin it in the
    /// same block.
    fn poll_send_files(
        &self,
        cx: &mut Context<'_>,
        stream: Pin<&mut impl ReplyStream>,
    ) -> Poll<io::Result<usize>> {
        let mut pieces = self.pieces.iter();
        let Some((first, mut run)) = pieces.next().and_then(|d| Some((d.pin(), d.in_file()?)))
        else {
            return Poll::Ready(Err(io::ErrorKind::InvalidInput.into()));
        };
        for piece in pieces {
            let is_same = match (&first, piece.pin()) {
                (Some(first), Some(pin)) => first.is_same(&pin),
                _ => false,
            };
            match piece.in_file() {
                Some(next) if is_same && next.offset == run.offset + run.length => {
                    run.length += next.length;
                }
                _ => break,
            }
        }
        let written = ready!(stream.poll_send_file(cx, run))?;
        Poll::Ready(match written {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        })
    }

    fn advance(&mut self, mut written: usize) {
        self.blocked_since = None;
        let of_head = written.min(self.head.remaining());
        self.head.advance(of_head);
        written -= of_head;
        self.ahead_bytes -= written;
        self.ahead_bytes_max = AHEAD_BYTES_MAX.min(self.ahead_bytes_max + written);
        let mut done = 0;
        for piece in &mut self.pieces {
            let taken = written.min(piece.remaining());
            piece.advance(taken);
            written -= taken;
            if piece.has_remaining() {
                break;
            }
            done += 1;
        }
        D::drop_all(self.pieces.drain(..done));
    }

    /// Fails if the body was shorter than its length.
    pub(super) fn judge(&self) -> Result<(), BoxError> {
        match self.left_bytes {
            Some(left) if left > 0 => Err("reply body is shorter than its content-length".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::task::Waker;

    use bytes::Bytes;
    use http_body::Frame;
    use tokio::io::AsyncWrite;
    use tokio::time::{advance, timeout};

    use super::*;

    const PIECE_BYTES: usize = 64 << 10;
    const PIECE: &[u8] = &[7; PIECE_BYTES];

    /// An endless body, whose memory may be scarce.
    #[derive(Default)]
    struct EndlessBody {
        is_memory_scarce: bool,
        /// Bytes of the next piece that were yielded before.
        skip: usize,
        yielded_bytes: usize,
        released_bytes: usize,
    }

    impl Body for EndlessBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = Bytes::from_static(&PIECE[std::mem::take(&mut self.skip)..]);
            self.yielded_bytes += piece.len();
            Poll::Ready(Some(Ok(Frame::data(piece))))
        }
    }

    impl ReplyBytes for EndlessBody {
        fn holds_scarce_memory(&self) -> bool {
            self.is_memory_scarce
        }

        fn suspend(mut self: Pin<&mut Self>, unsent_bytes: u64) -> bool {
            self.released_bytes += unsent_bytes as usize;
            let at = self.yielded_bytes - self.released_bytes;
            self.skip = at % PIECE_BYTES;
            true
        }
    }

    /// A socket that takes this many bytes more.
    struct Socket(usize);

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            match taken {
                0 => Poll::Pending,
                taken => Poll::Ready(Ok(taken)),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl ReplyStream for Socket {}

    /// Sends until the socket takes nothing.
    fn send(
        writer: &mut ReplyWriter<Bytes>,
        cx: &mut Context<'_>,
        body: &mut Pin<&mut EndlessBody>,
        socket: &mut Socket,
    ) {
        loop {
            writer.gather(cx, body);
            writer.join();
            let pins = &mut SocketPins::default();
            match writer.has_something() && writer.poll_write(cx, socket, pins).is_ready() {
                true => {}
                false => return writer.poll_hold(cx, body),
            }
        }
    }

    fn writer() -> ReplyWriter<Bytes> {
        ReplyWriter::new(io::Cursor::new(b"head".to_vec()), None)
    }

    #[tokio::test(start_paused = true)]
    async fn releases_keep_little_and_read_little_again() {
        const READ_BYTES: usize = PIECE_BYTES + KEPT_BYTES;
        const READS: usize = 1000;
        let cx = &mut Context::from_waker(Waker::noop());
        let mut body = EndlessBody {
            is_memory_scarce: true,
            ..EndlessBody::default()
        };
        let (mut writer, mut socket) = (writer(), Socket(0));
        for _ in 0..READS {
            let mut body = Pin::new(&mut body);
            socket.0 += READ_BYTES;
            send(&mut writer, cx, &mut body, &mut socket);
            assert_eq!(socket.0, 0, "all that is read is sent");
            advance(HOLD_TIME).await;
            send(&mut writer, cx, &mut body, &mut socket);
            assert!(writer.pieces.is_empty());
            assert!(writer.head.get_ref().len() <= 4 + KEPT_BYTES);
            assert!(writer.held_bytes() <= KEPT_BYTES as u64);
        }
        // The first time as much as fits; then at most as much as was sent since, and one piece.
        let released = body.released_bytes - AHEAD_BYTES_MAX.min(body.released_bytes);
        assert!(released <= READS * 2 * PIECE_BYTES, "{released}");
        let sent = READS * READ_BYTES - 4;
        let kept = writer.held_bytes() as usize;
        assert_eq!(body.yielded_bytes - body.released_bytes, sent + kept);
    }

    #[tokio::test(start_paused = true)]
    async fn blocked_reply_rarely_checks_for_scarce_memory() {
        let mut body = EndlessBody::default();
        let (mut writer, mut socket) = (writer(), Socket(PIECE_BYTES));
        let mut polls = 0;
        let sending = poll_fn(|cx| {
            polls += 1;
            send(&mut writer, cx, &mut Pin::new(&mut body), &mut socket);
            Poll::<()>::Pending
        });
        assert!(timeout(Duration::from_secs(62), sending).await.is_err());
        assert!((10..=15).contains(&polls), "{polls}");
        assert_eq!(body.released_bytes, 0);
        // Memory becomes scarce: released at the next check.
        body.is_memory_scarce = true;
        let cx = &mut Context::from_waker(Waker::noop());
        send(&mut writer, cx, &mut Pin::new(&mut body), &mut socket);
        assert!(body.released_bytes > 0 && writer.pieces.is_empty());
    }
}
