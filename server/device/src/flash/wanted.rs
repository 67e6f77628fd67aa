//! A record to be read.

use headlong_engine::FlashRecord;
use headlong_flash::format::RecordName;

/// One record to be read.
#[derive(Debug)]
pub struct WantedRecord<M> {
    /// Where it is.
    pub record: FlashRecord,
    /// What it must be.
    pub name: RecordName,
    /// Memory for its bytes.
    pub memory: M,
}
