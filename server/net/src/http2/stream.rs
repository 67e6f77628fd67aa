//! One HTTP/2 stream: passes a request to the service and sends its reply.
//!
//! The body is polled for bytes only when the client's windows and the connection's buffer have
//! room. A stream that has had no room for [`HOLD_TIME`] releases its memory and polls the bytes
//! again when there is room.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Buf;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use tokio::time::{Duration, Sleep, sleep};

use super::connection_buffer::{BufferTurn, ConnectionBuffer};
use super::slice::Slice;
use crate::context::ListenerContext;
use crate::counters::add;
use crate::head::date_value;
use crate::info::{ActiveRequest, ConnectionInfo};
use crate::limits::FIELDS_MAX;
use crate::progress::ReplyProgress;
use crate::reply_body::ReplyBytes;
use crate::request_memory::RequestShare;
use crate::{BoxError, NoBody};

/// A stream without room releases its bytes after this time.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// Window to reserve before the size of the next piece is known.
const WINDOW_BYTES: usize = 16 << 10;

/// Starts a request at the service, or refuses it if it has too many fields or there is no memory
/// for it.
pub(super) fn begin<S>(
    service: &S,
    head: http::request::Parts,
    info: &Arc<ConnectionInfo>,
    context: &ListenerContext,
) -> StartedRequest<S::Future>
where
    S: hyper::service::Service<Request<NoBody>>,
{
    // No supported request needs a body.
    let mut request = Request::from_parts(head, NoBody::new());
    let active = info.begin_request();
    request.extensions_mut().insert(Arc::clone(info));
    let share = context.share(info.remote(), request.headers());
    let reply = if request.headers().len() > FIELDS_MAX {
        // As over HTTP/1.1. The `h2` library limits bytes, not the number of fields.
        add(&info.counters().heads_refused);
        Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
    } else if share.is_none() {
        Err(StatusCode::SERVICE_UNAVAILABLE)
    } else {
        Ok(service.call(request))
    };
    StartedRequest {
        active,
        share,
        reply,
    }
}

/// A request in progress.
pub(super) struct StartedRequest<F> {
    active: ActiveRequest,
    share: Option<RequestShare>,
    /// The service's future, or the status of a refusal.
    reply: Result<F, StatusCode>,
}

impl<F> StartedRequest<F> {
    /// Refused, as requests in progress use all memory that they may.
    pub(super) fn lacks_memory(&self) -> bool {
        self.share.is_none()
    }
}

/// Answers a request and sends its reply to the last byte.
pub(super) async fn answer<F, B, E>(
    begun: StartedRequest<F>,
    mut respond: SendResponse<Slice<B::Data>>,
    info: Arc<ConnectionInfo>,
    buffered: Arc<ConnectionBuffer>,
) where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<BoxError>,
    B: ReplyBytes,
    B::Data: Buf,
    B::Error: Into<BoxError>,
{
    let _counted = (begun.active, begun.share);
    let reply = match begun.reply {
        Ok(reply) => reply,
        Err(status) => {
            let mut refusal = Response::new(());
            *refusal.status_mut() = status;
            if status == StatusCode::SERVICE_UNAVAILABLE {
                let headers = refusal.headers_mut();
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            add_fields(refusal.headers_mut(), Some(0));
            drop(respond.send_response(refusal, true));
            return;
        }
    };
    let outcome = {
        let mut reply = pin!(reply);
        poll_fn(|cx| match reply.as_mut().poll(cx) {
            Poll::Ready(reply) => Poll::Ready(Some(reply.ok())),
            // An error here means that the connection has ended.
            Poll::Pending => respond.poll_reset(cx).map(|_| None),
        })
        .await
    };
    let Some(outcome) = outcome else {
        return;
    };
    let Some(response) = outcome else {
        respond.send_reset(Reason::INTERNAL_ERROR);
        return;
    };
    let (mut head, body) = response.into_parts();
    let is_over = body.is_end_stream();
    add_fields(
        &mut head.headers,
        body.size_hint().exact().filter(|_| !is_over),
    );
    let Ok(stream) = respond.send_response(Response::from_parts(head, ()), is_over) else {
        return;
    };
    if is_over {
        return;
    }
    let progress = Arc::new(ReplyProgress::default());
    info.watch_reply(&progress);
    let body = pin!(body);
    let mut sending = BodySender {
        stream,
        body,
        piece: None,
        is_given: false,
        is_suspended: false,
        hold: None,
        progress,
        turn: BufferTurn::new(&buffered),
        buffered,
    };
    poll_fn(|cx| sending.poll(cx)).await;
}

fn add_fields(headers: &mut HeaderMap, length: Option<u64>) {
    if let Some(length) = length {
        headers
            .entry(header::CONTENT_LENGTH)
            .or_insert_with(|| HeaderValue::from(length));
    }
    headers.entry(header::DATE).or_insert_with(date_value);
}

/// A reply's body while it is sent.
struct BodySender<'a, B: ReplyBytes> {
    stream: SendStream<Slice<B::Data>>,
    body: Pin<&'a mut B>,
    /// The current piece, and the offset up to which it is sent.
    piece: Option<(Arc<B::Data>, usize)>,
    /// The whole body was handed to the library.
    is_given: bool,
    /// The body has released its memory because there was no room.
    is_suspended: bool,
    /// Fires when the body has to release its memory.
    hold: Option<Pin<Box<Sleep>>>,
    progress: Arc<ReplyProgress>,
    buffered: Arc<ConnectionBuffer>,
    turn: BufferTurn,
}

impl<B> BodySender<'_, B>
where
    B: ReplyBytes,
    B::Data: Buf,
    B::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.report_sent();
        // The library keeps one waker of a stream, which it also wakes for window that is reserved
        // below. With this task's waker each poll would cause the next, while a body has no data.
        let mut unheard = Context::from_waker(Waker::noop());
        if self.stream.poll_reset(&mut unheard).is_ready() || self.poll_sending(cx).is_ready() {
            return Poll::Ready(());
        }
        self.stream.poll_reset(cx).map(drop)
    }

    fn poll_sending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !self.is_given {
            let room = match self.poll_room(cx) {
                Poll::Ready(Some(room)) => room,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {
                    self.progress.set_lacks_room(true);
                    self.poll_hold(cx);
                    return Poll::Pending;
                }
            };
            self.progress.set_lacks_room(false);
            self.hold = None;
            self.is_suspended = false;
            if self.piece.is_none() {
                let Poll::Ready(next) = self.poll_body(cx) else {
                    // The body may wait until the bytes that it has yielded are sent.
                    self.progress.wait(cx);
                    return Poll::Pending;
                };
                match next {
                    Ok(Some(data)) if data.has_remaining() => {
                        self.piece = Some((Arc::new(data), 0));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        self.is_given = true;
                        let end = Slice::empty(&self.progress, &self.buffered);
                        drop(self.stream.send_data(end, true));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "reply aborted: its body failed");
                        self.stream.send_reset(Reason::INTERNAL_ERROR);
                        return Poll::Ready(());
                    }
                }
                continue;
            }
            if self.send(room).is_err() {
                return Poll::Ready(());
            }
        }
        self.report_sent();
        if self.progress.has_left_all() {
            return Poll::Ready(());
        }
        self.progress.wait(cx);
        Poll::Pending
    }

    /// Bytes that may be handed to the library now; `None` if the stream has ended.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let wanted = match &self.piece {
            Some((data, at)) => data.remaining() - at,
            None => WINDOW_BYTES,
        };
        self.stream.reserve_capacity(wanted);
        while self.stream.capacity() == 0 {
            match self.stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(None),
                Poll::Pending => {
                    self.turn.end();
                    return Poll::Pending;
                }
            }
        }
        match self.turn.poll_room(cx) {
            0 => Poll::Pending,
            room => Poll::Ready(Some(room.min(self.stream.capacity()))),
        }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<B::Data>, BoxError>> {
        let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) else {
            // Window reserved for data still on the disk must not block other streams.
            self.stream.reserve_capacity(0);
            self.turn.end();
            return Poll::Pending;
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Ok(Some(data)),
                // The service sends no trailers.
                Err(_) => Ok(None),
            },
            Some(Err(error)) => Err(error.into()),
            None => Ok(None),
        })
    }

    fn send(&mut self, room: usize) -> Result<(), h2::Error> {
        let Some((data, at)) = self.piece.take() else {
            return Ok(());
        };
        let end = data.remaining().min(at + room);
        let slice = Slice::new(&data, (at, end), &self.progress, &self.buffered);
        self.turn.end();
        if end < data.remaining() {
            self.piece = Some((data, end));
        } else {
            self.is_given = self.body.is_end_stream();
        }
        self.stream.send_data(slice, self.is_given)
    }

    /// Releases memory if there has been no room for `HOLD_TIME`.
    fn poll_hold(&mut self, cx: &mut Context<'_>) {
        if self.is_suspended {
            return;
        }
        let hold = self.hold.get_or_insert_with(|| Box::pin(sleep(HOLD_TIME)));
        if hold.as_mut().poll(cx).is_pending() {
            return;
        }
        self.hold = None;
        self.is_suspended = true;
        let unsent = self.piece.as_ref();
        let unsent_bytes = unsent.map_or(0, |(data, at)| data.remaining() - at);
        if self.body.as_mut().suspend(unsent_bytes as u64) {
            self.piece = None;
        }
    }
}

impl<B: ReplyBytes> BodySender<'_, B> {
    fn report_sent(&mut self) {
        let left = self.progress.take_left();
        if left > 0 {
            self.body.as_mut().note_left(left);
        }
    }
}

impl<B: ReplyBytes> Drop for BodySender<'_, B> {
    fn drop(&mut self) {
        self.report_sent();
    }
}
