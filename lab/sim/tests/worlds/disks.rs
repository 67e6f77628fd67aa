//! Worlds of several disks and several SSDs: isolation of disks, and sharing of SSDs.

use headlong_drive::{Drive, preset};
use headlong_engine::EngineConfig;
use headlong_flash::FlashPolicy;
use headlong_player::{CallRecord, SessionPlan};
use headlong_random::Generator;
use headlong_sim::{
    FlashSetup, LayoutFile, PageCacheServerSetup, RunFigures, RunMeasurements, ServerModel,
    SetupError, VirtualExperiment, World, WorldSetup,
};
use headlong_units::{BitRate, Duration, GIB, Instant, MIB};
use headlong_workload::{Session, Trace};
use proptest::prelude::*;

use crate::{tier, titles, trace, visit, window};

const TITLES: u32 = 24;
const CHUNKS: u64 = 8;

/// Viewers that arrive one after another, each for a random title.
fn crowd(seed: u64, viewers: u64) -> Trace {
    let mut generator = Generator::new(seed);
    let mut arrival = Duration::ZERO;
    let mut someone = || {
        arrival += Duration::from_millis(generator.below(150));
        let title = generator.below(u64::from(TITLES)) as u32;
        visit(arrival, title, 1 + generator.below(CHUNKS))
    };
    let sessions = (0..viewers).map(|_| someone()).collect();
    trace(Some(BitRate::from_kbps(3_500)), sessions)
}

fn title_of(session: &Session) -> u32 {
    let SessionPlan::Script(script) = &session.plan else {
        panic!("expected a script");
    };
    script.calls[0].object.0
}

fn drives(count: u32) -> Vec<Box<dyn Drive>> {
    let drive = preset("wd-red-wd10efrx").expect("a preset");
    (0..count).map(|_| drive.build()).collect()
}

fn setup(memory_bytes: u64) -> WorldSetup {
    WorldSetup {
        engine: EngineConfig {
            memory_bytes,
            ..EngineConfig::default()
        },
        window: window(0, 10_000),
        keeps_calls: true,
        checked: true,
        ..WorldSetup::default()
    }
}

/// The calls of each viewer, in order of arrival of the viewers.
fn calls_of(seen: &RunMeasurements, viewers: usize) -> Vec<Vec<CallRecord>> {
    let mut calls = vec![Vec::new(); viewers];
    for call in &seen.each_call {
        calls[call.session as usize].push(call.record);
    }
    calls
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn viewers_of_one_disk_do_not_affect_another(
        seed: u64,
        viewers in 2_u64..120,
        disks in 2_u32..5,
        memory_mib in 2_u64..24,
    ) {
        let trace = crowd(seed, viewers);
        let files = titles(TITLES, CHUNKS, disks);
        let all = setup(u64::from(disks) * memory_mib * MIB);
        let world = World::of_disks(all, &files, &trace, drives(disks)).expect("a world");
        let together = world.run_to_the_end();
        let together_calls = calls_of(&together, trace.sessions.len());
        let mut sent = 0;
        for disk in 0..disks {
            let is_own = |session: &Session| title_of(session) % disks == disk;
            let sessions = trace.sessions.iter().filter(|session| is_own(session));
            let own = Trace { sessions: sessions.cloned().collect(), ..trace.clone() };
            let own_files = files.iter().filter(|file| file.disk == disk);
            let own_files: Vec<LayoutFile> = own_files
                .map(|file| LayoutFile { disk: 0, ..*file })
                .collect();
            let drive = drives(1).pop().expect("one drive");
            let world = World::new(setup(memory_mib * MIB), &own_files, &own, drive);
            let alone = world.expect("a world").run_to_the_end();
            let of_disk = trace.sessions.iter().zip(&together_calls);
            let of_disk = of_disk.filter(|(session, _)| is_own(session));
            let of_disk: Vec<_> = of_disk.map(|(_, calls)| calls.clone()).collect();
            prop_assert_eq!(calls_of(&alone, own.sessions.len()), of_disk, "disk {}", disk);
            // The clock continues for other disks after its last viewer has left, but nothing is
            // read.
            let (alone, of_box) = (&alone.disks[0], &together.disks[disk as usize]);
            prop_assert_eq!(alone.stats.bytes_read, of_box.stats.bytes_read);
            prop_assert_eq!(alone.stats.busy_time, of_box.stats.busy_time);
            prop_assert_eq!(alone.drive.busy, of_box.drive.busy);
            sent += alone.stats.bytes_sent;
        }
        prop_assert_eq!(sent, together.stats.bytes_sent);
    }
}

/// SD viewers on small drives of one kind, for two minutes after a ramp.
fn experiment(disks: u32, flash: Option<FlashSetup>) -> VirtualExperiment {
    let count = (disks * 300).to_string();
    let setup = WorldSetup {
        disks,
        engine: EngineConfig {
            memory_bytes: u64::from(disks) * 64 * MIB,
            ..EngineConfig::default()
        },
        flash,
        window: window(60, 180),
        ..WorldSetup::default()
    };
    let changes = [("title.sd.count", count.as_str()), ("title.hd.count", "4")];
    let mut made = crate::experiment("youtube-sd", &changes, setup);
    made.drive = made.drive.scaled_to(20_000_000_000);
    made
}

fn flash(ssds: u16, bytes: u64) -> FlashSetup {
    tier(ssds, bytes, 4 << 20)
}

#[test]
fn disks_queue_at_shared_ssd() {
    // Every evicted piece is written.
    let writing = |disks: u32| {
        let mut made = experiment(disks, Some(flash(1, u64::from(disks) * GIB)));
        made.setup.engine.flash.policy = FlashPolicy::Lru;
        made.setup.engine.flash.write_per_day_bytes = Some(1 << 50);
        let rate = 12.0 * f64::from(disks);
        made.observe(rate, 1).expect("a world")
    };
    let (one, four) = (writing(1), writing(4));
    let (alone, shared) = (&one.ssds[0], &four.ssds[0]);
    assert!(shared.reads.count() > 2 * alone.reads.count());
    assert!(shared.readers.mean(four.length()) > 2.0 * alone.readers.mean(one.length()));
    assert!(shared.readers.max > alone.readers.max);
    // A disk has one write at a time, with its checkpoints; writes of other disks wait.
    assert_eq!(alone.writers.max, 1);
    assert!(shared.writers.max > 1);
    let of_disks: u64 = four.disks.iter().map(|disk| disk.flash.written_bytes).sum();
    assert!(of_disks > 0);
    // Disks charge the most expensive checkpoint for each block to their budgets.
    assert!(
        shared.written_bytes <= of_disks + 4 * (4 << 20) + (1 << 20),
        "{of_disks}"
    );
}

/// Eight disks that may each request 64 records at once from an SSD that reads 120 MB/s: all of
/// them together would take half a second.
#[test]
fn overloaded_ssd_stays_in_service() {
    let mut made = experiment(8, Some(flash(1, 8 * GIB)));
    if let Some(flash) = &mut made.setup.flash {
        flash.drive = preset("ssd-ocz-core-v2").expect("a preset");
    }
    made.setup.engine.flash.write_per_day_bytes = Some(0);
    let seen = made.observe(360.0, 1).expect("a world");
    let ssd = &seen.ssds[0];
    let (read, busy) = (ssd.read_bytes as f64, ssd.drive.busy.as_secs_f64());
    let length = seen.length().as_secs_f64();
    let p99 = ssd.reads.quantile(0.99);
    println!(
        "busy {:.2}, {:.0} MB/s, p50 {:?}, p99 {p99:?}, {} probes, {} failed",
        busy / length,
        read / length / 1e6,
        ssd.reads.quantile(0.5),
        ssd.probes,
        seen.calls.failures()
    );
    assert!(busy > 0.95 * length, "the SSD is saturated");
    assert_eq!(ssd.probes, 0);
    assert!(p99 < Duration::from_millis(250), "{p99:?}");
}

#[test]
fn every_ssd_serves_every_disk() {
    let seen = experiment(3, Some(flash(2, 2 * GIB)));
    let seen = seen.observe(30.0, 1).expect("a world");
    assert!(
        seen.disks
            .iter()
            .all(|disk| disk.stats.bytes_from_flash > 0)
    );
    let [first, second] = seen.ssds.as_slice() else {
        panic!("two SSDs: {:?}", seen.ssds);
    };
    let (more, less) = (
        first.read_bytes.max(second.read_bytes),
        first.read_bytes.min(second.read_bytes),
    );
    assert!(less > 0 && more < 2 * less, "{more} and {less}");
    let from_flash = seen.stats.bytes_from_flash;
    assert!(more + less > from_flash, "headers are included");
}

#[test]
fn same_seed_gives_same_record_with_all_devices() {
    let record = || {
        let experiment = experiment(3, Some(flash(2, GIB)));
        experiment.run(30.0, 7).expect("a world")
    };
    let text = |record: &RunFigures| serde_json::to_string(record).expect("a record is JSON");
    let first = record();
    assert_eq!(text(&first), text(&record()));
    assert_eq!((first.disks.len(), first.ssds.len()), (3, 2));
    let calls: u64 = first.disks.iter().map(|disk| disk.calls).sum();
    assert_eq!(calls, first.calls);
    let sent: f64 = first.disks.iter().map(|disk| disk.busy).sum();
    assert!((sent / 3.0 - first.busy).abs() < 0.001);
    let told = first.devices().expect("several devices");
    assert!(
        told.contains("3 disks") && told.contains("2 SSDs"),
        "{told}"
    );
    let single = experiment(1, Some(flash(1, GIB)));
    let single = single.run(10.0, 7).expect("a world");
    assert!(single.devices().is_none());
    assert!(!text(&single).contains("\"disks\""));
}

#[test]
fn restarted_server_reads_its_ssds() {
    let mut experiment = experiment(3, Some(flash(2, 2 * GIB)));
    experiment.setup.restart = Some(headlong_sim::Restart {
        at: Instant::ZERO + Duration::from_secs(59),
        down: Duration::from_millis(500),
        kept: Some(Duration::ZERO),
    });
    let seen = experiment.observe(24.0, 1).expect("a world");
    assert!(
        seen.calls_outside.broken > 0,
        "replies in progress were cut"
    );
    for disk in &seen.disks {
        let share = disk.stats.bytes_from_flash as f64 / disk.stats.bytes_sent as f64;
        assert!(share > 0.1, "{share}");
    }
}

#[test]
fn impossible_setup_is_rejected_with_reason() {
    let refused = |setup: WorldSetup, disk, count| {
        let file = LayoutFile {
            disk,
            ..titles(1, CHUNKS, 1)[0]
        };
        let trace = crowd(1, 1);
        let world = World::of_disks(setup, &[file], &trace, drives(count));
        world.map(|_| ()).expect_err("refused").to_string()
    };
    let error = refused(WorldSetup::default(), 5, 3);
    assert!(error.contains("disk 5") && error.contains('3'), "{error}");
    let error = refused(WorldSetup::default(), 0, 0);
    assert!(!error.is_empty());
    let vanilla = WorldSetup {
        server: ServerModel::Vanilla(PageCacheServerSetup::default()),
        ..WorldSetup::default()
    };
    assert_eq!(
        refused(vanilla, 0, 2),
        "a vanilla server supports only one disk in virtual time; simulate one disk"
    );
    let bounded = experiment(2, None).loss_bound(1.0, 1);
    assert_eq!(bounded, Err(SetupError::OneDisk("the bound")));
    let mut large = experiment(2, None);
    large.drive = large.drive.scaled_to(1_000_000_000);
    let error = large.run(1.0, 1).expect_err("too large").to_string();
    assert!(error.contains("of 2 gets"), "{error}");
}
