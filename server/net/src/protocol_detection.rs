//! Protocol detection: HTTP/1 or HTTP/2, from the first bytes of a connection.
//!
//! An HTTP/2 client begins with 24 fixed bytes (RFC 9113 3.4), which no HTTP/1.1 request begins
//! with; over TLS they follow after ALPN agreed on `h2`. hyper-util can also tell them apart, but
//! it returns the inspected bytes in a read of their own: hyper then finds half a request and
//! doubles its buffer for the connection's lifetime. Here the first read returns those bytes
//! together with all that followed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use headlong_kernel::raw::FileRange;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::reply_stream::ReplyStream;

pub(super) const PREFACE_BYTES: usize = 24;
const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Detected protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.0 or 1.1, or unknown bytes, which the HTTP/1 parser refuses.
    Http1,
    /// HTTP/2.
    Http2,
}

/// A stream whose first bytes were inspected.
#[derive(Debug)]
pub(super) struct DetectingStream<S> {
    inner: S,
    seen: [u8; PREFACE.len()],
    seen_count: usize,
    given_count: usize,
}

impl<S: AsyncRead + Unpin> DetectingStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self {
            inner,
            seen: [0; PREFACE.len()],
            seen_count: 0,
            given_count: 0,
        }
    }

    /// Whether any bytes have arrived.
    pub(super) fn has_begun(&self) -> bool {
        self.seen_count > 0
    }

    /// Reads until the protocol is clear; an end or an error is left for the HTTP/1 code to find.
    pub(super) fn poll_sniff(&mut self, cx: &mut Context<'_>) -> Poll<Protocol> {
        loop {
            let seen = &self.seen[..self.seen_count];
            if seen == PREFACE {
                return Poll::Ready(Protocol::Http2);
            }
            if !PREFACE.starts_with(seen) {
                return Poll::Ready(Protocol::Http1);
            }
            let mut room = ReadBuf::new(&mut self.seen[self.seen_count..]);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut room));
            let count = room.filled().len();
            if read.is_err() || count == 0 {
                return Poll::Ready(Protocol::Http1);
            }
            self.seen_count += count;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DetectingStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = &this.seen[this.given_count..this.seen_count];
        if left.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(&left[..count]);
        this.given_count += count;
        if buffer.remaining() > 0 {
            // Also returns bytes behind them, if any; an error appears again at the next read.
            let _ = Pin::new(&mut this.inner).poll_read(cx, buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DetectingStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: ReplyStream + Unpin> ReplyStream for DetectingStream<S> {
    fn sends_files(&self) -> bool {
        self.inner.sends_files()
    }

    fn poll_write_more(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_more(cx, slices)
    }

    fn poll_send_file(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: FileRange<'_>,
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_send_file(cx, bytes)
    }

    fn unconfirmed_bytes(&self) -> Option<u64> {
        self.inner.unconfirmed_bytes()
    }

    fn is_reset(&self) -> bool {
        self.inner.is_reset()
    }

    fn discard_when_closed(&self) {
        self.inner.discard_when_closed();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn sniff(parts: &[&[u8]]) -> (Protocol, Vec<u8>) {
        let (mut client, server) = tokio::io::duplex(1024);
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let writer = tokio::spawn(async move {
            for part in parts {
                client.write_all(&part).await.expect("there is room");
                tokio::task::yield_now().await;
            }
        });
        let mut stream = DetectingStream::new(server);
        let speaks = std::future::poll_fn(|cx| stream.poll_sniff(cx)).await;
        let mut rest = Vec::new();
        stream
            .read_to_end(&mut rest)
            .await
            .expect("the writer ends");
        writer.await.expect("no panic");
        (speaks, rest)
    }

    #[tokio::test]
    async fn preface_in_two_parts_is_http2() {
        let whole = [&PREFACE[..], b"frames"].concat();
        for cut in 0..whole.len() {
            let (left, right) = whole.split_at(cut);
            assert_eq!(
                sniff(&[left, right]).await,
                (Protocol::Http2, whole.clone()),
                "cut at {cut}"
            );
        }
    }

    #[tokio::test]
    async fn other_bytes_go_to_http1_unchanged() {
        for text in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"PRI",
            b"P",
            b"",
            b"PRI * HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(sniff(&[text]).await, (Protocol::Http1, text.to_vec()));
        }
    }

    #[tokio::test]
    async fn first_read_returns_inspected_and_following_bytes() {
        let (mut client, server) = tokio::io::duplex(1024);
        let request = b"GET /a-path-that-is-longer-than-the-preface HTTP/1.1\r\n\r\n";
        client.write_all(request).await.expect("there is room");
        let mut stream = DetectingStream::new(server);
        std::future::poll_fn(|cx| stream.poll_sniff(cx)).await;
        let mut buffer = [0; 1024];
        let count = stream.read(&mut buffer).await.expect("bytes are there");
        assert_eq!(&buffer[..count], request);
    }
}
