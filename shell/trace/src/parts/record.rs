//! Requests as few bytes: what a part holds while it waits.
//!
//! The one idea: within one buffer most fields are small or hardly differ from the request before,
//! so numbers are written seven bits to a byte and times and places in the log as differences. A
//! request takes 15 to 25 bytes instead of 72.

use headlong_chains::Request;

const ASKED: u8 = 1;
const ASKED_IS_SENT: u8 = 2;
const DISK: u8 = 4;
const DEVICE: u8 = 8;

/// A request whose names have their provisional numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// Session and file are provisional; drive and device here have no room.
    pub(crate) request: Request,
    /// Provisional.
    pub(crate) disk: u32,
    /// Provisional.
    pub(crate) device: u32,
}

/// What differences are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Before {
    line: u64,
    completed_ms: i64,
    disk: u32,
    device: u32,
}

/// A buffer that records are appended to.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    before: Before,
    bytes: Vec<u8>,
    count: u32,
}

impl Encoder {
    /// Appends a record.
    pub(crate) fn push(&mut self, record: &Record) {
        let Record {
            request,
            disk,
            device,
        } = record;
        let mut flags = 0;
        match request.asked_bytes {
            Some(asked) if asked == request.sent_bytes => flags |= ASKED | ASKED_IS_SENT,
            Some(_) => flags |= ASKED,
            None => {}
        }
        if *disk != self.before.disk {
            flags |= DISK;
        }
        if *device != self.before.device {
            flags |= DEVICE;
        }
        let bytes = &mut self.bytes;
        bytes.push(flags);
        put(bytes, u64::from(request.session));
        put(bytes, u64::from(request.file));
        put_signed(
            bytes,
            request.completed_ms.wrapping_sub(self.before.completed_ms),
        );
        put_signed(
            bytes,
            request.completed_ms.wrapping_sub(request.received_ms),
        );
        put_signed(
            bytes,
            request.line.wrapping_sub(self.before.line).cast_signed(),
        );
        put(bytes, request.offset);
        put(bytes, request.sent_bytes);
        if let (Some(asked), 0) = (request.asked_bytes, flags & ASKED_IS_SENT) {
            put(bytes, asked);
        }
        if flags & DISK != 0 {
            put(bytes, u64::from(*disk));
        }
        if flags & DEVICE != 0 {
            put(bytes, u64::from(*device));
        }
        self.before = Before {
            line: request.line,
            completed_ms: request.completed_ms,
            disk: *disk,
            device: *device,
        };
        self.count += 1;
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes, and how many records they are; begins anew.
    pub(crate) fn take(&mut self) -> (Vec<u8>, u32) {
        self.before = Before::default();
        let bytes = self.bytes.as_slice().to_vec();
        self.bytes.clear();
        (bytes, std::mem::take(&mut self.count))
    }
}

/// Reads what an [`Encoder`] wrote.
pub(crate) struct Decoder<'a> {
    before: Before,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            before: Before::default(),
            rest: bytes,
        }
    }

    /// The next record. `Ok(None)` at the end; `Err` if the bytes are not what was written.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, Damaged> {
        let Some((flags, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        let session = self.get_u32()?;
        let file = self.get_u32()?;
        let completed_ms = self.before.completed_ms.wrapping_add(self.get_signed()?);
        let received_ms = completed_ms.wrapping_sub(self.get_signed()?);
        let line = self
            .before
            .line
            .wrapping_add(self.get_signed()?.cast_unsigned());
        let offset = self.get()?;
        let sent_bytes = self.get()?;
        let asked_bytes = match (flags & ASKED != 0, flags & ASKED_IS_SENT != 0) {
            (false, _) => None,
            (true, true) => Some(sent_bytes),
            (true, false) => Some(self.get()?),
        };
        let mut disk = self.before.disk;
        if flags & DISK != 0 {
            disk = self.get_u32()?;
        }
        let mut device = self.before.device;
        if flags & DEVICE != 0 {
            device = self.get_u32()?;
        }
        self.before = Before {
            line,
            completed_ms,
            disk,
            device,
        };
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
        Ok(Some(Record {
            request,
            disk,
            device,
        }))
    }

    fn get(&mut self) -> Result<u64, Damaged> {
        let mut sum = 0;
        for (index, byte) in self.rest.iter().enumerate().take(10) {
            sum |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(sum);
            }
        }
        Err(Damaged)
    }

    fn get_u32(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.get()?).map_err(|_| Damaged)
    }

    fn get_signed(&mut self) -> Result<i64, Damaged> {
        let folded = self.get()?;
        Ok((folded >> 1).cast_signed() ^ -((folded & 1).cast_signed()))
    }
}

/// Bytes that no [`Encoder`] wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

fn put(bytes: &mut Vec<u8>, number: u64) {
    let mut rest = number;
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Small numbers of either sign take few bytes.
fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let names = (any::<u32>(), any::<u32>(), any::<u32>(), 0_u32..3);
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
        fn what_is_written_is_read(records in proptest::collection::vec(any_record(), 0..20)) {
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
        fn damaged_bytes_end_in_an_error_or_in_records(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
