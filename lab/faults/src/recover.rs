//! Recovery of the SSDs at startup by the device's [`Recovery`]: a few groups of blocks at a time,
//! each examined twice and checked.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use headlong_device::flash::{
    BareBlock, FlashResult, RecoveredFlashBlock, Recovery, RecoverySearch, SsdShare, TierShare,
    write_summary,
};
use headlong_flash::format::{GROUP_BLOCKS, ScanResult, Summary, recover, verify_block};
use headlong_flash::{BlockId, RecoveredBlock, SsdId};

use crate::block_model::BlockError;
use crate::check::Check;
use crate::host::DeviceEnv;
use crate::ssd::{SimulatedSsd, SsdMedium};

/// Recovery of a disk's blocks on all SSDs.
pub(crate) struct Recoverer {
    share: TierShare,
    /// SSD numbers by position in the tier.
    order: Vec<usize>,
    is_attached: bool,
    /// Number of SSDs done, and the search of the current one.
    searched: u16,
    search: Option<BlockSearch>,
    /// SSDs that have never been filled.
    fresh: Vec<SsdId>,
    /// Bytes written within the last day, and the additional allowance for the initial fill.
    pub(crate) written_bytes: u64,
    pub(crate) first_fillings: u64,
}

impl Recoverer {
    /// Recovery for a disk, of these SSDs in this order.
    pub(crate) fn new(disk: usize, owner: u64, order: &[usize], ssds: &[SimulatedSsd]) -> Self {
        let mut first = 0;
        let mut shares = Vec::new();
        for &ssd in order {
            let (tier, plan) = (ssds[ssd].drive.tier, ssds[ssd].plan);
            let blocks = tier.layout.block_count();
            // Partitioned as for more disks than are simulated, so that blocks are reused soon.
            let start = plan.first_block + disk as u32 * plan.disk_blocks;
            let end = start + plan.disk_blocks;
            let own = start.min(blocks)..end.min(blocks);
            shares.push(SsdShare { tier, first, own });
            first += blocks;
        }
        Self {
            share: TierShare::new(shares, owner),
            order: order.to_vec(),
            is_attached: false,
            searched: 0,
            search: None,
            fresh: Vec::new(),
            written_bytes: 0,
            first_fillings: 0,
        }
    }

    pub(crate) fn share(&self) -> &TierShare {
        &self.share
    }

    pub(crate) fn order(&self) -> &[usize] {
        &self.order
    }

    /// Whether all its SSDs answer.
    pub(crate) fn answers(&self, ssds: &[SimulatedSsd]) -> bool {
        self.order.iter().all(|ssd| !ssds[*ssd].drive.hangs())
    }

    /// The next result; [`FlashResult::RecoveryEnded`] is the last.
    pub(crate) fn next(
        &mut self,
        around: &mut DeviceEnv<'_>,
        sequences: &mut BTreeMap<usize, u64>,
    ) -> FlashResult {
        if !self.is_attached
            && let Some(spec) = self.share.spec()
        {
            self.is_attached = true;
            return FlashResult::Attach(spec, Vec::new());
        }
        let place = usize::from(self.searched);
        let Some((share, ssd)) = self.share.ssds().get(place).zip(self.order.get(place)) else {
            return FlashResult::RecoveryEnded {
                written_bytes: self.written_bytes,
                fresh: self.fresh.clone(),
            };
        };
        let (share, ssd) = (share.clone(), *ssd);
        let owner = self.share.owner();
        let search = self
            .search
            .get_or_insert_with(|| BlockSearch::new(ssd, share.own.clone(), owner));
        let Some(found) = search.next(around) else {
            let layout = share.tier.layout;
            let recovered = search.recovery.end(layout.block_bytes());
            self.written_bytes += recovered.written_bytes;
            if recovered.is_fresh {
                self.fresh.push(SsdId(self.searched));
                let filled = u64::from(layout.block_bytes()) + layout.checkpoint_bytes() + 4096;
                self.first_fillings += share.own.len() as u64 * filled;
            }
            self.search = None;
            self.searched += 1;
            return self.next(around, sequences);
        };
        let last = sequences.entry(ssd).or_insert(0);
        let block = |Summary { head, entries }: Summary| {
            *last = head.sequence.max(*last);
            RecoveredFlashBlock {
                filling: head.filling,
                block: RecoveredBlock {
                    block: BlockId(share.first + head.block),
                    sequence: head.sequence,
                    records: entries,
                },
            }
        };
        FlashResult::Found(found.into_iter().map(block).collect())
    }
}

/// The search of a disk's blocks on one SSD.
struct BlockSearch {
    ssd: usize,
    recovery: Recovery,
    next_group: u32,
    found: Vec<Summary>,
    /// Groups with a void checkpoint.
    void: BTreeSet<u32>,
    is_sealed: bool,
    /// Whether writing a summary failed or was reported as failed.
    has_failed: bool,
}

impl BlockSearch {
    fn new(ssd: usize, blocks: Range<u32>, owner: u64) -> Self {
        let search = RecoverySearch { blocks, owner };
        Self {
            ssd,
            next_group: search.groups().start,
            recovery: Recovery::new(search),
            found: Vec::new(),
            void: BTreeSet::new(),
            is_sealed: false,
            has_failed: false,
        }
    }

    /// The next part of the result; `None` after the last.
    fn next(&mut self, around: &mut DeviceEnv<'_>) -> Option<Vec<Summary>> {
        let end = self.recovery.search().groups().end;
        if self.next_group < end {
            let count = 1 + around.ssds[self.ssd].drive.chance.0.below(3) as u32;
            let groups = self.next_group..end.min(self.next_group + count);
            self.next_group = groups.end;
            return Some(self.look(around, groups));
        }
        if self.is_sealed {
            return None;
        }
        self.is_sealed = true;
        let mut sealed = Vec::new();
        while let Some(summary) = self.recovery.next_unsealed(around.wall_s()) {
            sealed.extend(self.seal(around, summary));
        }
        self.found.extend(sealed.iter().cloned());
        self.judge_again(around);
        Some(sealed)
    }

    fn look(&mut self, around: &mut DeviceEnv<'_>, groups: Range<u32>) -> Vec<Summary> {
        let search = self.recovery.search().clone();
        let wall_s = around.wall_s();
        let ssd = &mut around.ssds[self.ssd];
        let mut found = search.search_groups(groups.clone(), &mut SsdMedium::sound(&mut ssd.drive));
        let again = groups.clone().rev().map(|group| group..group + 1);
        let again = again.map(|group| found_in(ssd, group).summaries);
        let again: Vec<Vec<Summary>> = again.collect();
        let is_same = again
            .into_iter()
            .rev()
            .flatten()
            .eq(found.summaries.clone());
        self.void.extend(&found.void);
        search.save(
            &mut found,
            &mut ssd.checkpoints,
            &mut SsdMedium::new(&mut ssd.drive),
        );
        let bare = found.bare.clone();
        let own = self.recovery.take(found, wall_s);
        self.expect_same(around, is_same);
        let (start, end) = (groups.start * GROUP_BLOCKS, groups.end * GROUP_BLOCKS);
        let blocks = search.blocks.start.max(start)..search.blocks.end.min(end);
        self.judge(around, blocks, &own, &bare);
        self.found.extend(own.iter().cloned());
        own
    }

    /// Writes the missing summary of a block.
    fn seal(&mut self, around: &mut DeviceEnv<'_>, summary: Summary) -> Option<Summary> {
        let SimulatedSsd {
            drive, checkpoints, ..
        } = &mut around.ssds[self.ssd];
        drive.ledger.give(&summary);
        let head = summary.head;
        let written = write_summary(&mut SsdMedium::new(drive), &summary);
        match written.1 {
            true => drive.ledger.seal(head.block, head.filling),
            false => self.has_failed = true,
        }
        self.recovery.sealed(checkpoints, summary, written)
    }

    /// Verifies that another recovery finds the same blocks. Exception: a neighbouring disk whose
    /// blocks share a group may already be filling one, which voids the checkpoint. The checkpoint
    /// recorded abandoned blocks; without it, abandoned blocks that were not overwritten are found
    /// again, intact.
    fn judge_again(&mut self, around: &mut DeviceEnv<'_>) {
        let ssd = &around.ssds[self.ssd];
        let RecoverySearch { blocks, owner } = self.recovery.search().clone();
        let found = found_in(ssd, self.recovery.search().groups());
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

    fn expect_same(&self, around: &mut DeviceEnv<'_>, is_same: bool) {
        around
            .oracle
            .expect(is_same, Check::RecoveryDiffers, around.now, || {
                format!("SSD {}: a second recovery finds other blocks", self.ssd)
            });
    }

    fn judge(
        &self,
        around: &mut DeviceEnv<'_>,
        own: Range<u32>,
        found: &[Summary],
        bare: &[BareBlock],
    ) {
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
                Some(BlockError::Unknown) => {
                    around.oracle.fail(Check::FoundUnknown, around.now, || {
                        text(&format!("was never sealed with {summary:?}"))
                    })
                }
                Some(BlockError::GivenUp) => {
                    around.oracle.fail(Check::FoundGivenUp, around.now, || {
                        text("was abandoned, but is found")
                    })
                }
                Some(BlockError::Lost(filling)) => {
                    around.oracle.fail(Check::LostDurable, around.now, || {
                        text(&format!("filling {filling} was durable, but is not found"))
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

/// Result of recovering groups from their checkpoints or summaries.
fn found_in(ssd: &SimulatedSsd, groups: Range<u32>) -> ScanResult {
    recover(&ssd.drive.tier, groups, ssd.drive.medium.reader())
}
