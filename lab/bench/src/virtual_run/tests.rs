//! Virtual runs of a small experiment.

use headlong_testkit::schema::differences;
use std::path::Path;

use super::*;

const TEXT: &str = r#"
name = "small"
time_scale = 10
memory = "256MiB"
[drive]
preset = "wd-red-wd10efrx"
size = "4GB"
[files]
catalogue = "youtube-sd"
set.title.sd.count = 60
set.title.hd.count = 4
[phases]
ramp_up = "30s"
measured = "60s"
ramp_down = "20s"
[workload.sd]
preset = "youtube-sd"
rate = "6MiB/s"
[server.headlong]
kind = "headlong"
config = { admission = "accept", prefetch = "3MiB" }
[server.nginx]
kind = "nginx"
kernel.read_ahead_kb = 512
[server.blocking]
kind = "nginx"
aio = "off"
[server.apache]
kind = "apache"
[server.past-the-cache]
kind = "nginx"
directio = "1MiB"
[server.anything]
kind = "command"
command = ["serve", "{port}"]
[server.preloaded]
kind = "nginx"
preload = true
reader = { policy = "fixed", prefetch = "2MiB", outstanding_reads_rotating = 1, order = "fcfs" }
[server.serialized]
kind = "nginx"
preload = true
reader.mode = "serialize"
[server.counted]
kind = "nginx"
preload = true
reader.mode = "track"
[server.other-scheduler]
kind = "nginx"
preload = true
kernel.scheduler = "none"
"#;

fn experiment() -> Experiment {
    Experiment::from_text(Path::new("small.toml"), TEXT, false).expect("right")
}

fn bench() -> VirtualBench {
    let turnaround = Duration::from_micros(100);
    VirtualBench::new(&experiment(), turnaround, "headlong simulate small.toml")
}

fn cell(server: &str) -> ExperimentCell {
    experiment()
        .cell(Some(server), None)
        .expect("the server exists")
}

#[test]
fn phases_divide_virtual_run() {
    let cell = cell("headlong");
    let record = bench().clone().run(&cell, 6e6, 1, false).expect("a run");
    let told: Vec<(&str, f64, f64)> = record
        .phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.from_s, phase.to_s))
        .collect();
    // The first 100 s are longer than the ramp and the measured time.
    assert_eq!(told, [("start", 0.0, 90.0)]);
    let start = &record.phases[0];
    let counters = &record.disk.counters["counters"];
    let all = counters["reads"]["bytes"].as_u64().expect("a counter");
    assert!(
        start.read_bytes > all / 2 && start.read_bytes <= all,
        "{start:?}"
    );
    assert!(
        start.jobs > Some(0) && start.jobs_late <= start.jobs,
        "{start:?}"
    );
    assert!(start.delivered > 1e6, "{start:?}");
    let of_nginx = bench()
        .run(&self::cell("nginx"), 6e6, 1, false)
        .expect("a run");
    assert_eq!(of_nginx.phases[0].jobs, None);
    assert!(of_nginx.phases[0].bytes_per_seek() > Some(4096.0));
}

#[test]
fn workload_may_override_drive() {
    let other = "[workload.other]\npreset = \"youtube-sd\"\n\
                 drive = { queue = \"fcfs\", queue_depth = 4, request_max = \"4MiB\" }\n";
    let text = format!("{TEXT}{other}");
    let experiment = Experiment::from_text(Path::new("small.toml"), &text, false).expect("right");
    let bench = VirtualBench::new(&experiment, Duration::ZERO, "again");
    let world = |workload| {
        let cell = experiment.cell(Some("headlong"), Some(workload));
        bench
            .world(&cell.expect("the cell exists"))
            .expect("can be simulated")
    };
    let (usual, other) = (world("sd"), world("other"));
    assert_eq!(usual.setup.request_bytes_max, 1280 * KIB);
    assert_eq!(other.setup.request_bytes_max, 4096 * KIB);
    assert_eq!(other.drive.build().queue_depth(), 4);
    assert_eq!(other.drive.capacity_bytes(), usual.drive.capacity_bytes());
    let wrong = text.replace("\"fcfs\"", "\"fcsf\"");
    let mistakes = Experiment::from_text(Path::new("small.toml"), &wrong, false);
    let mistakes = mistakes.expect_err("a mistake").to_string();
    assert!(
        mistakes.contains("workload.other.drive.queue: `fcsf`"),
        "{mistakes}"
    );
}

#[test]
fn preloaded_server_is_the_engine_of_its_reception() {
    let setup = |server| bench().world(&cell(server)).expect("imitable").setup;
    let preloaded = setup("preloaded");
    assert_eq!(preloaded.server, ServerModel::Headlong);
    let engine = preloaded.engine;
    assert_eq!(engine.sizing.reference_bytes, 2 << 20);
    assert_eq!(
        (engine.sizing.policy.name(), engine.order.name()),
        ("fixed", "fcfs")
    );
    assert_eq!(
        (engine.outstanding_reads_max, engine.control.mode.name()),
        (1, "off")
    );
    // As for headlong, an eighth of the limit is for the process.
    assert_eq!(engine.memory_bytes, 192 << 20);
    let serialized = setup("serialized").engine;
    assert_eq!(serialized.sizing.reference_bytes, serialized.piece_bytes);
    assert_eq!(serialized.outstanding_reads_max, 1);
    assert!(matches!(setup("counted").server, ServerModel::Vanilla(_)));
    let lack = bench()
        .world(&cell("other-scheduler"))
        .expect_err("not imitable");
    assert!(lack.to_string().contains("scheduler none"), "{lack}");
}

#[test]
fn virtual_run_uses_settings_of_real_run() {
    let world = bench().world(&cell("headlong")).expect("imitable");
    assert_eq!(world.setup.engine.sizing.reference_bytes, 3 << 20);
    assert_eq!(world.setup.engine.memory_bytes, 192 << 20);
    assert_eq!(world.setup.turnaround, Duration::from_millis(1));
    assert_eq!(world.drive.capacity_bytes(), 4_000_000_000);
    let world = bench().world(&cell("nginx")).expect("imitable");
    let ServerModel::Vanilla(vanilla) = world.setup.server else {
        panic!("nginx is simulated as a vanilla server");
    };
    assert_eq!(vanilla.read_ahead_bytes, 512 * KIB);
    assert_eq!((vanilla.workers, vanilla.threads), (2, 64));
    assert_eq!(vanilla.expires, Duration::from_secs(5));
    let world = bench().world(&cell("blocking")).expect("imitable");
    let ServerModel::Vanilla(vanilla) = world.setup.server else {
        panic!("nginx is simulated as a vanilla server");
    };
    assert_eq!((vanilla.workers, vanilla.threads), (64, 1));
}

#[test]
fn turnaround_is_part_of_run_identity() {
    let build = |micros| {
        let turnaround = Duration::from_micros(micros);
        let bench = VirtualBench::new(&experiment(), turnaround, "again");
        Runner::build(&bench).to_owned()
    };
    assert_eq!(build(100), build(100));
    assert_ne!(build(100), build(200));
}

#[test]
fn reports_cells_that_cannot_be_simulated() {
    let lacks = bench().lacks(&experiment().cells());
    let told: Vec<String> = lacks.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("anything, sd") && told[0].contains("command"));
    assert!(told[1].contains("other-scheduler") && told[1].contains("scheduler none"));
    assert!(told[2].contains("past-the-cache") && told[2].contains("directio"));
}

#[test]
fn virtual_record_matches_schema_and_repeats() {
    let schema = include_str!("../../../../docs/schemas/bench-1.json");
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    for server in ["headlong", "nginx", "blocking", "apache"] {
        let made = || {
            let record = bench().run(&cell(server), 6.0 * MIB, 3, false);
            serde_json::to_value(record.expect("imitable")).expect("JSON")
        };
        let record = made();
        let found = differences(&schema, &record, "record");
        assert!(found.is_empty(), "{found:#?}");
        let delivered = record["verdict"]["delivered"].as_f64().expect("a number");
        assert!(delivered > 2.0 * MIB, "{server}: {delivered}");
        let again = record["setup"]["commands"][0].as_str().expect("a command");
        assert!(again.ends_with(&format!(
            "--server {server} --workload sd --rate 6291456B/s --seed 3"
        )));
        assert!(record == made(), "again: {again}");
    }
}

/// A run of adaptive players with the given required bit rate.
fn adaptive(bit_rate: &str) -> RunVerdict {
    let text = format!(
        "name = \"adaptive\"\nmemory = \"256MiB\"\n[drive]\npreset = \"wd-red-wd10efrx\"\n\
         size = \"60GB\"\n[files]\ncatalogue = \"dash-vod\"\nset.title.dash.count = 60\n\
         [phases]\nramp_up = \"30s\"\nmeasured = \"240s\"\nramp_down = \"20s\"\n[search]\n\
         stalled = \"50%\"\nbit_rate = \"{bit_rate}\"\n[workload.some]\npreset = \"dash-vod\"\n\
         [server.headlong]\nkind = \"headlong\"\nconfig = {{ admission = \"accept\" }}\n"
    );
    let experiment = Experiment::from_text(Path::new("x.toml"), &text, false).expect("right");
    let cell = experiment.cell(None, None).expect("one of each");
    let mut bench = VirtualBench::new(&experiment, Duration::ZERO, "headlong simulate x.toml");
    let record = bench.run(&cell, 3.0 * MIB, 1, false).expect("imitable");
    record.verdict
}

#[test]
fn adaptive_players_fail_run_by_quality() {
    let fair = adaptive("300kbps");
    assert_eq!(fair.outcome, OutcomeName::Passed, "{fair:?}");
    // Above the bandwidth of some viewers' networks.
    let greedy = adaptive("4200kbps");
    assert_eq!(greedy.outcome, OutcomeName::Failed);
    assert_eq!(greedy.failure_share, 0.0);
    assert!(
        greedy.missed[0].ends_with("at least 4200kbps is required"),
        "{greedy:?}"
    );
}

#[test]
fn flash_run_reports_reads_and_writes() {
    let tier = "[flash]\npreset = \"ssd-sata-low-end\"\nsize = \"500MB\"\nwarm = true\n\
                write_per_day = \"7GB\"\npolicy = \"lru\"\n";
    let text = format!("{TEXT}{tier}");
    let experiment = Experiment::from_text(Path::new("small.toml"), &text, false).expect("right");
    let bench = VirtualBench::new(&experiment, Duration::ZERO, "again");
    let cell = experiment.cell(Some("headlong"), None).expect("one");
    let run = bench
        .cell(&cell)
        .expect("imitable")
        .run(6.0 * MIB, 1, false);
    let record = run.expect("a run");
    let figures = record.figures().expect("virtual");
    let flash = figures.flash.as_ref().expect("a tier");
    println!("seed 1: {flash:?}");
    assert!(figures.flash_ratio > 0.05 && flash.filled_ratio > 0.5);
    assert_eq!(flash.budget_gb_per_day, 7.0);
    assert_eq!(record.setup.experiment["flash"]["policy"], "lru");
}
