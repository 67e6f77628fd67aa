//! How busy each disk of a plan is: what the engine does for the titles that it has.
//!
//! Prefetch sizes and reads follow from the engine's own rules ([`SteadyState`]), for viewers who
//! arrive independently and begin at the beginning. Memory has pieces for a viewer behind another
//! one, and those of titles that are watched often.

use alloc::vec::Vec;
use core::cell::RefCell;

use headlong_engine::{EngineConfig, Retention, SteadyLoad, SteadyState, read_again_within};

use crate::placed_titles::viewers_of_copies;
use crate::plan::{Plan, PlanDemand, PlanDisk, PlanTitle};
use crate::rendezvous::mix;

/// Viewers that represent all, each with a title and the part of it that it reads.
const VIEWERS: usize = 2048;
/// Parts of a title for which hits are computed: fewer viewers reach the later ones.
const PARTS: usize = 8;
/// Places in a title for which viewers before them are counted.
const PLACES: usize = 64;
/// Times to the next viewer for which hits are computed: from a second to a hundred days, each so
/// many times the one before.
const POINTS: usize = 90;
const WITHIN_STEP: f64 = 1.2;
/// Below it, the probability of an event that is expected so often is taken by its series.
const RARE: f64 = 1e-3;

/// A title on a disk.
#[derive(Debug, Clone, Copy)]
struct TitleLoad {
    bytes: u64,
    /// What viewers read of it there.
    bytes_per_s: f64,
}

/// A part of a title on a disk, as memory sees it.
#[derive(Debug, Clone, Copy)]
struct RetainedPart {
    bytes: f64,
    /// Viewers that read it per second.
    rate: f64,
    /// Viewers of the title per second, and its length.
    views: f64,
    seconds: f64,
    /// Its place in the title, of 1.
    at: f64,
}

/// Share of the bytes sent that memory has, by its size.
struct HitCurve {
    parts: Vec<RetainedPart>,
    before: ViewersBefore,
    retention: Retention,
    /// Bytes that viewers read per second.
    all: f64,
    /// Bytes in memory and hits, in ascending order: few are ever asked for.
    points: RefCell<[Option<(f64, f64)>; POINTS]>,
}

impl Plan {
    /// How busy each disk is with this demand, if the boxes have these settings of the engine and
    /// the balancer the map of [`crate::Fleet::placed_titles`]. Their memory is that of
    /// [`crate::PlanDisk::memory_bytes`].
    pub fn expected_work(
        &self,
        titles: &[PlanTitle],
        demand: &PlanDemand,
        engine: &EngineConfig,
    ) -> Vec<SteadyState> {
        let heat: f64 = titles.iter().map(|title| title.heat).sum();
        let mut of_disks: Vec<Vec<TitleLoad>> = self.disks.iter().map(|_| Vec::new()).collect();
        for (title, places) in titles.iter().zip(&self.places) {
            let load = demand.load(title, heat);
            let shares = viewers_of_copies(places.len(), demand.replicas);
            for (disk, share) in places.iter().zip(shares) {
                if load * share > 0.0 {
                    of_disks[*disk].push(TitleLoad {
                        bytes: title.bytes,
                        bytes_per_s: load * share,
                    });
                }
            }
        }
        let disks = self.disks.iter().zip(of_disks);
        let state = |(disk, of_disk): (&PlanDisk, Vec<TitleLoad>)| {
            let engine = EngineConfig {
                memory_bytes: disk.memory_bytes,
                ..*engine
            };
            let chains = chains(&of_disk, &demand.watched);
            let hits = HitCurve::new(&of_disk, demand, engine.retention);
            let load = SteadyLoad {
                bytes_per_s: of_disk.iter().map(|title| title.bytes_per_s).sum(),
                bit_rate: demand.bit_rate,
                chains: &chains,
                hit_ratio: &|bytes, held_s| hits.at(bytes as f64, held_s),
            };
            SteadyState::new(&engine, disk.drive, &load)
        };
        disks.map(state).collect()
    }
}

/// Share of the viewers that reach a part of the title, of 1.
fn viewers_at(part: f64, watched: &[f64]) -> f64 {
    let reach = watched.iter().filter(|end| **end >= part).count();
    reach as f64 / watched.len().max(1) as f64
}

/// Chains that represent those of a disk: bytes that a viewer reads, and of the title. Titles are
/// drawn as often as their viewers come, and each viewer's part.
fn chains(titles: &[TitleLoad], watched: &[f64]) -> Vec<(u64, u64)> {
    let mut all = 0.0;
    let sums: Vec<f64> = titles
        .iter()
        .map(|title| {
            all += title.bytes_per_s / title.bytes.max(1) as f64;
            all
        })
        .collect();
    let draw = |viewer: usize, turn: u64| mix(mix(viewer as u64) ^ turn) as f64 / u64::MAX as f64;
    let chain = |viewer: usize| {
        let at = draw(viewer, 0) * all;
        let title = sums.partition_point(|sum| *sum < at).min(sums.len() - 1);
        let part = (draw(viewer, 1) * watched.len() as f64) as usize;
        let part = watched[part.min(watched.len() - 1)];
        let bytes = titles[title].bytes;
        (((bytes as f64 * part) as u64).max(1), bytes)
    };
    match titles.is_empty() || watched.is_empty() {
        true => Vec::new(),
        false => (0..VIEWERS).map(chain).collect(),
    }
}

/// The parts of a disk's titles.
fn parts(titles: &[TitleLoad], demand: &PlanDemand) -> Vec<RetainedPart> {
    let mut parts = Vec::with_capacity(titles.len() * PARTS);
    let reach = (0..PARTS).map(|part| {
        let middle = (part as f64 + 0.5) / PARTS as f64;
        (middle, viewers_at(middle, &demand.watched))
    });
    let reach: Vec<(f64, f64)> = reach.filter(|(_, reach)| *reach > 0.0).collect();
    let watched: f64 = reach.iter().map(|(_, reach)| reach / PARTS as f64).sum();
    for title in titles {
        let bytes = title.bytes as f64;
        let views = title.bytes_per_s / (bytes * watched).max(1.0);
        let seconds = bytes * 8.0 / demand.bit_rate.0.max(1) as f64;
        parts.extend(reach.iter().map(|(middle, reach)| RetainedPart {
            bytes: bytes / PARTS as f64,
            rate: views * reach,
            views,
            at: *middle,
            seconds,
        }));
    }
    parts
}

/// Viewers before a place in a title, by that place: of one view a second of a title of a second.
#[derive(Debug)]
struct ViewersBefore([f64; PLACES + 1]);

impl ViewersBefore {
    fn new(watched: &[f64]) -> Self {
        let before = |place: usize| {
            let place = place as f64 / PLACES as f64;
            let sum: f64 = watched.iter().map(|end| end.min(place)).sum();
            sum / watched.len().max(1) as f64
        };
        Self(core::array::from_fn(before))
    }

    fn at(&self, place: f64) -> f64 {
        let scaled = place.clamp(0.0, 1.0) * PLACES as f64;
        let below = (scaled as usize).min(PLACES - 1);
        self.0[below] + (self.0[below + 1] - self.0[below]) * (scaled - below as f64)
    }
}

impl RetainedPart {
    /// The share of it that is in memory on average, and of its viewers that find it there, if
    /// memory has pieces whose next viewer is expected within `within_s` seconds: by their
    /// popularity with the probability `often`, else because the viewer has begun. It is also kept
    /// for viewers who then leave before they reach it, half as long on average.
    fn retained(&self, within_s: f64, often: f64, before: &ViewersBefore) -> (f64, f64) {
        let from = self.at - within_s / self.seconds.max(1.0);
        let begun = self.views * self.seconds * (before.at(self.at) - before.at(from));
        let comes = self.rate * within_s.min(self.at * self.seconds);
        let kept_for = libm::sqrt(comes * (comes + begun) / 2.0);
        let (share, hits) = match kept_for < RARE {
            true => (kept_for * kept_for / 2.0, comes),
            false => {
                let missed = libm::exp(-kept_for);
                (1.0 - missed - kept_for * missed, -libm::expm1(-comes))
            }
        };
        (often + (1.0 - often) * share, often + (1.0 - often) * hits)
    }

    /// The same of a memory of the pieces read last, which has those read within so many seconds
    /// (Che, Tung and Wang, "Hierarchical Web Caching Systems", 2002).
    fn retained_by_last_use(&self, within_s: f64) -> (f64, f64) {
        let hit = -libm::expm1(-self.rate * within_s);
        (hit, hit)
    }
}

impl HitCurve {
    fn new(titles: &[TitleLoad], demand: &PlanDemand, retention: Retention) -> Self {
        let parts = parts(titles, demand);
        Self {
            all: parts.iter().map(|part| part.bytes * part.rate).sum(),
            parts,
            before: ViewersBefore::new(&demand.watched),
            retention,
            points: RefCell::new([None; POINTS]),
        }
    }

    /// The bytes and hits of a point, by how many seconds it looks ahead; the first is 0.
    fn point(&self, number: usize) -> (f64, f64) {
        if let Some(point) = self.points.borrow()[number] {
            return point;
        }
        let within_s = within_s(number);
        let (mut bytes, mut found) = (0.0, 0.0);
        // Parts of a title that as many viewers reach are neighbours.
        let (mut rate, mut often) = (0.0, 0.0);
        for part in &self.parts {
            let (share, hits) = match self.retention {
                Retention::Popularity => {
                    if part.rate != rate {
                        (rate, often) = (part.rate, read_again_within(part.rate, within_s));
                    }
                    part.retained(within_s, often, &self.before)
                }
                Retention::Lru | Retention::PageCache => part.retained_by_last_use(within_s),
            };
            bytes += part.bytes * share;
            found += part.bytes * part.rate * hits;
        }
        let point = (bytes, found / self.all.max(f64::MIN_POSITIVE));
        self.points.borrow_mut()[number] = Some(point);
        point
    }

    /// The share of hits if so many bytes are retained, and others are in memory for `held_s` seconds
    /// before they are read: a viewer so little behind finds them, too.
    fn at(&self, bytes: f64, held_s: f64) -> f64 {
        // The first point with more bytes, or none.
        let (mut above, mut end) = (1, POINTS);
        while above < end {
            let middle = above.midpoint(end);
            match self.point(middle).0 <= bytes {
                true => above = middle + 1,
                false => end = middle,
            }
        }
        let below = above - 1;
        let part = match above == POINTS {
            true => 0.0,
            false => {
                let (least, most) = (self.point(below).0, self.point(above).0);
                (bytes - least) / (most - least)
            }
        };
        let within_s = within_s(below) + part * (within_s(above) - within_s(below));
        self.hits(within_s + held_s)
    }

    /// The share of hits if memory has all whose next viewer is expected within so many seconds.
    fn hits(&self, seconds: f64) -> f64 {
        let above = (1..POINTS).find(|number| within_s(*number) > seconds);
        let Some(above) = above else {
            return self.point(POINTS - 1).1;
        };
        let (least_s, most_s) = (within_s(above - 1), within_s(above));
        let (least, most) = (self.point(above - 1).1, self.point(above).1);
        least + (most - least) * (seconds - least_s) / (most_s - least_s)
    }
}

/// How far a point of a curve looks ahead, seconds.
fn within_s(point: usize) -> f64 {
    match point {
        0 => 0.0,
        _ => libm::pow(WITHIN_STEP, (point - 1) as f64),
    }
}

#[cfg(test)]
mod tests {
    use std::format;

    use headlong_engine::{Prefetch, SizingConfig};
    use headlong_units::{BitRate, MIB};

    use super::*;
    use crate::fleet::Fleet;
    use crate::plan::plan;

    const GB: u64 = 1_000_000_000;

    /// Two boxes of two disks.
    fn fleet(memory: &str) -> Fleet {
        let mut text = std::string::String::from("title = \"file\"\n");
        for of_box in 0..2 {
            text.push_str(&format!(
                "[box.b{of_box}]\naddress = \"a:1\"\nadmin = \"a:2\"\nmemory = \"{memory}\"\n"
            ));
            for disk in 0..2 {
                text.push_str(&format!(
                    "[box.b{of_box}.disk.d{disk}]\nbytes = \"1TB\"\nrate = \"125MiB/s\"\nroot = \"/\"\n"
                ));
            }
        }
        Fleet::read("", &text).expect("right")
    }

    fn engine() -> EngineConfig {
        let mut engine = EngineConfig::default();
        engine.set_prefetch(Prefetch::Size(SizingConfig::default().reference_bytes));
        engine
    }

    fn demand(mib_s: u64) -> PlanDemand {
        PlanDemand {
            replicas: 1,
            bytes_per_s: (mib_s * MIB) as f64,
            bit_rate: BitRate::from_kbps(2_000),
            watched: [1.0].into(),
        }
    }

    fn titles(count: u32) -> Vec<PlanTitle> {
        let title = |number| PlanTitle {
            name: format!("{number}"),
            bytes: GB / 10,
            heat: 1.0,
        };
        (0..count).map(title).collect()
    }

    fn work(memory: &str, titles: &[PlanTitle], demand: PlanDemand) -> Vec<SteadyState> {
        let plan = plan(fleet(memory).disks(&[]), titles, &demand);
        plan.expected_work(titles, &demand, &engine())
    }

    #[test]
    fn busy_time_follows_load_and_prefetches() {
        let titles = titles(4000);
        let of = work("64GiB", &titles, demand(160));
        assert_eq!(of.len(), 4);
        let busy: f64 = of.iter().map(|disk| disk.busy).sum();
        let missed: f64 = of.iter().map(|disk| disk.read_bytes_per_s).sum();
        // 95.4 MiB in reads of 8 MiB: 12 repositions of 15 ms, and 8 ms for each MiB.
        let per_mib = (12.0 * 0.015 + 95.367 * 0.008) / 95.367;
        let expected = missed / MIB as f64 * per_mib;
        assert!((busy / expected - 1.0).abs() < 0.01, "{busy} {expected}");
        assert!(missed < 160.0 * MIB as f64, "{missed}");
    }

    #[test]
    fn memory_has_what_viewers_shortly_before_have_read() {
        let rare = work("2GiB", &titles(40_000), demand(160));
        let often = work("2GiB", &titles(40), demand(160));
        let roomy = work("64GiB", &titles(40), demand(160));
        for ((rare, often), roomy) in rare.iter().zip(&often).zip(&roomy) {
            assert!(rare.hit_ratio < 0.01, "{rare:?}");
            assert!(often.hit_ratio > 0.1, "{often:?}");
            // Ten titles of 0.1 GB for each disk.
            assert!(roomy.hit_ratio > 0.99, "{roomy:?}");
        }
    }

    #[test]
    fn first_copy_bears_all_of_a_title_that_is_not_popular() {
        let titles = titles(4000);
        let of = PlanDemand {
            replicas: 2,
            ..demand(160)
        };
        let plan = plan(fleet("2GiB").disks(&[]), &titles, &of);
        let firsts = |disk: usize| {
            let firsts = plan.places.iter().filter(|places| places[0] == disk);
            firsts.count() as f64 / 4000.0 * of.bytes_per_s
        };
        for (disk, load) in plan.loads.iter().enumerate() {
            assert!((load.bytes_per_s / firsts(disk) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn viewers_that_leave_make_the_end_of_titles_rare() {
        let watched = [0.1, 0.4, 1.0, 1.0];
        let reach = [0.0, 0.2, 0.5, 1.0].map(|part| viewers_at(part, &watched));
        assert_eq!(reach, [1.0, 0.75, 0.5, 0.5]);
        let of = PlanDemand {
            watched: watched.into(),
            ..demand(160)
        };
        let titles = [TitleLoad {
            bytes: GB,
            bytes_per_s: 1e6,
        }];
        // As much is read in all.
        let read: f64 = parts(&titles, &of)
            .iter()
            .map(|part| part.bytes * part.rate)
            .sum();
        assert!((read / 1e6 - 1.0).abs() < 1e-9, "{read}");
        let chains = chains(&titles, &of.watched);
        let mean = chains.iter().map(|(read, _)| *read as f64).sum::<f64>() / chains.len() as f64;
        assert!((mean / (0.625 * GB as f64) - 1.0).abs() < 0.03, "{mean}");
    }
}
