//! Fingerprints of the decisions of whole runs: a refactoring must not change any.
//!
//! An intended change of decisions gives other numbers here; its commit says which and why. The
//! failing test prints them.

use crate::rig::{Device, HOUR_BYTES, Rig, range};
use headlong_engine::{
    Control, ControlConfig, EngineConfig, Hints, Order, Policy, Request, Retention, SizingConfig,
    StreamId,
};
use headlong_units::{BitRate, Duration, KIB, MIB};

const VIEWERS: u64 = 60;
const TITLES: u64 = 24;
const STEPS: u32 = 1_500;

/// Numbers that follow only from a seed (the generator of Numerical Recipes, 7.1).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound.max(1)
    }
}

/// A viewer's position: its title, and the offset of its next request.
#[derive(Clone, Copy)]
struct ViewerPosition {
    title: u64,
    next: u64,
}

/// FNV-1a, 64 bits.
fn fingerprint(lines: &[String]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn settings(policy: Policy, order: Order, retention: Retention, mode: Control) -> EngineConfig {
    EngineConfig {
        memory_bytes: 128 * MIB,
        sizing: SizingConfig {
            policy,
            reference_bytes: 4 * MIB,
            ..SizingConfig::default()
        },
        control: ControlConfig {
            mode,
            ..ControlConfig::default()
        },
        order,
        retention,
        ..EngineConfig::default()
    }
}

/// Viewers that watch, jump and leave. Some send hints, which are true.
fn run(config: EngineConfig, seed: u64, device: Device) -> u64 {
    let mut rig = Rig::new(config);
    rig.device = device;
    rig.socket_time = Duration::from_millis(3);
    let mut numbers = Numbers(seed);
    for id in 1..=TITLES {
        match id % 4 {
            0 => rig.chunked(id, &[MIB; 200], 2_000),
            1 => rig.title(id, HOUR_BYTES / 9, 800),
            _ => rig.title(id, HOUR_BYTES, 2_000 + id * 100),
        };
    }
    let mut places: Vec<ViewerPosition> = (0..VIEWERS)
        .map(|viewer| ViewerPosition {
            title: viewer % TITLES + 1,
            next: 0,
        })
        .collect();
    for _ in 0..STEPS {
        let viewer = numbers.below(VIEWERS);
        let place = &mut places[viewer as usize];
        match numbers.below(40) {
            0 => {
                // The square of an even random number is more often low: some titles are popular.
                let low = numbers.below(TITLES * TITLES);
                *place = ViewerPosition {
                    title: low.isqrt() + 1,
                    next: 0,
                };
            }
            1 => place.next = numbers.below(90) * MIB,
            2 => {
                let open: Vec<_> = rig.replies.keys().copied().collect();
                let one = open.get(numbers.below(open.len() as u64) as usize);
                if let Some(id) = one.filter(|id| !rig.is_over(**id)) {
                    rig.cancel(*id);
                }
            }
            _ => {
                let request = next_request(viewer, place, &mut numbers);
                let _ = rig.request(request);
            }
        }
        rig.run_for(Duration::from_millis(numbers.below(250)));
    }
    rig.run_for(Duration::from_secs(100));
    // Counters of later features are removed, as they are zero without a tier and without
    // announcements.
    let stats = format!("{:?}", rig.shard.stats()).replace(" bytes_from_flash: 0,", "");
    let expected = " announced: 0, announced_read: 0, announced_met: 0,";
    rig.log.push(stats.replace(expected, ""));
    fingerprint(&rig.log)
}

fn next_request(viewer: u64, place: &mut ViewerPosition, numbers: &mut Numbers) -> Request {
    let length = 256 * KIB + numbers.below(768) * KIB;
    let stream = StreamId(place.title);
    let mut request = match place.title % 4 {
        0 => {
            let part = (place.next / MIB).min(199) as u32;
            place.next += MIB;
            Request {
                part,
                ..range(viewer, stream, 0, MIB)
            }
        }
        kind => {
            let size = if kind == 1 {
                HOUR_BYTES / 9
            } else {
                HOUR_BYTES
            };
            let offset = place.next.min(size - length);
            place.next = offset + length;
            range(viewer, stream, offset, length)
        }
    };
    if viewer.is_multiple_of(3) {
        request.hints = Hints {
            buffer: Some(Duration::from_secs(numbers.below(30))),
            deadline: (viewer.is_multiple_of(6)).then(|| Duration::from_secs(2 + numbers.below(9))),
            bit_rate: Some(BitRate::from_kbps(2_500)),
            ..Hints::default()
        };
    }
    request
}

#[test]
fn decisions_of_whole_runs_are_unchanged() {
    use {Control as C, Order as O, Policy as P, Retention as R};
    let ill = || Device {
        bad: vec![(StreamId(2), 3 * MIB, 3 * MIB + 1)],
        ..Device::default()
    };
    let slow = || Device {
        position_time: Duration::from_millis(60),
        ..Device::default()
    };
    let runs = [
        (
            P::SquareRoot,
            O::DeadlineElevator,
            R::Popularity,
            C::Off,
            Device::default(),
        ),
        (
            P::SquareRoot,
            O::DeadlineElevator,
            R::Popularity,
            C::Auto,
            slow(),
        ),
        (P::FirstGrowSr, O::DeadlineElevator, R::Lru, C::Off, ill()),
        (P::Fixed, O::Fcfs, R::PageCache, C::Paper, slow()),
        (
            P::Proportional,
            O::Elevator,
            R::Popularity,
            C::Auto,
            Device::default(),
        ),
        (
            P::SquareRoot,
            O::DeadlineElevator,
            R::PageCache,
            C::Auto,
            slow(),
        ),
    ];
    let found: Vec<u64> = (1..)
        .zip(runs)
        .map(|(seed, (policy, order, retention, mode, device))| {
            run(settings(policy, order, retention, mode), seed, device)
        })
        .collect();
    assert_eq!(found, APPROVED, "the decisions have changed");
}

const APPROVED: [u64; 6] = [
    6_391_086_841_059_444_793,
    6_517_476_993_759_804_587,
    1_598_313_973_834_117_864,
    9_283_643_833_304_105_909,
    12_647_069_103_251_213_439,
    17_422_467_075_802_494_490,
];
