//! What is on an SSD at the start: by its checkpoints, by the summaries of blocks, by records.
//!
//! Several threads look at groups of blocks side by side, for an SSD answers so. What they find is
//! given to the engine in small parts, one at a time, while it serves.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_flash::RecordEntry;
use headlong_flash::format::{
    GROUP_BLOCKS, Summary, SummaryHead, Super, recover, scan, search_block,
};

use super::aligned::Aligned;
use super::medium::Medium;
use super::ssd::Ssd;

/// Threads that look.
const SCANS: u32 = 16;
/// Groups that are looked at together: some ten thousand records.
const GROUPS: u32 = 16;
/// Parts that were found and not taken yet.
const PARTS_MAX: usize = 4;

/// A block without a summary that holds records.
struct Bare {
    block: u32,
    filling: u64,
    entries: Vec<RecordEntry>,
}

/// What is looked at, and for whom.
pub(super) struct Search<'a> {
    pub(super) ssd: &'a Ssd,
    pub(super) blocks: Range<u32>,
    pub(super) owner: u64,
}

impl Search<'_> {
    /// Looks at all blocks and gives what is found to `take`, part by part, until that answers that
    /// nobody wants it. Answers how many bytes were written.
    pub(super) fn run(&self, mut take: impl FnMut(Vec<Summary>) -> bool) -> u64 {
        let first = self.blocks.start / GROUP_BLOCKS;
        let end = self.blocks.end.div_ceil(GROUP_BLOCKS);
        let next = AtomicU32::new(first);
        let (bare, saved) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        let mut sequence = 0;
        std::thread::scope(|scope| {
            let (give, given) = sync_channel(PARTS_MAX);
            for _ in 0..SCANS.min(end.saturating_sub(first).div_ceil(GROUPS)) {
                let give: SyncSender<Vec<Summary>> = give.clone();
                let (next, bare, saved) = (&next, &bare, &saved);
                let look = move || {
                    loop {
                        let from = next.fetch_add(GROUPS, Ordering::Relaxed);
                        if from >= end {
                            return;
                        }
                        let (summaries, found) = self.look(from..end.min(from + GROUPS), saved);
                        lock(bare).extend(found);
                        if give.send(summaries).is_err() {
                            return;
                        }
                    }
                };
                let thread = std::thread::Builder::new().name("flash-recover".to_owned());
                if let Err(error) = thread.spawn_scoped(scope, look) {
                    tracing::warn!(%error, "one thread less looks at flash");
                }
            }
            drop(give);
            for mut summaries in given {
                summaries.retain(|of| {
                    sequence = sequence.max(of.head.sequence);
                    self.blocks.contains(&of.head.block) && of.head.owner == self.owner
                });
                if !take(summaries) {
                    break;
                }
            }
        });
        let mut bare = std::mem::take(&mut *lock(&bare));
        bare.sort_by_key(|of| of.block);
        let sealed = bare.into_iter().filter_map(|bare| {
            sequence += 1;
            self.seal(bare, sequence, &saved)
        });
        take(sealed.collect());
        saved.into_inner()
    }

    /// What some groups have by checkpoint or summary, and what their other blocks hold. Checkpoints
    /// that were void are written, if nothing else will change in them first.
    fn look(&self, groups: Range<u32>, saved: &AtomicU64) -> (Vec<Summary>, Vec<Bare>) {
        let (medium, tier) = (&self.ssd.medium, &self.ssd.tier);
        let found = recover(tier, groups, medium.reader());
        let mut reader = medium.reader();
        let mut search = |block: u32| {
            let (filling, entries) = search_block(tier, block, &mut reader)?;
            Some(Bare {
                block,
                filling,
                entries,
            })
        };
        let own = found
            .bare
            .iter()
            .filter(|block| self.blocks.contains(block));
        let bare: Vec<Bare> = own.filter_map(|block| search(*block)).collect();
        for group in found.void {
            let blocks = tier.layout.group_blocks(group);
            let is_own = self.blocks.start <= blocks.start && blocks.end <= self.blocks.end;
            if is_own && !bare.iter().any(|of| blocks.contains(&of.block)) {
                let summaries = found.summaries.iter();
                let of_group = summaries.filter(|of| blocks.contains(&of.head.block));
                let bytes = self.ssd.save_found(group, of_group);
                saved.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        (found.summaries, bare)
    }

    /// Writes the summary that a block lacks.
    fn seal(&self, bare: Bare, sequence: u64, saved: &AtomicU64) -> Option<Summary> {
        let Bare {
            block,
            filling,
            entries,
        } = bare;
        let (medium, tier) = (&self.ssd.medium, &self.ssd.tier);
        let head = SummaryHead {
            block,
            count: entries.len() as u32,
            filling,
            sequence,
            owner: self.owner,
            sealed_s: now_s(),
        };
        let summary = Summary { head, entries };
        let bytes = Aligned::of(&summary.encode(tier.device));
        let start = tier.layout.block_start(block)?;
        let sealed = medium.file().sync_data().and_then(|()| {
            medium.write_counted(&self.ssd.counters, start, &bytes)?;
            medium.file().sync_data()
        });
        saved.fetch_add(bytes.as_ref().len() as u64, Ordering::Relaxed);
        sealed.ok()?;
        // Another disk may be filling a block of the group, and will write its checkpoint.
        let known = summary.clone();
        self.ssd
            .with_checkpoints(|checkpoints, _| checkpoints.end(block, Some(known)));
        Some(summary)
    }
}

/// The summaries of blocks, in order, whatever checkpoints say.
pub(super) fn look_at_all(medium: &Medium, tier: &Super, blocks: Range<u32>) -> Vec<Summary> {
    let share = (blocks.end.saturating_sub(blocks.start))
        .div_ceil(SCANS)
        .max(1);
    std::thread::scope(|scope| {
        let starts = blocks.clone().step_by(share as usize);
        let scans: Vec<_> = starts
            .map(|start| {
                let blocks = start..(start + share).min(blocks.end);
                let job = move || scan(tier, blocks, medium.reader());
                std::thread::Builder::new().spawn_scoped(scope, job)
            })
            .collect();
        let mut summaries = Vec::new();
        for thread in scans {
            let found = thread.ok().and_then(|thread| thread.join().ok());
            summaries.extend(found.unwrap_or_default().summaries);
        }
        summaries
    })
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Whether a block was sealed within the last day: what the budget of writes has lost already. One
/// that says that it was sealed in the future counts too.
pub(super) fn is_of_today(summary: &Summary) -> bool {
    summary.head.sealed_s >= now_s().saturating_sub(24 * 3600)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
