//! Where the records of TLS end in what is read of a connection.
//!
//! The kernel can go on with the records of a session only from the beginning of one. What the TLS library
//! reads in a handshake may end in the midst of one, and what it has of that cannot be had back; so
//! the rest of that record, and no more, is given to it before the kernel goes on.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::outlet::Outlet;

/// Kind, version and length.
const HEAD_BYTES: usize = 5;

/// How far a record has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Walk {
    /// Of its head; none between two records.
    head_bytes: usize,
    /// Of its body, as far as the head is known.
    length: usize,
    /// Of its body.
    left_bytes: usize,
}

impl Walk {
    fn goes_over(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.left_bytes > 0 {
                let count = self.left_bytes.min(bytes.len());
                self.left_bytes -= count;
                bytes = &bytes[count..];
                continue;
            }
            self.head_bytes += 1;
            self.length = self.length << 8 | usize::from(*first);
            if self.head_bytes == HEAD_BYTES {
                let length = self.length & 0xffff;
                *self = Self {
                    left_bytes: length,
                    ..Self::default()
                };
            }
            bytes = rest;
        }
    }

    /// Bytes that are sure to be of the record at hand; none between two.
    fn left_bytes(&self) -> usize {
        match self.head_bytes {
            0 => self.left_bytes,
            come => HEAD_BYTES - come,
        }
    }
}

/// A stream whose records are counted while it is read.
#[derive(Debug)]
pub(super) struct Records<S> {
    inner: S,
    /// Nobody counts any more without it.
    walk: Option<Walk>,
    /// Whether only the record at hand is given.
    is_bounded: bool,
}

impl<S> Records<S> {
    /// Counts if somebody wants to know.
    pub(super) fn new(inner: S, is_counted: bool) -> Self {
        Self {
            inner,
            walk: is_counted.then(Walk::default),
            is_bounded: false,
        }
    }

    /// From now on what is read ends with the record at hand; bytes of it that have not come.
    pub(super) fn bound(&mut self) -> usize {
        self.is_bounded = true;
        self.walk.map_or(0, |walk| walk.left_bytes())
    }

    /// Gives everything again, and counts no more.
    pub(super) fn unbound(&mut self) {
        self.is_bounded = false;
        self.walk = None;
    }

    pub(super) fn get_ref(&self) -> &S {
        &self.inner
    }

    pub(super) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Records<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let Some(walk) = &mut this.walk else {
            return Pin::new(&mut this.inner).poll_read(cx, buffer);
        };
        let before = buffer.filled().len();
        if this.is_bounded {
            let count_max = walk.left_bytes().min(buffer.remaining());
            let mut space = ReadBuf::new(buffer.initialize_unfilled_to(count_max));
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut space))?;
            let count = space.filled().len();
            buffer.advance(count);
        } else {
            ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        }
        walk.goes_over(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Records<S> {
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
        slices: &[IoSlice<'_>],
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

/// Below TLS bytes go by memory.
impl<S: Outlet + Unpin> Outlet for Records<S> {
    fn is_reset(&self) -> bool {
        self.inner.is_reset()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn record(length: u16) -> Vec<u8> {
        let mut record = vec![23, 3, 3];
        record.extend(length.to_be_bytes());
        record.extend(vec![7; usize::from(length)]);
        record
    }

    #[tokio::test]
    async fn who_stops_in_a_record_gets_the_rest_of_it_and_no_more() {
        let all = [record(300), record(0), record(20)].concat();
        for read in 1..all.len() {
            let mut stream = Records::new(&all[..], true);
            let mut seen = vec![0; read];
            stream.read_exact(&mut seen).await.expect("there");
            let mut rest = Vec::new();
            while stream.bound() > 0 {
                stream.read_buf(&mut rest).await.expect("there");
            }
            let ends = [305, 310, 335];
            let end = ends.into_iter().find(|end| *end >= read).expect("one");
            assert_eq!(read + rest.len(), end, "after {read}");
            stream.unbound();
            let mut behind = Vec::new();
            stream.read_to_end(&mut behind).await.expect("there");
            assert_eq!([seen, rest, behind].concat(), all);
        }
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_does_not_matter(
            lengths in prop::collection::vec(0..600_u16, 0..6),
            cuts in prop::collection::vec(1..50_usize, 1..20),
        ) {
            let all: Vec<u8> = lengths.iter().flat_map(|length| record(*length)).collect();
            let (mut at_once, mut cut) = (Walk::default(), Walk::default());
            at_once.goes_over(&all);
            let mut left = &all[..];
            for count in cuts.iter().cycle() {
                if left.is_empty() {
                    break;
                }
                let (now, later) = left.split_at((*count).min(left.len()));
                cut.goes_over(now);
                left = later;
            }
            prop_assert_eq!(cut, at_once);
            prop_assert_eq!(cut.left_bytes(), 0);
        }
    }
}
