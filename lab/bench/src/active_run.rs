//! One run: starts the server and its companions (proxy, cache, reader), runs the viewers, and
//! collects the statistics of viewers, drives and processors.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration as WallDuration, Instant};

use serde_json::Value;

use crate::admin;
use crate::command_lines::load_words;
use crate::cpu_usage::{CpuSampler, CpuUsage, WatchedProcesses};
use crate::experiment::{Experiment, ExperimentCell};
use crate::load_result::LoadResult;
use crate::record::{DiskFacts, ServerFacts};
use crate::rig::{
    ChildProcess, CleanupGuard, ControlGroup, PrivateNetwork, ProcessContext, RigError,
    RunningDisks, RunningSsd, StderrHandling, is_mounted, make_folder, with_path,
};
use crate::run_phases::{PhaseSample, RunPhase, bytes_received, phase_ends};
use crate::servers::{
    self, ADMIN_PORT, LaunchSpec, ListenAddress, ServerEnvironment, StatusSource,
};
use crate::step_load::{DriveCounters, DriveSample, StepLoadResult};

/// A server scans 28,000 files before it listens.
const START_PATIENCE: WallDuration = WallDuration::from_secs(120);
/// Added to the shortest possible duration of a run.
const END_PATIENCE: WallDuration = WallDuration::from_secs(300);
const LOOK_INTERVAL: WallDuration = WallDuration::from_millis(500);
const POLL: WallDuration = WallDuration::from_millis(25);

/// Results of one run.
pub(crate) struct RunObservation {
    pub(crate) load: LoadResult,
    pub(crate) load_died: Option<String>,
    pub(crate) server: ServerFacts,
    pub(crate) disk: DiskFacts,
    pub(crate) climbed: Option<StepLoadResult>,
    pub(crate) phases: Vec<RunPhase>,
    pub(crate) cpu: CpuUsage,
}

/// Observations while viewers are present.
struct LoadObservations {
    cpu: CpuUsage,
    /// Exit status of a server that died.
    died: Option<String>,
    /// The drives' counters over time, if the rate rises.
    looks: Vec<DriveSample>,
    /// Counters at the ends of the phases, and at the end of a run that ended early.
    samples: Vec<PhaseSample>,
}

/// A server and its companion processes.
struct RunningServer {
    server: ChildProcess,
    reader: Option<ChildProcess>,
    cache: Option<ChildProcess>,
    front: Option<ChildProcess>,
    status: StatusSource,
}

impl RunningServer {
    /// The exit status of the first of them that has ended, if any.
    fn ended(&mut self) -> Option<std::process::ExitStatus> {
        let beside = [&mut self.reader, &mut self.cache, &mut self.front];
        let mut beside = beside.into_iter().map(Option::as_mut);
        let beside = beside.find_map(|process| process.and_then(ChildProcess::ended));
        self.server.ended().or(beside)
    }
}

/// One run in progress.
pub(crate) struct ActiveRun<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) guard: &'a CleanupGuard,
    pub(crate) network: &'a PrivateNetwork,
    pub(crate) disks: &'a mut RunningDisks,
    pub(crate) ssd: Option<RunningSsd>,
    pub(crate) headlong: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) commands: Vec<String>,
    pub(crate) files: BTreeMap<String, String>,
}

impl ActiveRun<'_> {
    /// Starts the server, then the viewers, and waits until all viewers have left.
    ///
    /// # Errors
    /// If the machine failed.
    pub(crate) fn make(
        &mut self,
        cell: &ExperimentCell,
        group_name: &str,
        (rate, trace): (f64, &Path),
        ends_at_failure: bool,
    ) -> Result<RunObservation, RigError> {
        let group = ControlGroup::make(self.guard, group_name, self.experiment.memory)?;
        let mut serving = self.start_server(cell, &group)?;
        let disk_trace = self.folder.join("disk-trace");
        self.disks.begin(&disk_trace)?;
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
        let start = ProcessContext {
            network: Some(self.network.process()),
            ..ProcessContext::PLAIN
        };
        let mut load = ChildProcess::start(self.guard, start, &words, StderrHandling::Kept)?;
        load.drain();
        let watched = self.watch(&mut load, &mut serving, &group)?;
        let died = watched.died;
        let memory = group.memory();
        let told = match &died {
            Some(_) => Value::Null,
            None => self.status(&serving.status),
        };
        let phases = &self.experiment.phases;
        let until = headlong_units::Duration(phases.ramp_up.0 + phases.measured.0);
        let mut counters = self.disks.end()?.into_iter();
        let pattern = self.disks.pattern(&disk_trace, phases.ramp_up, until)?;
        let ssd_counters = self.ssd.as_mut().map(RunningSsd::end).transpose()?;
        // Viewers connect to the cache, so its log explains their failures.
        let cache_words = serving.cache.as_mut().map(|cache| {
            cache.stop();
            cache.last_words()
        });
        // The proxy ends before the server, so that it logs no errors about a missing server.
        if let Some(front) = &mut serving.front {
            front.stop();
        }
        let mut server = serving.server;
        server.stop();
        let reader_words = serving.reader.as_mut().map(|reader| {
            reader.stop();
            reader.last_words()
        });
        let load_died = load
            .ended()
            .filter(|status| !matches!(status.code(), Some(0 | 3 | 4)));
        let load_result = LoadResult::read(&result);
        let climbed = self.experiment.climb.map(|climb| {
            let climb = climb.starting_at(rate);
            let ssd_bytes = cell.flash.as_ref().and_then(|tier| tier.size_bytes);
            StepLoadResult::of(&climb, ssd_bytes, &watched.looks, &load_result.whole)
        });
        let received = |from, to| bytes_received(&load_result.whole, from, to);
        let phases = RunPhase::all(phases, &watched.samples, received);
        Ok(RunObservation {
            load: load_result,
            load_died: load_died.map(|status| format!("{status}: {}", load.last_words())),
            server: ServerFacts {
                memory,
                died,
                last_words: (cache_words.into_iter())
                    .chain(reader_words)
                    .fold(server.last_words(), |all, more| all + &more),
                status: told,
            },
            disk: DiskFacts {
                counters: counters.next().unwrap_or_default(),
                others: counters.collect(),
                pattern,
                ssd_counters,
            },
            climbed,
            phases,
            cpu: watched.cpu,
        })
    }

    /// The server's own status, or null.
    fn status(&self, status: &StatusSource) -> Value {
        match status {
            StatusSource::Nowhere => Value::Null,
            StatusSource::Http(path) => admin::status(self.network.process(), ADMIN_PORT, path),
            StatusSource::Reception(socket) => admin::reception_status(socket),
            StatusSource::Mount(point) => admin::mount_status(point),
        }
    }

    fn start_server(
        &mut self,
        cell: &ExperimentCell,
        group: &ControlGroup,
    ) -> Result<RunningServer, RigError> {
        let space = self
            .ssd
            .as_ref()
            .map(RunningSsd::space)
            .transpose()?
            .flatten();
        let ssd = self.ssd.as_ref().map(RunningSsd::device);
        let place = ServerEnvironment {
            pool: self.disks.pool_of(ssd),
            cache: cell.server.cache.zip(space),
            ..ServerEnvironment::of(
                self.experiment,
                cell,
                self.headlong,
                (self.disks.root().to_path_buf(), self.folder.to_path_buf()),
                ssd,
            )
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
        // A proxy is not part of the server's memory limit.
        let front = launches.front.map(|launch| self.start(launch, None));
        Ok(RunningServer {
            server,
            reader,
            cache,
            front: front.transpose()?,
            status,
        })
    }

    /// Starts a program and waits until it serves requests.
    fn start(
        &mut self,
        launch: LaunchSpec,
        group: Option<&ControlGroup>,
    ) -> Result<ChildProcess, RigError> {
        for (path, text) in launch.files {
            if let Some(around) = path.parent() {
                make_folder(around)?;
            }
            std::fs::write(&path, &text).map_err(|error| RigError::io(path.display(), error))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            self.files.insert(name.into_owned(), text);
        }
        if let ListenAddress::Mount(point) = &launch.listens {
            make_folder(point)?;
        }
        let mut words = with_path(launch.under);
        words.extend(with_path(launch.command));
        self.commands.push(words.join(" "));
        let start = ProcessContext {
            group: group.map(ControlGroup::folder),
            network: Some(self.network.process()),
            ..ProcessContext::PLAIN
        };
        let mut program = ChildProcess::start(self.guard, start, &words, StderrHandling::Kept)?;
        program.drain();
        let is_listening = || match &launch.listens {
            ListenAddress::Port(port) => {
                self.network.is_listening(*port) && admin::answers(self.network.process(), *port)
            }
            ListenAddress::Socket(path) => path.exists(),
            ListenAddress::Mount(point) => is_mounted(point),
        };
        program.wait_until(&words.join(" "), START_PATIENCE, is_listening)?;
        Ok(program)
    }

    /// Waits until the viewers have left.
    fn watch(
        &mut self,
        load: &mut ChildProcess,
        serving: &mut RunningServer,
        group: &ControlGroup,
    ) -> Result<LoadObservations, RigError> {
        let wall = |model: headlong_units::Duration| {
            WallDuration::from_secs_f64(model.as_secs_f64() / f64::from(self.experiment.time_scale))
        };
        let phases = &self.experiment.phases;
        let deadline = Instant::now() + 2 * wall(phases.whole()) + END_PATIENCE;
        let mut cpu = CpuSampler::start();
        let (began, mut looks) = (Instant::now(), Vec::new());
        let mut next_look = Instant::now();
        // Sessions of the ramp do not count, so the drives' work for them is excluded, too.
        let mut ramp_end = Some(Instant::now() + wall(phases.ramp_up));
        let mut ends = phase_ends(phases).into_iter().peekable();
        let mut samples = Vec::new();
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
                self.disks.begin_steady()?;
                if let Some(ssd) = &mut self.ssd {
                    ssd.forget_lateness()?;
                }
            }
            if ends
                .next_if(|(_, end)| began.elapsed() >= wall(*end))
                .is_some()
            {
                samples.push(self.sample(began, &serving.status)?);
            }
            if Instant::now() >= next_look {
                next_look += LOOK_INTERVAL;
                if self.experiment.climb.is_some() {
                    looks.push(self.look(began)?);
                }
                cpu.look(&WatchedProcesses {
                    server: group.processes(),
                    load: load.id(),
                    drives: self.disks.processes(),
                });
            }
            std::thread::sleep(POLL);
        }
        if self.experiment.climb.is_some() {
            looks.push(self.look(began)?);
        }
        if died.is_none() && ends.peek().is_some() {
            samples.push(self.sample(began, &serving.status)?);
        }
        let from = wall(phases.ramp_up);
        Ok(LoadObservations {
            cpu: cpu.between(from, from + wall(phases.measured)),
            died,
            looks,
            samples,
        })
    }

    /// The counters of all drives and of the server since the viewers started.
    fn sample(&mut self, began: Instant, status: &StatusSource) -> Result<PhaseSample, RigError> {
        let at = self.model_time(began);
        let drives = self.disks.counters()?;
        Ok(PhaseSample::of(at, &drives, &self.status(status)))
    }

    /// Model time since the viewers started.
    fn model_time(&self, began: Instant) -> headlong_units::Duration {
        let wall = headlong_units::Duration(began.elapsed().as_nanos() as u64);
        wall.times(u64::from(self.experiment.time_scale))
    }

    /// The counters of all drives since the viewers started.
    fn look(&mut self, began: Instant) -> Result<DriveSample, RigError> {
        let disks = self.disks.counters()?;
        let ssd = self.ssd.as_mut().map(RunningSsd::counters).transpose()?;
        Ok(DriveSample {
            at: self.model_time(began),
            disk: DriveCounters::of_all(&disks),
            ssd: ssd.as_ref().map(DriveCounters::of),
        })
    }
}
