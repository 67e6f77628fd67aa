//! Life cycle of an SSD's blocks: empty, filling, sealed, evicted.
//!
//! An SSD has one open block, to which records are appended, and at most one more that is closed
//! and still being written. So its writes are sequential within a block, one at a time, and at most
//! two blocks are staged in memory.
//!
//! Invariant: a block is in exactly one of `empty`, `filling` and `by_turn`.

use alloc::collections::{BTreeMap, VecDeque};

use headlong_units::Instant;

use super::ssd::SsdBehaviour;
use crate::spec::{SsdId, SsdSpec};

/// Upper limit of blocks per SSD that are staged in memory.
pub(crate) const FILLING_MAX: usize = 2;
/// Minimum size of a write while the block is open, ...
const WRITE_BYTES: u32 = 1 << 20;
/// ... and maximum size, which bounds the delay of a read queued behind it. The maximum is used
/// when staging memory is full, since the SSD is idle between two writes for as long as a busy
/// machine takes.
const WRITE_BYTES_MAX: u32 = 2 << 20;

/// A block that is staged in memory.
#[derive(Debug)]
pub(crate) struct StagedBlock {
    pub(crate) block: u32,
    /// Distinguishes this use of the block from others.
    serial: u64,
    /// End of the last admitted record.
    pub(crate) staged: u32,
    /// End of the range submitted to the SSD.
    issued: u32,
    /// End of the range written.
    pub(crate) written: u32,
    /// The block accepts no more records.
    pub(crate) is_closed: bool,
    is_sealing: bool,
    /// Whether its bytes belong to the SSD's initial fill.
    pub(crate) is_first: bool,
}

impl StagedBlock {
    /// Bytes not yet submitted to the SSD, of `block_bytes` in total.
    fn bytes_left(&self, block_bytes: u64) -> u64 {
        match self.is_sealing {
            true => 0,
            false => block_bytes - u64::from(self.issued),
        }
    }

    /// Bytes of records not yet submitted to the SSD.
    pub(crate) fn bytes_waiting(&self) -> u64 {
        u64::from(self.staged - self.issued)
    }
}

/// A write task of an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteTask {
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
struct TaskInProgress {
    task: WriteTask,
    serial: u64,
}

/// Result of a successful task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TaskResult {
    /// The block is not staged any more, or there was no task.
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
    pub(crate) conduct: SsdBehaviour,
    pub(crate) empty: VecDeque<u32>,
    /// Sealed blocks in eviction order.
    pub(crate) by_turn: BTreeMap<u64, u32>,
    pub(crate) filling: VecDeque<StagedBlock>,
    under_way: Option<TaskInProgress>,
    serial: u64,
    pub(crate) next_sequence: u64,
    /// During recovery nothing may be written.
    pub(crate) is_recovering: bool,
    /// Bytes left of the initial fill.
    pub(crate) first_left: u64,
    /// The next block to evict, the value of its records, and when that was computed.
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
            conduct: SsdBehaviour::default(),
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

    /// Opens a block for records.
    pub(crate) fn open(&mut self, block: u32, is_first: bool) {
        self.serial += 1;
        self.filling.push_back(StagedBlock {
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

    /// Whether a block is staged.
    pub(crate) fn is_filling(&self, block: u32) -> bool {
        self.filling.iter().any(|filling| filling.block == block)
    }

    /// The open block.
    pub(crate) fn opened(&mut self) -> Option<&mut StagedBlock> {
        self.filling.back_mut().filter(|filling| !filling.is_closed)
    }

    /// Whether a block is open, or can be opened within the memory limit.
    pub(crate) fn can_take(&self) -> bool {
        if self.is_recovering {
            return false;
        }
        self.filling.back().is_some_and(|last| !last.is_closed) || self.can_open()
    }

    fn can_open(&self) -> bool {
        self.filling.len() < FILLING_MAX && self.filling.back().is_none_or(|last| last.is_closed)
    }

    /// Bytes not yet submitted to the SSD, of `block_bytes` per block in total, except those of the
    /// initial fill.
    pub(crate) fn bytes_left(&self, block_bytes: u64) -> u64 {
        let counted = self.filling.iter().filter(|filling| !filling.is_first);
        counted.map(|filling| filling.bytes_left(block_bytes)).sum()
    }

    /// Whether there is a task; [`Self::begin_task`] returns it.
    pub(crate) fn has_task(&self) -> bool {
        self.under_way.is_none() && self.next_task().is_some()
    }

    fn next_task(&self) -> Option<WriteTask> {
        let first = self.filling.front()?;
        let left = first.staged - first.issued;
        if left >= WRITE_BYTES || (first.is_closed && left > 0) {
            // The remainder is included in the last write.
            let bytes = match self.filling.len() < FILLING_MAX {
                _ if left < WRITE_BYTES_MAX => left,
                true => WRITE_BYTES,
                false => WRITE_BYTES_MAX,
            };
            return Some(WriteTask::Write {
                block: first.block,
                from: first.issued,
                to: first.issued + bytes,
            });
        }
        let is_written = first.is_closed && !first.is_sealing && first.written == first.staged;
        is_written.then_some(WriteTask::Seal {
            block: first.block,
            from: first.staged,
            sequence: self.next_sequence,
        })
    }

    /// Starts the next task. Returns it, and whether its bytes belong to the initial fill.
    pub(crate) fn begin_task(&mut self) -> Option<(WriteTask, bool)> {
        if self.under_way.is_some() {
            return None;
        }
        let task = self.next_task()?;
        let first = self.filling.front_mut()?;
        match task {
            WriteTask::Write { to, .. } => first.issued = to,
            WriteTask::Seal { .. } => {
                first.is_sealing = true;
                self.next_sequence += 1;
            }
        }
        self.under_way = Some(TaskInProgress {
            task,
            serial: first.serial,
        });
        Some((task, first.is_first))
    }

    /// Whether this task is in flight: a write of a block up to `to`, or a seal.
    pub(crate) fn is_doing(&self, block: u32, to: Option<u32>) -> bool {
        let task = self.under_way.map(|under_way| under_way.task);
        match (task, to) {
            (
                Some(WriteTask::Write {
                    block: of, to: end, ..
                }),
                Some(to),
            ) => of == block && end == to,
            (Some(WriteTask::Seal { block: of, .. }), None) => of == block,
            _ => false,
        }
    }

    /// The task in flight has completed. Returns its result.
    pub(crate) fn end_task(&mut self) -> TaskResult {
        let Some(TaskInProgress { task, serial }) = self.under_way.take() else {
            return TaskResult::Nothing;
        };
        let Some(first) = self.filling.front_mut().filter(|of| of.serial == serial) else {
            return TaskResult::Nothing;
        };
        match task {
            WriteTask::Write { to, .. } => {
                first.written = to;
                TaskResult::Written
            }
            WriteTask::Seal {
                block, sequence, ..
            } => {
                self.filling.pop_front();
                TaskResult::Sealed(block, sequence)
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
    fn writes_are_larger_when_staging_memory_is_full() {
        let spec = SsdSpec {
            ssd: SsdId(0),
            blocks: BlockId(0)..BlockId(4),
            is_fresh: false,
        };
        let block = 16 << 20;
        let mut ssd = Ssd::new(&spec, block);
        ssd.open(0, false);
        let size = |ssd: &mut Ssd| match ssd.begin_task() {
            Some((WriteTask::Write { from, to, .. }, _)) => {
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
