//! Measuring a drive from outside: the seek test of FreeBSD's `diskinfo -t`, and closed loops.
//!
//! The requests of each phase are a list of their own, so that a shell can send the same ones to a
//! real device and time them by the clock.

use alloc::vec::Vec;

use headlong_units::{Duration, Instant};

use crate::fit::{Measurements, step_sectors};
use crate::hard::Rates;
use crate::spec::DriveSpec;
use crate::{Completion, Direction, Drive, Refusal, Request, RequestId, SECTOR_BYTES};

/// Sectors of one read of the rate phases.
const MEGABYTE_SECTORS: u64 = (1 << 20) / SECTOR_BYTES;
/// Most reads of a rate phase (`bulk` in `diskinfo.c`).
const RATE_READS_MAX: u64 = 100;

/// A part of the test, in the order in which they are run. One request at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// 250 sectors, by turns from the two ends.
    FullStroke,
    /// 250 sectors, by turns from one quarter and from three quarters.
    HalfStroke,
    /// 500 sectors, by turns from one quarter and from the middle.
    QuarterStroke,
    /// 400 sectors upwards from the middle, 8 MiB apart.
    ShortForward,
    /// 400 sectors downwards from the middle, 8 MiB apart.
    ShortBackward,
    /// 100 reads of 1 MiB at the start.
    Outer,
    /// 100 reads of 1 MiB around the middle.
    Middle,
    /// 100 reads of 1 MiB up to the end.
    Inner,
}

impl Phase {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::FullStroke,
        Self::HalfStroke,
        Self::QuarterStroke,
        Self::ShortForward,
        Self::ShortBackward,
        Self::Outer,
        Self::Middle,
        Self::Inner,
    ];

    /// Whether bytes count, not requests.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Outer | Self::Middle | Self::Inner)
    }

    /// A read to be done before the clock starts: the rate phases begin with the head in place.
    pub fn first(self, sectors: u64) -> Option<Request> {
        self.is_rate().then(|| read(self.rate_start(sectors), 1))
    }

    fn rate_start(self, sectors: u64) -> u64 {
        let length = rate_reads(sectors) * MEGABYTE_SECTORS;
        match self {
            Self::Middle => (sectors / 2).saturating_sub(length / 2 + 1),
            Self::Inner => sectors.saturating_sub(length + 1),
            _ => 0,
        }
    }

    /// What is timed, on a drive of so many sectors. Nothing on one below 1 MiB.
    pub fn requests(self, sectors: u64) -> Vec<Request> {
        if sectors < MEGABYTE_SECTORS {
            return Vec::new();
        }
        let step = step_sectors(sectors);
        let quarter = sectors / 4;
        let by_turns = |count: u64, from: &dyn Fn(u64) -> u64, to: &dyn Fn(u64) -> u64| {
            let pair = |i| [read(from(i), 1), read(to(i), 1)];
            (0..count).flat_map(pair).collect()
        };
        match self {
            Self::FullStroke => by_turns(125, &|i| i * step, &|i| sectors - (i + 1) * step),
            Self::HalfStroke => by_turns(125, &|i| quarter + i * step, &|i| {
                quarter + sectors / 2 + i * step
            }),
            Self::QuarterStroke => by_turns(250, &|i| quarter + i * step, &|i| {
                quarter + quarter + i * step
            }),
            Self::ShortForward => (0..400).map(|i| read(sectors / 2 + i * step, 1)).collect(),
            Self::ShortBackward => (0..400).map(|i| read(sectors / 2 - i * step, 1)).collect(),
            Self::Outer | Self::Middle | Self::Inner => {
                let start = self.rate_start(sectors);
                let at = |i| read(start + i * MEGABYTE_SECTORS, MEGABYTE_SECTORS as u32);
                (0..rate_reads(sectors)).map(at).collect()
            }
        }
    }
}

fn rate_reads(sectors: u64) -> u64 {
    (sectors / MEGABYTE_SECTORS).min(RATE_READS_MAX)
}

fn read(sector: u64, sectors: u32) -> Request {
    Request {
        sector,
        sectors,
        direction: Direction::Read,
    }
}

/// How long each phase took, to be made into [`Measurements`].
#[derive(Debug, Clone, Default)]
pub struct Timings {
    phases: Vec<(Phase, Duration)>,
}

impl Timings {
    /// Notes the time from the first timed request of a phase to the end of its last.
    pub fn record(&mut self, phase: Phase, elapsed: Duration) {
        self.phases.push((phase, elapsed));
    }

    /// The figures, of a drive of so many bytes that turns so often. A phase that was not recorded
    /// has a rate or a time of zero.
    pub fn measurements(&self, capacity_bytes: u64, rpm: u32) -> Measurements {
        let sectors = capacity_bytes / SECTOR_BYTES;
        let elapsed = |phase| {
            let found = self.phases.iter().find(|(known, _)| *known == phase);
            found.map(|(_, elapsed)| elapsed.as_secs_f64())
        };
        let rate = |phase: Phase| {
            let bytes = rate_reads(sectors) << 20;
            elapsed(phase).map_or(0, |seconds| (bytes as f64 / seconds.max(1e-9)) as u64)
        };
        let each_us = |phase: Phase| {
            let count = phase.requests(sectors).len().max(1);
            elapsed(phase).map(|seconds| seconds * 1e6 / count as f64)
        };
        Measurements {
            capacity_bytes,
            rpm,
            rates: Rates {
                outer_bytes_per_s: rate(Phase::Outer),
                middle_bytes_per_s: rate(Phase::Middle),
                inner_bytes_per_s: rate(Phase::Inner),
            },
            full_stroke_us: each_us(Phase::FullStroke).unwrap_or(0.0),
            half_stroke_us: each_us(Phase::HalfStroke).unwrap_or(0.0),
            quarter_stroke_us: each_us(Phase::QuarterStroke).unwrap_or(0.0),
            short_forward_us: each_us(Phase::ShortForward),
            short_backward_us: each_us(Phase::ShortBackward),
        }
    }
}

/// Runs the whole test on a modelled drive, in virtual time.
pub fn measure(spec: &DriveSpec) -> Measurements {
    let mut drive = spec.build();
    let sectors = drive.capacity_sectors();
    let mut timings = Timings::default();
    let mut now = Instant::ZERO;
    for phase in Phase::ALL {
        if let Some(first) = phase.first(sectors) {
            now = closed_loop(&mut *drive, now, 1, [first], |_| ()).ended;
        }
        let run = closed_loop(&mut *drive, now, 1, phase.requests(sectors), |_| ());
        timings.record(phase, run.elapsed());
        now = run.ended;
    }
    timings.measurements(spec.capacity_bytes(), spec.rpm().unwrap_or(0))
}

/// What a closed loop did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedLoop {
    /// When it began.
    pub began: Instant,
    /// When its last request ended.
    pub ended: Instant,
    /// Requests that ended.
    pub requests: u64,
    /// Bytes that they moved.
    pub bytes: u64,
}

impl ClosedLoop {
    /// From its beginning to its end.
    pub fn elapsed(&self) -> Duration {
        self.ended.since(self.began)
    }

    /// Bytes per second; 0 if no time passed.
    pub fn bytes_per_s(&self) -> f64 {
        let seconds = self.elapsed().as_secs_f64();
        if seconds > 0.0 {
            self.bytes as f64 / seconds
        } else {
            0.0
        }
    }
}

/// Sends requests one after another, `depth` of them (at least one, at most what the drive takes)
/// at a time, each as soon as another has ended. A request that the drive refuses as out of range
/// is left out. `watch` sees every completion, in order of their ends.
pub fn closed_loop(
    drive: &mut dyn Drive,
    began: Instant,
    depth: usize,
    requests: impl IntoIterator<Item = Request>,
    mut watch: impl FnMut(&Completion),
) -> ClosedLoop {
    let depth = depth.clamp(1, drive.queue_depth());
    let mut requests = requests.into_iter();
    let mut run = ClosedLoop {
        began,
        ended: began,
        requests: 0,
        bytes: 0,
    };
    let (mut outstanding, mut next_id) = (0, 0);
    let mut now = began;
    loop {
        while outstanding < depth {
            let Some(request) = requests.next() else {
                break;
            };
            match drive.handle_request(now, RequestId(next_id), request) {
                Ok(()) => outstanding += 1,
                Err(Refusal::OutOfRange | Refusal::QueueFull) => {}
            }
            next_id += 1;
        }
        if outstanding == 0 {
            return run;
        }
        let Some(next) = drive.poll_timeout() else {
            return run;
        };
        now = now.max(next);
        drive.handle_timeout(now);
        while let Some(completion) = drive.poll_completion() {
            run.ended = run.ended.max(completion.ended);
            run.requests += 1;
            run.bytes += u64::from(completion.request.sectors) * SECTOR_BYTES;
            watch(&completion);
            outstanding -= 1;
        }
    }
}

/// Bytes per second of reading blocks one after another from a sector on, `count` of them, one at a
/// time; the first is read before the clock starts.
pub fn sequential_rate(drive: &mut dyn Drive, sector: u64, block_bytes: u64, count: u64) -> f64 {
    let sectors = block_sectors(drive, block_bytes);
    let block = |i| read(sector + i * u64::from(sectors), sectors);
    let first = closed_loop(drive, Instant::ZERO, 1, [block(0)], |_| ());
    closed_loop(drive, first.ended, 1, (1..count).map(block), |_| ()).bytes_per_s()
}

/// Bytes per second of reading blocks from anywhere on the drive, `count` of them, `depth` at a
/// time. Where they lie follows from a fixed scattering of 0, 1, 2 and so on.
pub fn random_rate(drive: &mut dyn Drive, block_bytes: u64, count: u64, depth: usize) -> f64 {
    let sectors = block_sectors(drive, block_bytes);
    let room = drive.capacity_sectors() - u64::from(sectors) + 1;
    let requests = (0..count).map(|i| read(scattered(i) % room, sectors));
    closed_loop(drive, Instant::ZERO, depth, requests, |_| ()).bytes_per_s()
}

/// Sectors of a block, at least one and at most the drive.
fn block_sectors(drive: &dyn Drive, block_bytes: u64) -> u32 {
    let most = drive.capacity_sectors().min(u64::from(u32::MAX));
    (block_bytes / SECTOR_BYTES).clamp(1, most) as u32
}

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014): neighbours end up far apart.
fn scattered(index: u64) -> u64 {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
