//! Compact encoding of requests in partitions.
//!
//! Within a buffer most fields are small or close to those of the previous request, so each number
//! takes only as many bytes as it needs, and times and log positions are stored as differences. A
//! tag at the start gives all lengths at once (as in group varint coding), so no side handles
//! single bytes. A request takes 18 to 28 bytes instead of 72.
//!
//! ```text
//! tag     session  file  disk   device  completed  took   line   offset  sent   asked
//! 4       1..4     1..4  1..4   1..4    0..8       0..8   0..8   0..8    0..8   0..8     bytes
//! ```

use headlong_chains::Request;

/// The log position of a request is the number of its log, shifted by this many bits, plus its
/// line.
pub(crate) const SOURCE_SHIFT: u32 = 40;

/// Bit that distinguishes provisional numbers of viewers (addresses) from those of sessions.
pub(crate) const VIEWER: u32 = 1 << 31;

/// Provisional number of an unknown drive.
pub(crate) const DISK_UNKNOWN: u32 = u32::MAX;

/// Size of the longest record, bytes.
const RECORD_BYTES_MAX: usize = 4 + 4 * 4 + 6 * 8;
/// Window of [`Encoder`] and [`Decoder`]: numbers are written and read as whole words, which may
/// extend beyond the record.
const WINDOW: usize = RECORD_BYTES_MAX + 8;
/// Code instead of the length of the requested bytes: equal to the bytes sent.
const ASKED_IS_SENT: u32 = 14;
/// Code instead of the length: open-ended.
const OPEN: u32 = 15;

/// A request with provisional numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// Session and file are provisional; drive and device are unused here.
    pub(crate) request: Request,
    /// Provisional number.
    pub(crate) disk: u32,
    /// Provisional number.
    pub(crate) device: u32,
}

/// Base of the differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PreviousRecord {
    line: u64,
    completed_ms: i64,
}

/// A buffer of records.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    before: PreviousRecord,
    /// Its length is the available capacity.
    bytes: Vec<u8>,
    len: usize,
    count: u32,
}

/// A record being written.
struct RecordWriter<'a> {
    window: &'a mut [u8; WINDOW],
    len: usize,
    tag: u32,
    tag_bits: u32,
}

impl RecordWriter<'_> {
    /// A number of one to four bytes.
    #[inline(always)]
    fn put_short(&mut self, number: u32) {
        let len = 4 - (number | 1).leading_zeros() / 8;
        self.put(u64::from(number), len);
        self.tag(len - 1, 2);
    }

    #[inline(always)]
    fn put_long(&mut self, number: u64) {
        let len = 8 - number.leading_zeros() / 8;
        self.put(number, len);
        self.tag(len, 4);
    }

    #[inline(always)]
    fn put_signed(&mut self, number: i64) {
        self.put_long(folded(number));
    }

    #[inline(always)]
    fn put(&mut self, number: u64, len: u32) {
        // An array instead of a slice: one store instead of a call.
        if let Some(place) = self.window[self.len..].first_chunk_mut() {
            *place = number.to_le_bytes();
        }
        self.len += len as usize;
    }

    #[inline(always)]
    fn tag(&mut self, code: u32, bits: u32) {
        self.tag |= code << self.tag_bits;
        self.tag_bits += bits;
    }
}

impl Encoder {
    /// Appends a record.
    #[inline]
    pub(crate) fn push(&mut self, record: &Record) {
        let Record {
            request,
            disk,
            device,
        } = record;
        if self.bytes.len() < self.len + WINDOW {
            self.bytes.resize((2 * self.len).max(self.len + WINDOW), 0);
        }
        let Some(window) = self.bytes[self.len..].first_chunk_mut() else {
            unreachable!("the buffer was grown above");
        };
        let mut writing = RecordWriter {
            window,
            len: 4,
            tag: 0,
            tag_bits: 0,
        };
        let before = &self.before;
        writing.put_short(request.session);
        writing.put_short(request.file);
        // The unknown drive is the largest number, and wraps to the shortest encoding.
        writing.put_short(disk.wrapping_add(1));
        writing.put_short(*device);
        writing.put_signed(request.completed_ms.wrapping_sub(before.completed_ms));
        writing.put_signed(request.completed_ms.wrapping_sub(request.received_ms));
        writing.put_signed(request.line.wrapping_sub(before.line).cast_signed());
        writing.put_long(request.offset);
        writing.put_long(request.sent_bytes);
        match request.asked_bytes {
            None => writing.tag(OPEN, 4),
            Some(asked) if asked == request.sent_bytes => writing.tag(ASKED_IS_SENT, 4),
            Some(asked) => writing.put_long(asked),
        }
        let RecordWriter {
            window, len, tag, ..
        } = writing;
        if let Some(place) = window.first_chunk_mut() {
            *place = tag.to_le_bytes();
        }
        self.len += len;
        self.before = PreviousRecord {
            line: request.line,
            completed_ms: request.completed_ms,
        };
        self.count += 1;
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the bytes and the number of records; the encoder is empty afterwards.
    pub(crate) fn take(&mut self) -> (Vec<u8>, u32) {
        self.before = PreviousRecord::default();
        let bytes = self.bytes[..self.len].to_vec();
        self.len = 0;
        (bytes, std::mem::take(&mut self.count))
    }
}

/// Decodes the output of an [`Encoder`].
pub(crate) struct Decoder<'a> {
    before: PreviousRecord,
    rest: &'a [u8],
}

/// A record being read.
struct RecordReader<'a> {
    window: &'a [u8; WINDOW],
    len: usize,
    tag: u32,
}

impl RecordReader<'_> {
    #[inline(always)]
    fn short(&mut self) -> u32 {
        let len = self.code(2) + 1;
        self.get(len) as u32
    }

    #[inline(always)]
    fn long(&mut self) -> Result<u64, DecodeError> {
        match self.code(4) {
            len @ 0..=8 => Ok(self.get(len)),
            _ => Err(DecodeError),
        }
    }

    #[inline(always)]
    fn signed(&mut self) -> Result<i64, DecodeError> {
        Ok(unfolded(self.long()?))
    }

    #[inline(always)]
    fn asked(&mut self, sent_bytes: u64) -> Result<Option<u64>, DecodeError> {
        match self.tag {
            OPEN => Ok(None),
            ASKED_IS_SENT => Ok(Some(sent_bytes)),
            _ => self.long().map(Some),
        }
    }

    #[inline(always)]
    fn code(&mut self, bits: u32) -> u32 {
        let code = self.tag & ((1 << bits) - 1);
        self.tag >>= bits;
        code
    }

    #[inline(always)]
    fn get(&mut self, len: u32) -> u64 {
        // A record never extends so far that no whole word is left in the window.
        let word = self.window[self.len..].first_chunk();
        self.len += len as usize;
        let kept = u64::MAX.checked_shr(64 - 8 * len).unwrap_or(0);
        u64::from_le_bytes(word.copied().unwrap_or_default()) & kept
    }
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            before: PreviousRecord::default(),
            rest: bytes,
        }
    }

    /// The next record. `Ok(None)` at the end; `Err` if the bytes are damaged.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Record>, DecodeError> {
        let (record, len) = match self.rest.first_chunk() {
            Some(window) => read(window, &self.before)?,
            None if self.rest.is_empty() => return Ok(None),
            None => read_last(self.rest, &self.before)?,
        };
        self.rest = self.rest.get(len..).ok_or(DecodeError)?;
        self.before = PreviousRecord {
            line: record.request.line,
            completed_ms: record.request.completed_ms,
        };
        Ok(Some(record))
    }
}

/// As [`read`], when less than a whole window is left.
#[cold]
fn read_last(rest: &[u8], before: &PreviousRecord) -> Result<(Record, usize), DecodeError> {
    let mut window = [0; WINDOW];
    window[..rest.len()].copy_from_slice(rest);
    read(&window, before)
}

/// A record and its length. Inlined with everything it calls: a record is then never copied, which
/// would take longer than decoding it.
#[inline(always)]
fn read(window: &[u8; WINDOW], before: &PreviousRecord) -> Result<(Record, usize), DecodeError> {
    let mut reading = RecordReader {
        window,
        len: 4,
        tag: u32::from_le_bytes([window[0], window[1], window[2], window[3]]),
    };
    let session = reading.short();
    let file = reading.short();
    let disk = reading.short().wrapping_sub(1);
    let device = reading.short();
    let completed_ms = before.completed_ms.wrapping_add(reading.signed()?);
    let received_ms = completed_ms.wrapping_sub(reading.signed()?);
    let line = before.line.wrapping_add(reading.signed()?.cast_unsigned());
    let offset = reading.long()?;
    let sent_bytes = reading.long()?;
    let asked_bytes = reading.asked(sent_bytes)?;
    let request = Request {
        line,
        session,
        file,
        received_ms,
        completed_ms,
        offset,
        asked_bytes,
        sent_bytes,
        disk: 0,
        device: 0,
    };
    let record = Record {
        request,
        disk,
        device,
    };
    Ok((record, reading.len))
}

/// Zigzag encoding: small numbers of either sign take few bytes.
const fn folded(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

const fn unfolded(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -((number & 1).cast_signed())
}

/// The bytes were not written by an [`Encoder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecodeError;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let names = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
        let times = (any::<u64>(), any::<i64>(), any::<i64>());
        let bytes = (any::<u64>(), any::<Option<u64>>(), 0_u64..5, any::<bool>());
        (names, times, bytes).prop_map(|(names, times, bytes)| Record {
            request: Request {
                line: times.0,
                session: names.0,
                file: names.1,
                received_ms: times.1,
                completed_ms: times.2,
                offset: bytes.0,
                asked_bytes: if bytes.3 { Some(bytes.2) } else { bytes.1 },
                sent_bytes: bytes.2,
                disk: 0,
                device: 0,
            },
            disk: names.3,
            device: names.2,
        })
    }

    proptest! {
        #[test]
        fn records_round_trip(records in proptest::collection::vec(any_record(), 0..20)) {
            let mut encoder = Encoder::default();
            for record in &records {
                encoder.push(record);
            }
            let (bytes, count) = encoder.take();
            prop_assert_eq!(count as usize, records.len());
            let mut decoder = Decoder::new(&bytes);
            for record in &records {
                prop_assert_eq!(decoder.next(), Ok(Some(*record)));
            }
            prop_assert_eq!(decoder.next(), Ok(None));
        }

        #[test]
        fn damaged_bytes_do_not_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
