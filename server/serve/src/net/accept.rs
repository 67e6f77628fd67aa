//! Taking connections from a listener, never more than may be open, and never giving up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsAcceptor;

use super::connection::serve_connection;
use super::counters::{ConnectionCounters, add};
use super::limits::Limits;
use super::listen::TcpOptions;
use super::shutdown::Shutdown;

const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
const WARN_INTERVAL: Duration = Duration::from_secs(60);

/// What listeners of one server share.
#[derive(Debug, Clone)]
pub struct ListenerContext {
    /// Bounds for each connection.
    pub limits: Arc<Limits>,
    /// One permit for each connection that may be open.
    pub slots: Arc<Semaphore>,
    /// Counts what happens.
    pub counters: Arc<ConnectionCounters>,
    /// Set on each socket.
    pub tcp: Arc<TcpOptions>,
}

impl ListenerContext {
    /// With as many slots as `limits` allow connections.
    pub fn new(limits: Limits, tcp: TcpOptions, counters: Arc<ConnectionCounters>) -> Self {
        let slots = limits.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            limits: Arc::new(limits),
            slots: Arc::new(Semaphore::new(slots)),
            counters,
            tcp: Arc::new(tcp),
        }
    }
}

/// Accepts and serves connections until `shutdown`, then returns when all of them have ended,
/// which takes at most [`Limits::drain_timeout`].
pub async fn serve_listener<S, B>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    service: S,
    context: ListenerContext,
    mut shutdown: Shutdown,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    let mut trouble = AcceptTrouble::default();
    let signal = shutdown.clone();
    let mut draining = std::pin::pin!(shutdown.draining());
    loop {
        let (stream, slot) = tokio::select! {
            biased;
            () = &mut draining => break,
            Some(finished) = connections.join_next(), if !connections.is_empty() => {
                report_panic(finished);
                continue;
            }
            accepted = accept(&listener, &context, &mut trouble) => accepted,
        };
        let Ok(remote) = stream.peer_addr() else {
            continue;
        };
        context.tcp.apply(&stream);
        let (tls, service) = (tls.clone(), service.clone());
        let limits = Arc::clone(&context.limits);
        let counters = Arc::clone(&context.counters);
        let shutdown = signal.clone();
        connections.spawn(async move {
            let _slot = slot;
            serve_connection(stream, remote, tls, service, limits, counters, shutdown).await
        });
    }
    drop(listener);
    while let Some(finished) = connections.join_next().await {
        report_panic(finished);
    }
}

fn report_panic<T>(finished: Result<T, tokio::task::JoinError>) {
    if let Err(error) = finished
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task panicked; the others go on");
    }
}

async fn accept(
    listener: &TcpListener,
    context: &ListenerContext,
    trouble: &mut AcceptTrouble,
) -> (TcpStream, OwnedSemaphorePermit) {
    if context.slots.available_permits() == 0 {
        add(&context.counters.limit_waits);
        trouble.warn(|| {
            let max = context.limits.connections_max;
            tracing::warn!(
                max,
                "all connections are in use, new ones wait; raise connections_max"
            );
        });
    }
    loop {
        let slots = Arc::clone(&context.slots);
        // The semaphore is never closed; if it were, there would be nothing left to accept for.
        let Ok(slot) = slots.acquire_owned().await else {
            std::future::pending::<()>().await;
            continue;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                add(&context.counters.accepted);
                return (stream, slot);
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                add(&context.counters.accept_errors);
                trouble.warn(|| {
                    tracing::warn!(
                        %error,
                        "cannot accept connections; if files ran out, raise LimitNOFILE (ulimit -n)"
                    );
                });
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Errors that a client caused by going away before it was accepted. All others (EMFILE, ENFILE,
/// ENOBUFS, ENOMEM) would come again at once, so they are waited out.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// Lets one warning a minute through.
#[derive(Debug, Default)]
struct AcceptTrouble(Option<Instant>);

impl AcceptTrouble {
    fn warn(&mut self, say: impl FnOnce()) {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= WARN_INTERVAL);
        if is_due {
            self.0 = Some(Instant::now());
            say();
        }
    }
}

#[cfg(test)]
#[path = "accept_tests.rs"]
mod tests;
