//! A record to read.

use headlong_engine::FlashRecord;
use headlong_flash::format::RecordName;

/// A record to read.
#[derive(Debug)]
pub struct RecordRead<M> {
    /// Location of the record.
    pub record: FlashRecord,
    /// Expected name of the record.
    pub name: RecordName,
    /// Memory for its bytes.
    pub memory: M,
}
