//! Numbers of the names in a batch of rows.

use crate::names::Interner;
use crate::number_cache::NumberCache;
use crate::parquet::plain::NameColumn;

/// Numbers of the names in a batch, by row.
#[derive(Default)]
pub(super) struct BatchNumbers {
    /// With the partition of the session.
    pub(super) sessions: Vec<(u32, u32)>,
    pub(super) files: Vec<u32>,
    pub(super) disks: Vec<u32>,
    pub(super) devices: Vec<u32>,
}

impl BatchNumbers {
    pub(super) fn clear(&mut self) {
        self.sessions.clear();
        self.files.clear();
        self.disks.clear();
        self.devices.clear();
    }
}

/// Assigns numbers to the names of a column, in order.
pub(super) fn put_numbers(
    known: &mut NumberCache,
    column: NameColumn<'_>,
    names: &Interner,
    mut put: impl FnMut(u32, u64),
) {
    match column {
        NameColumn::Numbers(numbers) => {
            for number in numbers {
                let (number, hash) = known.intern_number(number.cast_unsigned(), names);
                put(number, hash);
            }
        }
        NameColumn::Texts(texts) => {
            for text in texts {
                let (number, hash) = known.intern(text.data(), names);
                put(number, hash);
            }
        }
    }
}
