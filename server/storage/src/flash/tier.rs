//! All SSDs of a server, divided among its disks.
//!
//! Each SSD serves every disk: its blocks are divided into equal ranges, one per disk, ordered by
//! the disks' persistent names, so that the same disks find their blocks again. After disks were
//! added, a block of another disk within a range counts as empty.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use headlong_device::flash::{RecoveredFlashBlock, RecoverySearch, SsdShare, TierShare};
use headlong_flash::format::Summary;
use headlong_flash::{BlockId, RecoveredBlock, SsdId};

use super::error::{FlashError, FlashErrorKind};
use super::medium::{misfit, too_few};
use super::recover::recover;
use super::ssd::Ssd;

/// Upper limit of the wait for the SSDs at shutdown.
const FINISH_TIME: Duration = Duration::from_secs(10);

/// The SSDs of this server.
#[derive(Debug)]
pub struct FlashTier {
    ssds: Vec<Arc<Ssd>>,
}

/// A device's share of the SSDs.
#[derive(Debug, Clone)]
pub struct TierPart {
    tier: Arc<FlashTier>,
    /// Index of the disk, and number of disks.
    index: u32,
    count: u32,
    /// Persistent name of the disk.
    owner: u64,
}

/// A device's share of the tier, which may be attached and detached at run time. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FlashShare(Arc<Mutex<Option<TierPart>>>);

impl FlashShare {
    /// The share at start-up.
    pub fn new(part: Option<TierPart>) -> Self {
        Self(Arc::new(Mutex::new(part)))
    }

    /// The current share.
    pub(crate) fn get(&self) -> Option<TierPart> {
        self.lock().clone()
    }

    pub(crate) fn set(&self, part: Option<TierPart>) {
        *self.lock() = part;
    }

    fn lock(&self) -> MutexGuard<'_, Option<TierPart>> {
        // Each change under the lock is a single assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlashTier {
    /// Takes SSDs for this process. Returns the usable ones, if any, and the errors of the others.
    ///
    /// # Errors
    /// If another process holds one of them.
    pub fn open(
        paths: &[PathBuf],
        piece_bytes: u64,
        disks: usize,
    ) -> Result<(Option<Arc<Self>>, Vec<FlashError>), FlashError> {
        let (mut first, mut seen) = (None, Vec::new());
        let (mut ssds, mut ill) = (Vec::new(), Vec::new());
        for path in paths {
            let ssd = match Ssd::open(path) {
                Err(error) if matches!(error.trouble, FlashErrorKind::InUse) => return Err(error),
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

    /// The shares of the disks with these persistent names, in the same order.
    pub fn deal(self: &Arc<Self>, owners: &[u64]) -> Vec<TierPart> {
        let rank = |owner: u64| owners.iter().filter(|other| **other < owner).count();
        let parts = owners.iter().enumerate().map(|(place, owner)| TierPart {
            tier: Arc::clone(self),
            // Equal names, possible because they are hashes, are distinguished by their order.
            index: (rank(*owner) + owners[..place].iter().filter(|o| *o == owner).count()) as u32,
            count: owners.len() as u32,
            owner: *owner,
        });
        parts.collect()
    }

    /// Saves the checkpoints after all pending writes. The tier must not be used afterwards. Does
    /// not wait indefinitely for an SSD that does not respond.
    pub fn finish(&self) {
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
                tracing::warn!("an ssd does not respond; the next start reads more of its blocks");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl TierPart {
    /// The disk's share of all SSDs.
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

    /// The SSD with this number.
    pub(super) fn ssd(&self, ssd: SsdId) -> Option<&Arc<Ssd>> {
        self.tier.ssds.get(usize::from(ssd.0))
    }

    /// Paths of the SSDs, ordered by SSD number.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let ssds = self.tier.ssds.iter();
        ssds.map(|ssd| ssd.medium.path.clone()).collect()
    }

    /// Recovers the disk's blocks from all SSDs and passes them to `take`, part by part, until it
    /// returns `false`. Returns an upper bound of the bytes written within the last 24 hours, and
    /// the SSDs that were never filled. Takes as long as the SSDs need.
    pub(super) fn recover(
        &self,
        mut take: impl FnMut(Vec<RecoveredFlashBlock>) -> bool,
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

fn found_block(first: u32, Summary { head, entries }: Summary) -> RecoveredFlashBlock {
    let block = RecoveredBlock {
        block: BlockId(first + head.block),
        sequence: head.sequence,
        records: entries,
    };
    RecoveredFlashBlock {
        filling: head.filling,
        block,
    }
}
