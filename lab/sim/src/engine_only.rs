//! Engine and drive alone: the calls of a workload at their planned times, without players or
//! networks.
//!
//! This measures the cost of the engine's decisions themselves. Calls are drawn beforehand and
//! arrive at the times that their players plan; a socket takes each piece at once. There is no
//! event queue: the next event is the next call, the drive's next completion or the engine's next
//! deadline.
//!
//! Invariant: same calls and same drive give the same figures.

use std::sync::Arc;

use headlong_device::flash::SsdJob;
use headlong_device::{
    DeviceCore, FileRead, Host, LookupJob, LookupProgress, Notice, OpenJob, OpenProgress,
    ReadCompletion, ReadyPiece, SlotBusy,
};
use headlong_engine::{
    EngineConfig, Extent, Failure, Hints, PartSpec, ReadOutcome, ReaderIdentity, Request,
    RequestId, Shard, Slot, Stats, StreamId, StreamSpec, ViewerId,
};
use headlong_flash::SsdId;
use headlong_flash::format::RecordName;
use headlong_units::{BitRate, ByteRange, Instant};
use headlong_workload::{Catalogue, SessionStream};

use crate::device::{DriveUse, QueuedDrive};
use crate::disk::{
    FileExtents, OPEN_FILES_MAX, OPENED, SimulatedDisk, SimulatedResources, extents_of_part,
};
use crate::experiment::VirtualExperiment;
use crate::extents::extents_of;
use crate::layout::{FileLocation, TitlePlacement};
use crate::setup::SetupError;

/// The calls of a workload in order of time, and the files that they request.
#[derive(Debug)]
pub struct PlannedCalls {
    calls: Vec<PlannedCall>,
    files: Vec<FileLocation>,
}

#[derive(Debug, Clone, Copy)]
struct PlannedCall {
    at: Instant,
    viewer: u32,
    file: u32,
    range: ByteRange,
}

/// Result of a run.
#[derive(Debug, Clone, Copy)]
pub struct EngineOnlyResult {
    /// Counters of the engine.
    pub stats: Stats,
    /// Activity of the drive.
    pub drive: DriveUse,
}

impl PlannedCalls {
    /// Draws the calls of an experiment's scripted players until its window closes.
    ///
    /// # Errors
    /// If the titles do not fit on the drive, or the setup has several disks.
    pub fn drawn(
        experiment: &VirtualExperiment,
        rate_mib_s: f64,
        seed: u64,
    ) -> Result<Self, SetupError> {
        let specification = experiment.specification(rate_mib_s);
        let catalogue = Catalogue::of(&specification);
        if experiment.setup.disks != 1 {
            return Err(SetupError::OneDisk("an engine without players"));
        }
        let ground =
            TitlePlacement::new(&catalogue, experiment.disks()).map_err(SetupError::Catalogue)?;
        let mut sessions = SessionStream::new(&specification, &catalogue, seed);
        let (mut calls, mut files) = (Vec::new(), Vec::new());
        let mut viewer = 0;
        while let Some(session) = sessions.next() {
            let named = files.len()..sessions.object_count();
            files.extend(named.filter_map(|object| {
                ground.place(sessions.object(headlong_player::ObjectId(object as u32))?)
            }));
            let mut at = Instant::ZERO + session.arrival;
            for call in session.calls() {
                at = call.pace.map_or(at, |pace| at + pace);
                let file = call.object.0;
                let whole = files.get(file as usize).map_or(0, |file| file.size_bytes);
                let whole = ByteRange::new(0, whole);
                let range = call.range.map_or(whole, |range| range.intersection(whole));
                if !range.is_empty() && at < experiment.setup.window.to {
                    calls.push(PlannedCall {
                        at,
                        viewer,
                        file,
                        range,
                    });
                }
            }
            viewer += 1;
        }
        calls.sort_by_key(|call| call.at);
        Ok(Self { calls, files })
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Bytes of all calls.
    pub fn bytes(&self) -> u64 {
        self.calls.iter().map(|call| call.range.len()).sum()
    }

    /// Runs the calls through an engine on the experiment's drive.
    ///
    /// # Errors
    /// If the engine rejects its settings.
    pub fn run(&self, experiment: &VirtualExperiment) -> Result<EngineOnlyResult, SetupError> {
        let setup = &experiment.setup;
        let device = QueuedDrive::new(
            experiment.drive.build(),
            setup.queue_depth,
            setup.turnaround,
        );
        let config = EngineConfig {
            request_bytes_max: setup.request_bytes_max,
            ..setup.engine
        };
        let mut bare = EngineOnlyWorld {
            core: DeviceCore::new(Shard::new(config)?, OPEN_FILES_MAX),
            machine: EngineOnlyHost {
                now: Instant::ZERO,
                disk: SimulatedDisk::new(device, setup.request_bytes_max),
                taken: Vec::new(),
            },
            files: &self.files,
            extents: setup.extents_per_file,
        };
        for (call, number) in self.calls.iter().zip(0..) {
            bare.pass_until(call.at);
            bare.ask(call, RequestId(number));
        }
        Ok(EngineOnlyResult {
            stats: bare.core.shard().stats(),
            drive: bare.machine.disk.device().used(),
        })
    }
}

struct EngineOnlyWorld<'a> {
    core: DeviceCore<SimulatedResources>,
    machine: EngineOnlyHost,
    files: &'a [FileLocation],
    /// Extents of each file.
    extents: u32,
}

/// A drive, and sockets that take every piece at once.
struct EngineOnlyHost {
    now: Instant,
    disk: SimulatedDisk,
    /// Pieces that sockets have taken.
    taken: Vec<(RequestId, Slot)>,
}

impl EngineOnlyWorld<'_> {
    /// Processes all events up to a moment.
    fn pass_until(&mut self, until: Instant) {
        loop {
            let (disk, core) = (self.machine.disk.poll_timeout(), self.core.due());
            let Some(at) = [disk, core]
                .into_iter()
                .flatten()
                .min()
                .filter(|at| *at <= until)
            else {
                return;
            };
            self.machine.now = at;
            if disk.is_some_and(|disk| disk <= at) {
                self.machine.disk.handle_timeout(at);
            } else {
                self.core.tick(at, &mut self.machine);
            }
            self.settle(at);
        }
    }

    fn ask(&mut self, call: &PlannedCall, id: RequestId) {
        let (now, machine) = (call.at, &mut self.machine);
        machine.now = now;
        let stream = StreamId(u64::from(call.file));
        let file = &self.files[call.file as usize];
        let extents = extents_of(file.physical, file.size_bytes, self.extents);
        // A full table refuses the call below as well, which the counters show.
        let _ = self.core.register(
            now,
            machine,
            spec_of(stream, extents.clone()),
            Arc::new([extents]),
        );
        let request = Request {
            viewer: ReaderIdentity::Named(ViewerId(u64::from(call.viewer))),
            stream,
            part: 0,
            offset: call.range.start,
            length: call.range.len(),
            open_ended: false,
            overlap_bytes: 0,
            holder: None,
            hints: Hints::default(),
        };
        // The shard counts refusals.
        let _ = self.core.request(now, machine, (id, request), ());
        self.settle(now);
    }

    fn settle(&mut self, now: Instant) {
        let (core, machine) = (&mut self.core, &mut self.machine);
        loop {
            if let Some((request, slot)) = machine.taken.pop() {
                core.sent(now, machine, request, slot);
            } else if let Some(id) = machine.disk.poll_done() {
                let completion = ReadCompletion {
                    id,
                    outcome: ReadOutcome::Done,
                    has_read_direct: true,
                };
                core.handle_read_ended(now, machine, completion);
            } else if let Some(id) = machine.disk.poll_looked_up() {
                core.handle_location(now, machine, id, None);
            } else {
                return;
            }
        }
    }
}

impl Host<SimulatedResources> for EngineOnlyHost {
    fn lease(&mut self, _: Option<StreamId>, _: &[Slot], _: u64) -> Option<()> {
        Some(())
    }

    fn vacate(&mut self, _: Slot) {}

    fn open(&mut self, _: OpenJob<FileExtents>) -> OpenProgress<()> {
        OpenProgress::Ended(Ok(OPENED))
    }

    fn look_up(&mut self, job: LookupJob<FileExtents, ()>) -> LookupProgress {
        let extents = extents_of_part(&job.source, job.id.part);
        match self.disk.look_up(self.now, job.id, extents) {
            true => LookupProgress::Ended(None),
            false => LookupProgress::Pending,
        }
    }

    fn close(&mut self, _: Vec<()>) {}

    fn read(&mut self, read: FileRead<SimulatedResources>) {
        let extents = extents_of_part(&read.source, read.job.file.part);
        self.disk.read(self.now, &read.job, extents);
    }

    fn forget(&mut self, _: StreamId) {}

    fn lasting_name(&self, _: StreamId, _: &FileExtents) -> Option<u64> {
        None
    }

    fn deliver(&mut self, (): &mut (), piece: &ReadyPiece) -> Result<(), SlotBusy> {
        self.taken.push((piece.request, piece.slot));
        Ok(())
    }

    fn fail(&mut self, (): &mut (), _: RequestId, _: Failure) {}

    // No flash tier is attached.
    fn stage(&mut self, _: &RecordName, _: Slot) -> Option<()> {
        None
    }

    fn submit(&mut self, _: SsdId, _: SsdJob<SimulatedResources>) {}

    fn wall_seconds(&self) -> u64 {
        0
    }

    fn announce(&mut self, _: Notice<'_>) {}
}

fn spec_of(id: StreamId, extents: Vec<Extent>) -> StreamSpec {
    StreamSpec {
        id,
        parts: vec![PartSpec {
            size_bytes: extents.iter().map(|extent| extent.length).sum(),
            extents,
            flash_key: None,
            is_absent: false,
        }],
        bit_rate: None::<BitRate>,
    }
}

#[cfg(test)]
mod tests {
    use headlong_drive::preset;
    use headlong_units::{Duration, MIB};
    use headlong_workload::Specification;

    use super::*;
    use crate::measure::MeasuredWindow;
    use crate::setup::WorldSetup;

    fn experiment() -> VirtualExperiment {
        let mut setup = WorldSetup {
            window: MeasuredWindow {
                from: Instant::ZERO,
                to: Instant::ZERO + Duration::from_secs(300),
            },
            ..WorldSetup::default()
        };
        setup.engine.memory_bytes = 512 * MIB;
        VirtualExperiment {
            workload: Specification::preset("youtube-sd", &[]).expect("a preset"),
            drive: preset("wd-red-wd10efrx").expect("a preset"),
            setup,
            steps: Vec::new(),
        }
    }

    #[test]
    fn sends_all_requested_bytes_and_reads_each_once() {
        let experiment = experiment();
        let calls = PlannedCalls::drawn(&experiment, 20.0, 1).expect("titles that fit");
        assert!(calls.len() > 5_000 && !calls.is_empty());
        let EngineOnlyResult { stats, drive } = calls.run(&experiment).expect("valid settings");
        assert_eq!(stats.requests, calls.len() as u64);
        assert_eq!((stats.requests_refused, stats.requests_failed), (0, 0));
        // The last calls are still in progress when the clock stops.
        assert!(stats.bytes_sent <= calls.bytes());
        assert!(stats.bytes_sent + 64 * MIB > calls.bytes());
        assert!(drive.bytes.abs_diff(stats.bytes_read) < 64 * MIB);
    }

    #[test]
    fn same_calls_give_same_figures() {
        let experiment = experiment();
        let run = || {
            let calls = PlannedCalls::drawn(&experiment, 20.0, 7).expect("titles that fit");
            let run = calls.run(&experiment).expect("valid settings");
            (format!("{:?}", run.stats), format!("{:?}", run.drive))
        };
        assert_eq!(run(), run());
    }
}
