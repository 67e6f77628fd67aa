//! Eviction policies.
//!
//! The paper has three (FlashStream 3.2.3): the least recently read block, or the one whose records
//! were read least, by mean or by median. The adaptive policy is FIFO with reinsertion, like
//! S3-FIFO and SIEVE, on whole blocks: of the oldest few blocks, the one whose records are read
//! least by their decaying segment counts is evicted; a block spared often enough becomes as good
//! as new. A block that stays costs no write. Records evicted with a cold block are not copied
//! elsewhere, which would rewrite them whether or not they are requested again; their counts
//! remain, so they are admitted the next time the disk reads them.

use headlong_units::Instant;

use super::access_frequency::{AccessFrequency, segment};
use super::catalogue::{Catalogue, CatalogueBlock};
use super::ssds::Ssd;
use crate::spec::FlashPolicy;

/// Number of oldest blocks considered for eviction; the spared ones become the youngest.
const LOOKED_AT: usize = 8;

/// The next block of an SSD to evict, if any can be, with the value of its records.
pub(crate) fn choose(
    policy: FlashPolicy,
    now: Instant,
    ssd: &Ssd,
    catalogue: &Catalogue,
    heat: &AccessFrequency,
    piece_bytes: u64,
) -> Option<(u32, u64)> {
    let blocks = ssd.by_turn.values().copied();
    let blocks = blocks.filter_map(|number| Some((number, catalogue.block(number)?)));
    let free = blocks.filter(|(_, block)| block.pins == 0);
    let first = |score: fn(&CatalogueBlock) -> u64,
                 blocks: &mut dyn Iterator<Item = (u32, &CatalogueBlock)>| {
        let least = blocks.min_by_key(|(_, block)| (score(block), block.read_at, block.turn));
        least.map(|(number, _)| (number, 0))
    };
    match policy {
        FlashPolicy::Lru => first(|_| 0, &mut { free }),
        FlashPolicy::LfuMean => first(mean_reads, &mut { free }),
        FlashPolicy::LfuMedian => first(median_reads, &mut { free }),
        FlashPolicy::Adaptive => {
            let worth = |block: &CatalogueBlock| worth_of(now, block, catalogue, heat, piece_bytes);
            let oldest = free.take(LOOKED_AT);
            let scored = oldest.map(|(number, block)| (number, block.turn, worth(block)));
            let least = scored.min_by_key(|(_, turn, worth)| (*worth, *turn));
            least.map(|(number, _, worth)| (number, worth))
        }
    }
}

/// Moves the spared blocks older than `than` to the young end.
pub(crate) fn spare_older(ssd: &mut Ssd, catalogue: &mut Catalogue, than: u64, turn: &mut u64) {
    let older: alloc::vec::Vec<u64> = ssd.by_turn.range(..than).map(|(turn, _)| *turn).collect();
    for old in older {
        let Some(number) = ssd.by_turn.remove(&old) else {
            continue;
        };
        *turn += 1;
        ssd.by_turn.insert(*turn, number);
        if let Some(block) = catalogue.block_mut(number) {
            block.turn = *turn;
        }
    }
}

fn mean_reads(block: &CatalogueBlock) -> u64 {
    let reads = block.records.iter().filter(|record| !record.is_removed());
    let sum: u64 = reads.map(|record| u64::from(record.reads)).sum();
    sum * 1024 / u64::from(block.live.max(1))
}

fn median_reads(block: &CatalogueBlock) -> u64 {
    let live = block.records.iter().filter(|record| !record.is_removed());
    let mut reads: alloc::vec::Vec<u16> = live.map(|record| record.reads).collect();
    let middle = reads.len() / 2;
    match reads.is_empty() {
        true => 0,
        false => u64::from(*reads.select_nth_unstable(middle).1),
    }
}

/// Expected reads that the records of a block save, per byte of a full block; removed records save
/// none.
fn worth_of(
    now: Instant,
    block: &CatalogueBlock,
    catalogue: &Catalogue,
    heat: &AccessFrequency,
    piece_bytes: u64,
) -> u64 {
    let live = block.records.iter().filter(|record| !record.is_removed());
    let reads = live.filter_map(|record| {
        let piece = catalogue.piece(record)?;
        let reads = heat.reads(now, segment(piece, piece_bytes));
        Some(u64::from(reads) * u64::from(record.length))
    });
    let bytes = block.records.last().map_or(1, |last| u64::from(last.end()));
    reads.sum::<u64>() / bytes.max(1)
}
