//! Runs in virtual time: the same experiments, with the engine, the viewers and the drive as cores.
//!
//! The one idea: what decides a real run decides a virtual one. The server's configuration is read
//! by the server's own reader, the sessions are those that `headlong workload generate` would write,
//! the drive is the one that `headlong disk emulate` would play; and the record has the same form, so
//! that tables, pages and searches take either. What the kernel adds to an emulated drive goes by
//! the wall clock (the scheduler's half a second, the way from the drive to the server), so it is
//! longer in the model's time, by the time scale, here as there.
//!
//! Invariants: same experiment, rate and seed, same record, byte for byte: no clock is read here; what
//! cannot be imitated is told before anything is run.

use std::path::Path;

use headlong_drive::{DriveSpec as Drive, preset};
use headlong_server::config::{Config, Flags};
use headlong_sim::{
    Access, Experiment as World, Measure, Placement, Record, Scheduler, ServerKind as Origin,
    Setup as Made, VanillaSetup, Window,
};
use headlong_units::{Duration, Instant, KIB};
use headlong_workload::Specification;
use serde_json::{Value, json};

use crate::disk_trace::DiskPattern;
use crate::experiment::{Apache, Cell, Experiment, Nginx, ServerKind};
use crate::facts::{CpuUse, Machine};
use crate::hunt::Runner;
use crate::record::{DiskFacts, OutcomeName, RunRecord, SCHEMA, ServerFacts, Setup, Verdict};
use crate::rig::{MemoryUse, QueueSettings, RigError};
use crate::run::settings;
use crate::servers::pool_memory;

/// What the machine of a virtual run is called in its record.
pub(crate) const VIRTUAL: &str = "virtual time";
/// Whether a record is of a run in virtual time.
pub fn is_virtual(record: &RunRecord) -> bool {
    record.setup.machine.kernel == VIRTUAL
}

/// Largest request of a loop device, in KiB.
const LOOP_REQUEST_KB: u32 = 1280;
/// Requests that a loop device takes at once.
const LOOP_TAGS: u32 = 128;
/// How long mq-deadline lets a read wait, on the wall.
const EXPIRES: Duration = Duration::from_millis(500);
/// Most threads of Apache that wait for the disk at once.
const APACHE_THREADS: u32 = 2048;

/// Makes runs in virtual time.
#[derive(Debug, Clone)]
pub struct VirtualBench {
    experiment: Experiment,
    turnaround: Duration,
    /// How the experiment is named in replay lines.
    replay: String,
}

/// Why a pair of server and workload has no virtual form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cell} has no form in virtual time: {why}")]
pub struct NotVirtual {
    /// Which.
    pub cell: String,
    /// What about it.
    pub why: String,
}

impl VirtualBench {
    /// Runs of this experiment. `turnaround` is the time on the wall from the end of a request in the
    /// emulated drive until the server knows of it; `replay` is the command that repeats a run, up to
    /// the server's name.
    pub fn new(experiment: &Experiment, turnaround: Duration, replay: &str) -> Self {
        Self {
            experiment: experiment.clone(),
            turnaround,
            replay: replay.to_owned(),
        }
    }

    /// What cannot be imitated, of all these.
    pub fn lacks<'c>(&self, cells: impl IntoIterator<Item = &'c Cell>) -> Vec<NotVirtual> {
        let cells = cells.into_iter();
        cells.filter_map(|cell| self.world(cell).err()).collect()
    }

    /// The command that repeats a run.
    pub fn replay_line(&self, cell: &Cell, rate: f64, seed: u64) -> String {
        format!(
            "{} --server {} --workload {} --rate {}B/s --seed {seed}",
            self.replay,
            cell.server_name,
            cell.workload_name,
            rate.round()
        )
    }

    fn world(&self, cell: &Cell) -> Result<World, NotVirtual> {
        let lack = |why: String| NotVirtual {
            cell: cell.name(),
            why,
        };
        Ok(World {
            workload: self.workload(cell).map_err(lack)?,
            drive: self.drive().map_err(lack)?,
            setup: self.setup(cell).map_err(lack)?,
            steps: Vec::new(),
        })
    }

    fn workload(&self, cell: &Cell) -> Result<Specification, String> {
        let (name, changes) = (&cell.workload.preset, cell.changes());
        let read = match name.contains(['/', '.']) {
            false => Specification::preset(name, &changes),
            true => {
                let text = std::fs::read_to_string(name)
                    .map_err(|error| format!("{name}: cannot be read: {error}"))?;
                Specification::read(name, &text, &changes)
            }
        };
        read.map_err(|errors| errors.to_string())
    }

    fn drive(&self) -> Result<Drive, String> {
        let spec = &self.experiment.drive;
        let drive = preset(&spec.preset).map_err(|error| error.to_string())?;
        Ok(match spec.size_bytes {
            Some(bytes) => drive.scaled_to(bytes),
            None => drive,
        })
    }

    /// A time on the wall, in the model's time.
    fn on_the_wall(&self, time: Duration) -> Duration {
        time.times(u64::from(self.experiment.time_scale))
    }

    fn setup(&self, cell: &Cell) -> Result<Made, String> {
        let phases = &self.experiment.phases;
        let from = Instant::ZERO + phases.ramp_up;
        let request_kb = cell.kernel.max_sectors_kb.unwrap_or(LOOP_REQUEST_KB);
        let request_bytes_max = u64::from(request_kb.min(LOOP_REQUEST_KB)) * KIB;
        let mut made = Made {
            request_bytes_max,
            turnaround: self.on_the_wall(self.turnaround),
            queue_depth: self
                .experiment
                .drive
                .queue_depth
                .map(|depth| depth as usize),
            window: Window {
                from,
                to: from + phases.measured,
            },
            ramp_down: phases.ramp_down,
            placement: Placement::Spread,
            ..Made::default()
        };
        match &cell.server.kind {
            ServerKind::Headlong { config } => self.headlong(config, &mut made)?,
            ServerKind::Nginx(nginx) => {
                let vanilla = self.kernel(cell, request_bytes_max)?;
                made.server = Origin::Vanilla(of_nginx(nginx, vanilla)?);
            }
            ServerKind::Apache(apache) => {
                let vanilla = self.kernel(cell, request_bytes_max)?;
                made.server = Origin::Vanilla(of_apache(apache, vanilla));
            }
            ServerKind::Command { .. } => {
                return Err("nobody knows what the command does".to_owned());
            }
        }
        Ok(made)
    }

    /// The settings that the server itself would read from its file.
    fn headlong(&self, config: &str, made: &mut Made) -> Result<(), String> {
        let mut table: toml::Table = config.parse().unwrap_or_default();
        if let Some(memory) = self.experiment.memory {
            let memory = pool_memory(memory);
            table.entry("memory").or_insert(memory.to_string().into());
        }
        let text = toml::to_string(&table).map_err(|error| error.to_string())?;
        let flags = Flags {
            roots: vec!["/".into()],
            ..Flags::default()
        };
        let config = Config::from_text(Path::new("config"), &text, &flags)
            .map_err(|errors| errors.to_string())?;
        made.engine = config.engine_for("loop0", true, 1);
        made.socket_bytes = config.tcp.unsent_max.0;
        Ok(())
    }

    fn kernel(&self, cell: &Cell, request_bytes_max: u64) -> Result<VanillaSetup, String> {
        let scheduler = match cell.kernel.scheduler.as_str() {
            "mq-deadline" => Scheduler::Deadline,
            "none" => Scheduler::None,
            other => return Err(format!("the scheduler {other} is not imitated")),
        };
        let usual = VanillaSetup::default();
        Ok(VanillaSetup {
            memory_bytes: self.experiment.memory.unwrap_or(usual.memory_bytes),
            read_ahead_bytes: u64::from(cell.kernel.read_ahead_kb) * KIB,
            request_bytes_max,
            scheduler,
            expires: self.on_the_wall(EXPIRES),
            tags: LOOP_TAGS,
            ..usual
        })
    }

    fn attempt(
        &self,
        cell: &Cell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, String> {
        let mut world = self.world(cell).map_err(|lack| lack.to_string())?;
        let is_strict = self.experiment.search.failures_max == 0.0;
        world.setup.stops_at_failed_session = ends_at_failure && is_strict;
        let seen = world.observe(rate / MIB, seed);
        let seen = seen.map_err(|error| error.to_string())?;
        Ok(self.record(cell, rate, seed, &world.setup, &seen))
    }

    fn record(&self, cell: &Cell, rate: f64, seed: u64, setup: &Made, seen: &Measure) -> RunRecord {
        let figures = Record::new(rate / MIB, seed, seen);
        let [steady, failed] = [seen.sessions_steady, seen.sessions_steady_failed];
        let failure_share = failed as f64 / (steady as f64).max(1.0);
        let mut load = serde_json::to_value(&figures).unwrap_or_default();
        load["schema"] = "headlong-simulate-1".into();
        load["sessions_steady"] = steady.into();
        let refused_because = match steady {
            0 => vec!["no session was wholly in steady state; measure longer".to_owned()],
            _ => Vec::new(),
        };
        let outcome = match (refused_because.is_empty(), failure_share) {
            (false, _) => OutcomeName::Refused,
            (true, share) if share > self.experiment.search.failures_max => OutcomeName::Failed,
            _ => OutcomeName::Passed,
        };
        RunRecord {
            schema: SCHEMA.to_owned(),
            experiment: self.experiment.name.clone(),
            server: cell.server_name.clone(),
            workload: cell.workload_name.clone(),
            rate,
            seed,
            time_scale: self.experiment.time_scale,
            started_unix: 0,
            wall_seconds: 0.0,
            verdict: Verdict {
                outcome,
                refused_because,
                limit: None,
                failure_share,
                delivered: seen.delivered_bytes() as f64 / seen.length().as_secs_f64().max(1e-9),
            },
            load,
            server_facts: server_facts(setup, seen),
            disk: DiskFacts {
                counters: counters(seen),
                pattern: pattern(seen),
            },
            cpu: CpuUse::default(),
            setup: Setup {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                machine: Machine {
                    kernel: VIRTUAL.to_owned(),
                    ..Machine::default()
                },
                experiment: settings(&self.experiment, cell),
                queue: QueueSettings {
                    scheduler: cell.kernel.scheduler.clone(),
                    read_ahead_kb: cell.kernel.read_ahead_kb,
                    max_sectors_kb: (setup.request_bytes_max / KIB) as u32,
                    max_hw_sectors_kb: LOOP_REQUEST_KB,
                    is_rotational: true,
                },
                commands: vec![self.replay_line(cell, rate, seed)],
                files: [].into(),
            },
        }
    }
}

const MIB: f64 = 1_048_576.0;

impl Runner for VirtualBench {
    fn run(
        &mut self,
        cell: &Cell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let made = self.attempt(cell, rate, seed, ends_at_failure);
        made.map_err(|words| RigError::Failed {
            what: self.replay_line(cell, rate, seed),
            words,
        })
    }
}

fn of_nginx(nginx: &Nginx, kernel: VanillaSetup) -> Result<VanillaSetup, String> {
    if nginx.directio_bytes.is_some() {
        return Err("reading past the page cache (directio) is not imitated".to_owned());
    }
    let buffer = nginx.output_buffers.map_or(32 * KIB, |(_, size)| size);
    Ok(VanillaSetup {
        workers: nginx.workers,
        threads: if nginx.aio_threads { nginx.threads } else { 1 },
        access: match nginx.sendfile {
            true => Access::Sendfile,
            false => Access::Read(buffer),
        },
        ..kernel
    })
}

fn of_apache(apache: &Apache, kernel: VanillaSetup) -> VanillaSetup {
    VanillaSetup {
        workers: 1,
        threads: apache.workers.min(APACHE_THREADS),
        access: match (apache.sendfile, apache.mmap) {
            (true, _) => Access::Sendfile,
            (false, true) => Access::Mapped,
            (false, false) => Access::Read(8 * KIB),
        },
        ..kernel
    }
}

fn server_facts(setup: &Made, seen: &Measure) -> ServerFacts {
    let stats = &seen.stats_whole;
    let cache = seen.cache.unwrap_or_default();
    let pool = match setup.server {
        Origin::Headlong => setup.engine.memory_bytes,
        Origin::Vanilla(_) => 0,
    };
    ServerFacts {
        memory: MemoryUse {
            peak_bytes: cache.bytes + pool,
            page_cache_bytes: cache.bytes,
            active_file_bytes: cache.active_bytes,
            anonymous_bytes: pool,
        },
        died: None,
        last_words: String::new(),
        // Named as in the server's own status.
        status: json!({ "devices": [{ "counters": {
            "busy_seconds": stats.busy_time.as_secs_f64(),
            "bytes_read": stats.bytes_read,
            "bytes_requested": stats.bytes_requested,
            "bytes_reused": stats.bytes_reused,
            "bytes_sent": stats.bytes_sent,
            "bytes_from_ram": stats.bytes_from_ram,
            "cache_evicted_bytes": stats.cache_evicted_bytes,
            "job_bytes": stats.job_bytes,
            "jobs": stats.jobs,
            "jobs_late": stats.jobs_late,
            "prefetch_evicted_bytes": stats.prefetch_evicted_bytes,
            "reads": stats.reads,
            "reads_done": stats.reads_done,
            "requests": stats.requests,
            "wasted_bytes": stats.wasted_bytes,
        } }] }),
    }
}

/// Named as the emulated drive names them.
fn counters(seen: &Measure) -> Value {
    let drive = &seen.drive_whole;
    let parts = &drive.parts;
    json!({ "counters": {
        "busy_ns": drive.busy.0,
        "elapsed_ns": seen.ended_at().0,
        "parts": {
            "cleaning_ns": parts.cleaning.0,
            "overhead_ns": parts.overhead.0,
            "rotation_ns": parts.rotation.0,
            "seek_ns": parts.seek.0,
            "transfer_ns": parts.transfer.0,
        },
        "reads": {
            "bytes": drive.bytes,
            "requests": drive.requests,
            "seeks": drive.repositions,
        },
    } })
}

fn pattern(seen: &Measure) -> DiskPattern {
    let excerpt = seen.pattern.excerpt.iter().copied().collect();
    DiskPattern::of_sequences(&seen.pattern.sequences, seen.length(), excerpt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::differences;

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
"#;

    fn experiment() -> Experiment {
        Experiment::from_text(Path::new("small.toml"), TEXT, false).expect("right")
    }

    fn bench() -> VirtualBench {
        let turnaround = Duration::from_micros(100);
        VirtualBench::new(&experiment(), turnaround, "headlong simulate small.toml")
    }

    fn cell(server: &str) -> Cell {
        experiment().cell(Some(server), None).expect("there is one")
    }

    #[test]
    fn what_decides_a_real_run_decides_a_virtual_one() {
        let world = bench().world(&cell("headlong")).expect("imitable");
        assert_eq!(world.setup.engine.sizing.reference_bytes, 3 << 20);
        assert_eq!(world.setup.engine.memory_bytes, 192 << 20);
        assert_eq!(world.setup.turnaround, Duration::from_millis(1));
        assert_eq!(world.drive.capacity_bytes(), 4_000_000_000);
        let world = bench().world(&cell("nginx")).expect("imitable");
        let Origin::Vanilla(vanilla) = world.setup.server else {
            panic!("nginx is vanilla");
        };
        assert_eq!(vanilla.read_ahead_bytes, 512 * KIB);
        assert_eq!((vanilla.workers, vanilla.threads), (2, 64));
        assert_eq!(vanilla.expires, Duration::from_secs(5));
        let world = bench().world(&cell("blocking")).expect("imitable");
        let Origin::Vanilla(vanilla) = world.setup.server else {
            panic!("nginx is vanilla");
        };
        assert_eq!((vanilla.workers, vanilla.threads), (64, 1));
    }

    #[test]
    fn what_cannot_be_imitated_is_named_with_the_reason() {
        let lacks = bench().lacks(&experiment().cells());
        let told: Vec<String> = lacks.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("anything, sd") && told[0].contains("command"));
        assert!(told[1].contains("past-the-cache") && told[1].contains("directio"));
    }

    #[test]
    fn a_virtual_run_has_the_record_of_a_real_one_and_is_the_same_twice() {
        let schema = include_str!("../../../docs/schemas/bench-1.json");
        let schema: Value = serde_json::from_str(schema).expect("JSON");
        for server in ["headlong", "nginx", "blocking", "apache"] {
            let made = || {
                let record = bench().run(&cell(server), 6.0 * MIB, 3, false);
                serde_json::to_value(record.expect("imitable")).expect("JSON")
            };
            let record = made();
            let mut found = Vec::new();
            differences(&schema, &record, "record", &mut found);
            assert!(found.is_empty(), "{found:#?}");
            let delivered = record["verdict"]["delivered"].as_f64().expect("a number");
            assert!(delivered > 2.0 * MIB, "{server}: {delivered}");
            let again = record["setup"]["commands"][0].as_str().expect("a command");
            assert!(again.ends_with(&format!(
                "--server {server} --workload sd --rate 6291456B/s --seed 3"
            )));
            assert!(record.to_string() == made().to_string(), "again: {again}");
        }
    }
}
