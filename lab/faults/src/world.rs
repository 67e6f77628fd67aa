//! The world of one seed: disks, SSDs and viewers around a server that may end and start again.

use std::collections::BTreeMap;

use headlong_device::DeviceCore;
use headlong_engine::{EngineConfig, RequestId, StreamId};
use headlong_mutants::{Mutant, is_active};
use headlong_random::Generator;
use headlong_units::{Duration, Instant};

use crate::check::{Check, Checker, Violation};
use crate::content::ContentKey;
use crate::device::SimulatedDevice;
use crate::disk::{DiskCompletion, SimulatedDisk};
use crate::event_queue::{Event, EventQueue};
use crate::exchange::{Exchange, ExchangeStage};
use crate::fault::{CrashPoint, FileChange, RestartKind};
use crate::files::FileSystemModel;
use crate::host::{DeviceEnv, SimulatedHost};
use crate::library::DiskLibrary;
use crate::plan::{Plan, PlanStep};
use crate::random_source::RandomSource;
use crate::recover::Recoverer;
use crate::resources::SimulatedResources;
use crate::session::{ViewerSession, path};
use crate::ssd::SimulatedSsd;
use crate::trace::EventTrace;

/// A world with more steps does not come to rest; the largest plans take a hundredth.
const STEPS_MAX: u64 = 3_000_000;
/// The wall clock at the beginning, nanoseconds since 1970.
const WALL_NS: i64 = 1_700_000_000_123_456_789;
/// Longer than all timeouts of the engine together.
const SETTLING: Duration = Duration::from_secs(200);

/// The viewer's knowledge of its last reply.
#[derive(Debug, Clone, Default)]
pub(crate) struct ViewerState {
    pub(crate) next: usize,
    pub(crate) tag: Option<(String, Vec<ContentKey>)>,
    pub(crate) taken: u64,
    pub(crate) target: Option<String>,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The failed check, if any.
    pub violation: Option<Violation>,
    /// A hash of all events.
    pub trace: u64,
    /// All events as lines of text, if requested.
    pub lines: Vec<String>,
    /// Work done.
    pub counts: RunCounts,
    pub(crate) of_disks: Vec<u64>,
}

/// Work done in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunCounts {
    /// Steps of the world.
    pub steps: u64,
    /// Requests.
    pub requests: u64,
    /// Requests with a complete reply.
    pub whole: u64,
    /// Bytes of files received by viewers, each verified.
    pub bytes: u64,
    /// Valid records read from flash.
    pub flash_reads: u64,
    /// Records found by recoveries.
    pub found_records: u64,
    /// Starts of the server.
    pub starts: u64,
}

/// The world.
pub(crate) struct World<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) now: Instant,
    pub(crate) wall_offset_ns: i64,
    pub(crate) disks: Vec<SimulatedDisk>,
    pub(crate) ssds: Vec<SimulatedSsd>,
    pub(crate) devices: Vec<SimulatedDevice>,
    pub(crate) libraries: Vec<DiskLibrary>,
    /// Current settings, which survive a restart, and the longest time that a reply may wait.
    configs: Vec<EngineConfig>,
    pub(crate) waits_max: Vec<Duration>,
    pub(crate) next_request: Vec<u64>,
    pub(crate) exchanges: BTreeMap<u64, Exchange>,
    pub(crate) of_request: BTreeMap<(usize, RequestId), u64>,
    pub(crate) next_exchange: u64,
    pub(crate) sessions: Vec<&'a ViewerSession>,
    pub(crate) viewers: Vec<ViewerState>,
    pub(crate) queue: EventQueue,
    pub(crate) oracle: Checker,
    pub(crate) trace: EventTrace,
    pub(crate) counts: RunCounts,
    /// Whether the wall clock has jumped: two files may have the same tag then.
    pub(crate) has_jumped: bool,
    /// Status of the last complete reply.
    pub(crate) last_status: u16,
    chance: RandomSource,
    process: u32,
    /// A planned end of the server in the middle of a write to an SSD, and the latest time for it.
    ends: Option<(RestartKind, CrashPoint, Instant)>,
}

impl<'a> World<'a> {
    pub(crate) fn new(plan: &'a Plan, with_lines: bool) -> Self {
        let chance = Generator::new(plan.seed).fork("world");
        let disks = plan.disks.iter().enumerate().map(|(number, of)| {
            let generator = chance.fork("disk").fork_at(number as u64);
            let mut files = FileSystemModel::new(generator.fork("files").bits(), of.tick_ns);
            for (title, sizes) in of.titles.iter().enumerate() {
                for (part, size) in sizes.sizes.iter().enumerate() {
                    // Some were written a moment ago.
                    let ago = 1_000_000_000 * (1 + 7 * (title as i64 % 2) * (part as i64 + 1));
                    files.create(
                        Instant::ZERO,
                        WALL_NS - ago,
                        &path(number, title, part),
                        *size,
                    );
                }
            }
            SimulatedDisk::new(of, files, RandomSource(generator))
        });
        let piece_bytes = plan.disks[0].engine.piece_bytes;
        let ssds = plan.ssds.iter().enumerate().map(|(number, of)| {
            let chance = chance.fork("ssd").fork_at(number as u64);
            SimulatedSsd::formatted(*of, piece_bytes, chance)
        });
        let disks: Vec<SimulatedDisk> = disks.collect();
        let count = disks.len();
        let mut world = Self {
            plan,
            now: Instant::ZERO,
            wall_offset_ns: WALL_NS,
            disks,
            ssds: ssds.collect(),
            devices: Vec::new(),
            libraries: Vec::new(),
            configs: plan.disks.iter().map(|of| of.engine).collect(),
            waits_max: plan.disks.iter().map(|of| of.engine.wait_timeout).collect(),
            next_request: vec![0; count],
            exchanges: BTreeMap::new(),
            of_request: BTreeMap::new(),
            next_exchange: 0,
            sessions: Vec::new(),
            viewers: Vec::new(),
            queue: EventQueue::default(),
            oracle: Checker::default(),
            trace: EventTrace::new(count, with_lines),
            counts: RunCounts::default(),
            has_jumped: false,
            last_status: 0,
            chance: RandomSource(chance.fork("restarts")),
            process: 0,
            ends: None,
        };
        for (number, (at, _)) in plan.steps.iter().enumerate() {
            world.queue.plan(*at, Event::Step(number));
        }
        world.start();
        world
    }

    pub(crate) fn wall_ns(&self) -> i64 {
        self.wall_offset_ns + self.now.0 as i64
    }

    /// Calls a device within its environment.
    pub(crate) fn with_device<R>(
        &mut self,
        disk: usize,
        call: impl FnOnce(&mut SimulatedDevice, &mut DeviceEnv<'_>) -> R,
    ) -> R {
        let wall_ns = self.wall_ns();
        let mut around = DeviceEnv {
            now: self.now,
            wall_ns,
            number: disk,
            disk: &mut self.disks[disk],
            ssds: &mut self.ssds,
            oracle: &mut self.oracle,
            trace: &mut self.trace,
        };
        call(&mut self.devices[disk], &mut around)
    }

    /// Calls the core of a device.
    pub(crate) fn with_core(
        &mut self,
        disk: usize,
        act: impl FnOnce(&mut DeviceCore<SimulatedResources>, Instant, &mut SimulatedHost<'_, '_>),
    ) {
        self.with_device(disk, |device, around| device.call(around, act));
    }

    /// A process starts: only the content of disks and SSDs is left.
    fn start(&mut self) {
        self.process += 1;
        self.counts.starts += 1;
        let piece_bytes = self.plan.disks[0].engine.piece_bytes;
        let mut order: Vec<usize> = (0..self.ssds.len()).collect();
        if self.chance.percent(20) {
            order.reverse();
        }
        order.retain(|ssd| self.ssds[*ssd].open(piece_bytes).is_ok());
        self.devices.clear();
        self.libraries.clear();
        for disk in 0..self.disks.len() {
            // Numbers of fillings are unique across processes.
            let filling =
                (self.plan.seed << 32) | u64::from(self.process) << 20 | (disk as u64) << 16;
            let recoverer = || Recoverer::new(disk, disk as u64 + 77, &order, &self.ssds);
            let tier = (!order.is_empty()).then(|| (recoverer(), filling));
            if tier.is_some() {
                let lag = Duration::from_micros(self.chance.scaled(1, 1_000_000));
                self.queue
                    .plan(self.now + lag, Event::Recovered(disk, self.process));
            }
            self.devices
                .push(SimulatedDevice::new(self.configs[disk], tier));
            self.libraries.push(DiskLibrary::default());
            self.next_request[disk] = 0;
        }
    }

    fn restart(&mut self, how: RestartKind, moment: CrashPoint) {
        self.ends = None;
        self.trace
            .add(self.now, None, "restart", [how as u64, 0, 0]);
        for number in self.exchanges.keys().copied().collect::<Vec<_>>() {
            self.end_exchange(number);
        }
        self.of_request.clear();
        for disk in &mut self.disks {
            disk.forget_reads();
        }
        self.count_flash_reads();
        for ssd in &mut self.ssds {
            ssd.end((how, moment));
        }
        self.start();
    }

    fn count_flash_reads(&mut self) {
        let views = self
            .devices
            .iter()
            .map(|device| device.shard().flash_view());
        self.counts.flash_reads += views.flatten().map(|view| view.reads).sum::<u64>();
    }

    /// Runs until there are no more events, then checks for leftovers.
    pub(crate) fn run(mut self) -> RunOutcome {
        self.go_on_until(None);
        let end = self.now + SETTLING;
        self.go_on_until(Some(end));
        self.judge_rest();
        // The start of the final phase depends on all disks.
        let of_disks = (0..self.disks.len())
            .map(|disk| self.trace.of_disk(disk))
            .collect();
        self.serve_again();
        self.count_flash_reads();
        RunOutcome {
            violation: self.oracle.violation.take(),
            trace: self.trace.hash(),
            of_disks,
            lines: self.trace.take_lines(),
            counts: self.counts,
        }
    }

    /// Runs until a time, or until nothing is planned and every viewer has left.
    pub(crate) fn go_on_until(&mut self, end: Option<Instant>) {
        while self.oracle.violation.is_none() {
            self.counts.steps += 1;
            if self.counts.steps > STEPS_MAX {
                return self.oracle.fail(Check::Rest, self.now, || {
                    "the world does not come to rest".to_owned()
                });
            }
            let is_over = self.queue.next_at().is_none() && self.exchanges.is_empty();
            if is_over && end.is_none() {
                return;
            }
            let Some(next) = self.next_at().filter(|at| end.is_none_or(|end| *at <= end)) else {
                self.now = self.now.max(end.unwrap_or(self.now));
                return;
            };
            self.now = self.now.max(next);
            self.step();
            self.check_waits();
        }
    }

    fn next_at(&self) -> Option<Instant> {
        let disks = self.disks.iter().filter_map(SimulatedDisk::next_at);
        let ssds = self.ssds.iter().filter_map(SimulatedSsd::next_at);
        let dues = self.devices.iter().filter_map(|device| device.core.due());
        let queue = self.queue.next_at();
        let ends = self.ends.map(|(.., at)| at);
        disks.chain(ssds).chain(dues).chain(queue).chain(ends).min()
    }

    /// Processes one due event.
    fn step(&mut self) {
        if let Some((how, moment, _)) = self.ends.filter(|(.., at)| *at <= self.now) {
            return self.restart(how, moment);
        }
        if let Some(what) = self.queue.pop(self.now) {
            return self.happen(what);
        }
        for disk in 0..self.disks.len() {
            if self.disks[disk].next_at().is_some_and(|at| at <= self.now)
                && let Some(end) = self.disks[disk].pop(self.now)
            {
                self.with_device(disk, |device, around| match end {
                    DiskCompletion::Read(reading) => device.read_done(around, reading),
                    DiskCompletion::Lookup(id) => device.located(around, id),
                    DiskCompletion::Open(job) => device.opened(around, &job),
                });
                return self.pass_on(disk);
            }
        }
        for ssd in 0..self.ssds.len() {
            if self.ssds[ssd].next_at().is_some_and(|at| at <= self.now) {
                return self.step_ssd(ssd);
            }
        }
        for disk in 0..self.devices.len() {
            let due = self.devices[disk].core.due();
            if due.is_some_and(|at| at <= self.now) {
                self.with_core(disk, |core, now, host| core.tick(now, host));
                self.pass_on(disk);
            }
        }
    }

    fn step_ssd(&mut self, ssd: usize) {
        let is_writing = |(_, moment, _): &(_, CrashPoint, _)| {
            self.ssds[ssd].is_writing(*moment) && !self.ssds[ssd].has_other(self.now)
        };
        if let Some((how, moment, _)) = self.ends.filter(is_writing) {
            return self.restart(how, moment);
        }
        let Some((disk, Some(end))) = self.ssds[ssd].pop(self.now) else {
            return;
        };
        self.with_device(disk, |device, around| device.flash_ended(around, end));
        self.pass_on(disk);
    }

    fn happen(&mut self, what: Event) {
        match what {
            Event::Step(number) => self.take_step(number),
            Event::Ask(session) => self.begin_exchange(session),
            Event::GoOn(exchange) => self.go_on(exchange),
            Event::Taken(exchange) => self.taken(exchange),
            Event::Leave(exchange) => self.leave(exchange),
            Event::CutOff(exchange) => self.leave(exchange),
            Event::Recovered(disk, process) => self.recovered(disk, process),
            Event::Gone(disk, stream, process) => {
                if process == self.process {
                    let stream = StreamId(stream);
                    self.with_core(disk, |core, now, host| {
                        core.handle_stream_removed(now, host, stream, false);
                    });
                    self.pass_on(disk);
                }
            }
            Event::Heal => self.heal(),
        }
    }

    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    fn recovered(&mut self, disk: usize, process: u32) {
        let hangs = |of: &Recoverer| !of.answers(&self.ssds);
        if process != self.process {
            return;
        }
        if self.devices[disk].recoverer.as_ref().is_some_and(hangs) {
            let later = self.now + Duration::from_millis(100);
            return self.queue.plan(later, Event::Recovered(disk, process));
        }
        if self.with_device(disk, |device, around| device.recover(around)) {
            let lag = Duration::from_micros(self.chance.scaled(1, 100_000));
            let next = Event::Recovered(disk, process);
            self.queue.plan(self.now + lag, next);
        } else {
            let view = self.devices[disk].shard().flash_view();
            self.counts.found_records += view.map_or(0, |view| view.records);
        }
        self.pass_on(disk);
    }

    /// Checks that no reply waits for the engine longer than its limit.
    fn check_waits(&mut self) {
        for exchange in self.exchanges.values() {
            let most = self.waits_max[exchange.disk] + Duration::from_millis(1);
            let waited = self.now.since(exchange.since);
            let waits = exchange.stage == ExchangeStage::Reply && exchange.chunks.is_empty();
            self.oracle
                .expect(!waits || waited <= most, Check::Waited, self.now, || {
                    format!(
                        "{:?} has waited for {waited}, the limit is {most}",
                        exchange.request
                    )
                });
        }
    }

    /// After the end of all faults and viewers, checks for leftovers.
    fn judge_rest(&mut self) {
        for (disk, device) in self.devices.iter().enumerate() {
            if let Some(left) = device.left_over() {
                self.oracle
                    .fail(Check::Drain, self.now, || format!("disk {disk}: {left}"));
            }
        }
        for (number, ssd) in self.ssds.iter().enumerate() {
            self.oracle
                .expect(ssd.is_idle(), Check::Drain, self.now, || {
                    format!("SSD {number} still has jobs")
                });
        }
    }

    fn heal(&mut self) {
        let wall_ns = self.wall_ns();
        for disk in &mut self.disks {
            if disk.recover(self.now) {
                disk.files.change_all(self.now, wall_ns);
            }
        }
        self.ssds
            .iter_mut()
            .for_each(|ssd| ssd.drive.recover(self.now));
        self.share_hangs();
    }

    fn share_hangs(&mut self) {
        if is_active(Mutant::HangShared) {
            let hangs = self.disks.iter().any(SimulatedDisk::hangs);
            self.disks
                .iter_mut()
                .for_each(|disk| disk.is_held_up = hangs);
        }
    }

    fn take_step(&mut self, number: usize) {
        let plan = self.plan;
        let Some((_, step)) = plan.steps.get(number) else {
            return;
        };
        match step {
            PlanStep::Session(session) => {
                self.sessions.push(session);
                self.viewers.push(ViewerState::default());
                self.begin_exchange(self.sessions.len() - 1);
            }
            PlanStep::Disk(disk, fault, lasts) => {
                self.disks[*disk].fall_ill(*fault, self.now + *lasts);
                self.queue.plan(self.now + *lasts, Event::Heal);
                self.share_hangs();
            }
            PlanStep::Ssd(ssd, fault, lasts) => {
                self.ssds[*ssd].fall_ill(*fault, self.now + *lasts);
                self.queue.plan(self.now + *lasts, Event::Heal);
            }
            PlanStep::File(disk, title, part, change) => {
                self.change_file(*disk, &path(*disk, *title, *part), *change);
            }
            PlanStep::Restart(RestartKind::Clean, moment) => {
                self.restart(RestartKind::Clean, *moment)
            }
            PlanStep::Restart(how, moment) => {
                let lag = match moment {
                    CrashPoint::Any => self.chance.pick(&[0, 2000, 10_000, 30_000]),
                    _ => 30_000,
                };
                self.ends = Some((*how, *moment, self.now + Duration::from_millis(lag)));
            }
            PlanStep::Clock(milliseconds) => {
                self.has_jumped = true;
                self.wall_offset_ns += milliseconds * 1_000_000;
            }
            PlanStep::Settings(disk, change) => {
                let mut config = self.configs[*disk];
                change.apply(&mut config);
                if config.check().next().is_none() {
                    self.configs[*disk] = config;
                    let wait = &mut self.waits_max[*disk];
                    *wait = config.wait_timeout.max(*wait);
                }
                self.with_device(*disk, |device, around| device.configure(around, config));
                self.pass_on(*disk);
            }
        }
    }

    fn change_file(&mut self, disk: usize, path: &str, change: FileChange) {
        let (now, wall_ns) = (self.now, self.wall_ns());
        let files = &mut self.disks[disk].files;
        let size = files
            .lookup(path)
            .and_then(|inode| files.current(inode))
            .map(|of| of.size);
        match (change, size) {
            (FileChange::InPlace, Some(_)) => files.write(now, wall_ns, path, None),
            (FileChange::Truncate(to), Some(size)) => {
                files.write(now, wall_ns, path, Some(size * u64::from(to) / 256));
            }
            (FileChange::Extend(by), Some(size)) => {
                files.write(now, wall_ns, path, Some(size + by))
            }
            (FileChange::Replace(of), _) => {
                let size = size.unwrap_or(50_000) * u64::from(of) / 128;
                files.create(now, wall_ns, path, size);
            }
            (FileChange::Remove, Some(_)) => files.remove(now, path),
            (FileChange::Restore, None) => files.create(now, wall_ns, path, 60_000),
            _ => {}
        }
    }
}
