//! A record staged for an SSD.

use headlong_flash::format::{RecordName, encode_record, padded_bytes};

use super::aligned::Aligned;

/// A record in its own memory, with its checksum.
#[derive(Debug)]
pub(crate) struct Record(pub(super) Aligned);

impl Record {
    pub(crate) fn of(name: &RecordName, content: &[u8]) -> Option<Self> {
        let mut record = Aligned::new(padded_bytes(name.length) as usize);
        encode_record(name, content, record.as_mut())?;
        Some(Self(record))
    }
}
