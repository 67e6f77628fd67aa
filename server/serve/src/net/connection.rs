//! One connection from its first byte to its last.
//!
//! hyper moves the bytes; this file decides when a connection has to end, and how gently: an idle
//! or used-up one is asked to close (FIN, or GOAWAY over HTTP/2), one that does not send its head
//! or does not read its reply is cut.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Duration, Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::context::ListenerContext;
use super::counters::{ConnectionCounters, Gauged, add};
use super::info::{ConnectionInfo, Verdict};
use super::limits::Limits;
use super::remote::Remote;
use super::shutdown::Shutdown;
use super::sniff::{Sniffed, Speaks};
use super::timed::TimedStream;
use super::tracked::Tracked;

/// How long a connection that was asked to close may take for it.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By agreement, by the client, or by an error of the protocol (which got its 4xx if it could).
    Closed,
    /// The TLS handshake failed or took too long.
    TlsFailed,
    /// A request's head did not arrive in time.
    HeaderTimeout,
    /// Nothing was asked for.
    IdleTimeout,
    /// A reply was not read.
    SendTimeout,
    /// It had not finished when the drain ended.
    DrainAborted,
}

/// Serves one accepted stream until it ends.
pub async fn serve_connection<IO, S, B>(
    stream: IO,
    remote: Remote,
    tls: Option<TlsAcceptor>,
    service: S,
    context: ListenerContext,
    shutdown: Shutdown,
) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let _open = Gauged::new(OpenGauge(Arc::clone(&context.counters)));
    let (limits, counters) = (Arc::clone(&context.limits), Arc::clone(&context.counters));
    let number = context.open.number();
    let info = ConnectionInfo::new(number, remote, tls.is_some(), limits, counters);
    let info = Arc::new(info);
    let _listed = context.open.add(&info);
    let tracked = Tracked {
        service,
        info: Arc::clone(&info),
    };
    let timed = TimedStream::new(stream, Arc::clone(&info));
    let Some(acceptor) = tls else {
        // Boxed, so that a connection is as large as what it does, not as all it might do.
        return Box::pin(drive(timed, tracked, &info, shutdown)).await;
    };
    let handshake = Box::pin(acceptor.accept(timed));
    match timeout(info.limits().header_timeout, handshake).await {
        Ok(Ok(encrypted)) => Box::pin(drive(encrypted, tracked, &info, shutdown)).await,
        failed => {
            let error = failed.map_or_else(|late| late.to_string(), |done| error_text(done.err()));
            tracing::debug!(remote = %remote.address, error, "TLS handshake failed");
            add(&info.counters().tls_failures);
            End::TlsFailed
        }
    }
}

fn error_text(error: Option<std::io::Error>) -> String {
    error.map_or_else(String::new, |error| error.to_string())
}

struct OpenGauge(Arc<ConnectionCounters>);

impl AsRef<std::sync::atomic::AtomicU64> for OpenGauge {
    fn as_ref(&self) -> &std::sync::atomic::AtomicU64 {
        &self.0.open
    }
}

fn builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let mut http1 = builder.http1();
    // hyper's own header timeout would also end idle connections; see `ConnectionInfo::verdict`.
    http1.timer(TokioTimer::new()).header_read_timeout(None);
    // Who has sent a request and says no more still wants the reply.
    http1.half_close(true);
    http1.max_headers(limits.headers_max);
    http1.max_buf_size(limits.header_bytes_max.max(8192));
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new());
    http2.max_concurrent_streams(limits.streams_max);
    http2.max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    http2.keep_alive_interval(limits.keep_alive_interval);
    http2.keep_alive_timeout(limits.keep_alive_interval);
    builder
}

async fn drive<IO, S, B>(
    stream: IO,
    tracked: Tracked<S>,
    info: &Arc<ConnectionInfo>,
    mut shutdown: Shutdown,
) -> End
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut draining = pin!(async move { shutdown.draining().await });
    let mut overseer = Overseer::new(info);
    let mut stream = Sniffed::new(stream);
    let sniffed = poll_fn(|cx| {
        if draining.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(End::Closed));
        }
        if let Poll::Ready(speaks) = stream.poll_sniff(cx) {
            return Poll::Ready(Ok(speaks));
        }
        overseer.poll_action(cx).map(|action| match action {
            Action::Cut(end) => Err(end),
            // Nothing was asked for, so there is nothing to finish.
            Action::AskToClose => Err(overseer.natural_end()),
        })
    });
    let builder = match sniffed.await {
        Ok(Speaks::Http1) => builder(info.limits()).http1_only(),
        Ok(Speaks::Http2) => builder(info.limits()).http2_only(),
        Err(end) => return end,
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), tracked));
    poll_fn(|cx| {
        if !overseer.is_draining && draining.as_mut().poll(cx).is_ready() {
            overseer.begin_drain();
            connection.as_mut().graceful_shutdown();
        }
        loop {
            if let Poll::Ready(outcome) = connection.as_mut().poll(cx) {
                if let Err(error) = outcome {
                    tracing::debug!(remote = %info.remote().address, %error, "connection failed");
                }
                return Poll::Ready(overseer.natural_end());
            }
            match overseer.poll_action(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Action::Cut(end)) => return Poll::Ready(end),
                Poll::Ready(Action::AskToClose) => connection.as_mut().graceful_shutdown(),
            }
        }
    })
    .await
}

enum Action {
    /// Let requests in progress finish, and no more.
    AskToClose,
    /// Drop everything now.
    Cut(End),
}

/// Decides when a connection has to end.
struct Overseer<'a> {
    info: &'a ConnectionInfo,
    alarm: Pin<Box<Sleep>>,
    /// By when it must be gone, and as what it then counts.
    closing: Option<(Instant, End)>,
    is_draining: bool,
    is_retired: bool,
}

impl<'a> Overseer<'a> {
    fn new(info: &'a ConnectionInfo) -> Self {
        Self {
            info,
            alarm: Box::pin(sleep_until(Instant::now())),
            closing: None,
            is_draining: false,
            is_retired: false,
        }
    }

    fn begin_drain(&mut self) {
        self.is_draining = true;
        let grace = if self.info.active_count() == 0 {
            CLOSE_GRACE.min(self.info.limits().drain_timeout)
        } else {
            self.info.limits().drain_timeout
        };
        self.closing = Some((Instant::now() + grace, End::DrainAborted));
    }

    fn natural_end(&self) -> End {
        match self.closing {
            Some((_, End::IdleTimeout)) => End::IdleTimeout,
            _ if self.info.is_send_timed_out() => End::SendTimeout,
            _ => End::Closed,
        }
    }

    /// What has to happen now; else registers to be asked again in time.
    fn poll_action(&mut self, cx: &mut Context<'_>) -> Poll<Action> {
        self.info.oversee(cx.waker());
        if self.info.is_used_up() && !self.is_retired {
            self.is_retired = true;
            // HTTP/1.1 says so in the reply's head; HTTP/2 has GOAWAY for it.
            if self.info.is_http2() {
                return Poll::Ready(Action::AskToClose);
            }
        }
        loop {
            let now = Instant::now();
            let wake = match (self.closing, self.info.verdict(now)) {
                (Some((at, end)), _) if at <= now => return Poll::Ready(self.cut(end)),
                (_, Verdict::SendTimeout) => return Poll::Ready(self.cut(End::SendTimeout)),
                (_, Verdict::HeaderTimeout) => return Poll::Ready(self.cut(End::HeaderTimeout)),
                (None, Verdict::IdleTimeout) => {
                    self.closing = Some((now + CLOSE_GRACE, End::IdleTimeout));
                    add(&self.info.counters().idle_timeouts);
                    return Poll::Ready(Action::AskToClose);
                }
                (Some((at, _)), Verdict::IdleTimeout) => at,
                (Some((at, _)), Verdict::Wait(until)) => at.min(until),
                (None, Verdict::Wait(until)) => until,
            };
            if self.alarm.is_elapsed() || self.alarm.deadline() > wake {
                self.alarm.as_mut().reset(wake);
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn cut(&self, end: End) -> Action {
        let counters = self.info.counters();
        match end {
            End::HeaderTimeout => add(&counters.header_timeouts),
            End::SendTimeout => self.info.note_send_timeout(),
            End::DrainAborted => {
                self.info.note_drain_aborted();
                add(&counters.drain_aborts);
            }
            End::Closed | End::TlsFailed | End::IdleTimeout => {}
        }
        Action::Cut(end)
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
