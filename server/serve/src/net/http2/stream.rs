//! One HTTP/2 stream: a request's way to the service, and its reply's way back.
//!
//! The body is asked for bytes only when the client's windows and the connection's buffer have room
//! for some. A stream that has found none for [`HOLD_TIME`] gives its memory back, and asks for the
//! bytes anew when there is room again.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body;
use tokio::time::{Duration, Sleep, sleep};

use super::slice::{Buffered, Slice};
use crate::net::context::ListenerContext;
use crate::net::counters::add;
use crate::net::head::date_value;
use crate::net::info::{ActiveRequest, ConnectionInfo};
use crate::net::progress::ReplyProgress;
use crate::net::reply_body::ReplyBytes;
use crate::net::request_memory::RequestShare;
use crate::net::{BoxError, NoBody};

/// So long a stream without room keeps bytes that others may wait for.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// So many bytes of window are asked for before it is known how many are needed.
const WINDOW_BYTES: usize = 16 << 10;

/// The service's part of a stream: begins a request, unless it has too many fields, or there is no
/// memory for it.
pub(super) fn begin<S>(
    service: &S,
    head: http::request::Parts,
    info: &Arc<ConnectionInfo>,
    context: &ListenerContext,
) -> Begun<S::Future>
where
    S: hyper::service::Service<Request<NoBody>>,
{
    // Nothing that can be asked for needs a body.
    let mut request = Request::from_parts(head, NoBody::new());
    let active = info.begin_request();
    request.extensions_mut().insert(Arc::clone(info));
    let share = context.share(info.remote(), request.headers());
    let reply = if request.headers().len() > info.limits().headers_max {
        // As over HTTP/1.1. The library that reads the heads counts bytes alone.
        add(&info.counters().heads_refused);
        Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
    } else if share.is_none() {
        Err(StatusCode::SERVICE_UNAVAILABLE)
    } else {
        Ok(service.call(request))
    };
    Begun {
        active,
        share,
        reply,
    }
}

/// A request that has begun.
pub(super) struct Begun<F> {
    active: ActiveRequest,
    share: Option<RequestShare>,
    /// What the service answers, or why it is not asked.
    reply: Result<F, StatusCode>,
}

/// Answers a request, up to the last byte of its reply.
pub(super) async fn answer<F, B, E>(
    begun: Begun<F>,
    mut respond: SendResponse<Slice<B::Data>>,
    info: Arc<ConnectionInfo>,
    buffered: Arc<Buffered>,
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
            // An error is the end of the connection.
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
    let mut sending = Sending {
        stream,
        body,
        piece: None,
        is_given: false,
        is_suspended: false,
        hold: None,
        progress,
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

/// A reply's body on its way.
struct Sending<'a, B: ReplyBytes> {
    stream: SendStream<Slice<B::Data>>,
    body: Pin<&'a mut B>,
    /// Given by the body, and sent up to a byte of it.
    piece: Option<(Arc<B::Data>, usize)>,
    /// All of the body was handed on.
    is_given: bool,
    /// The body holds no memory since there was no room.
    is_suspended: bool,
    /// Fires when it has to be suspended.
    hold: Option<Pin<Box<Sleep>>>,
    progress: Arc<ReplyProgress>,
    buffered: Arc<Buffered>,
}

impl<B> Sending<'_, B>
where
    B: ReplyBytes,
    B::Data: Buf,
    B::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.tell_left();
        if self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(());
        }
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
                match ready!(self.poll_body(cx)) {
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
                        tracing::debug!(%error, "a reply broke off");
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
        self.tell_left();
        if self.progress.has_left_all() {
            return Poll::Ready(());
        }
        self.buffered.wait(cx);
        Poll::Pending
    }

    /// How many bytes may be handed on now; `None` if the stream is over.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        let wanted = match &self.piece {
            Some((data, at)) => data.remaining() - at,
            None => WINDOW_BYTES,
        };
        self.stream.reserve_capacity(wanted);
        while self.stream.capacity() == 0 {
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(None),
            }
        }
        match self.buffered.poll_room(cx) {
            0 => Poll::Pending,
            room => Poll::Ready(Some(room.min(self.stream.capacity()))),
        }
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<B::Data>, BoxError>> {
        let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) else {
            // What the disk is still to bring must not keep other streams from the window.
            self.stream.reserve_capacity(0);
            return Poll::Pending;
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Ok(Some(data)),
                // Nobody sends trailers here.
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
        if end < data.remaining() {
            self.piece = Some((data, end));
        } else {
            self.is_given = self.body.is_end_stream();
        }
        self.stream.send_data(slice, self.is_given)
    }

    /// Gives memory back if there has been no room for long.
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

impl<B: ReplyBytes> Sending<'_, B> {
    fn tell_left(&mut self) {
        let left = self.progress.take_left();
        if left > 0 {
            self.body.as_mut().note_left(left);
        }
    }
}

impl<B: ReplyBytes> Drop for Sending<'_, B> {
    fn drop(&mut self) {
        self.tell_left();
    }
}
