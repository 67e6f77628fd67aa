use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};
use tokio_rustls::TlsConnector;

use super::*;
use crate::{ConnectionCounters, ConnectionEnd, ConnectionLimits, serve_connection};
use crate::{ListenerContext, TcpOptions};
use crate::{NoBody, WithoutHeadCache};
use crate::{Shutdown, ShutdownTrigger, shutdown};

struct Files {
    dir: TempDir,
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir }
    }

    fn certificate(&self) -> PathBuf {
        self.dir.path().join("chain.pem")
    }

    fn key(&self) -> PathBuf {
        self.dir.path().join("key.pem")
    }

    /// Writes a new pair and returns the certificate.
    fn write_pair(&self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a pair");
        std::fs::write(self.certificate(), made.cert.pem()).expect("written");
        std::fs::write(self.key(), made.signing_key.serialize_pem()).expect("written");
        made.cert.der().clone()
    }

    fn load(&self) -> Result<ReloadingCertificates, TlsError> {
        ReloadingCertificates::load(self.certificate(), self.key())
    }
}

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

async fn presented_to_a_client(
    acceptor: &TlsAcceptor,
    trusted: &CertificateDer<'static>,
) -> Result<Option<Vec<u8>>, io::Error> {
    let (near, far) = duplex(16_384);
    let accepted = acceptor.accept(far);
    let server = tokio::spawn(async move {
        if let Ok(mut stream) = accepted.await {
            let _ = stream.read(&mut [0; 1]).await;
        }
    });
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = client(trusted).connect(name, near).await?;
    let alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    drop(stream);
    server.await.expect("the server ends");
    Ok(alpn)
}

#[tokio::test]
async fn reload_replaces_certificate_and_failed_reload_keeps_it() {
    let files = Files::new();
    let first = files.write_pair();
    let certificates = Arc::new(files.load().expect("a good pair"));
    let acceptor = tls_acceptor(Arc::clone(&certificates)).expect("an acceptor");
    let alpn = presented_to_a_client(&acceptor, &first).await;
    assert_eq!(alpn.expect("trusted").as_deref(), Some(&b"h2"[..]));

    let second = files.write_pair();
    certificates.reload().expect("a good pair");
    presented_to_a_client(&acceptor, &second)
        .await
        .expect("the new one");
    presented_to_a_client(&acceptor, &first)
        .await
        .expect_err("the old one is replaced");

    std::fs::write(files.key(), "rubbish").expect("written");
    certificates.reload().expect_err("no key");
    presented_to_a_client(&acceptor, &second)
        .await
        .expect("still the second");
}

#[tokio::test]
async fn returning_client_resumes_session() {
    let files = Files::new();
    let trusted = files.write_pair();
    let certificates = Arc::new(files.load().expect("a good pair"));
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

#[test]
fn errors_name_file_and_remedy() {
    let files = Files::new();
    let error = files.load().expect_err("no files").to_string();
    assert!(
        error.contains("chain.pem") && error.contains("exists"),
        "{error}"
    );

    files.write_pair();
    std::fs::write(files.certificate(), "").expect("written");
    let error = files.load().expect_err("empty").to_string();
    assert!(
        error.contains("chain.pem") && error.contains("PEM"),
        "{error}"
    );

    // openssl ecparam -name prime256v1 -genkey -noout -out key; openssl req -new -key key
    // -subj /CN=localhost -out csr; openssl x509 -req -in csr -signkey key -days 36500
    let old = include_str!("../tests/version_1.pem");
    std::fs::write(files.certificate(), old).expect("written");
    let error = files.load().expect_err("of version 1");
    assert!(!error.is_about_key(&files.key()));
    let error = error.to_string();
    assert!(
        error.contains("chain.pem has X.509 version 1") && error.contains("reissued"),
        "{error}"
    );

    files.write_pair();
    std::fs::remove_file(files.key()).expect("removed");
    let error = files.load().expect_err("no key").to_string();
    assert!(
        error.contains("key.pem") && error.contains("exists"),
        "{error}"
    );

    files.write_pair();
    std::fs::copy(files.certificate(), files.key()).expect("copied");
    let error = files.load().expect_err("not a key").to_string();
    assert!(
        error.contains("no private key") && error.contains("key.pem"),
        "{error}"
    );
}

#[test]
fn key_of_another_certificate_is_refused() {
    let files = Files::new();
    files.write_pair();
    let other = Files::new();
    other.write_pair();
    std::fs::copy(other.key(), files.key()).expect("copied");
    let error = files.load().expect_err("no pair").to_string();
    assert!(
        error.contains("do not match") && error.contains("chain.pem"),
        "{error}"
    );
}

#[test]
fn expired_certificate_is_only_a_warning() {
    let files = Files::new();
    let certificate = files.write_pair();
    assert_eq!(expiry_warning(&certificate, unix_seconds()), None);
    let far_future = 400_000_000_000;
    let warning = expiry_warning(&certificate, far_future).expect("expired");
    assert!(warning.contains("expired"), "{warning}");
    let long_ago = expiry_warning(&certificate, 0).expect("not yet valid");
    assert!(long_ago.contains("clock"), "{long_ago}");
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
    let certificates = Arc::new(files.load().expect("a good pair"));
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
