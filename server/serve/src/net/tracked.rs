//! The service as hyper sees it: each request keeps its connection busy until its last byte.
//!
//! A reply's bytes go through [`CountedBuf`], which notices when the protocol below takes them.
//! That is how a stalled HTTP/2 stream is found although the socket itself is writable.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Request, Response, Version, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::info::{ActiveRequest, ConnectionInfo};
use super::limits::Limits;

/// A service that tells its connection about each request.
#[derive(Debug)]
pub(super) struct Tracked<S> {
    pub(super) service: S,
    pub(super) info: Arc<ConnectionInfo>,
}

impl<S, B> Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        let version = request.version();
        let active = self.info.begin_request(version);
        let info = Arc::clone(&self.info);
        request.extensions_mut().insert(Arc::clone(&info));
        let answer = self.service.call(request);
        Box::pin(async move {
            let mut response = answer.await?;
            if info.is_used_up() && version <= Version::HTTP_11 {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            let progress = Arc::new(ReplyProgress::new(active));
            if version == Version::HTTP_2 {
                info.watch_reply(&progress);
            }
            Ok(response.map(|inner| TrackedBody { inner, progress }))
        })
    }
}

pin_project! {
    /// A reply's body; while it or bytes of it live, its connection is busy.
    #[derive(Debug)]
    pub struct TrackedBody<B> {
        #[pin]
        inner: B,
        progress: Arc<ReplyProgress>,
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
        let frame = ready!(this.inner.poll_frame(cx));
        let progress = this.progress;
        Poll::Ready(
            frame.map(|frame| {
                frame.map(|frame| frame.map_data(|data| CountedBuf::new(data, progress)))
            }),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// How far a reply's bytes have been taken. The request is in progress for as long as this lives:
/// the protocol below may drop a body long before the body's last bytes.
#[derive(Debug)]
pub(super) struct ReplyProgress {
    _active: ActiveRequest,
    handed_bytes: AtomicU64,
    taken_bytes: AtomicU64,
    mark: Mutex<Option<Mark>>,
}

/// When progress was last sufficient, and what had been taken by then.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Instant,
    taken_bytes: u64,
}

impl ReplyProgress {
    fn new(active: ActiveRequest) -> Self {
        Self {
            _active: active,
            handed_bytes: AtomicU64::new(0),
            taken_bytes: AtomicU64::new(0),
            mark: Mutex::new(None),
        }
    }

    /// Whether bytes have waited for `send_timeout` while fewer than `send_bytes_min` were taken.
    pub(super) fn is_stalled(&self, now: Instant, limits: &Limits) -> bool {
        let taken_bytes = self.taken_bytes.load(Relaxed);
        let is_waiting = taken_bytes < self.handed_bytes.load(Relaxed);
        let mut slot = self.mark.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = slot.get_or_insert(Mark {
            at: now,
            taken_bytes,
        });
        if !is_waiting || taken_bytes - mark.taken_bytes >= limits.send_bytes_min {
            *mark = Mark {
                at: now,
                taken_bytes,
            };
        }
        now.duration_since(mark.at) >= limits.send_timeout
    }
}

/// Bytes on their way out that count how many of them have been taken.
#[derive(Debug)]
pub struct CountedBuf<D: Buf> {
    inner: D,
    progress: Arc<ReplyProgress>,
}

impl<D: Buf> CountedBuf<D> {
    fn new(inner: D, progress: &Arc<ReplyProgress>) -> Self {
        let bytes = inner.remaining() as u64;
        progress.handed_bytes.fetch_add(bytes, Relaxed);
        Self {
            inner,
            progress: Arc::clone(progress),
        }
    }
}

impl<D: Buf> Drop for CountedBuf<D> {
    fn drop(&mut self) {
        let bytes = self.inner.remaining() as u64;
        self.progress.taken_bytes.fetch_add(bytes, Relaxed);
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
        self.progress.taken_bytes.fetch_add(count as u64, Relaxed);
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        let bytes = self.inner.copy_to_bytes(length);
        self.progress.taken_bytes.fetch_add(length as u64, Relaxed);
        bytes
    }
}
