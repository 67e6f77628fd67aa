use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};
use tokio_rustls::TlsConnector;

use super::*;
use crate::certificate::tests::Files;
use crate::{ConnectionCounters, ConnectionEnd, ConnectionLimits, serve_connection};
use crate::{ListenerContext, TcpOptions};
use crate::{NoBody, WithoutHeadCache};
use crate::{Shutdown, ShutdownTrigger, shutdown};

fn client(trusted: &CertificateDer<'static>) -> TlsConnector {
    client_of(trusted, b"h2")
}

fn client_of(trusted: &CertificateDer<'static>, protocol: &[u8]) -> TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.clone()).expect("a root");
    let provider = Arc::new(ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// The certificates of these files.
fn load(files: &[&Files]) -> ReloadingCertificates {
    let files = files.iter().map(|files| files.files()).collect();
    ReloadingCertificates::load(files).expect("good pairs")
}

/// Connects by a name, trusting one certificate; returns the negotiated protocol.
async fn connect(
    acceptor: &TlsAcceptor,
    name: &str,
    trusted: &CertificateDer<'static>,
) -> Result<Option<Vec<u8>>, io::Error> {
    let (near, far) = duplex(16_384);
    let accepted = acceptor.accept(far);
    let server = tokio::spawn(async move {
        if let Ok(mut stream) = accepted.await {
            let _ = stream.read(&mut [0; 1]).await;
        }
    });
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let stream = client(trusted).connect(name, near).await?;
    let alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    drop(stream);
    server.await.expect("the server ends");
    Ok(alpn)
}

#[tokio::test]
async fn reload_renews_each_certificate_or_keeps_its_old_pair() {
    let (one, other) = (Files::new(), Files::new());
    let first = one.write_pair();
    let unchanged = other.write_pair_for("other.example");
    let certificates = Arc::new(load(&[&one, &other]));
    let acceptor = tls_acceptor(Arc::clone(&certificates)).expect("an acceptor");
    let alpn = connect(&acceptor, "localhost", &first).await;
    assert_eq!(alpn.expect("trusted").as_deref(), Some(&b"h2"[..]));

    let second = one.write_pair();
    let reload = certificates.reload();
    let renewed: Vec<_> = reload.renewed.iter().map(|one| &one.file).collect();
    assert_eq!(renewed, [&one.certificate()]);
    assert!(reload.failed.is_empty());
    let new = connect(&acceptor, "localhost", &second).await;
    new.expect("the new one");
    let old = connect(&acceptor, "localhost", &first).await;
    old.expect_err("the old one is replaced");

    std::fs::write(one.key(), "rubbish").expect("written");
    let renewed = other.write_pair_for("other.example");
    let reload = certificates.reload();
    assert_eq!((reload.renewed.len(), reload.failed.len()), (1, 1));
    let kept = connect(&acceptor, "localhost", &second).await;
    kept.expect("still the second");
    let new = connect(&acceptor, "other.example", &renewed).await;
    new.expect("renewed beside the one that failed");
    let old = connect(&acceptor, "other.example", &unchanged).await;
    old.expect_err("replaced");
}

#[tokio::test]
async fn certificate_is_chosen_by_name_and_else_the_first() {
    let all = [Files::new(), Files::new(), Files::new()];
    let names = ["first.example", "second.example", "*.third.example"];
    let trusted = [0, 1, 2].map(|n: usize| all[n].write_pair_for(names[n]));
    let certificates = Arc::new(load(&[&all[0], &all[1], &all[2]]));
    let acceptor = tls_acceptor(certificates).expect("an acceptor");
    for (name, index) in [
        ("first.example", 0),
        ("SECOND.example", 1),
        ("a.third.example", 2),
    ] {
        let chosen = connect(&acceptor, name, &trusted[index]).await;
        chosen.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for name in ["unknown.example", "third.example", "127.0.0.1"] {
        // The client refuses the first one for its name, not for its issuer.
        let error = connect(&acceptor, name, &trusted[0]).await;
        let error = error.expect_err(name).to_string();
        assert!(error.contains("not valid for name"), "{name}: {error}");
    }
}

#[tokio::test]
async fn returning_client_resumes_session() {
    let files = Files::new();
    let trusted = files.write_pair();
    let certificates = Arc::new(load(&[&files]));
    let acceptor = tls_acceptor(certificates).expect("an acceptor");
    let client = client(&trusted);
    let mut handshakes = Vec::new();
    for _ in 0..2 {
        let (near, far) = duplex(16_384);
        let accepted = acceptor.accept(far);
        let server = tokio::spawn(async move {
            let mut stream = accepted.await.expect("agreed");
            stream.write_all(b"hello").await.expect("open");
            stream.shutdown().await.expect("open");
        });
        let name = ServerName::try_from("localhost").expect("a name");
        let mut stream = client.connect(name, near).await.expect("agreed");
        handshakes.push(stream.get_ref().1.handshake_kind());
        // The ticket precedes the first bytes.
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.expect("an end");
        assert_eq!(heard, b"hello");
        server.await.expect("no panic");
    }
    use rustls::HandshakeKind::{Full, Resumed};
    assert_eq!(handshakes, [Some(Full), Some(Resumed)]);
}

/// A server whose replies contain the HTTP version of the request.
struct TlsServer {
    encryption: Encryption,
    counters: Arc<ConnectionCounters>,
    signal: Shutdown,
}

impl TlsServer {
    fn serve(&self, far: DuplexStream) -> JoinHandle<ConnectionEnd> {
        let service = service_fn(|request: Request<NoBody>| async move {
            let version = format!("{:?}", request.version());
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(version)))
        });
        let remote = SocketAddr::from(([127, 0, 0, 1], 1));
        let (limits, tcp) = (ConnectionLimits::default(), TcpOptions::default());
        let context = ListenerContext::new(limits, tcp, Arc::clone(&self.counters));
        tokio::spawn(serve_connection(
            far,
            remote.into(),
            Some(self.encryption.clone()),
            WithoutHeadCache(service),
            context,
            self.signal.clone(),
        ))
    }
}

/// The server, its certificate, and its shutdown trigger.
fn server() -> (TlsServer, CertificateDer<'static>, ShutdownTrigger) {
    let files = Files::new();
    let trusted = files.write_pair();
    let certificates = Arc::new(load(&[&files]));
    let (trigger, signal) = shutdown();
    let server = TlsServer {
        encryption: Encryption::new(certificates).expect("an acceptor"),
        counters: Arc::default(),
        signal,
    };
    (server, trusted, trigger)
}

#[tokio::test(start_paused = true)]
async fn tls_serves_http2_and_times_out_silent_handshake() {
    let (server, trusted, _trigger) = server();
    let (near, far) = duplex(16_384);
    let served = server.serve(far);
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = client(&trusted).connect(name, near).await.expect("trusted");
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::get("https://localhost/")
        .body(Full::default())
        .expect("a request");
    let reply = sender.send_request(request).await.expect("a reply");
    let body = reply
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert_eq!(body, "HTTP/2.0");
    drop(sender);
    assert_eq!(served.await.expect("ends"), ConnectionEnd::Closed);

    let (_silent, far) = duplex(16_384);
    assert_eq!(
        server.serve(far).await.expect("ends"),
        ConnectionEnd::TlsFailed
    );
    assert_eq!(server.counters.counts().tls_failures, 1);
}

#[tokio::test(start_paused = true)]
async fn no_request_after_handshake_ends_by_idle_timeout() {
    let (server, trusted, _trigger) = server();
    let (near, far) = duplex(16_384);
    let served = server.serve(far);
    let name = ServerName::try_from("localhost").expect("a name");
    let client = client_of(&trusted, b"http/1.1");
    let mut stream = client.connect(name, near).await.expect("trusted");
    sleep(Duration::from_secs(30)).await;
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.expect("open");
    let mut heard = Vec::new();
    while !heard.ends_with(b"\r\n\r\nHTTP/1.1") {
        let count = stream.read_buf(&mut heard).await.expect("open");
        assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
    }
    // A partial head is timed from its first byte on.
    stream.write_all(&request[..5]).await.expect("open");
    assert_eq!(served.await.expect("ends"), ConnectionEnd::HeaderTimeout);

    let (near, far) = duplex(16_384);
    let served = server.serve(far);
    let name = ServerName::try_from("localhost").expect("a name");
    let _stream = client.connect(name, near).await.expect("trusted");
    assert_eq!(served.await.expect("ends"), ConnectionEnd::IdleTimeout);
}
