//! Without a kernel: a stream that takes keys, and remembers what came with them.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::ProtocolVersion;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::net::Limits;

/// A stream that a kernel would stand behind, unless it is one of another kind.
#[derive(Debug)]
struct Taking {
    stream: DuplexStream,
    takes: bool,
    taken: Option<(KernelKeys, Vec<u8>)>,
}

impl AsyncRead for Taking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Taking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Outlet for Taking {
    fn attach_keys(&self) -> io::Result<()> {
        match self.takes {
            true => Ok(()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn take_keys(
        &mut self,
        keys: &KernelKeys,
        early: Vec<u8>,
        _: &Arc<ConnectionInfo>,
    ) -> io::Result<()> {
        let (send, receive) = (keys.send.clone(), keys.receive.clone());
        self.taken = Some((KernelKeys { send, receive }, early));
        Ok(())
    }
}

/// Bytes of one thing that the client says.
const WORD: &[u8; 10] = b"0123456789";
const WORDS: usize = 6;
const NAME: &str = "localhost";

struct Ends {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
}

fn ends(version: &'static rustls::SupportedProtocolVersion, protocol: &[u8]) -> Ends {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a pair");
    let certificate: CertificateDer<'static> = made.cert.der().clone();
    let key = made.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
    let provider = Arc::new(ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = server.with_protocol_versions(&[version]).expect("known");
    let server = server.with_no_client_auth();
    let mut server = server
        .with_single_cert(vec![certificate.clone()], key)
        .expect("a pair");
    server.enable_secret_extraction = true;
    server.alpn_protocols = vec![protocol.to_vec()];
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider);
    let client = client.with_protocol_versions(&[version]).expect("known");
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = vec![protocol.to_vec()];
    Ends {
        acceptor: TlsAcceptor::from(Arc::new(server)),
        connector: TlsConnector::from(Arc::new(client)),
    }
}

/// What becomes of a connection whose client says its words at once, each in a record, when all that it
/// says comes in parts of so many bytes.
async fn handed(ends: &Ends, part_bytes: usize, takes: bool) -> (Encrypted<Taking>, impl Sized) {
    let (near, mut from_client) = duplex(1 << 16);
    let (mut to_server, far) = duplex(1 << 16);
    let connector = ends.connector.clone();
    let client = tokio::spawn(async move {
        let name = ServerName::try_from(NAME).expect("a name");
        let mut stream = connector.connect(name, near).await.expect("agreed");
        for _ in 0..WORDS {
            stream.write_all(WORD).await.expect("there is room");
            stream.flush().await.expect("there is room");
        }
        stream
    });
    let pump = tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; part_bytes], vec![0; 1 << 14]);
        loop {
            // What the client says in one go comes in one go, but for its parts.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let (from, bytes, is_up) = tokio::select! {
                count = from_client.read(&mut up) => (count, &up, true),
                count = to_server.read(&mut down) => (count, &down, false),
            };
            let count = from.expect("memory");
            let bytes = &bytes[..count];
            let sent = match is_up {
                true => to_server.write_all(bytes).await,
                false => from_client.write_all(bytes).await,
            };
            if count == 0 || sent.is_err() {
                return;
            }
        }
    });
    let far = Taking {
        stream: far,
        takes,
        taken: None,
    };
    let here = ends.acceptor.accept(Records::new(far, true)).await;
    let remote = SocketAddr::from(([127, 0, 0, 1], 1));
    let limits = Arc::new(Limits::default());
    let info = ConnectionInfo::new(1, remote.into(), limits, Arc::default());
    let kernel = Some(KernelTls::of_all());
    let outcome = to_kernel(here.expect("agreed"), kernel, &Arc::new(info)).await;
    (outcome.expect("handed"), (client, pump))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_twice_wherever_the_handshake_was_cut() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let ends = ends(version, b"http/1.1");
        // Kind of data in a record, padding of the cipher, and its nonce before version 1.3.
        let record_bytes = match version.version {
            ProtocolVersion::TLSv1_3 => 5 + WORD.len() + 1 + 16,
            _ => 5 + 8 + WORD.len() + 16,
        };
        let mut seen = [false; WORDS + 1];
        for part_bytes in (1..200).chain([4096, 1 << 14]) {
            let (handed, _alive) = handed(&ends, part_bytes, true).await;
            let Encrypted::ByKernel(mut stream) = handed else {
                panic!("not handed with parts of {part_bytes}");
            };
            let (keys, early) = stream.taken.take().expect("keys");
            let words = early.len() / WORD.len();
            assert_eq!(early, WORD.repeat(words), "parts of {part_bytes}");
            // The kernel begins with the record after those.
            let before: u64 = match version.version {
                ProtocolVersion::TLSv1_3 => 0,
                _ => 1,
            };
            let sequence = (words as u64 + before).to_be_bytes();
            assert!(keys.receive.ends_with(&sequence), "parts of {part_bytes}");
            // And finds the head of one first, if there are more.
            let mut rest = vec![0; (WORDS - words) * record_bytes];
            stream.stream.read_exact(&mut rest).await.expect("there");
            for record in rest.chunks(record_bytes) {
                assert_eq!(record[..3], [23, 3, 3], "parts of {part_bytes}");
            }
            let more = tokio::time::timeout(Duration::from_secs(9), stream.stream.read_u8());
            assert!(more.await.is_err(), "parts of {part_bytes}");
            seen[words] = true;
        }
        let count = seen.iter().filter(|seen| **seen).count();
        assert!(count > 2, "all were cut in the same place: {seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_no_keys_and_http_2_go_on_here_with_every_byte() {
    for (protocol, takes) in [(&b"http/1.1"[..], false), (b"h2", true)] {
        let ends = ends(&rustls::version::TLS13, protocol);
        for part_bytes in [1, 7, 100, 150, 170, 4096] {
            let (handed, _alive) = handed(&ends, part_bytes, takes).await;
            let Encrypted::Here(mut stream) = handed else {
                panic!("handed with parts of {part_bytes}");
            };
            let mut all = vec![0; WORDS * WORD.len()];
            stream.read_exact(&mut all).await.expect("all of it");
            assert_eq!(all, WORD.repeat(WORDS));
        }
    }
}
