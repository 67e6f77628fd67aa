//! Plans of fleets beside their simulation: how busy each disk is. The fleets are drawn.

use headlong_engine::{Control, Prefetch};
use headlong_fleet::{BalancingRule, FleetBox};
use headlong_random::Generator;
use headlong_sim::{
    FleetExperiment, FleetSetup, OriginLink, Placement, VirtualExperiment, WorldSetup,
};
use headlong_units::{BitRate, Duration, GIB, MIB};

use crate::window;

/// By how much a plan may be wrong about the busy time of all disks, as a share of that in the
/// simulation, and about that of one, which also has a tenth more or fewer viewers by chance.
const FLEET_ERROR_MAX: f64 = 0.1;
const DISK_ERROR_MAX: f64 = 0.2;
/// Of a disk with little to do it may be wrong by this part of its time.
const DISK_ERROR_LEAST: f64 = 0.03;

/// A fleet of two to four boxes of one or two disks, all else of which is drawn.
fn drawn(seed: u64) -> FleetExperiment {
    let mut draw = Generator::new(seed);
    let mut between = |least: u64, most: u64| least + draw.below(most - least + 1);
    let (boxes, disks) = (between(2, 4), between(1, 2));
    let all = boxes * disks;
    let kbps = between(10, 60) * 100;
    let (titles, alpha) = (all * between(100, 300), between(6, 10));
    let viewers = [
        ("title.dash.count", titles.to_string()),
        (
            "title.dash.zipf_alpha",
            format!("{:.1}", alpha as f64 / 10.0),
        ),
        ("title.dash.renditions", format!("[\"{kbps}kbps\"]")),
        ("title.dash.table_entry_bytes", "0".to_owned()),
        ("player.rule", "fixed".to_owned()),
        ("network.medium.bandwidth", "20Mbps".to_owned()),
        ("network.bband.bandwidth", "20Mbps".to_owned()),
        ("network.high.bandwidth", "20Mbps".to_owned()),
    ];
    let viewers: Vec<(&str, &str)> = viewers
        .iter()
        .map(|(key, value)| (*key, &**value))
        .collect();
    let mut setup = WorldSetup {
        disks: disks as u32,
        placement: Placement::Spread,
        bit_rates_known: true,
        window: window(600, 600 + 2700),
        ramp_down: Duration::ZERO,
        ..WorldSetup::default()
    };
    setup.engine.memory_bytes = disks * between(2, 8) * 256 * MIB;
    setup.engine.piece_bytes = MIB;
    setup.engine.set_prefetch(match between(0, 2) {
        0 => Prefetch::Size(between(4, 12) * MIB),
        _ => Prefetch::Found(Control::Auto),
    });
    let rate_mib_s = (all * between(30, 55)) as f64;
    let replicas = between(1, 2) as u32;
    let VirtualExperiment {
        workload,
        drive,
        setup,
        ..
    } = crate::experiment("dash-vod", &viewers, setup);
    let boxes = (0..boxes).map(|number| FleetBox::new(&format!("b{number}")));
    FleetExperiment {
        name: format!("drawn from {seed}"),
        fleet: FleetSetup {
            boxes: boxes.collect(),
            rule: BalancingRule::Placed,
            load_percent_max: 200,
            tries: 2,
            replicas,
            has_agents: true,
            has_peers: true,
            failures: Vec::new(),
            origin: OriginLink {
                delay: Duration::from_millis(20),
                rate: BitRate(800_000_000),
                kept_bytes: GIB,
            },
            seed,
        },
        workload,
        drive,
        setup,
        rate_mib_s,
    }
}

/// Disks have at least 512 MiB of memory. Where prefetches fill all of it, a plan knows less.
#[test]
fn fleets_are_as_busy_as_planned() {
    for seed in 101..=105 {
        let figures = drawn(seed)
            .run(BalancingRule::Placed, seed)
            .expect("a world");
        assert_eq!((figures.lost, figures.refused), (0, 0), "{figures:?}");
        let disks = &figures.planned;
        let planned: f64 = disks.iter().map(|disk| disk.planned_busy).sum();
        let busy: f64 = disks.iter().map(|disk| disk.busy).sum();
        let error = (planned / busy - 1.0).abs();
        assert!(error <= FLEET_ERROR_MAX, "{seed}: {error:.3} {disks:?}");
        for disk in disks {
            let error = (disk.planned_busy - disk.busy).abs();
            let error_max = DISK_ERROR_LEAST.max(disk.busy * DISK_ERROR_MAX);
            assert!(error <= error_max, "{seed}: {error:.3} {disk:?}");
        }
    }
}
