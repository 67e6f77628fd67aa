//! An SSD, as the jobs that work on it see it. Its calls may block.

use alloc::vec::Vec;

use headlong_flash::Ground;

use super::wanted::WantedRecord;

/// Called with the index, the header and the bytes of every record of a run, in order.
pub type EachRecord<'a> = dyn FnMut(usize, &[u8], &[u8]) + 'a;

/// An SSD that blocks are written to and records are read from.
pub trait FlashMedium: Ground {
    /// A record that was staged.
    type Record;
    /// Memory for a record's bytes.
    type Memory;

    /// Makes durable what was written.
    ///
    /// # Errors
    /// If it may not be.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Nothing in these bytes is wanted any more.
    fn discard(&mut self, at: u64, bytes: u64);

    /// Writes records of a block that begins at `block_start`, each at its offset, and drops them.
    ///
    /// # Errors
    /// If not all of them may be there.
    fn write_records(
        &mut self,
        block_start: u64,
        records: Vec<(u32, Self::Record)>,
    ) -> Result<(), Self::Error>;

    /// Reads records that lie one behind the other from `at` on into their memory. `each` is called
    /// with every one of them.
    ///
    /// # Errors
    /// If the SSD does not give all of them.
    fn read_run(
        &mut self,
        at: u64,
        run: &mut [WantedRecord<Self::Memory>],
        each: &mut EachRecord<'_>,
    ) -> Result<(), Self::Error>;
}

/// An SSD that may have been taken away.
pub trait ProbedMedium: FlashMedium {
    /// Bytes of the SSD.
    fn bytes(&self) -> u64;

    /// Opens it anew; whether it is there, with the tier that it had.
    fn reopen(&mut self) -> bool;
}
