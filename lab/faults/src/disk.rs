//! A disk: how long it takes, and how it is ill.
//!
//! Reads are served one behind the other, as by a drive with an arm; what they bring is looked up in
//! the files when they begin and when they end, so that a file may change under a read.

use std::collections::BTreeMap;

use headlong_engine::{ReadCommand, ReadOutcome};
use headlong_units::{BitRate, Duration, Instant};

use crate::draw::Draw;
use crate::fault::DiskFault;
use crate::files::{Files, Identity, Inode};
use crate::machine::DiskPlan;

/// A read on its way.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) command: ReadCommand,
    /// What the stream says that the file is.
    pub(crate) identity: Identity,
    /// `None`: it could not be opened, for this reason.
    pub(crate) inode: Result<Inode, ReadOutcome>,
    pub(crate) began: Instant,
}

/// One disk.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) files: Files,
    pub(crate) chance: Draw,
    position_time: Duration,
    rate: BitRate,
    free_at: Instant,
    /// Illnesses, and when each ends.
    ills: Vec<(DiskFault, Instant)>,
    /// By the time at which each is done, unless the disk hangs.
    reads: BTreeMap<(Instant, u64), Reading>,
    next: u64,
    /// Whether it was ever so ill that the server may give it up.
    pub(crate) was_ill: bool,
    /// Another disk's hang holds this one up: a planted bug.
    pub(crate) is_held_up: bool,
}

impl Disk {
    pub(crate) fn new(plan: &DiskPlan, files: Files, chance: Draw) -> Self {
        Self {
            files,
            chance,
            position_time: plan.position_time,
            rate: plan.rate,
            free_at: Instant::ZERO,
            ills: Vec::new(),
            reads: BTreeMap::new(),
            next: 0,
            was_ill: false,
            is_held_up: false,
        }
    }

    pub(crate) fn fall_ill(&mut self, fault: DiskFault, until: Instant) {
        self.was_ill |= fault != DiskFault::NoDescriptors;
        self.ills.push((fault, until));
    }

    /// Illnesses that are over are forgotten; answers whether other files are there now.
    pub(crate) fn recover(&mut self, now: Instant) -> bool {
        let over = |(fault, until): &(DiskFault, Instant)| {
            *until <= now && *fault == DiskFault::VanishAndChange
        };
        let has_changed = self.ills.iter().any(over);
        self.ills.retain(|(_, until)| *until > now);
        has_changed
    }

    fn has(&self, fault: DiskFault) -> bool {
        self.ills.iter().any(|(of, _)| *of == fault)
    }

    pub(crate) fn hangs(&self) -> bool {
        self.has(DiskFault::Hang)
    }

    fn is_away(&self) -> bool {
        self.has(DiskFault::Vanish) || self.has(DiskFault::VanishAndChange)
    }

    /// Whether a file can be looked up or opened, as an outcome if not.
    pub(crate) fn trouble(&mut self) -> Option<ReadOutcome> {
        if self.is_away() {
            return Some(ReadOutcome::Error);
        }
        self.has(DiskFault::NoDescriptors)
            .then_some(ReadOutcome::NoResources)
    }

    fn slowness(&self) -> u64 {
        let slow = |(fault, _): &(DiskFault, Instant)| match fault {
            DiskFault::Slow(times) => *times,
            _ => 1,
        };
        self.ills.iter().map(slow).max().unwrap_or(1)
    }

    /// How long a look-up takes.
    pub(crate) fn look_up_time(&mut self) -> Duration {
        let base = self.position_time.0 / 4 + 1;
        Duration(base + self.chance.0.below(base)).times(self.slowness())
    }

    pub(crate) fn submit(&mut self, now: Instant, reading: Reading) {
        let command = &reading.command;
        let jitter = self.chance.0.below(self.position_time.0 + 1);
        let time = Duration(self.position_time.0 / 2 + jitter) + self.rate.time_for(command.length);
        let end = self.free_at.max(now) + time.times(self.slowness());
        // Now and then two reads end in another order than they began.
        let swaps = self.chance.percent(10);
        self.free_at = if swaps { self.free_at.max(now) } else { end };
        self.next += 1;
        self.reads.insert((end, self.next), reading);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        if self.hangs() || self.is_held_up {
            return None;
        }
        self.reads.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<Reading> {
        let entry = self.reads.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }

    /// The server is gone; so are its reads.
    pub(crate) fn forget_reads(&mut self) {
        self.reads.clear();
        self.free_at = Instant::ZERO;
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.reads.len()
    }

    /// Whether a read of these bytes fails.
    pub(crate) fn fails(&mut self, reading: &Reading, size: u64) -> bool {
        if self.is_away() {
            return true;
        }
        let (start, end) = (
            reading.command.offset,
            reading.command.offset + reading.command.length,
        );
        let mut is_bad = false;
        for (fault, _) in &self.ills {
            is_bad |= match *fault {
                DiskFault::BadRange(from, to) => {
                    let place = |part: u16| size * u64::from(part) / 65_536;
                    place(from) < end && start <= place(to)
                }
                DiskFault::Errors(share) => self.chance.percent(share),
                _ => false,
            };
        }
        is_bad
    }
}
