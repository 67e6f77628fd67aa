//! A record: a header of one page that identifies the bytes after it.
//!
//! The header's checksum covers its fields; the checksum of the bytes is seeded with those fields.
//! So correct bytes at another place, of another file, or of an earlier generation of the block
//! fail the check.

use super::bytes::{ByteReader, ByteWriter, checksum};
use crate::names::{FileKey, PieceId, RECORD_ALIGN_BYTES};

use alloc::vec::Vec;

const MAGIC: &[u8; 8] = b"HLRECORD";
const FIELDS_BYTES: usize = 8 + 4 + 4 + 16 + 4 + 4 + 8 + 16;

/// Identity of a record, all of which is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordName {
    /// The SSD.
    pub device: u128,
    /// The block, numbered within the SSD.
    pub block: u32,
    /// Generation of the block.
    pub filling: u64,
    /// Offset within the block.
    pub offset: u32,
    /// The piece.
    pub piece: PieceId,
    /// Number of bytes.
    pub length: u32,
}

/// Size of a record with `length` bytes on the SSD, including header and padding.
pub const fn padded_bytes(length: u32) -> u64 {
    RECORD_ALIGN_BYTES as u64 + (length as u64).next_multiple_of(RECORD_ALIGN_BYTES as u64)
}

impl RecordName {
    fn fields(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIELDS_BYTES + 16);
        bytes.extend_from_slice(MAGIC);
        bytes.u32(super::FORMAT_VERSION);
        bytes.u32(self.length);
        bytes.u128(self.device);
        bytes.u32(self.block);
        bytes.u32(self.offset);
        bytes.u64(self.filling);
        bytes.u128(self.piece.file.0);
        bytes.u32(self.piece.piece);
        bytes
    }
}

/// Encodes a record into `into`, which must have the length [`padded_bytes`]; `None` if it has not,
/// or if `bytes` has a different length than the name.
pub fn encode_record(name: &RecordName, bytes: &[u8], into: &mut [u8]) -> Option<()> {
    if bytes.len() != name.length as usize || into.len() as u64 != padded_bytes(name.length) {
        return None;
    }
    let mut fields = name.fields();
    let sums = (checksum(&[&fields]), checksum(&[&fields, bytes]));
    fields.u64(sums.0);
    fields.u64(sums.1);
    let (header, rest) = into.split_at_mut(RECORD_ALIGN_BYTES as usize);
    header.fill(0);
    header.get_mut(..fields.len())?.copy_from_slice(&fields);
    let (payload, padding) = rest.split_at_mut(bytes.len());
    payload.copy_from_slice(bytes);
    padding.fill(0);
    Some(())
}

/// Whether `header` and `bytes` are the record with this name. Bytes after the record's length are
/// ignored.
pub fn decode_record(name: &RecordName, header: &[u8], bytes: &[u8]) -> bool {
    if mutated!(ChecksumUnchecked) {
        return RecordName::of_header(header).as_ref() == Some(name);
    }
    let other = match mutated!(RecordKeyUnchecked) {
        true => RecordName::of_header(header).filter(|of| of.length == name.length),
        false => None,
    };
    let name = other.as_ref().unwrap_or(name);
    let fields = name.fields();
    let Some((found, rest)) = header.split_at_checked(fields.len()) else {
        return false;
    };
    let Some(bytes) = bytes.get(..name.length as usize) else {
        return false;
    };
    let mut sums = ByteReader(rest);
    let sums = (sums.u64(), sums.u64());
    found == fields
        && sums.0 == Some(checksum(&[&fields]))
        && sums.1 == Some(checksum(&[&fields, bytes]))
}

impl RecordName {
    /// The identity stored in a header, if the header's checksum is correct; for scans of a whole
    /// SSD.
    pub fn of_header(header: &[u8]) -> Option<Self> {
        let mut reader = ByteReader(header);
        reader.is(MAGIC)?;
        if reader.u32()? != super::FORMAT_VERSION {
            return None;
        }
        let length = reader.u32()?;
        let device = reader.u128()?;
        let (block, offset) = (reader.u32()?, reader.u32()?);
        let filling = reader.u64()?;
        let (file, piece) = (FileKey(reader.u128()?), reader.u32()?);
        let name = Self {
            device,
            block,
            filling,
            offset,
            piece: PieceId { file, piece },
            length,
        };
        (reader.u64()? == checksum(&[&name.fields()])).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn name() -> RecordName {
        RecordName {
            device: 1 << 100,
            block: 5,
            filling: 77,
            offset: 8192,
            piece: PieceId {
                file: FileKey(3 << 90),
                piece: 9,
            },
            length: 5000,
        }
    }

    fn encoded() -> Vec<u8> {
        let mut record = vec![0xff; padded_bytes(5000) as usize];
        encode_record(&name(), &[7; 5000], &mut record).expect("fits");
        record
    }

    #[test]
    fn record_matches_only_its_own_name() {
        let record = encoded();
        let (header, bytes) = record.split_at(4096);
        assert!(decode_record(&name(), header, bytes));
        assert_eq!(RecordName::of_header(header), Some(name()));
        let others = [
            RecordName {
                device: 2,
                ..name()
            },
            RecordName { block: 6, ..name() },
            RecordName {
                filling: 78,
                ..name()
            },
            RecordName {
                offset: 4096,
                ..name()
            },
            RecordName {
                length: 4999,
                ..name()
            },
            RecordName {
                length: 5001,
                ..name()
            },
            RecordName {
                length: u32::MAX,
                ..name()
            },
            RecordName {
                piece: PieceId {
                    piece: 8,
                    ..name().piece
                },
                ..name()
            },
            RecordName {
                piece: PieceId {
                    file: FileKey(0),
                    ..name().piece
                },
                ..name()
            },
        ];
        for other in others {
            assert!(!decode_record(&other, header, bytes), "{other:?}");
        }
    }

    #[test]
    fn bit_flip_in_fields_or_bytes_is_detected() {
        let fields =
            (0..(FIELDS_BYTES + 4 + 16) * 8).chain((4096..4096 + 5000).map(|at| at * 8 + at % 8));
        for bit in fields {
            let mut record = encoded();
            record[bit / 8] ^= 1 << (bit % 8);
            let (header, bytes) = record.split_at(4096);
            assert!(!decode_record(&name(), header, bytes), "bit {bit}");
        }
    }

    #[test]
    fn torn_record_is_rejected() {
        let record = encoded();
        for written in [0, 4096, 8192] {
            let mut torn = vec![0; record.len()];
            torn[..written].copy_from_slice(&record[..written]);
            let (header, bytes) = torn.split_at(4096);
            assert!(!decode_record(&name(), header, bytes), "{written}");
        }
        assert!(!decode_record(&name(), &[], &[]));
    }

    #[test]
    fn record_is_not_encoded_into_wrong_length() {
        let mut short = vec![0; 8192];
        assert_eq!(encode_record(&name(), &[7; 5000], &mut short), None);
        assert_eq!(
            encode_record(&name(), &[7; 4999], &mut vec![0; 12_288]),
            None
        );
    }
}
