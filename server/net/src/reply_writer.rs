//! A reply over HTTP/1.1 while it is sent: its head, and the pieces of its body that are not
//! written yet.
//!
//! A head and all pieces that are ready go out in one call. A small reply is copied into one buffer
//! with its head; pieces in a file for `sendfile` are sent from there, adjoining ones together.
//!
//! Invariant: the body never exceeds the length in the head.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http_body::Body;

use super::BoxError;
use super::head::JOINED_BYTES_MAX;
use super::reply_stream::{ReplyBuf, ReplyStream, SocketPins};

/// Most pieces in one call.
const PIECES_MAX: usize = 64;
/// Most bytes taken out of a body before some have been written.
const AHEAD_BYTES_MAX: usize = 2 << 20;

/// A reply while it is sent.
pub(super) struct ReplyWriter<D> {
    head: io::Cursor<Vec<u8>>,
    /// Taken out of the body and not written yet.
    pieces: VecDeque<D>,
    ahead_bytes: usize,
    /// Bytes of the body at the end of `head`.
    joined_bytes: usize,
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
            joined_bytes: 0,
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
        while !self.is_ended
            && self.broken.is_none()
            && self.pieces.len() < PIECES_MAX
            && self.ahead_bytes < AHEAD_BYTES_MAX
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
        let mut slices = [IoSlice::new(&[]); PIECES_MAX + 1];
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
        let of_head = written.min(self.head.remaining());
        self.head.advance(of_head);
        written -= of_head;
        self.ahead_bytes -= written;
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
