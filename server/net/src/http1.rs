//! HTTP/1.1 on one connection: requests are read and answered in order.
//!
//! This is the project's own implementation, not hyper's, because nearly all bytes leave by it: a
//! head and all pieces that are ready go out in one call, without a copy or a queue between the
//! reply's body and the socket. Pieces in a file for `sendfile` are not copied into the socket
//! either.
//!
//! While a reply is awaited or written, the socket is also read. A client that has closed is thus
//! detected before its bytes are read from a disk; one that half-closes is watched (`peer_liveness.rs`);
//! further bytes are buffered, up to the length of a head. Request bodies are not read: such a
//! request is answered and its connection closed.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode, Version, header};
use http_body::Body;
use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

use super::counters::add;
use super::head::{Framing, HeadOutcome, ParsedHead, end_head, opening, take_head, write_head};
use super::head_cache_service::{CachedReply, HeadCacheService, RawHead};
use super::info::ConnectionInfo;
use super::peer_liveness::HalfClosedPeer;
use super::reply_body::ReplyBytes;
use super::reply_stream::{ReplyBuf, ReplyStream, SocketPins};
use super::reply_writer::ReplyWriter;
use super::{BoxError, NoBody};

/// Size of one read from the socket.
const READ_BYTES: usize = 4096;

/// One connection.
struct Http1<'a, IO: ReplyStream> {
    stream: IO,
    info: &'a Arc<ConnectionInfo>,
    /// Bytes received and not yet parsed.
    buffer: BytesMut,
    /// Set when the client has half-closed its side.
    silence: Option<HalfClosedPeer>,
    /// Blocks that the socket may still refer to. Cleared when the connection closes in order.
    pins: SocketPins,
}

/// Serves a connection until either end closes it. `is_asked_to_close` may be set between polls;
/// the current reply is then the last.
///
/// # Errors
/// The error that ended the connection, if any.
pub(super) async fn serve<IO, S, B>(
    stream: IO,
    service: &S,
    info: &Arc<ConnectionInfo>,
    is_asked_to_close: &AtomicBool,
) -> Result<(), BoxError>
where
    IO: AsyncRead + ReplyStream + Unpin,
    S: HeadCacheService<B>,
    S::Error: Into<BoxError>,
    B: ReplyBytes,
    B::Data: ReplyBuf,
    B::Error: Into<BoxError>,
{
    let mut connection = Http1 {
        stream,
        info,
        buffer: BytesMut::new(),
        silence: None,
        pins: SocketPins::default(),
    };
    loop {
        match connection.next_head(service, is_asked_to_close).await? {
            Ok(Some(taken)) => {
                // Boxed, so that an idle connection does not pay for the size of an answering one.
                let keeps_alive = match taken {
                    HeadOutcome::AtHand(reply) => {
                        Box::pin(connection.hand_over(reply, is_asked_to_close)).await?
                    }
                    HeadOutcome::Request(head) => {
                        Box::pin(connection.answer(head, service, is_asked_to_close)).await?
                    }
                };
                if !keeps_alive {
                    break;
                }
                // The next head may already be in the buffer.
                if connection.has_begun_head() {
                    // A client that pipelines many requests must not delay those of other
                    // connections.
                    tokio::task::yield_now().await;
                }
            }
            Ok(None) => break,
            Err(status) => {
                connection.refuse(status).await?;
                break;
            }
        }
    }
    connection.stream.shutdown().await?;
    connection.pins = SocketPins::default();
    Ok(())
}

/// A cut socket would hold the bytes that its reader does not take for minutes, in memory that is
/// not accounted. After a close in order, or at the end of this server, bytes in flight must still
/// arrive.
impl<IO: ReplyStream> Drop for Http1<'_, IO> {
    fn drop(&mut self) {
        if !self.info.is_drain_aborted() && self.pins.are_held_by(&self.stream) {
            self.stream.discard_when_closed();
        }
    }
}

impl<IO: AsyncRead + ReplyStream + Unpin> Http1<'_, IO> {
    /// The next request; `None` at the end of the connection, a status if the request is malformed.
    async fn next_head<S: HeadCacheService<B>, B>(
        &mut self,
        service: &S,
        is_asked_to_close: &AtomicBool,
    ) -> io::Result<Result<Option<HeadOutcome<CachedReply<B>>>, StatusCode>> {
        loop {
            if self.has_begun_head() {
                let info = self.info;
                let at_hand = |head: &RawHead<'_>| service.at_hand(head, info);
                match take_head(&mut self.buffer, info.limits(), at_hand) {
                    Ok(None) => {}
                    known => return Ok(known),
                }
            }
            if self.silence.is_some() {
                return Ok(Ok(None));
            }
            if self.buffer.is_empty() {
                // An idle connection holds no buffer.
                self.buffer = BytesMut::new();
            }
            let more = poll_fn(|cx| {
                if self.buffer.is_empty() && is_asked_to_close.load(Relaxed) {
                    return Poll::Ready(Ok(false));
                }
                self.poll_listen(cx).map_ok(|()| true)
            });
            if !more.await? {
                return Ok(Ok(None));
            }
        }
    }

    /// Whether part of a head has arrived. Empty lines before it do not belong to it (RFC 9112
    /// 2.2), so a client that sends one after each request still counts as idle.
    fn has_begun_head(&mut self) -> bool {
        let mut text = &self.buffer[..];
        while let Some(rest) = text.strip_prefix(b"\r\n").or(text.strip_prefix(b"\n")) {
            text = rest;
        }
        let empty_bytes = self.buffer.len() - text.len();
        self.buffer.advance(empty_bytes);
        if !self.buffer.is_empty() {
            self.info.note_head();
        }
        !self.buffer.is_empty()
    }

    /// Reads from the socket into the buffer; pending if nothing arrived or the buffer is full.
    fn poll_listen(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let bytes_max = self.info.limits().header_bytes_max.max(8192);
        if self.silence.is_some() || self.buffer.len() >= bytes_max {
            return Poll::Pending;
        }
        let mut space = [MaybeUninit::uninit(); READ_BYTES];
        let mut read = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            self.silence = Some(HalfClosedPeer::begin(self.info.reply_lasted()));
        }
        self.buffer.extend_from_slice(read.filled());
        Poll::Ready(Ok(()))
    }

    /// Reads until nothing more has arrived.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(heard) = self.poll_listen(cx) {
            heard?;
        }
        Ok(())
    }

    /// Reads while there is nothing to send; fails if the client has left. `opening` are bytes of
    /// the reply that may already be sent.
    fn poll_presence(&mut self, cx: &mut Context<'_>, opening: &mut &[u8]) -> io::Result<()> {
        self.poll_drained(cx)?;
        match &mut self.silence {
            Some(silence) => silence.watch(cx, &mut self.stream, opening),
            None => Ok(()),
        }
    }

    /// Sends a cached reply; returns whether another request may follow.
    async fn hand_over<B>(
        &mut self,
        reply: CachedReply<B>,
        is_asked_to_close: &AtomicBool,
    ) -> Result<bool, BoxError>
    where
        B: ReplyBytes,
        B::Data: ReplyBuf,
        B::Error: Into<BoxError>,
    {
        let CachedReply {
            head: mut text,
            body,
            active: _active,
        } = reply;
        let keeps_alive = !self.info.is_used_up() && !is_asked_to_close.load(Relaxed);
        let length = body.size_hint().exact();
        end_head(keeps_alive, &mut text);
        let body = pin!(body);
        self.send(io::Cursor::new(text), body, length).await?;
        Ok(keeps_alive && !is_asked_to_close.load(Relaxed))
    }

    /// Answers one request; returns whether another may follow.
    async fn answer<S, B>(
        &mut self,
        head: ParsedHead,
        service: &S,
        is_asked_to_close: &AtomicBool,
    ) -> Result<bool, BoxError>
    where
        S: Service<Request<NoBody>, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: ReplyBytes,
        B::Data: ReplyBuf,
        B::Error: Into<BoxError>,
    {
        let ParsedHead {
            mut request,
            keeps_alive,
            has_body,
        } = head;
        let (version, is_head) = (request.version(), request.method() == http::Method::HEAD);
        let _active = self.info.begin_request();
        request.extensions_mut().insert(Arc::clone(self.info));
        let mut reply = pin!(service.call(request));
        let all_opening = opening(version);
        let mut opening = all_opening;
        let reply = poll_fn(|cx| {
            if let Poll::Ready(reply) = reply.as_mut().poll(cx) {
                return Poll::Ready(reply.map_err(Into::into));
            }
            match self.poll_presence(cx, &mut opening) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error.into())),
            }
        });
        let (parts, body) = reply.await?.into_parts();
        let mut keeps_alive =
            keeps_alive && !has_body && !self.info.is_used_up() && !is_asked_to_close.load(Relaxed);
        let length = length_of(&parts.headers, parts.status, &body, is_head);
        // A body of unknown length is ended by closing the connection.
        keeps_alive &= !matches!(length, BodyLength::Unknown);
        let framing = Framing {
            version,
            length: length.to_write(),
            keeps_alive,
        };
        let mut text = Vec::with_capacity(512);
        write_head(parts.status, &parts.headers, framing, &mut text);
        let mut text = io::Cursor::new(text);
        text.advance(all_opening.len() - opening.len());
        if is_head {
            drop(body);
            self.stream.write_all_buf(&mut text).await?;
            self.stream.flush().await?;
        } else {
            let body = pin!(body);
            self.send(text, body, length.bytes()).await?;
        }
        Ok(keeps_alive && !is_asked_to_close.load(Relaxed))
    }

    /// Writes a head, and its body as it becomes available.
    async fn send<B>(
        &mut self,
        head: io::Cursor<Vec<u8>>,
        mut body: Pin<&mut B>,
        length: Option<u64>,
    ) -> Result<(), BoxError>
    where
        B: ReplyBytes,
        B::Data: ReplyBuf,
        B::Error: Into<BoxError>,
    {
        let mut sending = ReplyWriter::new(head, length);
        self.pins.release(&self.stream);
        self.info.begin_reply(length.unwrap_or(0));
        poll_fn(|cx| self.poll_send(cx, &mut sending, &mut body)).await
    }

    fn poll_send<B>(
        &mut self,
        cx: &mut Context<'_>,
        sending: &mut ReplyWriter<B::Data>,
        body: &mut Pin<&mut B>,
    ) -> Poll<Result<(), BoxError>>
    where
        B: ReplyBytes,
        B::Data: ReplyBuf,
        B::Error: Into<BoxError>,
    {
        loop {
            sending.gather(cx, body);
            sending.join();
            if sending.has_something() {
                let held_bytes = sending.held_bytes();
                let Poll::Ready(written) = sending.poll_write(cx, &mut self.stream, &mut self.pins)
                else {
                    sending.poll_hold(cx, body);
                    return Poll::Pending;
                };
                written?;
                let left_bytes = held_bytes - sending.held_bytes();
                body.as_mut().note_left(left_bytes);
                self.info.note_left(sending.unwritten_bytes());
                if let Some(silence) = &mut self.silence {
                    silence.answer();
                }
                continue;
            }
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            if let Some(error) = sending.broken.take() {
                self.pins = SocketPins::default();
                return Poll::Ready(Err(error));
            }
            if sending.is_ended {
                return Poll::Ready(sending.judge());
            }
            self.poll_presence(cx, &mut &[][..])?;
            return Poll::Pending;
        }
    }

    /// Answers a malformed request with a status.
    async fn refuse(&mut self, status: StatusCode) -> io::Result<()> {
        add(&self.info.counters().heads_refused);
        let framing = Framing {
            version: Version::HTTP_11,
            length: Some(0),
            keeps_alive: false,
        };
        let mut text = Vec::new();
        write_head(status, &HeaderMap::new(), framing, &mut text);
        self.stream.write_all(&text).await?;
        self.stream.flush().await
    }
}

/// Length of a body.
#[derive(Debug, Clone, Copy)]
enum BodyLength {
    /// In the reply's head already.
    Said(u64),
    /// Known, and still to be written into the head.
    Known(u64),
    /// No body, and no `content-length` field.
    None,
    Unknown,
}

impl BodyLength {
    fn to_write(self) -> Option<u64> {
        match self {
            Self::Known(length) => Some(length),
            _ => None,
        }
    }

    fn bytes(self) -> Option<u64> {
        match self {
            Self::Said(length) | Self::Known(length) => Some(length),
            Self::None => Some(0),
            Self::Unknown => None,
        }
    }
}

fn length_of(
    headers: &HeaderMap,
    status: StatusCode,
    body: &impl Body,
    is_head: bool,
) -> BodyLength {
    let said = headers.get(header::CONTENT_LENGTH);
    let said = said.and_then(|value| value.to_str().ok()?.parse().ok());
    let has_none = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    match (said, body.size_hint().exact()) {
        (Some(length), _) => BodyLength::Said(length),
        (None, _) if has_none => BodyLength::None,
        // For HEAD, the length of the body of a GET is not known here.
        (None, Some(0)) if is_head => BodyLength::None,
        (None, Some(length)) => BodyLength::Known(length),
        (None, None) => BodyLength::Unknown,
    }
}
