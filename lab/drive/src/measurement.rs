//! Measurements of a modelled drive from outside: the seek test of FreeBSD's `diskinfo -t`, with
//! the requests of `common/disk`, and closed loops.
use headlong_units::{Duration, Instant};

use crate::spec::DriveSpec;
use crate::{
    Completion, Direction, Drive, Measurements, Phase, Refusal, Request, RequestId, SECTOR_BYTES,
    Timings,
};

fn read(sector: u64, sectors: u32) -> Request {
    Request {
        sector,
        sectors,
        direction: Direction::Read,
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

/// Result of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedLoopResult {
    /// Start time.
    pub began: Instant,
    /// Completion of its last request.
    pub ended: Instant,
    /// Completed requests.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
}

impl ClosedLoopResult {
    /// Duration.
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

/// Sends requests with `depth` outstanding (at least one, at most the drive's queue depth), each as
/// soon as another has completed. Requests that the drive refuses as out of range are skipped.
/// `watch` receives every completion, in order.
pub fn closed_loop(
    drive: &mut dyn Drive,
    began: Instant,
    depth: usize,
    requests: impl IntoIterator<Item = Request>,
    mut watch: impl FnMut(&Completion),
) -> ClosedLoopResult {
    let depth = depth.clamp(1, drive.queue_depth());
    let mut requests = requests.into_iter();
    let mut run = ClosedLoopResult {
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

/// Bytes per second of reading `count` consecutive blocks from a sector on, one at a time; the
/// first is read before the measurement starts.
pub fn sequential_rate(drive: &mut dyn Drive, sector: u64, block_bytes: u64, count: u64) -> f64 {
    let sectors = block_sectors(drive, block_bytes);
    let block = |i| read(sector + i * u64::from(sectors), sectors);
    let first = closed_loop(drive, Instant::ZERO, 1, [block(0)], |_| ());
    closed_loop(drive, first.ended, 1, (1..count).map(block), |_| ()).bytes_per_s()
}

/// Bytes per second of reading `count` blocks at random places, `depth` at a time. The places are a
/// fixed hash of 0, 1, 2 and so on.
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

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014): neighbours are scattered.
fn scattered(index: u64) -> u64 {
    let mixed = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
