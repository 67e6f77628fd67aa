//! HTTP/2 on one connection (RFC 9113), on the `h2` library.
//!
//! hyper's server on the same library is not used: it takes bytes out of a reply before the
//! client's windows have room for them, so that streams that are not read keep memory; and it
//! cannot close a connection with `ENHANCE_YOUR_CALM`. All streams of a connection run in one task,
//! so they share one turn.

mod connection_buffer;
mod metered_stream;
mod request_turn;
mod slice;
mod stream;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h2::server::{Connection, Handshake};
use h2::{Ping, PingPong, Reason};
use http::{Request, Response};
use hyper::service::Service;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Duration, Instant, Sleep, sleep};

use self::connection_buffer::ConnectionBuffer;
use self::metered_stream::{MeteredStream, ReadGate};
use self::request_turn::RequestTurn;
use self::slice::Slice;
use super::context::ListenerContext;
use super::info::ConnectionInfo;
use super::limits::ConnectionLimits;
use super::protocol_detection::PREFACE_BYTES;
use super::reply_body::ReplyBytes;
use super::{BoxError, NoBody};

/// Bytes of one reply in the library's buffers.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// Requests that a connection may begin in one turn. Beginning one takes some 50 us.
const REQUESTS_PER_TURN: usize = 2;

/// What a refusal for lack of request memory adds to its connection's debt, which is paid by time, if
/// the memory is used by the client's own address.
const OWED_PER_REFUSAL: Duration = Duration::from_millis(500);
/// A connection that owes more floods: nothing else ends one whose client reads no reply.
const REFUSALS_OWE_MAX: Duration = Duration::from_secs(8);

type StreamFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection whose preface was recognised and is still to be read.
pub(super) struct Http2<IO, S, B: ReplyBytes> {
    state: Http2State<IO, B>,
    service: S,
    info: Arc<ConnectionInfo>,
    context: ListenerContext,
    streams: FuturesUnordered<StreamFuture>,
    buffered: Arc<ConnectionBuffer>,
    gate: Arc<ReadGate>,
    turn: RequestTurn,
    /// When the debt for refused requests is paid.
    refusals_paid_at: Instant,
    is_asked_to_close: bool,
    is_told_to_calm: bool,
}

enum Http2State<IO, B: ReplyBytes> {
    Handshake(Box<Handshake<MeteredStream<IO>, Slice<B::Data>>>),
    Open(
        Box<Connection<MeteredStream<IO>, Slice<B::Data>>>,
        Option<KeepAlive>,
    ),
}

impl<IO, S, B> Http2<IO, S, B>
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<NoBody>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: ReplyBytes + Send + 'static,
    B::Data: Send + Sync,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(
        stream: IO,
        service: S,
        info: &Arc<ConnectionInfo>,
        context: ListenerContext,
    ) -> Self {
        let gate = Arc::<ReadGate>::default();
        let stream = MeteredStream::new(stream, PREFACE_BYTES, Arc::clone(info), Arc::clone(&gate));
        Self {
            state: Http2State::Handshake(Box::new(builder(info.limits()).handshake(stream))),
            service,
            info: Arc::clone(info),
            context,
            streams: FuturesUnordered::new(),
            buffered: Arc::default(),
            gate,
            turn: RequestTurn::default(),
            refusals_paid_at: Instant::now(),
            is_asked_to_close: false,
            is_told_to_calm: false,
        }
    }

    /// Accepts no further requests; those in progress continue.
    pub(super) fn graceful_shutdown(&mut self) {
        self.is_asked_to_close = true;
        if let Http2State::Open(connection, _) = &mut self.state {
            connection.graceful_shutdown();
        }
    }

    /// Makes progress; ready when the connection has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Http2State::Handshake(handshake) = &mut self.state {
            let mut connection = ready!(Pin::new(&mut **handshake).poll(cx))?;
            let interval = self.info.limits().keep_alive_interval;
            let pings = connection.ping_pong();
            let keep_alive = pings.map(|pings| KeepAlive::new(pings, interval));
            if self.is_asked_to_close {
                connection.graceful_shutdown();
            }
            self.state = Http2State::Open(Box::new(connection), keep_alive);
        }
        let Http2State::Open(connection, keep_alive) = &mut self.state else {
            return Poll::Pending;
        };
        if let Some(keep_alive) = keep_alive
            && keep_alive.is_dead(cx, &self.info)
        {
            connection.abrupt_shutdown(Reason::NO_ERROR);
        }
        // Data from the disks goes to the streams before the connection writes.
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(cx) {}
        if self.turn.poll(cx).is_pending() {
            // Its replies go on meanwhile.
            return connection.poll_closed(cx).map_err(Into::into);
        }
        let mut begun_count = 0;
        loop {
            if begun_count == REQUESTS_PER_TURN {
                // Further requests may wait in the library.
                self.gate.set_closed(true);
                self.turn.end();
                self.turn.line_up(cx);
                break;
            }
            if self.info.is_flooded() && !self.is_told_to_calm {
                self.is_told_to_calm = true;
                self.context.note_flood(self.info.remote());
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            }
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    begun_count += 1;
                    let (head, _unread) = request.into_parts();
                    let begun = stream::begin(&self.service, head, &self.info, &self.context);
                    let remote = self.info.remote();
                    if begun.lacks_memory() && self.context.uses_own_request_memory(remote) {
                        let now = Instant::now();
                        self.refusals_paid_at = self.refusals_paid_at.max(now) + OWED_PER_REFUSAL;
                        if self.refusals_paid_at - now > REFUSALS_OWE_MAX {
                            self.info.note_flood();
                        }
                    }
                    let (info, buffered) = (Arc::clone(&self.info), Arc::clone(&self.buffered));
                    let answer = stream::answer(begun, respond, info, buffered);
                    self.streams.push(Box::pin(answer));
                }
                Poll::Ready(Some(Err(error))) => {
                    if error.reason() == Some(Reason::ENHANCE_YOUR_CALM) && !error.is_remote() {
                        self.info.note_flood();
                        if !self.is_told_to_calm {
                            self.context.note_flood(self.info.remote());
                        }
                    }
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending if self.info.is_flooded() && !self.is_told_to_calm => {}
                // All that waited have begun.
                Poll::Pending if self.gate.is_closed() => self.gate.set_closed(false),
                Poll::Pending => {
                    self.turn.end();
                    break;
                }
            }
        }
        // First poll of the new requests; the data they send wakes this task.
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(cx) {}
        Poll::Pending
    }
}

fn builder(limits: &ConnectionLimits) -> h2::server::Builder {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_send_buffer_size(STREAM_BUFFER_BYTES);
    builder
}

/// Pings a client that has been silent for a while.
struct KeepAlive {
    pings: PingPong,
    interval: Duration,
    alarm: Pin<Box<Sleep>>,
    asked_at: Option<Instant>,
}

impl KeepAlive {
    fn new(pings: PingPong, interval: Duration) -> Self {
        Self {
            pings,
            interval,
            alarm: Box::pin(sleep(interval)),
            asked_at: None,
        }
    }

    /// Whether the client neither answered the ping nor sent anything else within the interval.
    fn is_dead(&mut self, cx: &mut Context<'_>, info: &ConnectionInfo) -> bool {
        if self.asked_at.is_some() && self.pings.poll_pong(cx).is_ready() {
            self.asked_at = None;
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let heard_at = info.last_received_at();
            if self.asked_at.is_some_and(|asked_at| heard_at < asked_at) {
                return true;
            }
            if now.duration_since(heard_at) >= self.interval / 2
                && self.asked_at.is_none()
                && self.pings.send_ping(Ping::opaque()).is_ok()
            {
                self.asked_at = Some(now);
            }
            self.alarm.as_mut().reset(now + self.interval);
        }
        if self.asked_at.is_some() {
            // Registers for the pong.
            let is_answered = self.pings.poll_pong(cx).is_ready();
            self.asked_at.take_if(|_| is_answered);
        }
        false
    }
}
