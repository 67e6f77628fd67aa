//! Runs recovery of an SSD at start-up (`headlong_device::flash::Recovery`).
//!
//! Several threads read groups of blocks in parallel, because an SSD is fastest that way. The
//! results are passed to the engine in small parts, one at a time, while it serves.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_device::flash::{
    GroupSearchResult, Recovery, RecoveryResult, RecoverySearch, write_summary,
};
use headlong_flash::format::{Summary, SuperRecord, scan};

use super::medium::Medium;
use super::ssd::{Ssd, SsdMedium};

/// Recovery threads.
const SCANS: u32 = 16;
/// Groups per search: about ten thousand records.
const GROUPS: u32 = 16;
/// Upper limit of results in the queue.
const PARTS_MAX: usize = 4;

/// Searches all blocks and passes the results to `take`, part by part, until it returns `false`.
pub(super) fn recover(
    ssd: &Ssd,
    search: RecoverySearch,
    mut take: impl FnMut(Vec<Summary>) -> bool,
) -> RecoveryResult {
    let Range { start: first, end } = search.groups();
    let next = AtomicU32::new(first);
    let mut recovery = Recovery::new(search.clone());
    std::thread::scope(|scope| {
        let (give, given) = sync_channel(PARTS_MAX);
        for _ in 0..SCANS.min(end.saturating_sub(first).div_ceil(GROUPS)) {
            let give: SyncSender<GroupSearchResult> = give.clone();
            let (next, search) = (&next, &search);
            let look = move || {
                loop {
                    let from = next.fetch_add(GROUPS, Ordering::Relaxed);
                    if from >= end {
                        return;
                    }
                    let groups = from..end.min(from + GROUPS);
                    if give.send(search_groups(ssd, search, groups)).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("flash-recover".to_owned());
            if let Err(error) = thread.spawn_scoped(scope, look) {
                tracing::warn!(%error, "cannot start a recovery thread; continuing with fewer");
            }
        }
        drop(give);
        for found in given {
            if !take(recovery.take(found, now_s())) {
                break;
            }
        }
    });
    let mut sealed = Vec::new();
    while let Some(summary) = recovery.next_unsealed(now_s()) {
        let written = write_summary(&mut SsdMedium::new(ssd), &summary);
        let of =
            ssd.with_checkpoints(|checkpoints, _| recovery.sealed(checkpoints, summary, written));
        sealed.extend(of);
    }
    take(sealed);
    recovery.end(ssd.tier.layout.block_bytes())
}

fn search_groups(ssd: &Ssd, search: &RecoverySearch, groups: Range<u32>) -> GroupSearchResult {
    let mut found = search.search_groups(groups, &mut SsdMedium::new(ssd));
    ssd.with_checkpoints(|checkpoints, medium| search.save(&mut found, checkpoints, medium));
    found
}

/// Reads the block summaries in order, ignoring checkpoints.
pub(super) fn look_at_all(medium: &Medium, tier: &SuperRecord, blocks: Range<u32>) -> Vec<Summary> {
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

#[cfg(test)]
#[path = "recover_tests.rs"]
mod tests;
