//! An SSD: its bytes, its active faults, and the result of each operation.

use headlong_flash::format::{Layout, ReadFailed, SUPER_BYTES, SUPER_COPIES, SuperRecord};
use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::block_model::BlockModel;
use crate::fault::SsdFault;
use crate::persistent_pages::PersistentPages;
use crate::random_source::RandomSource;

pub(crate) const TIER_BYTES: u64 = 30 << 20;
const BLOCK_BYTES: u64 = 256 << 10;

/// The bytes of an SSD, the expected state of its blocks, and its faults.
#[derive(Debug)]
pub(crate) struct SsdDrive {
    pub(crate) medium: PersistentPages,
    pub(crate) tier: SuperRecord,
    pub(crate) ledger: BlockModel,
    pub(crate) chance: RandomSource,
    ills: Vec<(SsdFault, Instant)>,
    older: Option<PersistentPages>,
    /// The process ends after so many writes and flushes, in the middle of the last one.
    pub(crate) writes_left: Option<u64>,
}

/// The operation failed.
#[derive(Debug)]
pub(crate) struct DriveFailure;

impl SsdDrive {
    /// A formatted SSD.
    pub(crate) fn formatted(piece_bytes: u64, chance: Generator) -> Self {
        let mut chance = RandomSource(chance);
        let layout = Layout::new(TIER_BYTES, BLOCK_BYTES, piece_bytes);
        let Ok(layout) = layout else {
            unreachable!("the sizes fit")
        };
        let device = u128::from(chance.0.bits()) << 64 | u128::from(chance.0.bits());
        let tier = SuperRecord { device, layout };
        let mut medium = PersistentPages::default();
        for at in SUPER_COPIES {
            medium.write(at, &tier.encode());
        }
        medium.flush();
        Self {
            medium,
            tier,
            ledger: BlockModel::default(),
            chance,
            ills: Vec::new(),
            older: None,
            writes_left: None,
        }
    }

    pub(crate) fn fall_ill(&mut self, fault: SsdFault, until: Instant) {
        self.ledger.is_dishonest |= fault.is_dishonest();
        match fault {
            SsdFault::FlipsAtRest(count) => {
                (0..count).for_each(|_| self.medium.flip(&mut self.chance));
            }
            SsdFault::Wiped(byte) => self.medium.wipe(byte),
            SsdFault::OlderImage => self.older = Some(self.medium.clone()),
            _ => self.ills.push((fault, until)),
        }
    }

    /// Removes expired faults.
    pub(crate) fn recover(&mut self, now: Instant) {
        self.ills.retain(|(_, until)| *until > now);
    }

    pub(crate) fn hangs(&self) -> bool {
        self.ills.iter().any(|(fault, _)| *fault == SsdFault::Hang)
    }

    pub(crate) fn is_away(&self) -> bool {
        self.ills
            .iter()
            .any(|(fault, _)| *fault == SsdFault::Vanish)
    }

    /// Whether faults of this kind strike the operation.
    fn strikes(&mut self, kind: fn(u64) -> SsdFault) -> bool {
        let share =
            |(fault, _): &(SsdFault, Instant)| fault.share().filter(|share| kind(*share) == *fault);
        let share = self.ills.iter().filter_map(share).max().unwrap_or(0);
        share > 0 && self.chance.percent(share)
    }

    pub(crate) fn time(&mut self, micros: u64) -> Duration {
        let slow = |(fault, _): &(SsdFault, Instant)| match fault {
            SsdFault::Slow(times) => *times,
            _ => 1,
        };
        let times = self.ills.iter().map(slow).max().unwrap_or(1);
        Duration::from_micros(micros + self.chance.0.below(micros + 1)).times(times)
    }

    /// Whether a read fails now.
    pub(crate) fn fails_reads(&mut self) -> bool {
        let fails = SsdFault::ReadErrors;
        self.is_away() || self.strikes(fails)
    }

    /// Read function of the flash format.
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), ReadFailed> {
        if self.fails_reads() {
            return Err(ReadFailed);
        }
        self.medium.read(at, into);
        Ok(())
    }

    /// Reads a record, possibly stale or damaged.
    pub(crate) fn read_record(&mut self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let is_stale = self.strikes(SsdFault::StaleReads);
        match is_stale {
            true => self.medium.read_before(at, &mut bytes),
            false => self.medium.read(at, &mut bytes),
        }
        let flips = self.strikes(SsdFault::FlipsRead);
        if flips {
            let bit = self.chance.0.below(length as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        bytes
    }

    /// Makes all writes durable.
    pub(crate) fn flush(&mut self) -> Result<(), DriveFailure> {
        if self.is_away() || self.is_end() {
            return Err(DriveFailure);
        }
        let fails = SsdFault::FlushErrors;
        if self.strikes(fails) {
            self.medium.fail_flush();
            return Err(DriveFailure);
        }
        self.medium.flush();
        self.ledger.flush();
        Ok(())
    }

    /// Whether the process has ended before this write.
    fn is_end(&mut self) -> bool {
        match &mut self.writes_left {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }

    /// Writes.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<(), DriveFailure> {
        if self.is_away() || self.is_end() {
            return Err(DriveFailure);
        }
        let fails = SsdFault::WriteErrors;
        let is_last = self.writes_left == Some(0) && self.chance.percent(60);
        if is_last || self.strikes(fails) {
            // Part of it may have been written.
            if is_last || self.chance.percent(50) {
                self.medium.write_torn(&mut self.chance, at, bytes);
            }
            return Err(DriveFailure);
        }
        let is_lost = self.strikes(SsdFault::LostWrites);
        let is_misdirected = self.strikes(SsdFault::Misdirected);
        let is_torn = self.strikes(SsdFault::Torn);
        if is_misdirected {
            let block = self.chance.0.below(12) * BLOCK_BYTES + at % BLOCK_BYTES;
            let page = self.chance.0.below(3) * 8192;
            let elsewhere = self.tier.layout.block_start(0).unwrap_or(0) + block + page;
            self.medium.write(elsewhere, bytes);
        } else if is_torn {
            self.medium.write_torn(&mut self.chance, at, bytes);
        } else if !is_lost {
            self.medium.write(at, bytes);
        }
        Ok(())
    }

    /// A record was written: the previous record at the front of the block is lost.
    pub(crate) fn note_front(&mut self, at: u64) {
        let first = self.tier.layout.block_start(0).unwrap_or(u64::MAX);
        let block_bytes = u64::from(self.tier.layout.block_bytes());
        let behind = at.saturating_sub(first);
        if at >= first && behind.is_multiple_of(block_bytes) {
            self.ledger.overwrite((behind / block_bytes) as u32);
        }
    }

    /// Both copies of the super record.
    pub(crate) fn super_copies(&self) -> [[u8; SUPER_BYTES]; 2] {
        let mut copies = [[0; SUPER_BYTES]; 2];
        for (copy, at) in copies.iter_mut().zip(SUPER_COPIES) {
            self.medium.read(at, copy);
        }
        copies
    }

    /// Whether the SSD answers and still has its tier.
    pub(crate) fn is_there(&self) -> bool {
        let [one, other] = self.super_copies();
        let tier = SuperRecord::of_copies([&one, &other], TIER_BYTES);
        !self.is_away() && tier.as_ref() == Ok(&self.tier)
    }

    /// The machine loses power.
    pub(crate) fn cut_power(&mut self) {
        self.medium.cut_power(&mut self.chance);
        self.ledger.cut_power();
    }

    /// The next start may find an older image.
    pub(crate) fn restore_older(&mut self) {
        if let Some(older) = self.older.take() {
            self.medium.restore(&older);
        }
    }
}
