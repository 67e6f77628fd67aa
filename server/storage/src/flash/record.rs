//! A record staged for an SSD.

use headlong_flash::format::{RecordName, encode_record, padded_bytes};

use super::aligned_bytes::AlignedBytes;

/// A record in its own memory, with its checksum.
#[derive(Debug)]
pub(crate) struct RecordBuffer(pub(super) AlignedBytes);

impl RecordBuffer {
    pub(crate) fn of(name: &RecordName, content: &[u8]) -> Option<Self> {
        let mut record = AlignedBytes::new(padded_bytes(name.length) as usize);
        encode_record(name, content, record.as_mut())?;
        Some(Self(record))
    }
}
