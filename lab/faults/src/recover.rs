//! What is on an SSD at the start, as `serve::flash::recover` looks for it: a few groups of blocks at
//! a time, and each time twice.

use std::collections::BTreeSet;
use std::ops::Range;

use headlong_flash::RecordEntry;
use headlong_flash::format::{
    Found, GROUP_BLOCKS, Summary, SummaryHead, recover, search_block, verify_block,
};

use crate::around::Around;
use crate::check::Check;
use crate::checkpoints::Planted;
use crate::ledger::Wrong;
use crate::plant::Plant;
use crate::planted;
use crate::ssd::Ssd;

/// A block without a summary that holds records.
#[derive(Debug)]
struct Bare {
    block: u32,
    filling: u64,
    entries: Vec<RecordEntry>,
}

/// The search of a disk's blocks of one SSD.
#[derive(Debug, Default)]
pub(crate) struct Search {
    ssd: usize,
    blocks: Range<u32>,
    owner: u64,
    next_group: u32,
    end_group: u32,
    sequence: u64,
    bare: Vec<Bare>,
    found: Vec<Summary>,
    /// Groups whose checkpoint was void.
    void: BTreeSet<u32>,
    is_sealed: bool,
    /// Whether a block holds anything, of whatever disk.
    pub(crate) is_used: bool,
    /// Whether a summary could not be written, or so it was told.
    has_failed: bool,
    /// Bytes that were written by it.
    pub(crate) saved_bytes: u64,
}

impl Search {
    pub(crate) fn new(ssd: usize, blocks: Range<u32>, owner: u64) -> Self {
        Self {
            ssd,
            owner,
            next_group: blocks.start / GROUP_BLOCKS,
            end_group: blocks.end.div_ceil(GROUP_BLOCKS),
            blocks,
            ..Self::default()
        }
    }

    /// The next part of what is there; `None` after the last.
    pub(crate) fn next(&mut self, around: &mut Around<'_>) -> Option<Vec<Summary>> {
        if self.next_group < self.end_group {
            let count = 1 + around.ssds[self.ssd].drive.chance.0.below(3) as u32;
            let groups = self.next_group..self.end_group.min(self.next_group + count);
            self.next_group = groups.end;
            return Some(self.look(around, groups));
        }
        if self.is_sealed {
            return None;
        }
        self.is_sealed = true;
        let bare = std::mem::take(&mut self.bare);
        let sealed = bare.into_iter().filter_map(|bare| self.seal(around, bare));
        let sealed: Vec<Summary> = sealed.collect();
        self.found.extend(sealed.iter().cloned());
        self.judge_again(around);
        Some(sealed)
    }

    fn own(&self, groups: &Range<u32>) -> Range<u32> {
        let (start, end) = (groups.start * GROUP_BLOCKS, groups.end * GROUP_BLOCKS);
        self.blocks.start.max(start)..self.blocks.end.min(end)
    }

    fn look(&mut self, around: &mut Around<'_>, groups: Range<u32>) -> Vec<Summary> {
        let plant = around.plant;
        let own = self.own(&groups);
        let mut found = found_in(&around.ssds[self.ssd], groups.clone(), plant);
        let again = groups.rev().map(|group| group..group + 1);
        let again = again.map(|group| found_in(&around.ssds[self.ssd], group, plant).summaries);
        let again: Vec<Vec<Summary>> = again.collect();
        let is_same = again
            .into_iter()
            .rev()
            .flatten()
            .eq(found.summaries.clone());
        self.expect_same(around, is_same);
        let ssd = &mut around.ssds[self.ssd];
        let mut bare = Vec::new();
        for &block in found.bare.iter().filter(|block| own.contains(block)) {
            let searched = match plant {
                Some(Plant::SearchMixesFillings) => planted::search_any(&ssd.drive, block),
                // The medium gives all that is asked for here.
                _ => {
                    search_block(&ssd.drive.tier, block, ssd.drive.medium.reader()).unwrap_or(None)
                }
            };
            bare.extend(searched.map(|(filling, entries)| Bare {
                block,
                filling,
                entries,
            }));
        }
        self.void.extend(&found.void);
        for group in found.void {
            let blocks = ssd.drive.tier.layout.group_blocks(group);
            let is_own = self.blocks.start <= blocks.start && blocks.end <= self.blocks.end;
            if is_own && !bare.iter().any(|of| blocks.contains(&of.block)) {
                let summaries = found.summaries.iter();
                let of_group = summaries.filter(|of| blocks.contains(&of.head.block));
                let ground = &mut Planted(&mut ssd.drive, plant);
                self.saved_bytes += ssd.checkpoints.save_found(ground, group, of_group);
            }
        }
        for summary in &found.summaries {
            self.sequence = self.sequence.max(summary.head.sequence);
        }
        let mut summaries = found.summaries.iter();
        self.is_used |= !bare.is_empty() || summaries.any(|of| own.contains(&of.head.block));
        (found.summaries).retain(|of| own.contains(&of.head.block) && of.head.owner == self.owner);
        self.judge(around, own, &found.summaries, &bare);
        self.bare.extend(bare);
        self.found.extend(found.summaries.iter().cloned());
        found.summaries
    }

    /// Writes the summary that a block lacks.
    fn seal(&mut self, around: &mut Around<'_>, bare: Bare) -> Option<Summary> {
        self.sequence += 1;
        let head = SummaryHead {
            block: bare.block,
            count: bare.entries.len() as u32,
            filling: bare.filling,
            sequence: self.sequence,
            owner: self.owner,
            sealed_s: around.wall_s(),
        };
        let entries = bare.entries;
        let summary = Summary { head, entries };
        let ssd = &mut around.ssds[self.ssd];
        let start = ssd.drive.tier.layout.summary_start(bare.block)?;
        let bytes = summary.encode(ssd.drive.tier.device);
        self.saved_bytes += bytes.len().next_multiple_of(4096) as u64;
        ssd.drive.ledger.give(&summary);
        let flushed = ssd.drive.flush();
        let put = flushed.and_then(|()| ssd.drive.put(start, &bytes));
        let sealed = put.and_then(|()| ssd.drive.flush());
        if sealed.is_err() {
            self.has_failed = true;
            ssd.checkpoints.doubt([bare.block]);
            return None;
        }
        ssd.drive.ledger.seal(bare.block, bare.filling);
        ssd.checkpoints.end(bare.block, Some(summary.clone()));
        Some(summary)
    }

    /// Another recovery would find the same; except where a disk beside, whose blocks share a group,
    /// fills one already and made the checkpoint void. That said which blocks were given up: what
    /// nothing was written over is found there again, whole.
    fn judge_again(&mut self, around: &mut Around<'_>) {
        let ssd = &around.ssds[self.ssd];
        let groups = self.blocks.start / GROUP_BLOCKS..self.end_group;
        let found = found_in(ssd, groups, around.plant);
        let (blocks, owner) = (self.blocks.clone(), self.owner);
        let changed = |block: u32| {
            let group = block / GROUP_BLOCKS;
            found.void.contains(&group) && !self.void.contains(&group)
        };
        self.found.retain(|of| !changed(of.head.block));
        let mut again = found.summaries;
        again.retain(|of| {
            let head = &of.head;
            blocks.contains(&head.block) && head.owner == owner && !changed(head.block)
        });
        self.found.sort_by_key(|of| of.head.block);
        again.sort_by_key(|of| of.head.block);
        let is_excused = self.has_failed || ssd.drive.ledger.is_dishonest;
        let is_same = again == self.found || is_excused;
        self.expect_same(around, is_same);
        self.found.clear();
    }

    fn expect_same(&self, around: &mut Around<'_>, is_same: bool) {
        around
            .oracle
            .expect(is_same, Check::RecoveryDiffers, around.now, || {
                format!("SSD {}: another look finds other blocks", self.ssd)
            });
    }

    fn judge(&self, around: &mut Around<'_>, own: Range<u32>, found: &[Summary], bare: &[Bare]) {
        let drive = &around.ssds[self.ssd].drive;
        for block in own {
            let summary = found.iter().find(|of| of.head.block == block);
            let text = |what: &str| format!("SSD {} block {block}: {what}", self.ssd);
            let is_searched = bare.iter().find(|of| of.block == block);
            let is_known = is_searched
                .is_none_or(|of| drive.ledger.was_staged(block, of.filling, &of.entries));
            around
                .oracle
                .expect(is_known, Check::FoundUnknown, around.now, || {
                    text(&format!("never had these records: {is_searched:?}"))
                });
            match drive.ledger.judge(block, summary) {
                None => {}
                Some(Wrong::Unknown) => around.oracle.fail(Check::FoundUnknown, around.now, || {
                    text(&format!("was never sealed so: {summary:?}"))
                }),
                Some(Wrong::GivenUp) => around.oracle.fail(Check::FoundGivenUp, around.now, || {
                    text("was given up, and is found")
                }),
                Some(Wrong::Lost(filling)) => {
                    around.oracle.fail(Check::LostDurable, around.now, || {
                        text(&format!("filling {filling} was durable, and is not found"))
                    })
                }
            }
            if let Some(summary) = summary
                && drive.ledger.must_be_whole(block)
            {
                let (_, wrong) = verify_block(&drive.tier, summary, drive.medium.reader());
                around
                    .oracle
                    .expect(wrong == 0, Check::LostDurable, around.now, || {
                        text(&format!("{wrong} records of a durable block are wrong"))
                    });
            }
        }
    }
}

/// What some groups have by checkpoint or summary.
fn found_in(ssd: &Ssd, groups: Range<u32>, plant: Option<Plant>) -> Found {
    let drive = &ssd.drive;
    match plant {
        Some(Plant::TornSummaryTaken | Plant::TornCheckpointTaken | Plant::FrontUnchecked) => {
            planted::recover_unchecked(drive, groups, plant)
        }
        _ => recover(&drive.tier, groups, drive.medium.reader()),
    }
}
