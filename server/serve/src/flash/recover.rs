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
    GROUP_BLOCKS, ReadFailed, Summary, SummaryHead, Super, recover, scan, search_block,
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

/// What came of a look at all blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looked {
    /// Bytes that were, or may have been, written within the last day.
    pub(super) written_bytes: u64,
    /// Whether every block could be looked at and holds nothing, of whatever disk: only then the SSD
    /// has not been filled before.
    pub(super) is_fresh: bool,
}

/// What the threads that look have seen besides summaries.
#[derive(Default)]
struct Seen {
    bare: Mutex<Vec<Bare>>,
    saved_bytes: AtomicU64,
    groups: AtomicU32,
    /// Blocks that could not be read.
    unread: AtomicU32,
}

/// What is looked at, and for whom.
pub(super) struct Search<'a> {
    pub(super) ssd: &'a Ssd,
    pub(super) blocks: Range<u32>,
    pub(super) owner: u64,
}

impl Search<'_> {
    /// Looks at all blocks and gives what is found to `take`, part by part, until that answers that
    /// nobody wants it.
    pub(super) fn run(&self, mut take: impl FnMut(Vec<Summary>) -> bool) -> Looked {
        let first = self.blocks.start / GROUP_BLOCKS;
        let end = self.blocks.end.div_ceil(GROUP_BLOCKS);
        let next = AtomicU32::new(first);
        let seen = Seen::default();
        let (mut sequence, mut is_used, mut today) = (0, false, 0);
        std::thread::scope(|scope| {
            let (give, given) = sync_channel(PARTS_MAX);
            for _ in 0..SCANS.min(end.saturating_sub(first).div_ceil(GROUPS)) {
                let give: SyncSender<Vec<Summary>> = give.clone();
                let (next, seen) = (&next, &seen);
                let look = move || {
                    loop {
                        let from = next.fetch_add(GROUPS, Ordering::Relaxed);
                        if from >= end {
                            return;
                        }
                        let groups = from..end.min(from + GROUPS);
                        seen.groups
                            .fetch_add(groups.len() as u32, Ordering::Relaxed);
                        let summaries = self.look(groups, seen);
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
                    let is_here = self.blocks.contains(&of.head.block);
                    is_used |= is_here;
                    today += u64::from(is_here && is_of_today(of));
                    is_here && of.head.owner == self.owner
                });
                if !take(summaries) {
                    break;
                }
            }
        });
        let mut bare = std::mem::take(&mut *lock(&seen.bare));
        bare.sort_by_key(|of| of.block);
        is_used |= !bare.is_empty();
        today += bare.len() as u64;
        let sealed = bare.into_iter().filter_map(|bare| {
            sequence += 1;
            self.seal(bare, sequence, &seen.saved_bytes)
        });
        take(sealed.collect());
        // What nobody could look at may have been written today.
        let all = seen.groups.into_inner() >= end.saturating_sub(first);
        let unread = match all {
            true => u64::from(seen.unread.into_inner()),
            false => self.blocks.len() as u64,
        };
        let block_bytes = u64::from(self.ssd.tier.layout.block_bytes());
        Looked {
            written_bytes: (today + unread) * block_bytes + seen.saved_bytes.into_inner(),
            is_fresh: !is_used && unread == 0,
        }
    }

    /// What some groups have by checkpoint or summary; what their other blocks hold is noted.
    /// Checkpoints that were void are written, if nothing else will change in them first.
    fn look(&self, groups: Range<u32>, seen: &Seen) -> Vec<Summary> {
        let (medium, tier) = (&self.ssd.medium, &self.ssd.tier);
        let found = recover(tier, groups, medium.reader());
        let mut reader = medium.reader();
        let mut unread = found.unreadable;
        let mut bare = Vec::new();
        for block in found.bare.into_iter().filter(|of| self.blocks.contains(of)) {
            match search_block(tier, block, &mut reader) {
                Ok(None) => {}
                Ok(Some((filling, entries))) => bare.push(Bare {
                    block,
                    filling,
                    entries,
                }),
                Err(ReadFailed) => unread.push(block),
            }
        }
        let own = unread.iter().filter(|block| self.blocks.contains(block));
        seen.unread.fetch_add(own.count() as u32, Ordering::Relaxed);
        self.ssd.doubt(unread);
        for group in found.void {
            let blocks = tier.layout.group_blocks(group);
            let is_own = self.blocks.start <= blocks.start && blocks.end <= self.blocks.end;
            if is_own && !bare.iter().any(|of| blocks.contains(&of.block)) {
                let summaries = found.summaries.iter();
                let of_group = summaries.filter(|of| blocks.contains(&of.head.block));
                let bytes = self.ssd.save_found(group, of_group);
                seen.saved_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        lock(&seen.bare).extend(bare);
        found.summaries
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
        let start = tier.layout.summary_start(block)?;
        let sealed = medium.file().sync_data().and_then(|()| {
            medium.write_counted(&self.ssd.counters, start, &bytes)?;
            medium.file().sync_data()
        });
        saved.fetch_add(bytes.as_ref().len() as u64, Ordering::Relaxed);
        if sealed.is_err() {
            self.ssd.doubt([block]);
            return None;
        }
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
fn is_of_today(summary: &Summary) -> bool {
    summary.head.sealed_s >= now_s().saturating_sub(24 * 3600)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "recover_tests.rs"]
mod tests;
