//! Adds recovered blocks to the store.
//!
//! Blocks may arrive in any order and in many parts, and can be read at once, so nothing waits for
//! the end of recovery.

use alloc::vec::Vec;

use headlong_units::Instant;

use super::FlashStore;
use super::catalogue::CatalogueBlock;
use crate::format::padded_bytes;
use crate::names::RECORD_ALIGN_BYTES;
use crate::spec::{RecordEntry, RecoveredBlock, SsdId};

impl FlashStore {
    /// Adds sealed blocks found on the SSDs. Blocks that were refilled meanwhile or belong to no
    /// SSD are skipped, and so are impossible records. Of two records of one piece, the one in the
    /// block sealed later wins.
    pub fn recover(&mut self, now: Instant, mut blocks: Vec<RecoveredBlock>) {
        blocks.sort_unstable_by_key(|block| (block.sequence, block.block));
        for found in blocks {
            let number = found.block.0;
            let turn = self.catalogue.block(number).map(|of| of.turn);
            let Some(ssd) = self.ssds.iter_mut().find(|ssd| ssd.has(number)) else {
                continue;
            };
            if turn != Some(0) || ssd.is_filling(number) {
                continue;
            }
            ssd.next_sequence = ssd.next_sequence.max(found.sequence.saturating_add(1));
            ssd.first_left = ssd.first_left.saturating_sub(u64::from(self.block_bytes));
            self.add_found(number, found.sequence, found.records);
            self.seal(now, number, found.sequence);
        }
        // During recovery the list of empty blocks is not used.
        for index in 0..self.ssds.len() {
            if !self.ssds[index].is_recovering {
                self.retain_empty(index);
            }
        }
    }

    fn retain_empty(&mut self, index: usize) {
        let catalogue = &self.catalogue;
        let is_empty = |block: &u32| catalogue.block(*block).is_some_and(|of| of.turn == 0);
        self.ssds[index].empty.retain(is_empty);
    }

    fn add_found(&mut self, block: u32, sequence: u64, mut records: Vec<RecordEntry>) {
        records.sort_unstable_by_key(|record| record.offset);
        let mut end = 0;
        records.retain(|record| {
            let fits = self.is_possible(record) && u64::from(record.offset) >= end;
            if fits {
                end = u64::from(record.offset) + padded_bytes(record.length);
            }
            fits
        });
        // Records of unsealed blocks, and of blocks sealed later, are newer.
        let older = |known: &CatalogueBlock| known.turn > 0 && known.sequence < sequence;
        self.catalogue.add_all(block, &records, older);
    }

    fn is_possible(&self, record: &RecordEntry) -> bool {
        let end = u64::from(record.offset) + padded_bytes(record.length);
        record.offset.is_multiple_of(RECORD_ALIGN_BYTES)
            && (1..=self.piece_bytes).contains(&u64::from(record.length))
            && end <= u64::from(self.block_bytes - self.summary_bytes)
    }

    /// Ends recovery: all blocks of the SSDs were searched, and writes may start. `written_bytes`
    /// were written within the last 24 hours. The SSDs in `fresh` were never filled: all of their
    /// blocks were readable and empty.
    pub fn end_recovery(&mut self, now: Instant, written_bytes: u64, fresh: &[SsdId]) {
        for index in 0..self.ssds.len() {
            if core::mem::take(&mut self.ssds[index].is_recovering) {
                self.retain_empty(index);
                self.order_by_age(index);
                let ssd = &mut self.ssds[index];
                if ssd.by_turn.is_empty() && fresh.contains(&ssd.id) {
                    ssd.first_left = ssd.empty.len() as u64 * u64::from(self.block_bytes);
                }
            }
        }
        self.wear.record(now, written_bytes);
        self.wear.reserve(now, written_bytes);
    }

    /// Sorts the blocks into eviction order by their sequence numbers, in whatever order they were
    /// found.
    fn order_by_age(&mut self, index: usize) {
        let ssd = &mut self.ssds[index];
        let found = core::mem::take(&mut ssd.by_turn);
        let mut blocks: Vec<(u64, u32)> = found
            .into_values()
            .filter_map(|block| Some((self.catalogue.block(block)?.sequence, block)))
            .collect();
        blocks.sort_unstable();
        let first = self.turn + 1;
        self.turn += blocks.len() as u64;
        for (turn, (_, block)) in (first..).zip(&blocks) {
            if let Some(of) = self.catalogue.block_mut(*block) {
                of.turn = turn;
            }
        }
        // Collected at once, because the input is sorted.
        ssd.by_turn = (first..)
            .zip(blocks.into_iter().map(|(_, block)| block))
            .collect();
    }
}
