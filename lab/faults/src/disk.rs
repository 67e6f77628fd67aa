//! A disk: its timing and its faults.
//!
//! Reads are served one at a time, as by a drive with an arm. File content is looked up at the
//! start and at the end of a read, so a file may change during a read.

use std::collections::BTreeMap;
use std::rc::Rc;

use headlong_device::{
    BLOCK_BYTES, FileRead, IoFailure, LookupProgress, OpenJob, OpenProgress, OpenedFile, PartId,
};
use headlong_engine::{Extent, ReadOutcome};
use headlong_units::{BitRate, Duration, Instant};

use crate::fault::DiskFault;
use crate::files::{FileSystemModel, Inode};
use crate::machine::DiskPlan;
use crate::random_source::RandomSource;
use crate::resources::{SimulatedResources, StreamSource};

/// A system call of a read in progress.
#[derive(Debug)]
pub(crate) struct ReadCall {
    pub(crate) read: FileRead<SimulatedResources>,
    pub(crate) began: Instant,
}

/// A completed operation.
#[derive(Debug)]
pub(crate) enum DiskCompletion {
    Read(ReadCall),
    Open(OpenJob<Rc<StreamSource>>),
    Lookup(PartId),
}

/// Support of the file system for direct reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DirectIoSupport {
    Taken,
    /// Opening a file for direct reads fails.
    OpensRefused,
    /// Opening works, reading fails.
    ReadsRefused,
}

/// One disk.
#[derive(Debug)]
pub(crate) struct SimulatedDisk {
    pub(crate) files: FileSystemModel,
    pub(crate) chance: RandomSource,
    position_time: Duration,
    rate: BitRate,
    free_at: Instant,
    /// Active faults, and when each ends.
    ills: Vec<(DiskFault, Instant)>,
    /// By time of completion; suspended while the disk hangs.
    ends: BTreeMap<(Instant, u64), DiskCompletion>,
    next: u64,
    direct: DirectIoSupport,
    /// Whether a fault ever justified taking the disk offline.
    pub(crate) was_ill: bool,
    /// Whether the hang of another disk blocks this one: a mutant.
    pub(crate) is_held_up: bool,
}

impl SimulatedDisk {
    pub(crate) fn new(plan: &DiskPlan, files: FileSystemModel, chance: RandomSource) -> Self {
        let direct = RandomSource(chance.0.fork("direct")).0.below(10);
        Self {
            files,
            chance,
            position_time: plan.position_time,
            rate: plan.rate,
            free_at: Instant::ZERO,
            ills: Vec::new(),
            ends: BTreeMap::new(),
            next: 0,
            direct: match direct {
                0 => DirectIoSupport::OpensRefused,
                1 => DirectIoSupport::ReadsRefused,
                _ => DirectIoSupport::Taken,
            },
            was_ill: false,
            is_held_up: false,
        }
    }

    pub(crate) fn fall_ill(&mut self, fault: DiskFault, until: Instant) {
        self.was_ill |= fault != DiskFault::NoDescriptors;
        self.ills.push((fault, until));
    }

    /// Removes expired faults; returns whether the files were replaced.
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

    /// Whether look-ups fail, and with which outcome.
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

    /// Duration of a look-up.
    pub(crate) fn look_up_time(&mut self) -> Duration {
        let base = self.position_time.0 / 4 + 1;
        Duration(base + self.chance.0.below(base)).times(self.slowness())
    }

    /// Opens a file, at once if its metadata is in the kernel's cache.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        job: OpenJob<Rc<StreamSource>>,
    ) -> OpenProgress<Inode> {
        if !self.hangs() && self.chance.percent(50) {
            return OpenProgress::Ended(self.opened(&job));
        }
        let at = now + self.look_up_time();
        self.next += 1;
        self.ends.insert((at, self.next), DiskCompletion::Open(job));
        OpenProgress::Pending
    }

    /// Looks up the location of a file, at once if its map is in the kernel's cache.
    pub(crate) fn look_up(&mut self, now: Instant, id: PartId) -> LookupProgress {
        if !self.hangs() && self.chance.percent(50) {
            return LookupProgress::Ended(self.located());
        }
        let at = now + self.look_up_time();
        self.next += 1;
        self.ends
            .insert((at, self.next), DiskCompletion::Lookup(id));
        LookupProgress::Pending
    }

    /// The result of a look-up: any place, as a file may be moved at any time.
    pub(crate) fn located(&mut self) -> Option<Vec<Extent>> {
        let extent = Extent {
            offset: 0,
            physical: self.chance.0.below(1 << 40),
            length: self.chance.0.below(1 << 24),
        };
        (!self.is_away()).then(|| Vec::from([extent]))
    }

    /// The result of an open at this moment.
    pub(crate) fn opened(
        &self,
        job: &OpenJob<Rc<StreamSource>>,
    ) -> Result<OpenedFile<Inode>, IoFailure> {
        if self.is_away() {
            return Err(IoFailure::Device);
        }
        if self.has(DiskFault::NoDescriptors) {
            return Err(IoFailure::TooManyFiles);
        }
        if job.is_direct && self.direct == DirectIoSupport::OpensRefused {
            return Err(IoFailure::Refused);
        }
        let part = job.source.parts.get(job.id.part as usize);
        let (path, identity) = part.ok_or(IoFailure::Replaced)?;
        let file = self.files.lookup(path).ok_or(IoFailure::Replaced)?;
        let is_current = self.files.identity(file) == Some(*identity);
        Ok(OpenedFile { file, is_current })
    }

    /// Submits a system call of a read to the drive.
    pub(crate) fn submit(&mut self, now: Instant, reading: ReadCall) {
        let length = reading.read.job.span().length;
        let jitter = self.chance.0.below(self.position_time.0 + 1);
        let time = Duration(self.position_time.0 / 2 + jitter) + self.rate.time_for(length);
        let end = self.free_at.max(now) + time.times(self.slowness());
        // Some reads complete out of order.
        let swaps = self.chance.percent(10);
        self.free_at = if swaps { self.free_at.max(now) } else { end };
        self.next += 1;
        self.ends
            .insert((end, self.next), DiskCompletion::Read(reading));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        if self.hangs() || self.is_held_up {
            return None;
        }
        self.ends.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Option<DiskCompletion> {
        let entry = self.ends.first_entry().filter(|of| of.key().0 <= now)?;
        Some(entry.remove())
    }

    /// The server has ended, and its reads with it.
    pub(crate) fn forget_reads(&mut self) {
        self.ends.clear();
        self.free_at = Instant::ZERO;
    }

    /// Result of a system call of a read: it may be interrupted, fail, or be short.
    pub(crate) fn carry_out(&mut self, now: Instant, reading: &ReadCall) -> Result<u64, IoFailure> {
        let ReadCall { read, began } = reading;
        let span = read.job.span();
        if read.job.is_direct() && self.direct == DirectIoSupport::ReadsRefused {
            return Err(IoFailure::Refused);
        }
        if self.chance.percent(3) {
            return Err(IoFailure::Interrupted);
        }
        let part = read.source.parts.get(read.job.file.part as usize);
        let size = part.map_or(0, |(_, identity)| identity.size);
        if self.files.is_dead(read.file) || self.fails(span.offset, span.length, size) {
            // The content of the memory is undefined after an error.
            let piece = read.memory.piece();
            for skip in (span.skip..span.skip + span.length).step_by(piece as usize) {
                read.memory.fill(skip, piece, |bytes| bytes.fill(0x5a));
            }
            return Err(IoFailure::Device);
        }
        let block = if read.job.is_direct() { BLOCK_BYTES } else { 1 };
        let is_short = span.length > block && self.chance.percent(8);
        let most = match is_short {
            true => block + self.chance.0.below(span.length - block) / block * block,
            false => span.length,
        };
        Ok(self.fill(now, *began, read, most))
    }

    /// Fills memory with the content of the file: one part as of the start of the call, the rest as
    /// of now. Returns the number of bytes.
    fn fill(
        &mut self,
        now: Instant,
        began: Instant,
        read: &FileRead<SimulatedResources>,
        most: u64,
    ) -> u64 {
        let (span, piece) = (read.job.span(), read.memory.piece());
        let early = self.chance.0.below(most.div_ceil(piece) + 2) * piece;
        let mut done = 0;
        while done < most {
            let skip = span.skip + done;
            let wanted = (piece - skip % piece).min(most - done);
            let time = if done < early { began } else { now };
            let Some(version) = self.files.at(read.file, time) else {
                return done;
            };
            let at = span.offset + done;
            let there = version.size.saturating_sub(at).min(wanted);
            read.memory
                .fill(skip, there, |bytes| version.key.fill(at, bytes));
            done += there;
            if there < wanted {
                return done;
            }
        }
        done
    }

    /// Whether a read of these bytes fails.
    fn fails(&mut self, start: u64, length: u64, size: u64) -> bool {
        if self.is_away() {
            return true;
        }
        let end = start + length;
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
