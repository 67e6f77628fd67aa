//! One run: a cold drive, a server with its memory limit, viewers at a rate, and the record.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration as WallDuration, Instant, SystemTime};

use crate::active_run::ActiveRun;
use crate::command_lines::{SSD_POINT, generate_words};
use crate::cpu_usage::MachineInfo;
use crate::experiment::{Experiment, ExperimentCell, ExperimentDrive, FileSet};
use crate::record::{LoadFigures, RunRecord, RunSetup, SCHEMA};
use crate::rig::{
    ChildProcess, CleanupGuard, DiskSetup, PrivateNetwork, RigError, RunningDisks, RunningSsd,
    SsdSetup, SsdUse, StderrHandling, make_folder,
};
use crate::run_identity::{build, of_run, settings};
use crate::search_driver::Runner;
use crate::verdict::verdict;

const GENERATE_PATIENCE: WallDuration = WallDuration::from_secs(300);

/// State kept from run to run.
#[derive(Debug)]
pub struct Bench {
    experiment: Experiment,
    headlong: PathBuf,
    store: PathBuf,
    version: String,
    build: String,
    machine: MachineInfo,
    /// The running drives, with their content and time scale.
    disks: Option<((ExperimentDrive, FileSet, u32), RunningDisks)>,
    network: PrivateNetwork,
    traces: BTreeMap<String, PathBuf>,
    runs: u32,
    // Last: dropped after the fields above.
    guard: CleanupGuard,
}

impl Bench {
    /// Creates the network and the folder. `headlong` is the program, `store` the folder of filled
    /// drives.
    ///
    /// # Errors
    /// If the machine does not permit it.
    pub fn new(experiment: &Experiment, headlong: &Path, store: &Path) -> Result<Self, RigError> {
        let guard = CleanupGuard::start()?;
        guard.watch_signals()?;
        let network = PrivateNetwork::start(&guard, &experiment.network)?;
        Ok(Self {
            experiment: experiment.clone(),
            headlong: headlong.to_path_buf(),
            store: store.to_path_buf(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: build(headlong).map_err(|error| RigError::io(headlong.display(), error))?,
            machine: MachineInfo::this(),
            disks: None,
            network,
            traces: BTreeMap::new(),
            runs: 0,
            guard,
        })
    }

    fn attempt(
        &mut self,
        cell: &ExperimentCell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let started = Instant::now();
        let started_unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.runs += 1;
        let trace = self.trace(cell, rate, seed)?;
        self.start_disks(cell, self.experiment.time_scale)?;
        let disks = self.disks.as_mut().map(|(_, disks)| disks);
        let disks = disks.ok_or(RigError::Stopping)?;
        let queues = disks.prepare(&cell.kernel, self.experiment.warm_metadata)?;
        let folder = self.guard.folder().join(format!("run-{}", self.runs));
        make_folder(&folder)?;
        let piece = cell.server.kind.piece();
        let point = self.guard.folder().join(SSD_POINT);
        let ssd = cell.flash.as_ref().map(|tier| {
            let setup = SsdSetup {
                headlong: &self.headlong,
                tier,
                holds: SsdUse::of(
                    cell.server.cache,
                    piece.as_deref(),
                    &point,
                    self.experiment.memory,
                ),
                time_scale: self.experiment.time_scale,
            };
            RunningSsd::start(&self.guard, &folder, &setup)
        });
        let mut attempt = ActiveRun {
            experiment: &self.experiment,
            guard: &self.guard,
            network: &self.network,
            disks,
            ssd: ssd.transpose()?,
            headlong: &self.headlong,
            folder: &folder,
            commands: vec![],
            files: BTreeMap::new(),
        };
        attempt.commands.extend(attempt.disks.commands());
        let of_ssd = attempt.ssd.as_ref().map(|ssd| ssd.commands.clone());
        attempt.commands.extend(of_ssd.into_iter().flatten());
        let words = generate_words(&self.experiment, &self.headlong, cell, (rate, seed), &trace);
        attempt.commands.push(words.join(" "));
        let group_name = format!("headlong-bench-{}-{}", std::process::id(), self.runs);
        let seen = attempt.make(cell, &group_name, (rate, &trace), ends_at_failure)?;
        let verdict = verdict(&self.experiment, &seen, &queues, &attempt.disks.queues()?);
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
            load: LoadFigures::Measured(seen.load.whole),
            server_facts: seen.server,
            disk: seen.disk,
            climbed: seen.climbed,
            phases: seen.phases,
            cpu: seen.cpu,
            setup: RunSetup {
                version: self.version.clone(),
                machine: self.machine.clone(),
                experiment: of_run(
                    settings(&self.experiment, cell, &self.build),
                    ends_at_failure,
                ),
                queue: queues.into_iter().next().ok_or(RigError::Stopping)?,
                commands: attempt.commands,
                files: attempt.files,
            },
        };
        // Its file system must be unmounted before the folder around it is removed.
        drop(attempt.ssd.take());
        // Disk traces are large; the relevant figures are in the record.
        let _ = std::fs::remove_dir_all(&folder);
        Ok(record)
    }

    /// Reads from the cold drive in real time; `read` receives the folder of the titles and returns
    /// the speed.
    ///
    /// # Errors
    /// If the drive cannot be started, or `read` fails.
    pub fn read(
        &mut self,
        cell: &ExperimentCell,
        read: impl FnOnce(&Path) -> std::io::Result<f64>,
    ) -> Result<f64, RigError> {
        self.start_disks(cell, 1)?;
        let disks = self.disks.as_mut().map(|(_, disks)| disks);
        let disks = disks.ok_or(RigError::Stopping)?;
        disks.prepare(&cell.kernel, self.experiment.warm_metadata)?;
        disks.begin(&self.guard.folder().join("reading-trace"))?;
        let rate = read(disks.root());
        self.guard.hold_if_stopping();
        disks.end()?;
        rate.map_err(|error| RigError::io(disks.root().display(), error))
    }

    fn start_disks(&mut self, cell: &ExperimentCell, time_scale: u32) -> Result<(), RigError> {
        let (drive, files) = (&cell.workload.drive, &cell.files);
        let wanted = (drive.clone(), files.clone(), time_scale);
        if self
            .disks
            .as_ref()
            .is_some_and(|(there, _)| *there == wanted)
        {
            return Ok(());
        }
        // The old drives must end before the new ones use their paths.
        self.disks = None;
        let setup = DiskSetup {
            headlong: &self.headlong,
            drive,
            files,
            store_root: &self.store,
            time_scale,
            number: 0,
        };
        self.disks = Some((wanted, RunningDisks::start(&self.guard, &setup)?));
        Ok(())
    }

    /// Generates the sessions, or reuses those of an earlier run with the same rate and seed.
    fn trace(&mut self, cell: &ExperimentCell, rate: f64, seed: u64) -> Result<PathBuf, RigError> {
        let name = format!("{}-{rate}-{seed}", cell.workload_name);
        if let Some(trace) = self.traces.get(&name) {
            return Ok(trace.clone());
        }
        let file = self
            .guard
            .folder()
            .join(format!("trace-{}", self.traces.len()));
        let words = generate_words(&self.experiment, &self.headlong, cell, (rate, seed), &file);
        ChildProcess::complete(&self.guard, &words, StderrHandling::Kept, GENERATE_PATIENCE)?;
        self.traces.insert(name, file.clone());
        Ok(file)
    }
}

impl Runner for Bench {
    fn build(&self) -> &str {
        &self.build
    }

    /// A run is refused if the server dies or the generator lags.
    fn run(
        &mut self,
        cell: &ExperimentCell,
        rate: f64,
        seed: u64,
        ends_at_failure: bool,
    ) -> Result<RunRecord, RigError> {
        let made = self.attempt(cell, rate, seed, ends_at_failure);
        self.guard.hold_if_stopping();
        made
    }
}
