//! An SSD as the server's checkpoints see it.

use headlong_flash::format::{Found, ReadFailed, Super, recover};
use headlong_flash::{Ground, RECORD_ALIGN_BYTES};

use crate::drive::{Drive, Failed};
use crate::plant::Plant;

/// What checkpoints are written to, and the bug that is in it.
pub(crate) struct Planted<'d>(pub(crate) &'d mut Drive, pub(crate) Option<Plant>);

impl Ground for Planted<'_> {
    type Error = Failed;

    fn tier(&self) -> Super {
        self.0.tier
    }

    fn reader(&mut self) -> impl FnMut(u64, &mut [u8]) -> Result<(), ReadFailed> + '_ {
        |at, into| self.0.read(at, into)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.0.put(at, bytes)
    }

    fn found(&mut self, group: u32) -> Found {
        let mut found = recover(&self.tier(), group..group + 1, self.reader());
        if self.1 == Some(Plant::UnreadableForgotten) {
            found.unreadable.clear();
        }
        found
    }

    fn void(&mut self, group: u32) -> Result<(), Failed> {
        let place = self.0.tier.layout.checkpoint_place(group);
        match place.filter(|_| self.1 != Some(Plant::CheckpointNotVoided)) {
            Some((at, _)) => self.write(at, &[0; RECORD_ALIGN_BYTES as usize]),
            None => Ok(()),
        }
    }
}
