//! An SSD as seen by the jobs that run on it. Its methods may block.

use alloc::vec::Vec;

use headlong_flash::CheckpointDevice;

use super::record_read::RecordRead;

/// Callback that receives the index, header and bytes of each record of a run, in order.
pub type EachRecord<'a> = dyn FnMut(usize, &[u8], &[u8]) + 'a;

/// An SSD that stores blocks and returns records.
pub trait FlashMedium: CheckpointDevice {
    /// A staged record.
    type Record;
    /// Memory for the bytes of a record.
    type Memory;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// If durability is not certain.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Discards a range whose content is no longer needed.
    fn discard(&mut self, at: u64, bytes: u64);

    /// Writes records of the block at `block_start`, each at its offset, and drops them.
    ///
    /// # Errors
    /// If any record may be missing.
    fn write_records(
        &mut self,
        block_start: u64,
        records: Vec<(u32, Self::Record)>,
    ) -> Result<(), Self::Error>;

    /// Reads contiguous records from `at` into their memory and calls `each` for every record.
    ///
    /// # Errors
    /// If the SSD does not return all records.
    fn read_run(
        &mut self,
        at: u64,
        run: &mut [RecordRead<Self::Memory>],
        each: &mut EachRecord<'_>,
    ) -> Result<(), Self::Error>;
}

/// An SSD that may have been removed.
pub trait ProbedMedium: FlashMedium {
    /// Size of the SSD in bytes.
    fn bytes(&self) -> u64;

    /// Reopens the SSD. Returns whether it is present and still has the same tier.
    fn reopen(&mut self) -> bool;
}
