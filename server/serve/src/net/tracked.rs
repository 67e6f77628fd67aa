//! The service as hyper sees it for HTTP/2: each request keeps its connection busy until its last
//! byte.
//!
//! A reply's bytes go through [`CountedBuf`], which notices when the protocol below takes them.
//! That is how a stalled HTTP/2 stream is found although the socket itself is writable.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use super::NoBody;
use super::counters::add;
use super::info::{ActiveRequest, ConnectionInfo};
use super::progress::ReplyProgress;

/// A service that tells its connection about each request.
#[derive(Debug)]
pub(super) struct Tracked<S> {
    pub(super) service: S,
    pub(super) info: Arc<ConnectionInfo>,
}

impl<S, B> Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Request<NoBody>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // Nothing that can be asked for needs a body.
        let mut request = request.map(|_| NoBody::new());
        let active = self.info.begin_request();
        let info = Arc::clone(&self.info);
        request.extensions_mut().insert(Arc::clone(&info));
        let is_understood = request.headers().len() <= info.limits().headers_max;
        let answer = is_understood.then(|| self.service.call(request));
        Box::pin(async move {
            let response = match answer {
                Some(answer) => answer.await?.map(Some),
                None => refuse(&info),
            };
            let progress = Arc::new(ReplyProgress::default());
            info.watch_reply(&progress);
            let sending = Arc::new(Sending {
                _active: active,
                progress,
            });
            Ok(response.map(|inner| TrackedBody { inner, sending }))
        })
    }
}

/// As over HTTP/1.1, for too many fields. The library that reads the heads counts bytes alone.
fn refuse<B>(info: &ConnectionInfo) -> Response<Option<B>> {
    add(&info.counters().heads_refused);
    let mut refusal = Response::new(None);
    *refusal.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    refusal
}

pin_project! {
    /// A reply's body; while it or bytes of it live, its connection is busy.
    #[derive(Debug)]
    pub struct TrackedBody<B> {
        #[pin]
        inner: Option<B>,
        sending: Arc<Sending>,
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = CountedBuf<B::Data>;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let this = self.project();
        let Some(inner) = this.inner.as_pin_mut() else {
            return Poll::Ready(None);
        };
        let frame = ready!(inner.poll_frame(cx));
        let sending = this.sending;
        Poll::Ready(
            frame.map(|frame| {
                frame.map(|frame| frame.map_data(|data| CountedBuf::new(data, sending)))
            }),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let inner = self.inner.as_ref();
        inner.map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// A reply in progress, for as long as this lives: the protocol below may drop a body long before
/// the body's last bytes.
#[derive(Debug)]
struct Sending {
    _active: ActiveRequest,
    progress: Arc<ReplyProgress>,
}

/// Bytes on their way out that count how many of them have been taken.
#[derive(Debug)]
pub struct CountedBuf<D: Buf> {
    inner: D,
    sending: Arc<Sending>,
}

impl<D: Buf> CountedBuf<D> {
    fn new(inner: D, sending: &Arc<Sending>) -> Self {
        sending.progress.handed(inner.remaining());
        Self {
            inner,
            sending: Arc::clone(sending),
        }
    }
}

impl<D: Buf> Drop for CountedBuf<D> {
    fn drop(&mut self) {
        self.sending.progress.taken(self.inner.remaining());
    }
}

impl<D: Buf> Buf for CountedBuf<D> {
    fn remaining(&self) -> usize {
        self.inner.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.inner.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.inner.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.inner.advance(count);
        self.sending.progress.taken(count);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        let bytes = self.inner.copy_to_bytes(length);
        self.sending.progress.taken(length);
        bytes
    }
}
