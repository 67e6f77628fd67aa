//! The blocks of each SSD as they go round: empty, filled with records, sealed, and dropped.
//!
//! The one idea: an SSD has one open block, which takes records one behind the other, and at most one
//! more that is full and still being written. So its writes are sequential within a block, one at a
//! time, and memory that collects blocks is bounded by two of them.
//!
//! Invariant: a block is in one place: `empty`, `filling`, or `by_turn`.

use alloc::collections::{BTreeMap, VecDeque};

use headlong_units::Instant;

use super::ssd::Conduct;
use crate::spec::{SsdId, SsdSpec};

/// Blocks of one SSD that memory collects at a time.
pub(crate) const FILLING_MAX: usize = 2;
/// A write is of this many bytes, while the block takes more, ...
const WRITE_BYTES: u32 = 1 << 20;
/// ... and of so many at most: a read that comes behind it waits for no more. As many are written
/// where memory collects all that it may: between two writes the SSD has nothing to do, for as long
/// as a busy machine takes.
const WRITE_BYTES_MAX: u32 = 2 << 20;

/// A block that memory collects.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) block: u32,
    /// Tells this use of the block from others.
    serial: u64,
    /// One past the last record that was taken.
    pub(crate) staged: u32,
    /// Given to the SSD up to here.
    issued: u32,
    /// Written up to here.
    pub(crate) written: u32,
    /// It takes no more records.
    pub(crate) is_closed: bool,
    is_sealing: bool,
    /// Its bytes are of the SSD's first filling.
    pub(crate) is_first: bool,
}

impl Filling {
    /// Bytes that will still be given to the SSD, of so many in all.
    fn bytes_left(&self, block_bytes: u64) -> u64 {
        match self.is_sealing {
            true => 0,
            false => block_bytes - u64::from(self.issued),
        }
    }

    /// Bytes of records that wait to be given to the SSD.
    pub(crate) fn bytes_waiting(&self) -> u64 {
        u64::from(self.staged - self.issued)
    }
}

/// What an SSD was given to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Write {
        block: u32,
        from: u32,
        to: u32,
    },
    Seal {
        block: u32,
        from: u32,
        sequence: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct UnderWay {
    task: Task,
    serial: u64,
}

/// What came of a task that ended well.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was of a block that is not collected any more, or of none.
    Nothing,
    /// More of a block can be read.
    Written,
    /// This block is sealed, with this sequence number.
    Sealed(u32, u64),
}

/// One SSD.
#[derive(Debug)]
pub(crate) struct Ssd {
    pub(crate) id: SsdId,
    pub(crate) first_block: u32,
    pub(crate) end_block: u32,
    pub(crate) conduct: Conduct,
    pub(crate) empty: VecDeque<u32>,
    /// Sealed blocks, in order of age.
    pub(crate) by_turn: BTreeMap<u64, u32>,
    pub(crate) filling: VecDeque<Filling>,
    under_way: Option<UnderWay>,
    serial: u64,
    pub(crate) next_sequence: u64,
    /// What is on it is not all known: nothing may be written.
    pub(crate) is_recovering: bool,
    /// Bytes of the first filling that are left.
    pub(crate) first_left: u64,
    /// The block that would go next, what is in it worth, and when that was looked at.
    pub(crate) victim: Option<(u32, u64, Instant)>,
}

impl Ssd {
    pub(crate) fn new(spec: &SsdSpec, block_bytes: u32) -> Self {
        let blocks = spec.blocks.start.0..spec.blocks.end.0;
        let count = u64::from(blocks.end - blocks.start);
        Self {
            id: spec.ssd,
            first_block: blocks.start,
            end_block: blocks.end,
            conduct: Conduct::default(),
            empty: blocks.collect(),
            by_turn: BTreeMap::new(),
            filling: VecDeque::new(),
            under_way: None,
            serial: 0,
            next_sequence: 1,
            is_recovering: false,
            first_left: match spec.is_fresh {
                true => count * u64::from(block_bytes),
                false => 0,
            },
            victim: None,
        }
    }

    pub(crate) fn has(&self, block: u32) -> bool {
        (self.first_block..self.end_block).contains(&block)
    }

    /// A block that takes records.
    pub(crate) fn open(&mut self, block: u32, is_first: bool) {
        self.serial += 1;
        self.filling.push_back(Filling {
            block,
            serial: self.serial,
            staged: 0,
            issued: 0,
            written: 0,
            is_closed: false,
            is_sealing: false,
            is_first,
        });
    }

    /// Whether a block is collected.
    pub(crate) fn is_filling(&self, block: u32) -> bool {
        self.filling.iter().any(|filling| filling.block == block)
    }

    /// The block that takes records.
    pub(crate) fn opened(&mut self) -> Option<&mut Filling> {
        self.filling.back_mut().filter(|filling| !filling.is_closed)
    }

    /// Whether a block is open, or one can be opened as far as memory goes.
    pub(crate) fn can_take(&self) -> bool {
        if self.is_recovering {
            return false;
        }
        self.filling.back().is_some_and(|last| !last.is_closed) || self.can_open()
    }

    fn can_open(&self) -> bool {
        self.filling.len() < FILLING_MAX && self.filling.back().is_none_or(|last| last.is_closed)
    }

    /// Bytes that will still be given to the SSD, of so many for a block in all, and are not of its
    /// first filling.
    pub(crate) fn bytes_left(&self, block_bytes: u64) -> u64 {
        let counted = self.filling.iter().filter(|filling| !filling.is_first);
        counted.map(|filling| filling.bytes_left(block_bytes)).sum()
    }

    /// Whether there is something to write; the next task is [`Self::begin_task`]'s.
    pub(crate) fn has_task(&self) -> bool {
        self.under_way.is_none() && self.next_task().is_some()
    }

    fn next_task(&self) -> Option<Task> {
        let first = self.filling.front()?;
        let left = first.staged - first.issued;
        if left >= WRITE_BYTES || (first.is_closed && left > 0) {
            // What is left over goes with the last one.
            let bytes = match self.filling.len() < FILLING_MAX {
                _ if left < WRITE_BYTES_MAX => left,
                true => WRITE_BYTES,
                false => WRITE_BYTES_MAX,
            };
            return Some(Task::Write {
                block: first.block,
                from: first.issued,
                to: first.issued + bytes,
            });
        }
        let is_written = first.is_closed && !first.is_sealing && first.written == first.staged;
        is_written.then_some(Task::Seal {
            block: first.block,
            from: first.staged,
            sequence: self.next_sequence,
        })
    }

    /// Gives the SSD its next task. Answers it, and whether its bytes are of the first filling.
    pub(crate) fn begin_task(&mut self) -> Option<(Task, bool)> {
        if self.under_way.is_some() {
            return None;
        }
        let task = self.next_task()?;
        let first = self.filling.front_mut()?;
        match task {
            Task::Write { to, .. } => first.issued = to,
            Task::Seal { .. } => {
                first.is_sealing = true;
                self.next_sequence += 1;
            }
        }
        self.under_way = Some(UnderWay {
            task,
            serial: first.serial,
        });
        Some((task, first.is_first))
    }

    /// Whether this is what the SSD was given to do: bytes of a block up to somewhere, or a seal.
    pub(crate) fn is_doing(&self, block: u32, to: Option<u32>) -> bool {
        let task = self.under_way.map(|under_way| under_way.task);
        match (task, to) {
            (
                Some(Task::Write {
                    block: of, to: end, ..
                }),
                Some(to),
            ) => of == block && end == to,
            (Some(Task::Seal { block: of, .. }), None) => of == block,
            _ => false,
        }
    }

    /// The task ended. Answers whether the block is still collected, and what came of it.
    pub(crate) fn end_task(&mut self) -> Ended {
        let Some(UnderWay { task, serial }) = self.under_way.take() else {
            return Ended::Nothing;
        };
        let Some(first) = self.filling.front_mut().filter(|of| of.serial == serial) else {
            return Ended::Nothing;
        };
        match task {
            Task::Write { to, .. } => {
                first.written = to;
                Ended::Written
            }
            Task::Seal {
                block, sequence, ..
            } => {
                self.filling.pop_front();
                Ended::Sealed(block, sequence)
            }
        }
    }

    /// Whether a record that ends at `end` can be read.
    pub(crate) fn is_written(&self, block: u32, end: u32) -> bool {
        let mut filling = self.filling.iter();
        let filling = filling.find(|filling| filling.block == block);
        filling.is_none_or(|filling| end <= filling.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::BlockId;

    #[test]
    fn more_is_written_at_a_time_where_memory_collects_all_that_it_may() {
        let spec = SsdSpec {
            ssd: SsdId(0),
            blocks: BlockId(0)..BlockId(4),
            is_fresh: false,
        };
        let block = 16 << 20;
        let mut ssd = Ssd::new(&spec, block);
        ssd.open(0, false);
        let size = |ssd: &mut Ssd| match ssd.begin_task() {
            Some((Task::Write { from, to, .. }, _)) => {
                ssd.end_task();
                to - from
            }
            other => panic!("{other:?}"),
        };
        ssd.opened().expect("one").staged = 8 << 20;
        assert_eq!(size(&mut ssd), 1 << 20);
        ssd.opened().expect("one").is_closed = true;
        ssd.open(1, false);
        assert_eq!(size(&mut ssd), 2 << 20);
        assert_eq!(ssd.filling[0].written, 3 << 20);
    }
}
