//! All SSDs of a server, dealt out to its disks.
//!
//! Each SSD serves every disk: its blocks are cut into as many equal ranges as there are disks, in the
//! order of the disks' lasting names, so that the same disks find their blocks again. A block of
//! another disk in a range (disks were added) counts as empty.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headlong_device::flash::{FoundBlock, RecoverySearch, SsdShare, TierShare};
use headlong_flash::format::Summary;
use headlong_flash::{BlockId, RecoveredBlock, SsdId};

use super::error::{FlashError, Trouble};
use super::medium::{misfit, too_few};
use super::recover::recover;
use super::ssd::Ssd;

/// Longest time that a stop waits for the SSDs.
const FINISH_TIME: Duration = Duration::from_secs(10);

/// The SSDs of this server.
#[derive(Debug)]
pub struct Tier {
    ssds: Vec<Arc<Ssd>>,
}

/// What a device has of them.
#[derive(Debug, Clone)]
pub struct TierPart {
    tier: Arc<Tier>,
    /// Which of the disks this is, and how many there are.
    index: u32,
    count: u32,
    /// The disk's lasting name.
    owner: u64,
}

/// A device's part of the tier, which may come and go while the device runs; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct FlashShare(Arc<Mutex<Option<TierPart>>>);

impl FlashShare {
    /// What there is from the start.
    pub fn new(part: Option<TierPart>) -> Self {
        Self(Arc::new(Mutex::new(part)))
    }

    /// What there is now.
    pub(crate) fn get(&self) -> Option<TierPart> {
        self.lock().clone()
    }

    pub(crate) fn set(&self, part: Option<TierPart>) {
        *self.lock() = part;
    }

    fn lock(&self) -> MutexGuard<'_, Option<TierPart>> {
        // Every change under the lock is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tier {
    /// Takes SSDs for this process: those that can be used, if any, and why the others cannot.
    ///
    /// # Errors
    /// Another process has one of them.
    pub(crate) fn open(
        paths: &[PathBuf],
        piece_bytes: u64,
        disks: usize,
    ) -> Result<(Option<Arc<Self>>, Vec<FlashError>), FlashError> {
        let (mut first, mut seen) = (None, Vec::new());
        let (mut ssds, mut ill) = (Vec::new(), Vec::new());
        for path in paths {
            let ssd = match Ssd::open(path) {
                Err(error) if matches!(error.trouble, Trouble::InUse) => return Err(error),
                Err(error) => {
                    ill.push(error);
                    continue;
                }
                Ok(ssd) => ssd,
            };
            let few = too_few(path, &ssd.tier, disks);
            let wrong = few.or_else(|| misfit(path, &ssd.tier, piece_bytes, &mut first, &mut seen));
            match wrong {
                Some(error) => ill.push(error),
                None => ssds.push(Arc::new(ssd)),
            }
        }
        let tier = (!ssds.is_empty()).then(|| Arc::new(Self { ssds }));
        Ok((tier, ill))
    }

    /// The parts of disks with these lasting names, in their order.
    pub(crate) fn deal(self: &Arc<Self>, owners: &[u64]) -> Vec<TierPart> {
        let rank = |owner: u64| owners.iter().filter(|other| **other < owner).count();
        let parts = owners.iter().enumerate().map(|(place, owner)| TierPart {
            tier: Arc::clone(self),
            // Two of one name, which a hash may give, are told apart by their order.
            index: (rank(*owner) + owners[..place].iter().filter(|o| *o == owner).count()) as u32,
            count: owners.len() as u32,
            owner: *owner,
        });
        parts.collect()
    }

    /// Saves what a next start wants to know, once everything that was begun is written. Nothing more
    /// may be asked of it. An SSD that does not answer is not waited for.
    pub(crate) fn finish(&self) {
        let flags: Vec<_> = self
            .ssds
            .iter()
            .map(|ssd| {
                let is_done = Arc::new(AtomicBool::new(false));
                let say = Arc::clone(&is_done);
                ssd.finish(move || say.store(true, Ordering::Release));
                is_done
            })
            .collect();
        let start = std::time::Instant::now();
        while !flags.iter().all(|flag| flag.load(Ordering::Acquire)) {
            if start.elapsed() > FINISH_TIME {
                tracing::warn!("an SSD does not answer; the next start looks at more blocks of it");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl TierPart {
    /// What this disk has of all SSDs.
    pub(crate) fn share(&self) -> TierShare {
        let mut first = 0;
        let share = |ssd: &Arc<Ssd>| {
            let blocks = ssd.tier.layout.block_count();
            let before = first;
            first += blocks;
            SsdShare {
                tier: ssd.tier,
                first: before,
                own: SsdShare::cut(blocks, self.index, self.count),
            }
        };
        TierShare::new(self.tier.ssds.iter().map(share).collect(), self.owner)
    }

    /// The SSD of this number.
    pub(super) fn ssd(&self, ssd: SsdId) -> Option<&Arc<Ssd>> {
        self.tier.ssds.get(usize::from(ssd.0))
    }

    /// Where the SSDs are, by their numbers.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let ssds = self.tier.ssds.iter();
        ssds.map(|ssd| ssd.medium.path.clone()).collect()
    }

    /// Looks at this disk's blocks of all SSDs and gives what is found to `take`, part by part, until
    /// that answers that nobody wants it. Answers how many bytes may have been written in the last
    /// day, and which SSDs were never filled. Takes as long as the SSDs take.
    pub(super) fn recover(
        &self,
        mut take: impl FnMut(Vec<FoundBlock>) -> bool,
    ) -> (u64, Vec<SsdId>) {
        let (mut written_bytes, mut fresh) = (0, Vec::new());
        let share = self.share();
        for (number, (ssd, part)) in (0..).zip(self.tier.ssds.iter().zip(share.ssds())) {
            let search = RecoverySearch {
                blocks: part.own.clone(),
                owner: self.owner,
            };
            let recovered = recover(ssd, search, |summaries| {
                let blocks = summaries.into_iter();
                take(
                    blocks
                        .map(|summary| found_block(part.first, summary))
                        .collect(),
                )
            });
            written_bytes += recovered.written_bytes;
            fresh.extend(recovered.is_fresh.then_some(SsdId(number)));
        }
        (written_bytes, fresh)
    }
}

fn found_block(first: u32, Summary { head, entries }: Summary) -> FoundBlock {
    let block = RecoveredBlock {
        block: BlockId(first + head.block),
        sequence: head.sequence,
        records: entries,
    };
    FoundBlock {
        filling: head.filling,
        block,
    }
}
