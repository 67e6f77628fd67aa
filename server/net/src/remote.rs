//! The peer of a connection: a client, or a proxy on behalf of one.
//!
//! On some listeners a connection begins with a PROXY protocol header (version 1 or 2), in which a
//! proxy names its client, before TLS and HTTP. The header is required, and accepted only from
//! trusted proxies; otherwise a client could write its own.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use headlong_http::Peer;
use proxy_header::ParseConfig;
use proxy_header::io::ProxiedStream;
use tokio::io::AsyncRead;
use tokio::time::timeout;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The client; or a proxy that names its client in each request, or not at all.
    pub address: Peer,
    /// The proxy that named the client in a PROXY header.
    pub proxy: Option<Peer>,
}

impl From<Peer> for Remote {
    fn from(address: Peer) -> Self {
        Self {
            address,
            proxy: None,
        }
    }
}

impl From<SocketAddr> for Remote {
    fn from(address: SocketAddr) -> Self {
        Peer::At(address).into()
    }
}

/// Addresses of trusted proxies. Peers on a unix socket are always trusted.
#[derive(Clone)]
pub struct TrustedProxies(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl TrustedProxies {
    /// Trusts the addresses for which `is_trusted` holds.
    pub fn new(is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_trusted))
    }

    pub(super) fn trust(&self, peer: Peer) -> bool {
        peer.is_trusted(&*self.0)
    }
}

impl fmt::Debug for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedProxies")
    }
}

/// Why a connection to a PROXY protocol listener is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProxyError {
    /// The peer is not a trusted proxy, so its header could be forged.
    #[error("peer address is not in proxies.trusted")]
    NotTrusted,
    /// Other bytes, or an incomplete header.
    #[error(
        "no PROXY protocol header received ({0}); let the proxy send one, or use a port of `listen`"
    )]
    NoHeader(io::Error),
    /// No header within [`crate::ConnectionLimits::header_timeout`].
    #[error("PROXY protocol header not received in time")]
    Late,
}

/// Reads the header that a connection from `peer` must begin with. The peer is the proxy itself if
/// the header says that the connection is its own (a health check).
pub(super) async fn read_proxy_header<IO: AsyncRead + Unpin>(
    stream: IO,
    peer: Peer,
    trusted: &TrustedProxies,
    within: Duration,
) -> Result<(ProxiedStream<IO>, Remote), ProxyError> {
    if !trusted.trust(peer) {
        return Err(ProxyError::NotTrusted);
    }
    let config = ParseConfig {
        include_tlvs: false,
        ..ParseConfig::default()
    };
    let header = timeout(within, ProxiedStream::create_from_tokio(stream, config));
    let header = header.await.map_err(|_| ProxyError::Late)?;
    let stream = header.map_err(ProxyError::NoHeader)?;
    let client = stream.proxy_header().proxied_address();
    let remote = client.map_or(Remote::from(peer), |client| Remote {
        address: Peer::At(SocketAddr::new(
            client.source.ip().to_canonical(),
            client.source.port(),
        )),
        proxy: Some(peer),
    });
    Ok((stream, remote))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const PEER: Peer = Peer::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 9));
    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    fn trusted() -> TrustedProxies {
        TrustedProxies::new(|ip| ip == IpAddr::from([10, 0, 0, 1]))
    }

    /// Reads a connection of these bytes; returns its peer and the bytes left for HTTP.
    async fn read(bytes: &[u8], peer: Peer) -> Result<(Remote, Vec<u8>), ProxyError> {
        let within = Duration::from_secs(10);
        let (mut stream, remote) = read_proxy_header(bytes, peer, &trusted(), within).await?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("memory");
        Ok((remote, rest))
    }

    /// A version 2 header with a command, an address family and an address block.
    fn version_2(command: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [V2, &[command, kind], &length, rest, b"GET"].concat()
    }

    #[tokio::test]
    async fn both_header_versions_name_client_and_leave_rest() {
        let v4 = [192, 0, 2, 7, 10, 0, 0, 9, 0x12, 0x67, 0, 80];
        let with_more = [&v4[..], &[4, 0, 2, 0, 0]].concat();
        let v6: Vec<u8> = [
            &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..],
            &[0; 16],
            &[0x12, 0x67, 0, 80],
        ]
        .concat();
        for (bytes, client) in [
            (
                b"PROXY TCP4 192.0.2.7 10.0.0.9 4711 80\r\nGET".to_vec(),
                "192.0.2.7:4711",
            ),
            (
                b"PROXY TCP6 2001:db8::1 fd00::9 4711 80\r\nGET".to_vec(),
                "[2001:db8::1]:4711",
            ),
            (version_2(0x21, 0x11, &v4), "192.0.2.7:4711"),
            (version_2(0x21, 0x11, &with_more), "192.0.2.7:4711"),
            (version_2(0x21, 0x21, &v6), "[2001:db8::1]:4711"),
        ] {
            let (remote, rest) = read(&bytes, PEER).await.expect("a header");
            assert_eq!(remote.address.to_string(), client);
            assert_eq!(remote.proxy, Some(PEER));
            assert_eq!(rest, b"GET");
        }
    }

    #[tokio::test]
    async fn local_connection_has_proxy_as_peer() {
        for bytes in [
            b"PROXY UNKNOWN\r\nGET".to_vec(),
            version_2(0x20, 0, &[]),
            version_2(0x20, 0x11, &[0; 12]),
        ] {
            let (remote, rest) = read(&bytes, PEER).await.expect("a header");
            assert_eq!(remote, Remote::from(PEER));
            assert_eq!(rest, b"GET");
        }
    }

    #[tokio::test]
    async fn untrusted_peer_is_refused_without_reading() {
        let stranger = Peer::At(SocketAddr::from(([203, 0, 113, 5], 9)));
        let bytes = b"PROXY TCP4 192.0.2.7 10.0.0.9 4711 80\r\nGET";
        let error = read(bytes, stranger).await.expect_err("a stranger");
        assert!(matches!(error, ProxyError::NotTrusted), "{error}");
        assert!(error.to_string().contains("proxies.trusted"), "{error}");
    }

    #[tokio::test]
    async fn invalid_header_is_refused() {
        let endless = [b"PROXY TCP4 ".to_vec(), vec![b'1'; 4096]].concat();
        for bytes in [
            &b""[..],
            b"PROXY",
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.9 4711\r\nGET",
            b"PROXY TCP4 host 10.0.0.9 4711 80\r\nGET",
            b"PROXY TCP4 192.0.2.7 10.0.0.9 4711 99999\r\nGET",
            &version_2(0x31, 0x11, &[0; 12]),
            &version_2(0x21, 0x11, &[0; 4]),
            &endless,
        ] {
            let error = read(bytes, PEER).await.expect_err("no header");
            assert!(matches!(error, ProxyError::NoHeader(_)), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn missing_header_times_out() {
        let (_client, server) = tokio::io::duplex(64);
        let within = Duration::from_secs(10);
        let read = read_proxy_header(server, PEER, &trusted(), within).await;
        assert!(matches!(read, Err(ProxyError::Late)));
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_answer(
            kind in 0..3_usize,
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let begin: [&[u8]; 3] = [b"", V2, b"PROXY TCP4 "];
            let bytes = [begin[kind], &bytes].concat();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let outcome = runtime.expect("a runtime").block_on(read(&bytes, PEER));
            if let Ok((_, rest)) = outcome {
                prop_assert!(bytes.ends_with(&rest));
            }
        }
    }
}
