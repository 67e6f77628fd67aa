//! A slice, or a piece of one, while it comes from the origin, and afterwards if it could not be
//! stored. Replies read it as it grows, in copies of bounded size, so that a slow client holds no
//! slice in memory.
//!
//! Invariant: the last byte is not readable before the origin's reply was read to its end, so a
//! reply to a client is complete only if its slices are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use headlong_pull::ResponseFault;
use headlong_units::ByteRange;

/// Upper limit of the bytes that a reply takes at once.
const COPY_BYTES_MAX: u64 = 64 << 10;

/// A slice that is being fetched, or removed.
#[derive(Debug, Default)]
pub(super) struct IncomingSlice {
    /// Length of the slice; zero for one that is being removed.
    length: u64,
    /// The bytes received.
    bytes: Arc<Vec<u8>>,
    /// Whether all bytes were received and the reply of the origin ended with them.
    is_whole: bool,
    /// Whether a reply has read to its end, so that it does not come back for this slice.
    was_read: AtomicBool,
    /// Result, once the fetch has ended: whether the slice is stored. If it is not and `is_whole`,
    /// its bytes can still be read here.
    pub(super) end: Option<Result<(), ResponseFault>>,
}

/// The bytes that a slice has for a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IncomingBytes {
    /// The next bytes.
    Bytes(Bytes),
    /// The slice is stored, or was removed.
    Ended,
}

impl IncomingSlice {
    /// A slice of `length` bytes, of which none was received.
    pub(super) fn new(length: u64) -> Self {
        Self {
            length,
            ..Self::default()
        }
    }

    /// Number of bytes received.
    pub(super) fn received(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Appends bytes; `false` if they exceed the slice.
    pub(super) fn add(&mut self, data: &[u8]) -> bool {
        let is_fit = self.received() + data.len() as u64 <= self.length;
        if is_fit {
            // Not shared before all bytes are there.
            let bytes = Arc::make_mut(&mut self.bytes);
            // Allocated only now, because many fetches may be queued.
            bytes.reserve_exact(self.length as usize - bytes.len());
            bytes.extend_from_slice(data);
        }
        is_fit
    }

    /// Whether all bytes were received.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether a reply has read what it needs of the slice.
    pub(super) fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed)
    }

    /// The origin ended its reply at the end of the slice. Returns the bytes.
    pub(super) fn complete(&mut self) -> Arc<Vec<u8>> {
        self.is_whole = true;
        Arc::clone(&self.bytes)
    }

    /// The fetch has ended. The bytes remain only if they cannot be read elsewhere.
    pub(super) fn end(&mut self, end: Result<(), ResponseFault>) {
        if end.is_ok() || !self.is_whole {
            self.bytes = Arc::default();
        }
        self.end = Some(end);
    }

    /// Reads from a range of the slice, which is not empty. `None`: not yet.
    pub(super) fn read(&self, range: ByteRange) -> Option<Result<IncomingBytes, ResponseFault>> {
        let readable = match self.is_whole {
            true => self.received(),
            false => self.received().min(self.length.saturating_sub(1)),
        };
        let end = readable.min(range.end).min(range.start + COPY_BYTES_MAX);
        let bytes = self.bytes.get(range.start as usize..end as usize);
        match (bytes, self.end) {
            (Some(bytes), _) if !bytes.is_empty() => {
                let bytes = Bytes::copy_from_slice(bytes);
                if end == range.end {
                    self.was_read.store(true, Ordering::Relaxed);
                }
                Some(Ok(IncomingBytes::Bytes(bytes)))
            }
            (_, Some(Ok(()))) => Some(Ok(IncomingBytes::Ended)),
            (_, Some(Err(fault))) => Some(Err(fault)),
            (_, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(slice: &IncomingSlice, start: u64, end: u64) -> Option<Result<Vec<u8>, ResponseFault>> {
        match slice.read(ByteRange::new(start, end))? {
            Ok(IncomingBytes::Bytes(bytes)) => Some(Ok(bytes.to_vec())),
            Ok(IncomingBytes::Ended) => Some(Ok(Vec::new())),
            Err(fault) => Some(Err(fault)),
        }
    }

    #[test]
    fn last_byte_waits_for_end_of_origins_reply() {
        let mut slice = IncomingSlice::new(4);
        assert_eq!(read(&slice, 0, 4), None);
        assert!(slice.add(&[1, 2]));
        assert_eq!(read(&slice, 0, 4), Some(Ok(vec![1, 2])));
        assert_eq!(read(&slice, 2, 4), None);
        assert!(slice.add(&[3, 4]) && !slice.add(&[5]));
        assert_eq!(read(&slice, 1, 4), Some(Ok(vec![2, 3])));
        assert_eq!(read(&slice, 3, 4), None, "more bytes may follow");
        assert_eq!(*slice.complete(), [1, 2, 3, 4]);
        assert!(!slice.was_read());
        assert_eq!(read(&slice, 3, 4), Some(Ok(vec![4])));
        assert!(slice.was_read());
    }

    #[test]
    fn whole_slice_is_readable_only_until_it_is_stored() {
        let slice = || {
            let mut slice = IncomingSlice::new(2);
            assert!(slice.add(&[1, 2]));
            slice.complete();
            slice
        };
        let mut stored = slice();
        stored.end(Ok(()));
        assert_eq!(read(&stored, 0, 2), Some(Ok(Vec::new())));
        let mut unstored = slice();
        unstored.end(Err(ResponseFault::NoSpace));
        assert_eq!(read(&unstored, 1, 2), Some(Ok(vec![2])));
    }

    #[test]
    fn failed_fetch_fails_its_readers() {
        let mut slice = IncomingSlice::new(10);
        assert!(slice.add(&[0; 10]));
        slice.end(Err(ResponseFault::WrongLength));
        assert_eq!(read(&slice, 0, 10), Some(Err(ResponseFault::WrongLength)));
    }

    #[test]
    fn one_read_is_bounded() {
        let length = 3 * COPY_BYTES_MAX;
        let mut slice = IncomingSlice::new(length);
        assert!(slice.add(&vec![7; length as usize]));
        let bytes = read(&slice, 5, length).expect("there").expect("bytes");
        assert_eq!(bytes.len() as u64, COPY_BYTES_MAX);
    }
}
