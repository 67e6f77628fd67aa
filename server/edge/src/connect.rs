//! Connections to an origin. Every resolved address is checked on each connection, so that no DNS
//! change can later direct a name into the edge's own network.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use headlong_pull::TargetRules;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::pull_rule::target_of;

/// Connects to an origin and to the targets of its redirects.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) rules: Arc<TargetRules>,
    pub(super) tls: TlsConnector,
    pub(super) timeout: Duration,
}

trait OriginStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> OriginStream for T {}

/// Reads of a connection before other tasks get a turn. The HTTP client parses everything that it
/// can read in one poll, so that an origin with informational responses without end would stop the
/// event loop of viewers.
const READS_PER_TURN: u32 = 4;

/// A connection, with or without TLS.
pub(super) struct OriginConnection {
    stream: Box<dyn OriginStream>,
    /// Reads since the last turn of other tasks.
    reads: u32,
}

impl OriginConnection {
    fn new(stream: impl OriginStream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            reads: 0,
        }
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<OriginConnection>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let connected = tokio::time::timeout(this.timeout, this.connect(&uri)).await;
            let socket = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
            Ok(TokioIo::new(socket))
        })
    }
}

impl Connector {
    async fn connect(&self, uri: &Uri) -> io::Result<OriginConnection> {
        let target = target_of(uri).ok_or(io::ErrorKind::InvalidInput)?;
        let (host, port) = (target.host.as_str(), target.port);
        let found = tokio::net::lookup_host((host, port)).await?;
        let allowed: Vec<_> = found
            .filter(|address| self.rules.may_connect(host, port, address.ip()))
            .collect();
        if allowed.is_empty() {
            let text = "the host has only private addresses, and private_addresses is not set";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        let stream = TcpStream::connect(&allowed[..]).await?;
        stream.set_nodelay(true)?;
        if !target.is_tls {
            return Ok(OriginConnection::new(stream));
        }
        let name = ServerName::try_from(target.host).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, stream).await?;
        Ok(OriginConnection::new(stream))
    }
}

/// Verifies certificates against the authorities trusted by this system.
pub(super) fn tls() -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        tracing::warn!(
            "no certificate authorities on this system: https origins cannot be verified; install ca-certificates"
        );
    }
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap_or_else(|_| unreachable!("the provider knows the usual versions"))
    .with_root_certificates(roots)
    .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

impl Connection for OriginConnection {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for OriginConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.reads == READS_PER_TURN {
            self.reads = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.reads = match outcome {
            Poll::Ready(_) => self.reads + 1,
            Poll::Pending => 0,
        };
        outcome
    }
}

impl AsyncWrite for OriginConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use headlong_pull::Target;
    use tower_service::Service as _;

    use super::*;

    fn connector(origin: (&str, u16), may_be_private: bool) -> Connector {
        let rules = TargetRules {
            origin: Target {
                host: origin.0.to_owned(),
                port: origin.1,
                is_tls: false,
            },
            hosts: vec!["localhost".to_owned()],
            may_be_private,
        };
        Connector {
            rules: Arc::new(rules),
            tls: tls(),
            timeout: Duration::from_secs(20),
        }
    }

    #[tokio::test]
    async fn other_tasks_get_a_turn_while_origin_sends_without_end() {
        use tokio::io::AsyncReadExt as _;
        use tokio::sync::oneshot;
        let mut socket =
            OriginConnection::new(tokio::io::join(tokio::io::repeat(b'1'), tokio::io::sink()));
        let (sender, mut receiver) = oneshot::channel();
        let other = tokio::spawn(async move { sender.send(()) });
        let mut reads = 0;
        while receiver.try_recv().is_err() {
            socket.read_exact(&mut [0; 8]).await.expect("read");
            reads += 1;
            // The read that waited for the turn comes after it.
            assert!(reads <= READS_PER_TURN + 1, "{reads} reads without a turn");
        }
        let _ = other.await;
    }

    #[tokio::test]
    async fn private_addresses_are_refused_except_for_origin() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let uri: Uri = format!("http://localhost:{port}/a").parse().expect("a URI");

        let mut other = connector(("origin.example", 80), false);
        let error = other.call(uri.clone()).await.err().expect("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let none = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(none.is_err(), "no connection is attempted");

        for mut allowed in [
            connector(("origin.example", 80), true),
            connector(("localhost", port), false),
        ] {
            allowed.call(uri.clone()).await.map(drop).expect("called");
            listener.accept().await.map(drop).expect("called");
        }
        // The origin exemption covers only the configured port.
        let mut next_door = connector(("localhost", port.wrapping_add(1)), false);
        let error = next_door.call(uri).await.err().expect("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
