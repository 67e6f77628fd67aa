//! Accept loop of a listener: enforces the connection limit, closes idle connections when it is
//! reached, and survives accept errors.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use headlong_http::Peer;
use headlong_telemetry::LimitedKind;
use tokio::io::AsyncWrite;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::address_limits::AddressShare;
use super::connection::serve_connection;
use super::context::ListenerContext;
use super::counters::add;
use super::head_cache_service::HeadCacheService;
use super::remote::read_proxy_header;
use super::reply_body::ReplyBytes;
use super::reply_stream::ReplyBuf;
use super::shutdown::Shutdown;
use super::socket::{Listener, Socket};
use super::tls::Encryption;

const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// While all slots are in use, idle connections are shed this often.
const SHED_INTERVAL: Duration = Duration::from_millis(250);

/// An accepted connection.
struct Accepted {
    stream: Socket,
    /// Its share of the connections of its address; without one if it is exempt, or behind a PROXY
    /// header, which names the address.
    held: Option<AddressShare>,
}

/// Accepts and serves connections until `shutdown`, then returns once all of them have ended. A
/// drain takes at most [`ConnectionLimits::drain_timeout`].
pub async fn serve_listener<S, B>(
    listener: Listener,
    tls: Option<Encryption>,
    service: S,
    context: ListenerContext,
    mut shutdown: Shutdown,
) where
    S: HeadCacheService<B> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    B: ReplyBytes + Send + 'static,
    B::Data: ReplyBuf + Send + Sync,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    // An accepted connection that waits for a slot.
    let mut waiting = None;
    let signal = shutdown.clone();
    let begin = |(accepted, slot): (Accepted, OwnedSemaphorePermit), into: &mut JoinSet<()>| {
        let Accepted { stream, held } = accepted;
        let Ok(remote) = stream.peer() else {
            return;
        };
        stream.apply(&context.tcp);
        let (tls, service) = (tls.clone(), service.clone());
        let shutdown = signal.clone();
        // A task on a connection thread must not hold the threads alive.
        let own = ListenerContext {
            threads: None,
            ..context.clone()
        };
        let seat = context.threads.as_ref().and_then(|threads| threads.seat());
        let thread = seat.as_ref().map(|seat| seat.handle().clone());
        let serving = async move {
            let _held = (held, slot, seat);
            // A socket is registered with the event loop of one thread.
            match stream.moved_here() {
                Ok(stream) => {
                    let with = (tls, service);
                    serve_accepted(stream, remote, with, own, shutdown).await;
                }
                Err(error) => tracing::warn!(%remote, %error, "cannot register a connection"),
            }
        };
        match thread {
            Some(thread) => into.spawn_on(serving, &thread),
            None => into.spawn(serving),
        };
    };
    let mut retiring = shutdown.clone();
    let mut retiring = std::pin::pin!(retiring.retiring());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut retiring => break,
            Some(finished) = connections.join_next(), if !connections.is_empty() => {
                report_panic(finished);
                continue;
            }
            accepted = accept(&listener, &context, &mut waiting) => accepted,
        };
        begin(accepted, &mut connections);
    }
    drop(listener);
    if waiting.is_some() {
        // The new process does not have this connection, so this process still serves it.
        tokio::select! {
            biased;
            () = shutdown.draining() => {}
            accepted = slot_for(&context, &mut waiting) => begin(accepted, &mut connections),
        }
    }
    while let Some(finished) = connections.join_next().await {
        report_panic(finished);
    }
}

/// Serves one connection that has a slot.
async fn serve_accepted<S, B>(
    stream: Socket,
    remote: Peer,
    (tls, service): (Option<Encryption>, S),
    context: ListenerContext,
    shutdown: Shutdown,
) where
    S: HeadCacheService<B> + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    B: ReplyBytes + Send + 'static,
    B::Data: ReplyBuf + Send + Sync,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Some(trusted) = context.proxies.clone() else {
        serve_connection(stream, remote.into(), tls, service, context, shutdown).await;
        return;
    };
    // Boxed, so that connections without a PROXY header do not pay for this future's size.
    let proxied = async move {
        let within = context.limits.header_timeout;
        let mut stop = shutdown.clone();
        let header = tokio::select! {
            header = read_proxy_header(stream, remote, &trusted, within) => header,
            () = stop.draining() => return,
        };
        match header {
            Ok((stream, remote)) => {
                if let Some(_held) = context.hold(remote) {
                    serve_connection(stream, remote, tls, service, context, shutdown).await;
                }
            }
            Err(error) => {
                add(&context.counters.proxy_refusals);
                context.log.write(LimitedKind::Proxy, |left_out| {
                    tracing::warn!(%remote, %error, left_out, "proxy connection refused");
                });
            }
        }
    };
    Box::pin(proxied).await;
}

fn report_panic<T>(finished: Result<T, tokio::task::JoinError>) {
    if let Err(error) = finished
        && error.is_panic()
    {
        tracing::error!(%error, "connection task panicked; other connections continue");
    }
}

/// Accepts the next connection whose address has a share left, and acquires a slot for it: refused
/// ones take no slot, and are counted before the next one is accepted. If no slot is free, idle
/// connections are closed. Cancel-safe: an accepted connection without a slot stays in `waiting`.
async fn accept(
    listener: &Listener,
    context: &ListenerContext,
    waiting: &mut Option<Accepted>,
) -> (Accepted, OwnedSemaphorePermit) {
    while waiting.is_none() {
        let stream = accept_one(listener, context).await;
        let held = match (&context.proxies, stream.peer()) {
            (None, Ok(remote)) => context.hold(remote.into()),
            _ => Some(None),
        };
        let Some(held) = held else {
            continue;
        };
        let is_full = context.slots.available_permits() == 0;
        *waiting = Some(Accepted { stream, held });
        if !is_full {
            break;
        }
        add(&context.counters.limit_waits);
        context.log.write(LimitedKind::ConnectionsMax, |left_out| {
            let max = context.limits.connections_max;
            tracing::warn!(
                max,
                left_out,
                "connection limit reached: idle connections are closed, new ones wait; raise \
                connections_max"
            );
        });
    }
    slot_for(context, waiting).await
}

async fn slot_for(
    context: &ListenerContext,
    waiting: &mut Option<Accepted>,
) -> (Accepted, OwnedSemaphorePermit) {
    loop {
        let mut until = Instant::now() + SHED_INTERVAL;
        if context.slots.available_permits() == 0
            && let Some(next_scan) = context.shed_idle()
        {
            until = until.min(next_scan);
        }
        let slots = Arc::clone(&context.slots);
        // The semaphore is never closed.
        match timeout_at(until, slots.acquire_owned()).await {
            Ok(Ok(slot)) => {
                if let Some(accepted) = waiting.take() {
                    return (accepted, slot);
                }
            }
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => {}
        }
    }
}

/// The next connection of a listener whose clients only read a line. Errors of the listener are
/// logged once a minute, and accepting pauses.
pub async fn accept_reader(
    listener: &Listener,
    context: &ListenerContext,
) -> impl AsyncWrite + Send + Unpin + use<> {
    accept_one(listener, context).await
}

async fn accept_one(listener: &Listener, context: &ListenerContext) -> Socket {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                add(&context.counters.accepted);
                return stream;
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                add(&context.counters.accept_errors);
                context.log.write(LimitedKind::Accept, |left_out| {
                    tracing::warn!(
                        %error,
                        left_out,
                        "cannot accept connections; if file descriptors ran out, raise \
                        LimitNOFILE (ulimit -n)"
                    );
                });
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Errors of a single connection that its client caused by closing it before accept. All others
/// (EMFILE, ENFILE, ENOBUFS, ENOMEM) persist, so the loop pauses before it retries.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

#[cfg(test)]
#[path = "accept_tests.rs"]
mod tests;
