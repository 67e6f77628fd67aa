//! A session whose handshake is done is handed to the kernel, with nothing lost and nothing twice.
//!
//! Up to the moment in which the keys are taken out of it, the session goes on here as if nothing had
//! been tried.

use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::info::ConnectionInfo;
use super::kernel_tls::{KernelKeys, KernelTls};
use super::outlet::Outlet;
use super::records::Records;

/// Who makes and reads the records of a connection.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, and what is in it lives in a box of its own then"
)]
pub(super) enum Encrypted<IO> {
    /// The kernel: the stream is one of plain bytes.
    ByKernel(IO),
    /// This process.
    Here(TlsStream<Records<IO>>),
}

/// Hands a session to the kernel if that can go on with it.
///
/// # Errors
/// The keys were taken out and the kernel refused them, which it did not when it was asked at the start;
/// the connection is over.
pub(super) async fn to_kernel<IO>(
    mut here: TlsStream<Records<IO>>,
    kernel: Option<KernelTls>,
    info: &Arc<ConnectionInfo>,
) -> io::Result<Encrypted<IO>>
where
    IO: AsyncRead + AsyncWrite + Outlet + Unpin,
{
    let (stream, session) = here.get_mut();
    // hyper has its own use of memory, and writes its frames by copies.
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let may_go = !is_http2 && kernel.is_some_and(|kernel| kernel.takes(session));
    let is_whole = may_go && poll_fn(|cx| poll_to_end_of_record(cx, stream, session)).await;
    let version = session.protocol_version();
    let (true, Some(version)) = (is_whole && stream.get_ref().attach_keys().is_ok(), version)
    else {
        stream.unbound();
        return Ok(Encrypted::Here(here));
    };
    let mut early = vec![0; plain_bytes(session)];
    session.reader().read_exact(&mut early)?;
    let (stream, session) = here.into_inner();
    let mut stream = stream.into_inner();
    let secrets = session.dangerous_extract_secrets();
    let secrets = secrets.map_err(io::Error::other)?;
    let keys = KernelKeys::of(version, &secrets).ok_or(io::ErrorKind::Unsupported)?;
    stream.take_keys(&keys, early, info)?;
    Ok(Encrypted::ByKernel(stream))
}

/// Bytes that were decrypted and not read.
fn plain_bytes(session: &mut ServerConnection) -> usize {
    let state = session.process_new_packets();
    state.map_or(0, |state| state.plaintext_bytes_to_read())
}

/// Reads until a record ends with what was read; whether the session is then as it is at its beginning:
/// nothing to be sent, and the other end has more to say.
fn poll_to_end_of_record<IO: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    stream: &mut Records<IO>,
    session: &mut ServerConnection,
) -> Poll<bool> {
    loop {
        let is_open = match session.process_new_packets() {
            Ok(state) => !state.peer_has_closed() && !session.wants_write(),
            Err(_) => false,
        };
        if !is_open || stream.bound() == 0 {
            return Poll::Ready(is_open);
        }
        let mut reading = Reading { stream, cx };
        match session.read_tls(&mut reading) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            // The session finds the end or the error again.
            Ok(0) | Err(_) => return Poll::Ready(false),
            Ok(_) => {}
        }
    }
}

/// A stream that the library reads at once, or not.
struct Reading<'a, 'b, IO> {
    stream: &'a mut Records<IO>,
    cx: &'a mut Context<'b>,
}

impl<IO: AsyncRead + Unpin> Read for Reading<'_, '_, IO> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        match Pin::new(&mut *self.stream).poll_read(self.cx, &mut buffer) {
            Poll::Ready(read) => read.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

#[cfg(test)]
#[path = "to_kernel_tests.rs"]
mod tests;
