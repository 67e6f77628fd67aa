//! Block mapping of flash: the data to copy when a partly written block is closed.
//!
//! A write that continues the previous one in its block is free of copying; a write to another
//! block opens that; when too many are open, all are closed at once: of each, the bytes not
//! rewritten are copied from the old block (a merge of log blocks, as in early controllers).

use alloc::vec;
use alloc::vec::Vec;

/// A block open for writing.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    block: u64,
    /// The written bytes of the block are `start..end`.
    start: u64,
    end: u64,
}

/// The map of one drive.
#[derive(Debug, Clone)]
pub(super) struct BlockMap {
    block_bytes: u64,
    open_max: usize,
    open: Vec<OpenBlock>,
    /// Whether each block has ever been written; otherwise there is nothing to copy.
    has_data: Vec<bool>,
}

/// Cost of closing blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BlockCloseCost {
    pub(super) copied_bytes: u64,
    pub(super) erased: u64,
}

impl BlockMap {
    pub(super) fn new(capacity_bytes: u64, block_bytes: u64, open_blocks: u32) -> Self {
        // At most a million blocks are mapped, whatever the block size.
        let block_bytes = block_bytes.max(4_096).max(capacity_bytes.div_ceil(1 << 20));
        Self {
            block_bytes,
            open_max: open_blocks.clamp(1, 1_024) as usize,
            open: Vec::new(),
            has_data: vec![false; capacity_bytes.div_ceil(block_bytes).max(1) as usize],
        }
    }

    /// Records a write and returns its cost.
    pub(super) fn write(&mut self, start_byte: u64, bytes: u64) -> BlockCloseCost {
        let mut closed = BlockCloseCost::default();
        let (mut at, end) = (start_byte, start_byte + bytes);
        while at < end {
            let block = at / self.block_bytes;
            let base = block * self.block_bytes;
            let stop = (base + self.block_bytes).min(end);
            self.write_in(block, at - base, stop - base, &mut closed);
            at = stop;
        }
        closed
    }

    fn write_in(&mut self, block: u64, start: u64, end: u64, closed: &mut BlockCloseCost) {
        let known = self.open.iter().position(|open| open.block == block);
        let open = match known.map(|index| self.open.swap_remove(index)) {
            Some(open) if open.end == start => OpenBlock { end, ..open },
            Some(out_of_order) => {
                self.close(out_of_order, closed);
                OpenBlock { block, start, end }
            }
            None => {
                if self.open.len() >= self.open_max {
                    for open in core::mem::take(&mut self.open) {
                        self.close(open, closed);
                    }
                }
                OpenBlock { block, start, end }
            }
        };
        if open.start == 0 && open.end == self.block_bytes {
            self.close(open, closed);
        } else {
            self.open.push(open);
        }
    }

    fn close(&mut self, open: OpenBlock, closed: &mut BlockCloseCost) {
        let Some(has_data) = self.has_data.get_mut(open.block as usize) else {
            return;
        };
        if *has_data {
            closed.copied_bytes += self.block_bytes - (open.end - open.start);
            closed.erased += 1;
        }
        *has_data = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 1 << 20;

    fn full() -> BlockMap {
        let mut blocks = BlockMap::new(64 * BLOCK, BLOCK, 2);
        for block in 0..64 {
            blocks.write(block * BLOCK, BLOCK);
        }
        blocks
    }

    #[test]
    fn whole_block_writes_copy_nothing() {
        let mut blocks = full();
        let halves = blocks.write(0, BLOCK / 2).copied_bytes
            + blocks.write(BLOCK / 2, BLOCK / 2).copied_bytes;
        assert_eq!((halves, blocks.open.len()), (0, 0));
        assert_eq!(
            blocks.write(5 * BLOCK, 3 * BLOCK),
            BlockCloseCost {
                copied_bytes: 0,
                erased: 3
            }
        );
    }

    #[test]
    fn exceeding_open_blocks_closes_all() {
        let mut blocks = full();
        assert_eq!(blocks.write(0, 4_096).copied_bytes, 0);
        assert_eq!(blocks.write(9 * BLOCK, 4_096).copied_bytes, 0);
        let closed = blocks.write(20 * BLOCK, 4_096);
        assert_eq!(
            (closed.copied_bytes, closed.erased),
            (2 * (BLOCK - 4_096), 2)
        );
    }

    #[test]
    fn out_of_order_write_closes_block() {
        let mut blocks = full();
        blocks.write(0, 8_192);
        assert_eq!(blocks.write(0, 4_096).copied_bytes, BLOCK - 8_192);
    }
}
