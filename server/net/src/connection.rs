//! One connection from accept to close. `http1` or `http2` moves the bytes; this module decides
//! when a connection ends, and how: an idle or used-up connection is asked to close (FIN, or GOAWAY
//! over HTTP/2); one that does not send its head or does not read its reply is cut.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use headlong_telemetry::{LimitedKind, LimitedLog};
use tokio::io::AsyncRead;
use tokio::time::{Duration, Instant, Sleep, sleep_until, timeout};

use super::BoxError;
use super::context::ListenerContext;
use super::counters::{ConnectionCounters, GaugeGuard, add};
use super::head_cache_service::HeadCacheService;
use super::http1;
use super::http2::Http2;
use super::info::{ConnectionInfo, ConnectionVerdict};
use super::protocol_detection::{DetectingStream, Protocol};
use super::remote::Remote;
use super::reply_body::ReplyBytes;
use super::reply_stream::{ReplyBuf, ReplyStream};
use super::shutdown::Shutdown;
use super::timed_stream::TimedStream;
use super::tls::Encryption;

/// Time that a connection has to close after it was asked to.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// The same for a connection that was asked to close so that another client gets its place. Over
/// HTTP/2 a client may keep it open: places would otherwise be free only as often as it likes.
const SHED_GRACE: Duration = Duration::from_millis(250);

/// Interval at which a drain checks whether a reply can still be completed before its deadline.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// Closed in agreement, by the client, or by a protocol error (answered with a 4xx if
    /// possible).
    Closed,
    /// The TLS handshake failed or took too long.
    TlsFailed,
    /// A request's head did not arrive in time.
    HeaderTimeout,
    /// No request arrived within the idle timeout.
    IdleTimeout,
    /// The client did not read its reply.
    SendTimeout,
    /// Not finished when the drain ended.
    DrainAborted,
    /// Control frames far outweighed requests, or requests for which its address has no memory left.
    Flooded,
}

/// Serves one accepted stream until it ends.
pub async fn serve_connection<IO, S, B>(
    stream: IO,
    remote: Remote,
    tls: Option<Encryption>,
    service: S,
    context: ListenerContext,
    shutdown: Shutdown,
) -> ConnectionEnd
where
    IO: AsyncRead + ReplyStream + Unpin + Send + 'static,
    S: HeadCacheService<B> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: ReplyBytes + Send + 'static,
    B::Data: ReplyBuf + Send + Sync,
    B::Error: Into<BoxError>,
{
    let _open = GaugeGuard::new(OpenGauge(Arc::clone(&context.counters)));
    let (limits, counters) = (Arc::clone(&context.limits), Arc::clone(&context.counters));
    let number = context.open.number();
    let info = ConnectionInfo::new(number, remote, limits, counters);
    let info = Arc::new(info);
    let log = Arc::clone(&context.log);
    let _listed = context.open.add(&info);
    let timed = TimedStream::new(stream, Arc::clone(&info));
    let Some(Encryption { acceptor }) = tls else {
        // Boxed, so that a connection only takes the memory of its current phase.
        let end = Box::pin(drive(timed, service, &info, context, shutdown)).await;
        return note_end(end, remote, &log);
    };
    info.begin_handshake();
    let handshake = Box::pin(acceptor.accept(timed));
    let handshake = timeout(info.limits().header_timeout, handshake);
    let shaken = {
        // The handshake's state is freed before the connection continues.
        let mut handshake = pin!(handshake);
        let mut ends = shutdown.clone();
        let draining = pin!(async move { ends.draining().await });
        let poll = |cx: &mut Context<'_>| handshake.as_mut().poll(cx);
        DeadlineMonitor::new(&info)
            .before_requests(draining, poll)
            .await
    };
    let shaken = match shaken {
        Ok(shaken) => shaken,
        Err(end) => return end,
    };
    info.end_handshake();
    match shaken {
        Ok(Ok(stream)) => {
            let end = Box::pin(drive(stream, service, &info, context, shutdown)).await;
            note_end(end, remote, &log)
        }
        failed => {
            let error = failed.map_or_else(|late| late.to_string(), |done| error_text(done.err()));
            tracing::debug!(remote = %remote.address, error, "TLS handshake failed");
            add(&info.counters().tls_failures);
            ConnectionEnd::TlsFailed
        }
    }
}

fn note_end(end: ConnectionEnd, remote: Remote, log: &LimitedLog) -> ConnectionEnd {
    if end == ConnectionEnd::Flooded {
        let address = remote.address.host();
        log.write(LimitedKind::Flood, |left_out| {
            tracing::warn!(
                %address,
                left_out,
                "HTTP/2 connection closed: it floods with control frames, or with requests for \
                which there is no memory"
            );
        });
    }
    end
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

async fn drive<IO, S, B>(
    stream: IO,
    service: S,
    info: &Arc<ConnectionInfo>,
    context: ListenerContext,
    mut shutdown: Shutdown,
) -> ConnectionEnd
where
    IO: AsyncRead + ReplyStream + Unpin + Send + 'static,
    S: HeadCacheService<B> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + 'static,
    B: ReplyBytes + Send + 'static,
    B::Data: ReplyBuf + Send + Sync,
    B::Error: Into<BoxError>,
{
    let signal = shutdown.clone();
    let mut retire = shutdown.clone();
    let retiring = pin!(async move { retire.retiring().await });
    let mut draining = pin!(async move { shutdown.draining().await });
    let mut overseer = DeadlineMonitor::new(info);
    let mut stream = DetectingStream::new(stream);
    let sniff = |cx: &mut Context<'_>| {
        let speaks = stream.poll_sniff(cx);
        if speaks.is_pending() && stream.has_begun() {
            info.note_head();
        }
        speaks
    };
    let speaks = overseer.before_requests(draining.as_mut(), sniff).await;
    let watch = ConnectionDriver {
        overseer,
        signal,
        is_signal_new: true,
        draining,
        retiring,
        is_retiring: false,
        info,
    };
    match speaks {
        Ok(Protocol::Http1) => {
            let is_asked = AtomicBool::new(false);
            let mut connection = pin!(http1::serve(stream, &service, info, &is_asked));
            let poll = |cx: &mut Context<'_>, ask: bool| {
                is_asked.fetch_or(ask, Relaxed);
                connection.as_mut().poll(cx)
            };
            watch.over(poll).await
        }
        Ok(Protocol::Http2) => {
            info.note_http2();
            // Boxed, so that HTTP/1.1 connections do not pay for its size.
            let mut connection = Box::new(Http2::new(stream, service, info, context));
            let poll = |cx: &mut Context<'_>, ask: bool| {
                if ask {
                    connection.graceful_shutdown();
                }
                connection.poll(cx)
            };
            watch.over(poll).await
        }
        Err(end) => end,
    }
}

/// Drives a connection and enforces its deadlines.
struct ConnectionDriver<'a, D, R> {
    overseer: DeadlineMonitor<'a>,
    /// Cheap check for news; polling the two futures below costs more.
    signal: Shutdown,
    is_signal_new: bool,
    draining: Pin<&'a mut D>,
    retiring: Pin<&'a mut R>,
    is_retiring: bool,
    info: &'a Arc<ConnectionInfo>,
}

impl<D: Future<Output = ()>, R: Future<Output = ()>> ConnectionDriver<'_, D, R> {
    /// Polls a connection until it ends. `poll` receives `true` when the connection should close
    /// after the requests in progress.
    async fn over(
        mut self,
        mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<Result<(), BoxError>>,
    ) -> ConnectionEnd {
        let mut ask = false;
        poll_fn(|cx| {
            let is_other_task = self.info.oversee(cx.waker());
            if self.signal.take_news() || is_other_task || self.is_signal_new {
                self.is_signal_new = false;
                ask |= self.poll_signal(cx);
            }
            loop {
                if let Poll::Ready(outcome) = poll(cx, std::mem::take(&mut ask)) {
                    if let Err(error) = outcome {
                        let remote = self.info.remote().address;
                        tracing::debug!(%remote, %error, "connection failed");
                    }
                    return Poll::Ready(self.overseer.natural_end());
                }
                match self.overseer.poll_action(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(DeadlineAction::Cut(end)) => return Poll::Ready(end),
                    Poll::Ready(DeadlineAction::AskToClose) => ask = true,
                }
            }
        })
        .await
    }

    /// Checks the shutdown phase; returns whether this connection must begin to drain now. The two
    /// futures wake this task, but each may see a signal slightly after the other. The signal
    /// itself is therefore checked too, because it is only inspected once for each change.
    fn poll_signal(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.is_retiring
            && (self.retiring.as_mut().poll(cx).is_ready() || self.signal.is_retiring())
        {
            self.is_retiring = true;
            self.info.retire();
        }
        let drains = !self.overseer.is_draining
            && (self.draining.as_mut().poll(cx).is_ready() || self.signal.is_draining());
        if drains {
            self.overseer.begin_drain();
        }
        drains
    }
}

enum DeadlineAction {
    /// Let requests in progress finish and accept no more.
    AskToClose,
    /// Drop the connection immediately.
    Cut(ConnectionEnd),
}

/// Decides when a connection ends.
struct DeadlineMonitor<'a> {
    info: &'a ConnectionInfo,
    alarm: Pin<Box<Sleep>>,
    /// Deadline to be closed by, and the outcome that is then counted.
    closing: Option<(Instant, ConnectionEnd)>,
    is_draining: bool,
    is_retired: bool,
}

impl<'a> DeadlineMonitor<'a> {
    fn new(info: &'a ConnectionInfo) -> Self {
        Self {
            info,
            alarm: Box::pin(sleep_until(Instant::now())),
            closing: None,
            is_draining: false,
            is_retired: false,
        }
    }

    /// Polls the phase before the first request, unless the connection has to end earlier.
    async fn before_requests<T>(
        &mut self,
        mut draining: Pin<&mut impl Future<Output = ()>>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, ConnectionEnd> {
        poll_fn(|cx| {
            self.info.oversee(cx.waker());
            if draining.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(ConnectionEnd::Closed));
            }
            if let Poll::Ready(done) = poll(cx) {
                return Poll::Ready(Ok(done));
            }
            self.poll_action(cx).map(|action| match action {
                DeadlineAction::Cut(end) => Err(end),
                // No request has begun, so there is nothing to finish.
                DeadlineAction::AskToClose => Err(self.natural_end()),
            })
        })
        .await
    }

    fn begin_drain(&mut self) {
        self.is_draining = true;
        let grace = if self.info.active_count() == 0 {
            CLOSE_GRACE.min(self.info.limits().drain_timeout)
        } else {
            self.info.limits().drain_timeout
        };
        self.closing = Some((Instant::now() + grace, ConnectionEnd::DrainAborted));
    }

    fn natural_end(&self) -> ConnectionEnd {
        match self.closing {
            Some((_, ConnectionEnd::IdleTimeout)) => ConnectionEnd::IdleTimeout,
            _ if self.info.is_send_timed_out() => ConnectionEnd::SendTimeout,
            _ if self.info.is_flooded() => ConnectionEnd::Flooded,
            _ => ConnectionEnd::Closed,
        }
    }

    /// Returns the action that is due now; otherwise registers a wake-up for the next deadline.
    fn poll_action(&mut self, cx: &mut Context<'_>) -> Poll<DeadlineAction> {
        if self.info.is_used_up() && !self.is_retired {
            self.is_retired = true;
            // HTTP/1.1 announces the close in the reply's head; HTTP/2 needs a GOAWAY frame.
            if self.info.is_http2() {
                return Poll::Ready(DeadlineAction::AskToClose);
            }
        }
        if self.info.is_flooded()
            && self
                .closing
                .is_none_or(|(_, end)| end != ConnectionEnd::Flooded)
        {
            // The client is informed by GOAWAY and gets a short grace time, whether or not it
            // reacts.
            self.closing = Some((Instant::now() + CLOSE_GRACE, ConnectionEnd::Flooded));
        }
        if self.info.active_count() > 0 {
            // The client sent a request just before it was asked to close as idle. The connection
            // ends after this request, without a deadline.
            self.closing
                .take_if(|(_, end)| *end == ConnectionEnd::IdleTimeout);
        }
        loop {
            let now = Instant::now();
            // The sooner its reader is cut off, the sooner it can retry at another server.
            let is_hopeless = |at: Instant| {
                self.is_draining
                    && self
                        .info
                        .is_too_long_for(now, at.saturating_duration_since(now))
            };
            let wake = match (self.closing, self.info.verdict(now)) {
                (Some((at, end)), _) if at <= now || is_hopeless(at) => {
                    return Poll::Ready(self.cut(end));
                }
                (_, ConnectionVerdict::SendTimeout) => {
                    return Poll::Ready(self.cut(ConnectionEnd::SendTimeout));
                }
                (_, ConnectionVerdict::HeaderTimeout) => {
                    return Poll::Ready(self.cut(ConnectionEnd::HeaderTimeout));
                }
                (None, ConnectionVerdict::IdleTimeout) => {
                    let grace = match self.info.is_shed() {
                        true => SHED_GRACE,
                        false => CLOSE_GRACE,
                    };
                    self.closing = Some((now + grace, ConnectionEnd::IdleTimeout));
                    add(&self.info.counters().idle_timeouts);
                    return Poll::Ready(DeadlineAction::AskToClose);
                }
                (Some((at, _)), ConnectionVerdict::IdleTimeout) => at,
                (Some((at, _)), ConnectionVerdict::Wait(until)) => at.min(until),
                (None, ConnectionVerdict::Wait(until)) => until,
            };
            let wake = match self.is_draining {
                true => wake.min(now + DRAIN_CHECK_INTERVAL),
                false => wake,
            };
            if self.alarm.is_elapsed() || self.alarm.deadline() > wake {
                self.alarm.as_mut().reset(wake);
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn cut(&self, end: ConnectionEnd) -> DeadlineAction {
        let counters = self.info.counters();
        match end {
            ConnectionEnd::HeaderTimeout => add(&counters.header_timeouts),
            ConnectionEnd::SendTimeout => self.info.note_send_timeout(),
            ConnectionEnd::DrainAborted => {
                self.info.note_drain_aborted();
                add(&counters.drain_aborts);
            }
            ConnectionEnd::Closed
            | ConnectionEnd::TlsFailed
            | ConnectionEnd::IdleTimeout
            | ConnectionEnd::Flooded => {}
        }
        DeadlineAction::Cut(end)
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
