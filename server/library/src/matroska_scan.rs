//! Headers of Matroska and WebM files, parsed by `webm-iterable` as their bytes pass: the duration
//! is in `Info`, which stands before the media in files of all common muxers.

use std::fmt;

use bytes::BytesMut;
use ebml_iterable::TagDecoder;
use headlong_media::HeaderFacts;
use headlong_units::Duration;
use webm_iterable::matroska_spec::{Master, MatroskaSpec};

/// Bytes from the start of the file within which the duration is searched.
const HEADER_BYTES_MAX: u64 = 64 << 10;
/// Time of a tick, in nanoseconds, unless `TimestampScale` says otherwise.
const TICK_NS: u64 = 1_000_000;

/// The scan of one version of one file.
pub(crate) struct MatroskaScan {
    decoder: TagDecoder<MatroskaSpec>,
    /// Bytes of an incomplete element.
    kept: BytesMut,
    size: u64,
    /// Offset of the next byte.
    next: u64,
    tick_ns: u64,
    ticks: Option<f64>,
    ended: Option<Result<HeaderFacts, &'static str>>,
}

impl fmt::Debug for MatroskaScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("MatroskaScan");
        out.field("next", &self.next).field("ended", &self.ended);
        out.finish_non_exhaustive()
    }
}

impl MatroskaScan {
    /// A scan of a file of `size` bytes.
    pub(crate) fn new(size: u64) -> Self {
        let mut decoder = TagDecoder::new(&[]);
        // The limit is for all elements, of which the outermost is as long as the file. Only the
        // bytes that are kept take memory.
        decoder.set_max_allowable_tag_size(None);
        Self {
            decoder,
            kept: BytesMut::new(),
            size,
            next: 0,
            tick_ns: TICK_NS,
            ticks: None,
            ended: None,
        }
    }

    /// The first byte that it still needs; `None` once it has ended.
    pub(crate) fn wants(&self) -> Option<u64> {
        self.ended.is_none().then_some(self.next)
    }

    /// The facts, or why the headers are unusable; `None` while some are missing.
    pub(crate) fn result(&self) -> Option<Result<HeaderFacts, &'static str>> {
        self.ended
    }

    /// Takes bytes of the file that begin at `offset`.
    pub(crate) fn take(&mut self, offset: u64, bytes: &[u8]) {
        let at = self.next.checked_sub(offset);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let Some(fresh) = at.and_then(|at| bytes.get(at..)) else {
            return;
        };
        let limit = HEADER_BYTES_MAX.min(self.size);
        let left = usize::try_from(limit.saturating_sub(self.next)).unwrap_or(0);
        let fresh = &fresh[..fresh.len().min(left)];
        if fresh.is_empty() || self.ended.is_some() {
            return;
        }
        self.kept.extend_from_slice(fresh);
        self.next += fresh.len() as u64;
        self.decode();
        if self.ended.is_none() && self.next == limit {
            self.end();
        }
        if self.ended.is_some() {
            self.kept = BytesMut::new();
        }
    }

    /// Evaluates the complete elements.
    fn decode(&mut self) {
        while self.ended.is_none() {
            match self.decoder.decode(&mut self.kept) {
                Ok(None) => return,
                Ok(Some(element)) => match element.tag {
                    MatroskaSpec::TimestampScale(tick_ns) => self.tick_ns = tick_ns,
                    MatroskaSpec::Duration(ticks) => self.ticks = Some(ticks),
                    MatroskaSpec::Info(Master::End) | MatroskaSpec::Cluster(_) => self.end(),
                    _ => {}
                },
                Err(_) if self.ticks.is_some() => self.end(),
                Err(_) => {
                    self.ended = Some(Err("its Matroska headers are broken, or it is no Matroska"));
                }
            }
        }
    }

    /// No further element is needed.
    fn end(&mut self) {
        let ns = self.ticks.unwrap_or(0.0) * self.tick_ns as f64;
        let facts = HeaderFacts {
            // The cast saturates, and returns zero for NaN.
            duration: Duration(ns as u64),
            ..HeaderFacts::default()
        };
        self.ended = Some(Ok(facts));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An element of less than 16 kB.
    fn element(id: &[u8], body: &[u8]) -> Vec<u8> {
        let length = (0x4000 | body.len() as u16).to_be_bytes();
        [id, &length, body].concat()
    }

    const CLUSTER: [u8; 4] = [0x1f, 0x43, 0xb6, 0x75];

    /// The beginning of a WebM file: its `Info` has these elements, its segment no known length.
    fn webm(info: &[Vec<u8>]) -> Vec<u8> {
        let head = element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], b"webm"));
        let segment = [0x18, 0x53, 0x80, 0x67, 1, 255, 255, 255, 255, 255, 255, 255];
        let void = element(&[0xec], &[0; 3000]);
        let info = element(&[0x15, 0x49, 0xa9, 0x66], &info.concat());
        let cluster = element(&CLUSTER, &element(&[0xe7], &[0]));
        [&head[..], &segment, &void, &info, &cluster].concat()
    }

    fn duration(seconds: f64) -> Vec<u8> {
        element(&[0x44, 0x89], &(seconds * 1000.0).to_be_bytes())
    }

    fn scan_in(bytes: &[u8], piece_bytes: usize) -> MatroskaScan {
        let mut scan = MatroskaScan::new(1 << 30);
        for (index, piece) in bytes.chunks(piece_bytes).enumerate() {
            scan.take((index * piece_bytes) as u64, piece);
        }
        scan
    }

    fn scan(bytes: &[u8]) -> Option<Result<HeaderFacts, &'static str>> {
        scan_in(bytes, usize::MAX).result()
    }

    fn done(seconds: u64) -> Option<Result<HeaderFacts, &'static str>> {
        Some(Ok(HeaderFacts {
            duration: Duration::from_secs(seconds),
            ..HeaderFacts::default()
        }))
    }

    #[test]
    fn duration_is_in_ticks_of_the_segment() {
        assert_eq!(scan(&webm(&[duration(12.0)])), done(12));
        let scale = element(&[0x2a, 0xd7, 0xb1], &500_000_u32.to_be_bytes());
        assert_eq!(scan(&webm(&[duration(12.0), scale])), done(6));
    }

    #[test]
    fn recording_without_duration_is_done() {
        assert_eq!(scan(&webm(&[])), done(0));
        let mut scan = MatroskaScan::new(1 << 40);
        let head = webm(&[]);
        scan.take(0, &head[..100]);
        assert_eq!(scan.wants(), Some(100));
        scan.take(5000, &head[..100]);
        assert_eq!(scan.wants(), Some(100), "bytes elsewhere");
        let long = element(&[0xec], &[0; 16_000]);
        for _ in 0..10 {
            let at = scan.wants().unwrap_or_default();
            scan.take(at, &long);
        }
        assert_eq!(scan.wants(), None, "the search has no limit");
    }

    #[test]
    fn other_format_has_a_reason() {
        for bytes in [
            &b"no film at all"[..],
            b"RIFF\0\0\0\0AVI LIST",
            &[0; 100],
            &[255; 100],
        ] {
            assert!(matches!(scan(bytes), Some(Err(_))), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_give_same_result(piece_bytes in 1usize..5000) {
            let bytes = webm(&[duration(12.0)]);
            prop_assert_eq!(scan_in(&bytes, piece_bytes).result(), done(12));
        }

        #[test]
        fn no_bytes_make_it_panic(
            at in 0usize..3200,
            replacement in proptest::collection::vec(any::<u8>(), 1..12),
            piece_bytes in 1usize..5000,
        ) {
            let mut bytes = webm(&[duration(12.0)]);
            let at = if at > 100 { at + 2950 } else { at };
            let end = (at + replacement.len()).min(bytes.len());
            let at = at.min(end);
            bytes.splice(at..end, replacement);
            let scan = scan_in(&bytes, piece_bytes);
            prop_assert!(scan.kept.capacity() as u64 <= 2 * HEADER_BYTES_MAX);
        }
    }
}
