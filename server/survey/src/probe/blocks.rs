//! The optimal write size of an SSD (flashstream 3.1).
//!
//! Small random writes make an SSD move data, and some of them take ten times as long. With growing
//! requests, the distribution of their latencies approaches that of sequential writes. The optimal
//! block size is the smallest from which on the two are alike: their Kullback-Leibler divergence is
//! below a threshold, at that size and all larger ones. (The paper's curves fall and stay down, so
//! there it is the first below. A drive whose small random writes suffer from a rare pause of
//! seconds has a small divergence too, because the pauses are rare.)
//!
//! The paper's drives had no spare flash. A drive with spare flash hides the cost of random writes
//! until that is used up; so each run may be preceded by enough writes of its own kind to bring the
//! drive into its steady state ([`WritePlan::settle`]).

use headlong_disk::{Direction, Request, SECTOR_BYTES};
use headlong_random::Generator;
use headlong_stats::kl_divergence;

use super::error::ProbeError;
use super::target::Target;

/// Size of writes in the pass that fills the region, in sectors: 1 MiB.
const FILL_SECTORS: u64 = 2048;

/// Plan of the writes.
#[derive(Debug, Clone, PartialEq)]
pub struct WritePlan {
    /// Request sizes in bytes, ascending.
    pub sizes_bytes: Vec<u64>,
    /// Writes of each size, sequential and again random (640 in the paper).
    pub writes: u32,
    /// Distributions with a divergence below this are alike, in nats (0.1 in the paper).
    pub threshold: f64,
    /// Preceding writes of the same kind before each run, as a share of the region (0 in the paper;
    /// 1 is enough for most drives, and a large amount to write).
    pub settle: f64,
    /// Size of the region, from the device's start.
    pub region_bytes: u64,
    /// Seed of the random positions.
    pub seed: u64,
}

impl WritePlan {
    /// The paper's procedure on a whole device: 640 writes of each size from 0.5 to 128 MB,
    /// threshold 0.1. MB are 2^20 bytes here, since erase blocks are powers of two.
    pub fn of_paper(region_bytes: u64) -> Self {
        Self {
            sizes_bytes: (0..9).map(|power| (512 << 10) << power).collect(),
            writes: 640,
            threshold: 0.1,
            settle: 0.0,
            region_bytes,
            seed: 1,
        }
    }

    /// Total bytes of all writes.
    pub fn bytes(&self) -> u64 {
        let run = |size| self.settling(size).saturating_add(self.writes.into());
        let each = self
            .sizes()
            .map(|size| (2 * size).saturating_mul(run(size)));
        each.fold(self.region_bytes, u64::saturating_add)
    }

    /// The same on a device of `device_bytes`. The region is reduced to whole blocks of the largest
    /// size that fits, and so of all sizes: a remainder would misalign every later write with the
    /// drive's internal blocks.
    pub fn within(&self, device_bytes: u64) -> Self {
        let mut plan = Self {
            region_bytes: self.region_bytes.min(device_bytes),
            ..self.clone()
        };
        let largest = plan.sizes().max().unwrap_or(1);
        plan.region_bytes = plan.region_bytes / largest * largest;
        plan
    }

    /// Checks whether anything can be written.
    ///
    /// # Errors
    /// If the region holds no two blocks of any size.
    pub fn check(&self, name: &str) -> Result<(), ProbeError> {
        if self.sizes().next().is_some() {
            return Ok(());
        }
        let needed = 2 * self.sizes_bytes.first().copied().unwrap_or(SECTOR_BYTES);
        Err(ProbeError::too_small(name, self.region_bytes, needed))
    }

    /// Number of preceding writes of a size, which do not count.
    fn settling(&self, size_bytes: u64) -> u64 {
        let blocks = self.region_bytes / size_bytes.max(1);
        // A negative or invalid share becomes zero.
        (self.settle * blocks as f64) as u64
    }

    /// Sizes of which the region holds at least two blocks.
    fn sizes(&self) -> impl Iterator<Item = u64> {
        let fits = |size: &&u64| **size >= SECTOR_BYTES && **size <= self.region_bytes / 2;
        self.sizes_bytes.iter().filter(fits).copied()
    }
}

/// Result of one request size.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSize {
    /// The size of each request.
    pub bytes: u64,
    /// Seconds of each sequential write.
    pub sequential_s: Vec<f64>,
    /// Seconds of each random write.
    pub random_s: Vec<f64>,
    /// Divergence of random from sequential, in nats.
    pub divergence: f64,
}

/// Results of all sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockSizes {
    /// By size.
    pub sizes: Vec<BlockSize>,
    /// The smallest size whose divergence is below the threshold, as are those of all larger ones;
    /// `None` if there is none.
    pub optimal_bytes: Option<u64>,
}

/// Fills the region once sequentially, because an empty SSD has no data to move; then writes each
/// size sequentially and at random. **Destroys the content.** `say` is called with each size before
/// it begins, and with 0 for the fill.
///
/// # Errors
/// If a write fails, or the region holds no two blocks of any size.
pub fn find_block_size(
    target: &mut dyn Target,
    name: &str,
    plan: &WritePlan,
    say: &mut dyn FnMut(u64),
) -> Result<BlockSizes, ProbeError> {
    let device_bytes = target.sectors() * SECTOR_BYTES;
    let plan = &plan.within(device_bytes);
    plan.check(name)?;
    say(0);
    fill(target, plan.region_bytes / SECTOR_BYTES)?;
    let places = Generator::new(plan.seed);
    let mut sizes = Vec::new();
    for bytes in plan.sizes() {
        say(bytes);
        let mut places = places.fork_at(bytes);
        let count = plan.region_bytes / bytes;
        let settling = plan.settling(bytes);
        let mut run = |place: &mut dyn FnMut(u64) -> u64| -> Result<Vec<f64>, ProbeError> {
            let mut times = Vec::with_capacity(plan.writes as usize);
            for index in 0..settling + u64::from(plan.writes) {
                let time = target.perform(write(place(index) * bytes, bytes))?;
                if index >= settling {
                    times.push(time.as_secs_f64());
                }
            }
            Ok(times)
        };
        let sequential_s = run(&mut |index| index % count)?;
        let random_s = run(&mut |_| places.below(count))?;
        // Latencies are finite; zero is replaced by a nanosecond.
        let least = |times: &[f64]| times.iter().map(|s| s.max(1e-9)).collect::<Vec<f64>>();
        let divergence = kl_divergence(&least(&random_s), &least(&sequential_s));
        sizes.push(BlockSize {
            bytes,
            sequential_s,
            random_s,
            divergence: divergence.unwrap_or(f64::INFINITY),
        });
    }
    let is_alike = |size: &&BlockSize| size.divergence < plan.threshold;
    let alike = sizes.iter().rev().take_while(is_alike).last();
    Ok(BlockSizes {
        optimal_bytes: alike.map(|size| size.bytes),
        sizes,
    })
}

fn fill(target: &mut dyn Target, sectors: u64) -> Result<(), ProbeError> {
    let mut sector = 0;
    while sector < sectors {
        let length = (sectors - sector).min(FILL_SECTORS);
        target.perform(write(sector * SECTOR_BYTES, length * SECTOR_BYTES))?;
        sector += length;
    }
    Ok(())
}

fn write(offset: u64, bytes: u64) -> Request {
    Request {
        sector: offset / SECTOR_BYTES,
        sectors: u32::try_from(bytes / SECTOR_BYTES).unwrap_or(u32::MAX),
        direction: Direction::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::Duration;

    /// An SSD that takes 1 ms for a MiB, and ten times as long for each erase block of this size
    /// that a non-sequential write covers only partly.
    struct FakeSsd {
        erase_sectors: u64,
        next: u64,
        written: u64,
    }

    impl Target for FakeSsd {
        fn sectors(&self) -> u64 {
            (1 << 30) / SECTOR_BYTES
        }

        fn perform(&mut self, request: Request) -> Result<Duration, ProbeError> {
            assert!(request.end() <= self.sectors() && request.direction == Direction::Write);
            let aligned = request.sector.is_multiple_of(self.erase_sectors)
                && u64::from(request.sectors).is_multiple_of(self.erase_sectors);
            let is_spike =
                !aligned && request.sector != self.next && self.written.is_multiple_of(8);
            self.next = request.end();
            self.written += 1;
            let micros = u64::from(request.sectors) * 1000 / 2048;
            Ok(Duration::from_micros(if is_spike {
                micros * 10
            } else {
                micros
            }))
        }
    }

    fn fake(erase_mib: u64) -> FakeSsd {
        FakeSsd {
            erase_sectors: erase_mib * 2048,
            next: 0,
            written: 0,
        }
    }

    #[test]
    fn optimal_size_is_that_of_the_erase_block() {
        for erase_mib in [4, 16] {
            let plan = WritePlan::of_paper(1 << 30);
            let mut said = Vec::new();
            let found = find_block_size(&mut fake(erase_mib), "fake", &plan, &mut |b| said.push(b));
            let found = found.expect("written");
            assert_eq!(found.optimal_bytes, Some(erase_mib << 20), "{erase_mib}");
            assert_eq!((said.len(), found.sizes.len(), said[0]), (10, 9, 0));
            assert!(found.sizes.iter().all(|size| size.random_s.len() == 640));
        }
    }

    /// A drive that is slow only for non-sequential writes of 2 MiB.
    struct OddDrive {
        next: u64,
    }

    impl Target for OddDrive {
        fn sectors(&self) -> u64 {
            1 << 18
        }

        fn perform(&mut self, request: Request) -> Result<Duration, ProbeError> {
            // Wrapping around to the start counts as sequential.
            let is_next = request.sector == self.next || request.sector == 0;
            self.next = request.end();
            let is_slow = request.sectors == 4096 && !is_next;
            Ok(Duration::from_millis(if is_slow { 10 } else { 1 }))
        }
    }

    #[test]
    fn size_is_not_optimal_if_a_larger_one_differs() {
        let found = |sizes_bytes: Vec<u64>| {
            let plan = WritePlan {
                sizes_bytes,
                writes: 20,
                ..WritePlan::of_paper(u64::MAX)
            };
            let found = find_block_size(&mut OddDrive { next: 0 }, "odd", &plan, &mut |_| {});
            found.expect("written").optimal_bytes
        };
        assert_eq!(found(vec![1 << 19, 1 << 20]), Some(1 << 19));
        assert_eq!(found(vec![1 << 19, 1 << 20, 1 << 21]), None);
        assert_eq!(found(vec![1 << 20, 1 << 21, 1 << 22]), Some(1 << 22));
    }

    #[test]
    fn preceding_writes_do_not_count() {
        let plan = WritePlan {
            sizes_bytes: vec![1 << 20],
            writes: 20,
            settle: 0.5,
            ..WritePlan::of_paper(1 << 30)
        };
        assert_eq!(plan.bytes(), (1 << 30) + 2 * ((1 << 29) + (20 << 20)));
        let mut drive = fake(4);
        let found = find_block_size(&mut drive, "fake", &plan, &mut |_| {}).expect("written");
        assert_eq!(
            (found.sizes[0].random_s.len(), drive.written),
            (20, 1024 + 2 * 532)
        );
    }

    #[test]
    fn sizes_must_fit_twice_and_total_is_known_before() {
        let plan = WritePlan {
            writes: 10,
            ..WritePlan::of_paper(8 << 20)
        };
        // 0.5, 1, 2 and 4 MiB, ten times sequential and ten times random, and 8 MiB of initial
        // fill.
        assert_eq!(plan.bytes(), (20 * 15 + 16) << 19);
        let found = find_block_size(&mut fake(1), "fake", &plan, &mut |_| {}).expect("written");
        assert_eq!(found.sizes.len(), 4);
    }

    #[test]
    fn region_too_small_for_two_blocks_is_refused() {
        let plan = WritePlan::of_paper(1 << 19);
        let error = find_block_size(&mut fake(1), "fake", &plan, &mut |_| {});
        let error = error.expect_err("too small").to_string();
        assert!(error.contains("at least 1048576"), "{error}");
    }
}
