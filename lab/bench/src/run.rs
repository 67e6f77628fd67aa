//! One run: a cold drive, a server with its memory limit, viewers at a rate, and what came of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration as WallDuration, Instant, SystemTime};

use crate::admin;
use crate::climb::{Climbed, Look, Sums, joined};
use crate::disk_trace::DiskPattern;
use crate::experiment::{Cell, Climb, DriveSpec, Experiment, FileSet};
use crate::facts::{CpuUse, CpuWatch, Machine, Watched};
use crate::load_result::LoadResult;
use crate::punctual::Punctuality;
use crate::record::{DiskFacts, Load, OutcomeName, RunRecord, SCHEMA, ServerFacts, Setup, Verdict};
use crate::rig::{
    self, Disk, DiskSetup, Group, Guard, Holds, Output, PrivateNetwork, Process, QueueSettings,
    RigError, Ssd, SsdSetup, Start, is_mounted, make_folder, with_path,
};
use crate::same_run::settings;
use crate::search_driver::Runner;
use crate::servers::{self, Launch, Listens, Place, Status};
use crate::words::Words;

/// Of the server, in a network of its own.
pub(crate) const PORT: u16 = 8080;
pub(crate) const ADMIN_PORT: u16 = 8081;
/// Where a cache's file system is mounted, in the bench's folder.
pub(crate) const SSD_POINT: &str = "ssd";
/// A server scans 28,000 files before it listens.
const START_PATIENCE: WallDuration = WallDuration::from_secs(120);
/// Beyond the time a run must take.
const END_PATIENCE: WallDuration = WallDuration::from_secs(300);
const GENERATE_PATIENCE: WallDuration = WallDuration::from_secs(300);
const LOOK_INTERVAL: WallDuration = WallDuration::from_millis(500);
const POLL: WallDuration = WallDuration::from_millis(25);
/// A machine busier than this may have held anything back.
const MACHINE_SHARE_MAX: f64 = 0.9;

/// Everything that stays from run to run.
#[derive(Debug)]
pub struct Bench {
    experiment: Experiment,
    headlong: PathBuf,
    store: PathBuf,
    version: String,
    machine: Machine,
    /// The drive that is there, with what it holds and how many times faster than life it is.
    disk: Option<((DriveSpec, FileSet, u32), Disk)>,
    network: PrivateNetwork,
    traces: BTreeMap<String, PathBuf>,
    runs: u32,
    // Last: it outlives what is above.
    guard: Guard,
}

impl Bench {
    /// Makes the network and the folder. `headlong` is the program, `store` keeps filled drives.
    ///
    /// # Errors
    /// If the machine does not allow it.
    pub fn new(experiment: &Experiment, headlong: &Path, store: &Path) -> Result<Self, RigError> {
        let guard = Guard::start()?;
        guard.watch_signals()?;
        let network = PrivateNetwork::start(&guard, &experiment.network, experiment.time_scale)?;
        Ok(Self {
            experiment: experiment.clone(),
            headlong: headlong.to_path_buf(),
            store: store.to_path_buf(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: Machine::this(),
            disk: None,
            network,
            traces: BTreeMap::new(),
            runs: 0,
            guard,
        })
    }

    fn attempt(
        &mut self,
        cell: &Cell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let started = Instant::now();
        let started_unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.runs += 1;
        let trace = self.trace(cell, rate, seed)?;
        self.start_disk(cell, self.experiment.time_scale)?;
        let disk = self.disk.as_mut().map(|(_, disk)| disk);
        let disk = disk.ok_or(RigError::Stopping)?;
        let queue = disk.prepare(&cell.kernel, self.experiment.warm_metadata)?;
        let folder = self.guard.folder().join(format!("run-{}", self.runs));
        make_folder(&folder)?;
        let piece = cell.server.kind.piece();
        let point = self.guard.folder().join(SSD_POINT);
        let ssd = cell.flash.as_ref().map(|tier| {
            let setup = SsdSetup {
                headlong: &self.headlong,
                tier,
                holds: Holds::of(
                    cell.server.cache,
                    piece.as_deref(),
                    &point,
                    self.experiment.memory,
                ),
                time_scale: self.experiment.time_scale,
            };
            Ssd::start(&self.guard, &folder, &setup)
        });
        let mut attempt = Attempt {
            experiment: &self.experiment,
            guard: &self.guard,
            network: &self.network,
            disk,
            ssd: ssd.transpose()?,
            headlong: &self.headlong,
            folder: &folder,
            commands: vec![],
            files: BTreeMap::new(),
        };
        attempt.commands.push(attempt.disk.command.join(" "));
        let of_ssd = attempt.ssd.as_ref().map(|ssd| ssd.commands.clone());
        attempt.commands.extend(of_ssd.into_iter().flatten());
        for (number, stretch) in (0..).zip(stretches(&self.experiment, rate)) {
            let words = generate_words(&self.headlong, cell, stretch, seed + number, &trace);
            attempt.commands.push(words.join(" "));
        }
        let group_name = format!("headlong-bench-{}-{}", std::process::id(), self.runs);
        let seen = attempt.make(cell, &group_name, (rate, &trace), ends_at_failure)?;
        let verdict = verdict(&self.experiment, &seen, &queue, &attempt.disk.queue()?);
        let record = RunRecord {
            schema: SCHEMA.to_owned(),
            experiment: self.experiment.name.clone(),
            server: cell.server_name.clone(),
            workload: cell.workload_name.clone(),
            rate,
            seed,
            time_scale: self.experiment.time_scale,
            started_unix: started_unix.map_or(0, |since| since.as_secs()),
            wall_seconds: started.elapsed().as_secs_f64(),
            verdict,
            load: Load::Measured(seen.load.whole),
            server_facts: seen.server,
            disk: seen.disk,
            climbed: seen.climbed,
            cpu: seen.cpu,
            setup: Setup {
                version: self.version.clone(),
                machine: self.machine.clone(),
                experiment: settings(&self.experiment, cell),
                queue,
                commands: attempt.commands,
                files: attempt.files,
            },
        };
        // Its file system must be gone before the folder around it is.
        drop(attempt.ssd.take());
        // Disk traces are large; what counts is in the record.
        let _ = std::fs::remove_dir_all(&folder);
        Ok(record)
    }

    /// Reads from the cold drive, which is as fast as life for it; `read` gets the folder of the
    /// titles and says how fast it was.
    ///
    /// # Errors
    /// If the drive cannot be made, or `read` fails.
    pub fn read(
        &mut self,
        cell: &Cell,
        read: impl FnOnce(&Path) -> std::io::Result<f64>,
    ) -> Result<f64, RigError> {
        self.start_disk(cell, 1)?;
        let disk = self.disk.as_mut().map(|(_, disk)| disk);
        let disk = disk.ok_or(RigError::Stopping)?;
        disk.prepare(&cell.kernel, self.experiment.warm_metadata)?;
        disk.begin(&self.guard.folder().join("reading-trace"))?;
        let rate = read(disk.root());
        self.guard.hold_if_stopping();
        disk.end()?;
        rate.map_err(|error| RigError::io(disk.root().display(), error))
    }

    fn start_disk(&mut self, cell: &Cell, time_scale: u32) -> Result<(), RigError> {
        let (drive, files) = (&cell.workload.drive, &cell.files);
        let wanted = (drive.clone(), files.clone(), time_scale);
        if self
            .disk
            .as_ref()
            .is_some_and(|(there, _)| *there == wanted)
        {
            return Ok(());
        }
        // The old one must be gone before the new one takes its place.
        self.disk = None;
        let setup = DiskSetup {
            headlong: &self.headlong,
            drive,
            files,
            store_root: &self.store,
            time_scale,
        };
        self.disk = Some((wanted, Disk::start(&self.guard, &setup)?));
        Ok(())
    }

    /// Generates the sessions, or finds those of an earlier run with the same rate and seed.
    fn trace(&mut self, cell: &Cell, rate: f64, seed: u64) -> Result<PathBuf, RigError> {
        let name = format!("{}-{rate}-{seed}", cell.workload_name);
        if let Some(trace) = self.traces.get(&name) {
            return Ok(trace.clone());
        }
        let file = self
            .guard
            .folder()
            .join(format!("trace-{}", self.traces.len()));
        let stretches = stretches(&self.experiment, rate);
        let mut parts = Vec::new();
        for (number, stretch) in (0..).zip(&stretches) {
            self.generate(cell, *stretch, seed + number, &file)?;
            if stretches.len() > 1 {
                let text = std::fs::read_to_string(&file);
                parts.push(text.map_err(|error| RigError::io(file.display(), error))?);
            }
        }
        if stretches.len() > 1 {
            let lengths = stretches.iter().map(|(_, length)| *length);
            let whole = joined(parts.iter().map(String::as_str).zip(lengths));
            let written = std::fs::write(&file, whole);
            written.map_err(|error| RigError::io(file.display(), error))?;
        }
        self.traces.insert(name, file.clone());
        Ok(file)
    }

    fn generate(
        &self,
        cell: &Cell,
        stretch: (f64, headlong_units::Duration),
        seed: u64,
        file: &Path,
    ) -> Result<(), RigError> {
        let words = generate_words(&self.headlong, cell, stretch, seed, file);
        Process::complete(&self.guard, &words, Output::Kept, GENERATE_PATIENCE)
    }
}

impl Runner for Bench {
    /// A server that dies or a generator that lags is a run that is refused.
    fn run(
        &mut self,
        cell: &Cell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let made = self.attempt(cell, rate, seed, ends_at_failure);
        self.guard.hold_if_stopping();
        made
    }
}

/// What is offered for how long, one after the other, in a run that begins with this rate.
pub(crate) fn stretches(
    experiment: &Experiment,
    rate: f64,
) -> Vec<(f64, headlong_units::Duration)> {
    match experiment.climb {
        Some(climb) => Climb {
            from: rate,
            ..climb
        }
        .stretches(),
        None => vec![(rate, experiment.phases.whole())],
    }
}

/// The command that writes the sessions of one stretch.
pub(crate) fn generate_words(
    headlong: &Path,
    cell: &Cell,
    (rate, length): (f64, headlong_units::Duration),
    seed: u64,
    file: &Path,
) -> Vec<String> {
    Words::of(headlong, "workload generate")
        .word(&cell.workload.preset)
        .option("--rate", format_args!("{}B/s", rate.round()))
        .option("--duration", format_args!("{}ms", length.as_millis()))
        .option("--seed", seed)
        .option("-o", file.display())
        .changes(&cell.changes())
        .0
}

/// The command that plays them.
pub(crate) fn load_words(
    experiment: &Experiment,
    headlong: &Path,
    trace: &Path,
    result: &Path,
    ends_at_failure: bool,
) -> Vec<String> {
    let phases = &experiment.phases;
    let mut words = Words(rig::on_time())
        .word(headlong.display())
        .plain("load")
        .word(trace.display())
        .word(format_args!("http://127.0.0.1:{PORT}"))
        .option("--time-scale", experiment.time_scale)
        .option(
            "--ramp-up",
            format_args!("{}ms", phases.ramp_up.as_millis()),
        )
        .option(
            "--ramp-down",
            format_args!("{}ms", phases.ramp_down.as_millis()),
        )
        // Sessions go on for up to ten minutes after the last has come, under less and less load.
        .plain("--end-with-arrivals")
        .option("--json", result.display())
        .0;
    // One failure decides only under the strict rule.
    if ends_at_failure && experiment.search.failures_max == 0.0 {
        words.push("--stop-at-failure".into());
    }
    words
}

/// What was seen in a run.
struct Seen {
    load: LoadResult,
    load_died: Option<String>,
    server: ServerFacts,
    disk: DiskFacts,
    climbed: Option<Climbed>,
    cpu: CpuUse,
}

/// A server, and what is beside it.
struct Serving {
    server: Process,
    reader: Option<Process>,
    cache: Option<Process>,
    front: Option<Process>,
    status: Status,
}

impl Serving {
    /// How one of them ended, if it has.
    fn ended(&mut self) -> Option<std::process::ExitStatus> {
        let beside = [&mut self.reader, &mut self.cache, &mut self.front];
        let mut beside = beside.into_iter().map(Option::as_mut);
        let beside = beside.find_map(|process| process.and_then(Process::ended));
        self.server.ended().or(beside)
    }
}

/// One run on its way.
struct Attempt<'a> {
    experiment: &'a Experiment,
    guard: &'a Guard,
    network: &'a PrivateNetwork,
    disk: &'a mut Disk,
    ssd: Option<Ssd>,
    headlong: &'a Path,
    folder: &'a Path,
    commands: Vec<String>,
    files: BTreeMap<String, String>,
}

impl Attempt<'_> {
    fn make(
        &mut self,
        cell: &Cell,
        group_name: &str,
        (rate, trace): (f64, &Path),
        ends_at_failure: bool,
    ) -> Result<Seen, RigError> {
        let group = Group::make(self.guard, group_name, self.experiment.memory)?;
        let mut serving = self.start_server(cell, &group)?;
        let disk_trace = self.folder.join("disk-trace");
        self.disk.begin(&disk_trace)?;
        if let Some(ssd) = &mut self.ssd {
            ssd.begin()?;
        }
        let result = self.folder.join("load.json");
        let words = load_words(
            self.experiment,
            self.headlong,
            trace,
            &result,
            ends_at_failure,
        );
        self.commands.push(words.join(" "));
        let start = Start {
            network: Some(self.network.process()),
            ..Start::PLAIN
        };
        let mut load = Process::start(self.guard, start, &words, Output::Kept)?;
        load.drain();
        let (cpu, died, looks) = self.watch(&mut load, &mut serving, &group)?;
        let memory = group.memory();
        let told = match (&serving.status, &died) {
            (Status::Nowhere, _) | (_, Some(_)) => None,
            (Status::Http(path), None) => {
                Some(admin::status(self.network.process(), ADMIN_PORT, path))
            }
            (Status::Reception(socket), None) => Some(admin::reception_status(socket)),
            (Status::Mount(point), None) => Some(admin::mount_status(point)),
        };
        let counters = self.disk.end()?;
        let ssd_counters = self.ssd.as_mut().map(Ssd::end).transpose()?;
        // A cache is what viewers ask, so its words tell why they failed.
        let cache_words = serving.cache.as_mut().map(|cache| {
            cache.stop();
            cache.last_words()
        });
        // Before the server, so that nobody is told of one that is gone.
        if let Some(front) = &mut serving.front {
            front.stop();
        }
        let mut server = serving.server;
        server.stop();
        let reader_words = serving.reader.as_mut().map(|reader| {
            reader.stop();
            reader.last_words()
        });
        let phases = &self.experiment.phases;
        let until = headlong_units::Duration(phases.ramp_up.0 + phases.measured.0);
        let pattern = DiskPattern::read(&disk_trace, phases.ramp_up, until);
        let load_died = load
            .ended()
            .filter(|status| !matches!(status.code(), Some(0 | 3 | 4)));
        let load_result = LoadResult::read(&result);
        let climbed = self.experiment.climb.map(|climb| {
            let climb = Climb {
                from: rate,
                ..climb
            };
            let ssd_bytes = cell.flash.as_ref().and_then(|tier| tier.size_bytes);
            Climbed::of(&climb, ssd_bytes, &looks, &load_result.whole)
        });
        Ok(Seen {
            load: load_result,
            load_died: load_died.map(|status| format!("{status}: {}", load.last_words())),
            server: ServerFacts {
                memory,
                died,
                last_words: (cache_words.into_iter())
                    .chain(reader_words)
                    .fold(server.last_words(), |all, more| all + &more),
                status: told.unwrap_or_default(),
            },
            disk: DiskFacts {
                counters,
                pattern: pattern.map_err(|error| RigError::Failed {
                    what: "reading the drive's trace".into(),
                    words: error.to_string(),
                })?,
                ssd_counters,
            },
            climbed,
            cpu,
        })
    }

    fn start_server(&mut self, cell: &Cell, group: &Group) -> Result<Serving, RigError> {
        let space = self.ssd.as_ref().map(Ssd::space).transpose()?.flatten();
        let place = Place {
            root: self.disk.root().to_path_buf(),
            folder: self.folder.to_path_buf(),
            port: PORT,
            admin_port: ADMIN_PORT,
            memory: self.experiment.memory,
            time_scale: self.experiment.time_scale,
            headlong: self.headlong.to_path_buf(),
            front: cell.server.front,
            preload: cell.server.preload,
            mount: cell.server.mount,
            reader: cell.server.reader.clone(),
            flash: (self.ssd.as_ref())
                .zip(cell.flash.clone())
                .filter(|_| cell.server.cache.is_none())
                .map(|(ssd, tier)| (ssd.device().to_path_buf(), tier)),
            pool: self.disk.pool_of(self.ssd.as_ref().map(Ssd::device)),
            cache: cell.server.cache.zip(space),
        };
        let launches = servers::launches(&cell.server.kind, &place);
        let mut status = launches.server.status.clone();
        let mut reader = None;
        if let Some(launch) = launches.reader {
            status = launch.status.clone();
            reader = Some(self.start(launch, Some(group))?);
        }
        let server = self.start(launches.server, Some(group))?;
        let cache = launches.cache.map(|launch| self.start(launch, Some(group)));
        let cache = cache.transpose()?;
        // A proxy has memory of its own.
        let front = launches.front.map(|launch| self.start(launch, None));
        Ok(Serving {
            server,
            reader,
            cache,
            front: front.transpose()?,
            status,
        })
    }

    /// Starts a program and waits until it serves.
    fn start(&mut self, launch: Launch, group: Option<&Group>) -> Result<Process, RigError> {
        for (path, text) in launch.files {
            if let Some(around) = path.parent() {
                make_folder(around)?;
            }
            std::fs::write(&path, &text).map_err(|error| RigError::io(path.display(), error))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.files.insert(name.into_owned(), text);
        }
        if let Listens::Mount(point) = &launch.listens {
            make_folder(point)?;
        }
        let mut words = with_path(launch.under);
        words.extend(with_path(launch.command));
        self.commands.push(words.join(" "));
        let start = Start {
            group: group.map(Group::folder),
            network: Some(self.network.process()),
            ..Start::PLAIN
        };
        let mut program = Process::start(self.guard, start, &words, Output::Kept)?;
        program.drain();
        let is_listening = || match &launch.listens {
            Listens::Port(port) => {
                self.network.is_listening(*port) && admin::answers(self.network.process(), *port)
            }
            Listens::Socket(path) => path.exists(),
            Listens::Mount(point) => is_mounted(point),
        };
        program.wait_until(&words.join(" "), START_PATIENCE, is_listening)?;
        Ok(program)
    }

    /// Until the viewers have left; what the CPU did, how the server died if it did, and what the
    /// drives did meanwhile if the rate rises.
    fn watch(
        &mut self,
        load: &mut Process,
        serving: &mut Serving,
        group: &Group,
    ) -> Result<(CpuUse, Option<String>, Vec<Look>), RigError> {
        let wall = |model: headlong_units::Duration| {
            WallDuration::from_secs_f64(model.as_secs_f64() / f64::from(self.experiment.time_scale))
        };
        let phases = &self.experiment.phases;
        let deadline = Instant::now() + 2 * wall(phases.whole()) + END_PATIENCE;
        let mut cpu = CpuWatch::start();
        let (began, mut looks) = (Instant::now(), Vec::new());
        let mut next_look = Instant::now();
        // Who comes in the ramp does not count, nor does what the drive did to him.
        let mut ramp_end = Some(Instant::now() + wall(phases.ramp_up));
        let mut died = None;
        while load.ended().is_none() {
            if let Some(status) = serving.ended() {
                load.stop();
                died = Some(status.to_string());
                break;
            }
            if Instant::now() > deadline {
                load.wait(WallDuration::ZERO)?;
            }
            if ramp_end.take_if(|end| Instant::now() >= *end).is_some() {
                self.disk.forget_lateness()?;
                if let Some(ssd) = &mut self.ssd {
                    ssd.forget_lateness()?;
                }
            }
            if Instant::now() >= next_look {
                next_look += LOOK_INTERVAL;
                if self.experiment.climb.is_some() {
                    looks.push(self.look(began)?);
                }
                cpu.look(&Watched {
                    server: group.processes(),
                    load: load.id(),
                    drive: self.disk.process(),
                });
            }
            std::thread::sleep(POLL);
        }
        if self.experiment.climb.is_some() {
            looks.push(self.look(began)?);
        }
        let from = wall(phases.ramp_up);
        let cpu = cpu.between(from, from + wall(phases.measured));
        Ok((cpu, died, looks))
    }

    /// What both drives have done since the viewers began.
    fn look(&mut self, began: Instant) -> Result<Look, RigError> {
        let disk = self.disk.counters()?;
        let ssd = self.ssd.as_mut().map(Ssd::counters).transpose()?;
        let wall = headlong_units::Duration(began.elapsed().as_nanos() as u64);
        Ok(Look {
            at: wall.times(u64::from(self.experiment.time_scale)),
            disk: Sums::of(&disk),
            ssd: ssd.as_ref().map(Sums::of),
        })
    }
}

fn verdict(
    experiment: &Experiment,
    seen: &Seen,
    before: &QueueSettings,
    after: &QueueSettings,
) -> Verdict {
    let mut refused_because = seen.load.refused_because.clone();
    let mut limit = None;
    if let Some(how) = &seen.server.died {
        refused_because.push(format!(
            "the server ended during the run ({how}); its last words: {}",
            seen.server.last_words
        ));
    }
    if let Some(how) = &seen.load_died {
        refused_because.push(format!("the load generator failed: {how}"));
    }
    if before != after {
        refused_because.push(format!("the queue was changed during the run: {after:?}"));
    }
    let busy = seen.cpu.machine_share;
    // Where rates rise until a drive can do no more, that it had no pause says what the limit was.
    let was_drive = seen
        .climbed
        .as_ref()
        .is_some_and(Climbed::was_limited_by_drive);
    if busy > MACHINE_SHARE_MAX && !was_drive {
        let text = format!("the machine's processors were {:.0} % busy", busy * 100.0);
        limit = Some(text);
    }
    let punctuality = Punctuality::of(&seen.disk.counters);
    let resolution = experiment.search.resolution;
    let of_ssd = seen.disk.ssd_counters.as_ref().map(Punctuality::of);
    let of_ssd = of_ssd.and_then(|ssd| ssd.complaint("SSD", resolution));
    let of_drive = punctuality.complaint("drive", resolution);
    limit = of_drive.or(of_ssd).or(limit);
    let rules = &experiment.search;
    let short = rules.quality.shortfall(&seen.load.viewed);
    let has_failed = match &seen.climbed {
        Some(climbed) => climbed.failed().is_some(),
        None => seen.load.failure_share > rules.failures_max || !short.missed.is_empty(),
    };
    refused_because.extend(short.unknown);
    // With a busy machine a pass is still a pass; a failure may not be the server's.
    if has_failed && let Some(limit) = &limit {
        refused_because.push(format!("{limit}; choose a smaller time scale"));
    }
    if !refused_because.is_empty() && limit.is_none() {
        limit = Some(refused_because.join("; "));
    }
    let is_lost = match &seen.climbed {
        // Its end is a failure; what counts is how far it came.
        Some(climbed) => climbed.passed().is_none(),
        None => has_failed,
    };
    let outcome = match (refused_because.is_empty(), is_lost) {
        (false, _) => OutcomeName::Refused,
        (true, true) => OutcomeName::Failed,
        (true, false) => OutcomeName::Passed,
    };
    Verdict {
        outcome,
        refused_because,
        limit,
        failure_share: seen.load.failure_share,
        ramp_failures: seen.load.ramp_failures,
        missed: short.missed,
        asked_for: seen.load.asked_for,
        delivered: seen.load.delivered,
    }
}
