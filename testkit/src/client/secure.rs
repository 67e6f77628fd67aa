//! TLS with HTTP/1.1 or HTTP/2, on the libraries that the server uses (hyper, rustls), whose
//! correctness is not under test.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ClientError;
use super::head::{Head, Response};

/// Protocol to negotiate by ALPN; the connection fails if the server does not support it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// `http/1.1`
    Http1,
    /// `h2`
    Http2,
}

/// A client that trusts one certificate, for the host name `localhost`.
pub struct SecureClient {
    connector: TlsConnector,
    version: Version,
}

/// The settings of a client that trusts only `certificate` (DER).
pub(super) fn config(
    certificate: &[u8],
    version: Version,
) -> Result<rustls::ClientConfig, ClientError> {
    let mut roots = rustls::RootCertStore::empty();
    let unusable = |error: rustls::Error| ClientError::Unexpected(error.to_string());
    roots
        .add(CertificateDer::from(certificate.to_vec()))
        .map_err(unusable)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![match version {
        Version::Http1 => b"http/1.1".to_vec(),
        Version::Http2 => b"h2".to_vec(),
    }];
    // A resumed session would not present a new certificate.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

impl SecureClient {
    /// A client that trusts only `certificate` (DER).
    pub fn new(certificate: &[u8], version: Version) -> Result<Self, ClientError> {
        let config = config(certificate, version)?;
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            version,
        })
    }

    /// Performs only the handshake. Returns the server's certificate (DER).
    pub async fn certificate(&self, address: SocketAddr) -> Result<Vec<u8>, ClientError> {
        let stream = self.connect(address).await?;
        let shown = stream
            .get_ref()
            .1
            .peer_certificates()
            .and_then(|chain| chain.first());
        shown
            .map(|certificate| certificate.to_vec())
            .ok_or_else(|| ClientError::Unexpected("no server certificate".to_owned()))
    }

    /// Sends all requests (target and header fields) on one connection, with HTTP/2 concurrently,
    /// and returns their replies in order.
    pub async fn fetch_all(
        &self,
        address: SocketAddr,
        method: &str,
        requests: &[(String, Vec<(String, String)>)],
    ) -> Result<Vec<Response>, ClientError> {
        let io = TokioIo::new(self.connect(address).await?);
        match self.version {
            Version::Http1 => {
                let (mut sender, driver) = hyper::client::conn::http1::handshake(io)
                    .await
                    .map_err(failed)?;
                let driver = tokio::spawn(driver);
                let mut responses = Vec::new();
                for request in requests {
                    let request = build(self.version, method, address, request)?;
                    sender.ready().await.map_err(failed)?;
                    let response = sender.send_request(request).await.map_err(failed)?;
                    responses.push(collect(response).await?);
                }
                driver.abort();
                Ok(responses)
            }
            Version::Http2 => {
                let (sender, driver) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                        .await
                        .map_err(failed)?;
                let driver = tokio::spawn(driver);
                let mut tasks = Vec::new();
                for request in requests {
                    let request = build(self.version, method, address, request)?;
                    let mut sender = sender.clone();
                    tasks.push(tokio::spawn(async move {
                        sender.ready().await.map_err(failed)?;
                        collect(sender.send_request(request).await.map_err(failed)?).await
                    }));
                }
                let mut responses = Vec::new();
                for task in tasks {
                    let joined = task.await;
                    let result = joined.map_err(|e| ClientError::Unexpected(e.to_string()))?;
                    responses.push(result?);
                }
                driver.abort();
                Ok(responses)
            }
        }
    }

    /// A connection that sends arbitrary bytes.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn open(
        &self,
        address: SocketAddr,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, ClientError> {
        self.connect(address).await
    }

    async fn connect(&self, address: SocketAddr) -> Result<TlsStream<TcpStream>, ClientError> {
        let stream = TcpStream::connect(address)
            .await
            .map_err(ClientError::Connect)?;
        let name = ServerName::try_from("localhost").expect("a valid host name");
        Ok(self.connector.connect(name, stream).await?)
    }
}

/// HTTP/1.1 has the host in a field, HTTP/2 in the target; sending it twice is an error. A field
/// `host` sets it in both.
fn build(
    version: Version,
    method: &str,
    address: SocketAddr,
    (target, fields): &(String, Vec<(String, String)>),
) -> Result<http::Request<Empty<Bytes>>, ClientError> {
    let host = fields.iter().find(|(name, _)| name == "host");
    let authority = match host {
        Some((_, host)) => host.clone(),
        None => format!("localhost:{}", address.port()),
    };
    let mut builder = http::Request::builder().method(method);
    builder = match version {
        Version::Http1 => builder.uri(target).header("host", authority),
        Version::Http2 => builder.uri(format!("https://{authority}{target}")),
    };
    for (name, value) in fields.iter().filter(|(name, _)| name != "host") {
        builder = builder.header(name, value);
    }
    builder
        .body(Empty::new())
        .map_err(|error| ClientError::Unexpected(error.to_string()))
}

async fn collect(response: http::Response<hyper::body::Incoming>) -> Result<Response, ClientError> {
    let (parts, body) = response.into_parts();
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let fields = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect();
    let head = Head {
        status: parts.status.as_u16(),
        fields,
    };
    let body = body.collect().await.map_err(failed)?.to_bytes().to_vec();
    Ok(Response { head, body })
}

fn failed(error: hyper::Error) -> ClientError {
    ClientError::Io(std::io::Error::other(error))
}
