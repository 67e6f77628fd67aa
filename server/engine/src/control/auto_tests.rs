//! Optimum, pool, caution and descent, by hand-made sequences.

use headlong_units::{BitRate, Instant, KIB};
use proptest::prelude::*;

use super::*;
use crate::config::{Control, ControlConfig, EngineConfig, Retention};
use crate::control::controller::Controller;
use crate::control::ended_chains::EndedChain;

const MEMORY: u64 = 4096 * MIB;

/// A device whose viewers all have the reference bit rate.
struct AutoBench {
    controller: Controller,
    now: Instant,
    stats: Stats,
    chains: u64,
    memory_bytes: u64,
    unread_bytes: u64,
    evicted_percent: u64,
    /// Disk time for each MiB sent.
    cost: Duration,
}

impl AutoBench {
    fn new() -> Self {
        Self::with(MEMORY, Retention::Popularity)
    }

    fn with(memory_bytes: u64, retention: Retention) -> Self {
        let controller = Controller::new(&EngineConfig {
            memory_bytes,
            retention,
            control: ControlConfig {
                mode: Control::Auto,
                ..ControlConfig::default()
            },
            ..EngineConfig::default()
        });
        Self {
            controller,
            now: Instant::ZERO,
            stats: Stats::default(),
            chains: 100,
            memory_bytes,
            unread_bytes: 300 * MIB,
            evicted_percent: 0,
            cost: Duration::from_millis(12),
        }
    }

    /// Viewers that left after `read` of `whole` bytes.
    fn leave(&mut self, count: u64, read: u64, whole: u64) {
        for _ in 0..count {
            self.controller.record_chain(EndedChain {
                read_bytes: read,
                whole_bytes: whole,
                rule_bytes_per_mib: MIB,
                ahead_bytes: 512 * KIB,
                pace: BitRate::from_kbps(2_000),
                sent_bytes: self.stats.bytes_sent,
            });
        }
    }

    fn bytes(&self) -> u64 {
        self.controller.view().bytes
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds / 5 {
            self.now = self.now + TICK;
            let busy = Duration(TICK.0 / 10 * 9);
            let sent = busy.0 * MIB / self.cost.0;
            self.stats.busy_time += busy;
            self.stats.reads_done += 20;
            self.stats.bytes_read += sent;
            self.stats.bytes_sent += sent;
            self.stats.prefetch_evicted_bytes += sent * self.evicted_percent / 100;
            let drive = DriveTimes {
                reposition: Duration::from_millis(16),
                transfer_per_mib: Duration::from_millis(8),
            };
            self.controller.handle_tick(&ControllerInput {
                now: self.now,
                stats: self.stats,
                chains: self.chains,
                size_mean_bytes: self.bytes(),
                pace_mean: BitRate::from_kbps(2_000),
                bit_rate_mean: Some(BitRate::from_kbps(2_000)),
                drive: Some(drive),
                again_bytes: self.stats.prefetch_evicted_bytes,
                memory_bytes: self.memory_bytes,
                unread_bytes: self.unread_bytes,
            });
        }
    }
}

#[test]
fn size_stays_before_any_chain_has_ended() {
    let mut bench = AutoBench::new();
    let first = bench.bytes();
    bench.seconds(600);
    assert_eq!(bench.bytes(), first);
}

#[test]
fn first_size_follows_memory_within_bounds() {
    let first = |memory_mib| AutoBench::with(memory_mib * MIB, Retention::Popularity).bytes();
    assert_eq!(first(512), 5 * MIB);
    assert_eq!(first(2_400), 8 * MIB);
    assert_eq!(first(65_536), 12 * MIB);
    assert_eq!(first(4), 2 * MIB, "never more than half of memory");
}

#[test]
fn size_adapts_to_chain_lengths_within_two_minutes() {
    let mut short = AutoBench::new();
    short.leave(512, 2 * MIB, 100 * MIB);
    short.seconds(120);
    assert!(short.bytes() < 5 * MIB, "{}", short.bytes());
    let mut long = AutoBench::new();
    long.leave(512, 90 * MIB, 100 * MIB);
    long.seconds(120);
    assert!(long.bytes() > 9 * MIB, "{}", long.bytes());
}

#[test]
fn sizes_shrink_at_once_with_more_chains() {
    let mut bench = AutoBench::new();
    bench.seconds(60);
    let cut =
        |bench: &AutoBench, chains| bench.controller.cut(8 * MIB, chains).expect("auto is on");
    assert_eq!(cut(&bench, 100), 8 * MIB, "enough for all");
    let many = cut(&bench, 10_000);
    assert!(many < MIB, "{many}");
    assert_eq!(cut(&bench, 20_000), many / 2);
}

#[test]
fn evictions_shrink_pool_and_their_absence_restores_it() {
    let mut bench = AutoBench::new();
    bench.chains = 2_000;
    bench.leave(512, 30 * MIB, 100 * MIB);
    bench.seconds(120);
    let cut = |bench: &AutoBench| bench.controller.cut(8 * MIB, 2_000).expect("auto is on");
    let before = cut(&bench);
    bench.evicted_percent = 5;
    bench.seconds(30);
    let cautious = cut(&bench);
    assert!(cautious < before / 3 * 2, "{before} {cautious}");
    bench.evicted_percent = 0;
    bench.unread_bytes = MEMORY / 5 * 4;
    bench.seconds(1_800);
    assert!(cut(&bench) > cautious * 3 / 2);
}

#[test]
fn eviction_burst_is_forgotten_when_memory_has_room() {
    let cut_a_minute_after = |unread_bytes| {
        let mut bench = AutoBench::new();
        bench.chains = 2_000;
        bench.unread_bytes = unread_bytes;
        bench.seconds(60);
        bench.evicted_percent = 5;
        bench.seconds(30);
        bench.evicted_percent = 0;
        bench.seconds(60);
        bench.controller.cut(8 * MIB, 2_000).expect("auto is on")
    };
    let (full, roomy) = (MEMORY / 5 * 4, MEMORY / 10 * 7);
    let (full, roomy) = (cut_a_minute_after(full), cut_a_minute_after(roomy));
    assert!(roomy > full * 2, "{roomy} {full}");
}

/// 300 viewers of 2,000 kbps above a page cache, half of which is unread; they stay for long.
fn above_a_page_cache(memory_bytes: u64) -> AutoBench {
    let mut bench = AutoBench::with(memory_bytes, Retention::PageCache);
    bench.chains = 300;
    bench.unread_bytes = memory_bytes / 2;
    bench.leave(512, 60 * MIB, 100 * MIB);
    bench
}

#[test]
fn page_cache_size_is_about_what_is_read_before_eviction() {
    let found = |memory_bytes| {
        let mut bench = above_a_page_cache(memory_bytes);
        bench.seconds(300);
        bench.bytes()
    };
    // 75 MiB/s pass through it: an unused piece stays for some ten seconds in a GiB, in which a
    // viewer reads some 2.5 MiB.
    let (small, large) = (found(1024 * MIB), found(4096 * MIB));
    assert!((MIB..4 * MIB).contains(&small), "{small}");
    assert!(large > 2 * small, "{small} {large}");
}

#[test]
fn rereads_in_page_cache_shrink_sizes_up_to_a_bound() {
    let mut bench = above_a_page_cache(2048 * MIB);
    bench.seconds(300);
    let before = bench.bytes();
    bench.evicted_percent = 30;
    bench.seconds(300);
    let after = bench.bytes();
    assert!(after < before, "{before} {after}");
    bench.seconds(3_600);
    assert!(bench.bytes() > before / 3, "{before} {}", bench.bytes());
}

#[test]
fn more_expensive_factor_is_abandoned() {
    let mut bench = AutoBench::new();
    bench.leave(512, 30 * MIB, 100 * MIB);
    bench.seconds(120);
    let home = bench.controller.view().target_bytes;
    let mut tried = 0;
    for _ in 0..400 {
        let away = bench.controller.view().target_bytes.abs_diff(home) > home / 10;
        tried += u64::from(away);
        bench.cost = Duration::from_millis(if away { 14 } else { 12 });
        bench.seconds(15);
    }
    assert!(tried > 0, "nothing was tried");
    assert!(tried < 200, "{tried} of 400 looks away from home");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sizes_stay_within_bounds_and_grow_by_half_at_most(
        steps in prop::collection::vec(
            (0u64..5_000, 0u64..4096, 0u64..10, 1u64..40, 1u64..200, 5u64..60), 1..24),
    ) {
        let mut bench = AutoBench::new();
        for (chains, unread, evicted, cost, read, seconds) in steps {
            (bench.chains, bench.unread_bytes) = (chains, unread * MIB);
            (bench.evicted_percent, bench.cost) = (evicted, Duration::from_millis(cost));
            bench.leave(40, read * MIB / 4, 60 * MIB);
            bench.seconds(seconds);
            while let Some(change) = bench.controller.poll_change() {
                prop_assert!((512 * KIB..=32 * MIB).contains(&change.to_bytes));
                prop_assert!(change.to_bytes <= change.from_bytes + change.from_bytes / 2);
            }
            let cut = bench.controller.cut(8 * MIB, chains);
            prop_assert!(cut.is_none_or(|cut| cut <= 8 * MIB));
        }
    }
}
