//! The event loop: one thread, one epoll, all viewers.
//!
//! It waits for the next arrival, timer or socket event, and wakes the viewer concerned. At
//! intervals it checks itself: lateness, CPU time, and requests to stop.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as WallDuration;

use headlong_player::ExportedCall;
use headlong_units::Instant;
use headlong_workload::content::Content;
use headlong_workload::{Session, Trace, ViewerIdentity};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll;

use crate::clock::Clock;
use crate::line::LineKind;
use crate::report::Recording;
use crate::self_check::CpuMeter;
use crate::settings::{LoadSettings, PlayError, SourceAddresses};
use crate::shared_state::{SharedState, TraceObject};
use crate::target::Target;
use crate::viewer::Viewer;
use crate::{schedule, self_check};

/// Interval of the self-checks, in wall time.
const LOOK_INTERVAL: WallDuration = WallDuration::from_millis(100);
/// Largest number of events fetched at once.
const EVENTS_MAX: usize = 256;

/// State of a run in progress.
#[derive(Debug, Clone, Copy)]
pub struct LoadProgress<'a> {
    /// The recording so far, without the current interval.
    pub recording: &'a Recording,
    /// Model time since the start.
    pub now: Instant,
    /// Wall time since the start.
    pub wall: WallDuration,
    /// Arrival of the last session.
    pub last_arrival: Instant,
    /// Number of sessions in the trace.
    pub sessions: u64,
    /// Sessions in progress.
    pub active: u64,
    /// Bytes of bodies received by all sessions.
    pub bytes: u64,
}

/// Observer of a run.
pub trait RunObserver {
    /// Called about ten times a second; must return quickly.
    fn look(&mut self, glance: &LoadProgress<'_>);

    /// Receives finished calls, if enabled in the settings; must return quickly, too.
    fn calls(&mut self, _calls: Vec<ExportedCall>) {}
}

impl RunObserver for () {
    fn look(&mut self, _glance: &LoadProgress<'_>) {}
}

/// Plays a trace against a server and returns the recording.
///
/// Returns when all sessions that count have ended, or as configured; or when `stop` is set, which
/// makes the result invalid.
///
/// # Errors
/// If it cannot be played at all; then nothing was sent.
pub fn play(
    trace: Trace,
    target: &Target,
    settings: &LoadSettings,
    stop: &AtomicBool,
    watch: &mut dyn RunObserver,
) -> Result<Recording, PlayError> {
    let mut run = LoadRun::prepare(trace, target, settings)?;
    run.go(stop, watch)?;
    Ok(run.finish(watch))
}

struct LoadRun {
    world: SharedState,
    arrivals: std::vec::IntoIter<Session>,
    sessions: u64,
    last_arrival: Instant,
    /// When the run is aborted.
    latest_end: Instant,
    next_session: u64,
    viewers: Vec<Option<Box<Viewer>>>,
    free: Vec<u32>,
    cpu: CpuMeter,
    stop_at_failure: bool,
    end_with_arrivals: bool,
    /// Sessions that count and have not arrived yet.
    steady_to_come: u64,
}

impl LoadRun {
    fn prepare(
        mut trace: Trace,
        target: &Target,
        settings: &LoadSettings,
    ) -> Result<Self, PlayError> {
        schedule::check(&trace)?;
        trace.sessions.sort_by_key(|session| session.arrival);
        if let Some(max) = settings.sessions_max {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            trace.sessions.truncate(max);
        }
        let sessions = &trace.sessions;
        let window = schedule::window(sessions, settings)?;
        let sources = match trace.about.identity {
            ViewerIdentity::Sid | ViewerIdentity::Cmcd => settings.sources.clone(),
            ViewerIdentity::Connection | ViewerIdentity::None => settings.sources.shared(),
        };
        check_limits(sessions, target, &sources)?;
        let ends = sessions.iter().map(|session| {
            let class = &trace.classes[session.class as usize];
            session.arrival + schedule::longest(&session.plan, class)
        });
        let latest_end = ends.max().unwrap_or_default() + settings.overtime;
        let arrival = |session: &Session| Instant(session.arrival.0);
        let last_arrival = sessions.last().map(arrival).unwrap_or_default();

        let mut recording =
            Recording::new(&trace.classes, window.from, window.to, settings.interval);
        recording.report.url = target.url().into();
        recording.report.offered_bytes_per_second = trace.offered();
        recording.report.time_scale = settings.time_scale.factor();
        let late_max = settings.time_scale.model(settings.late_max);
        recording.report.schedule_error_allowed_ms = late_max.as_secs_f64() * 1e3;
        let steady = sessions.iter().map(arrival);
        let steady_to_come = steady.filter(|at| recording.is_steady(*at)).count() as u64;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let clock = Clock::start(settings.time_scale);
        let mut world = SharedState::new(clock, epoll, target, sources, recording);
        world.identity = trace.about.identity;
        let lead = trace.classes.iter().map(|class| class.delay).max();
        let lead = lead.unwrap_or_default();
        let line = |class: &headlong_workload::NetworkClass| {
            let scale = settings.time_scale;
            LineKind::new(class.bandwidth, class.delay, lead, |wall| scale.model(wall))
        };
        world.lines = trace.classes.iter().map(line).collect();
        let object = |path: &String| TraceObject {
            path: target.path_of(path),
            content: locate(path, settings),
        };
        world.objects = trace.objects.iter().map(object).collect();
        world.calls = settings.tells_calls.then(Vec::new);
        Ok(Self {
            world,
            sessions: trace.sessions.len() as u64,
            arrivals: trace.sessions.into_iter(),
            last_arrival,
            latest_end: Instant::ZERO + lead + latest_end,
            next_session: 0,
            viewers: Vec::new(),
            free: Vec::new(),
            cpu: CpuMeter::default(),
            stop_at_failure: settings.stop_at_failure,
            end_with_arrivals: settings.end_with_arrivals,
            steady_to_come,
        })
    }

    fn go(&mut self, stop: &AtomicBool, watch: &mut dyn RunObserver) -> io::Result<()> {
        // Timer slack that the kernel adds to waits to batch wake-ups: set to the minimum.
        let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
        // Preparation took time: the run begins now.
        self.world.clock = Clock::start(self.world.clock.scale());
        self.cpu = CpuMeter::start();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut next_look = WallDuration::ZERO;
        loop {
            let now = self.world.clock.now();
            self.world.roll(now);
            self.admit(now);
            self.ring(now);
            let wall = self.world.clock.wall();
            if wall >= next_look {
                next_look = wall + LOOK_INTERVAL;
                self.look(stop, watch);
            }
            if self.is_over() {
                return Ok(());
            }
            let wait = self.wait(next_look);
            events.clear();
            match epoll::wait(&self.world.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                self.ready(event.data.u64());
            }
        }
    }

    /// Starts the sessions whose arrival time has come.
    fn admit(&mut self, now: Instant) {
        while let Some(at) = self.next_arrival().filter(|at| *at <= now) {
            let Some(session) = self.arrivals.next() else {
                return;
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.viewers.push(None);
                self.viewers.len() as u32 - 1
            });
            let number = self.next_session;
            self.next_session += 1;
            // Session numbers distinguish viewers that use the same slot consecutively.
            let mut viewer = Viewer::new(&self.world, number, slot, number as u32, session);
            self.world.session_began(viewer.is_steady());
            self.steady_to_come -= u64::from(viewer.is_steady());
            let now = self.world.clock.now();
            viewer.start(&mut self.world, at, now);
            self.put_back(slot, Box::new(viewer));
        }
    }

    /// When to start the next session: viewers' clocks differ by their delays.
    fn next_arrival(&self) -> Option<Instant> {
        let session = self.arrivals.as_slice().first()?;
        let line = &self.world.lines[session.class as usize];
        Some(line.run_time(Instant(session.arrival.0)))
    }

    fn ring(&mut self, until: Instant) {
        while let Some((at, slot)) = self.world.timers.pop_due(until) {
            let Some(mut viewer) = self.viewers[slot as usize].take() else {
                continue;
            };
            let now = self.world.clock.now();
            viewer.ring(&mut self.world, at, now);
            self.put_back(slot, viewer);
        }
    }

    fn ready(&mut self, token: u64) {
        let slot = (token >> 32) as u32;
        let (generation, connection) = ((token >> 8) as u32 & 0xff_ffff, token as usize & 0xff);
        let Some(mut viewer) = self.viewers[slot as usize].take() else {
            return;
        };
        let now = self.world.clock.now();
        viewer.ready(&mut self.world, generation, connection, now);
        self.put_back(slot, viewer);
    }

    fn put_back(&mut self, slot: u32, viewer: Box<Viewer>) {
        let Some(failed) = viewer.has_failed() else {
            self.viewers[slot as usize] = Some(viewer);
            return;
        };
        self.free.push(slot);
        self.world.session_over(viewer.is_steady());
        if failed && viewer.is_steady() && self.stop_at_failure {
            self.world.recording.report.stopped_early = true;
        }
    }

    fn look(&mut self, stop: &AtomicBool, watch: &mut dyn RunObserver) {
        self.cpu.sample(self.world.clock.wall());
        if stop.load(Ordering::Relaxed) {
            self.world.fatal = Some("the run was interrupted".into());
        }
        let now = self.world.clock.now();
        if now > self.latest_end {
            let active = self.world.active;
            self.world.fatal = Some(format!(
                "{active} sessions did not end: they have no timeouts, and the server does not \
                 answer them"
            ));
        }
        if let Some(calls) = &mut self.world.calls {
            watch.calls(std::mem::take(calls));
        }
        watch.look(&LoadProgress {
            recording: &self.world.recording,
            now,
            wall: self.world.clock.wall(),
            last_arrival: self.last_arrival,
            sessions: self.sessions,
            active: self.world.active,
            bytes: self.world.bytes,
        });
    }

    fn is_over(&self) -> bool {
        if self.world.fatal.is_some() || self.world.recording.report.stopped_early {
            return true;
        }
        let steady_done = self.steady_to_come == 0 && self.world.steady_active == 0;
        let nobody_waits = self.world.active == 0 || self.end_with_arrivals;
        let all_done = self.arrivals.len() == 0 && nobody_waits;
        let window_to = Instant(self.world.recording.window_to);
        all_done || (steady_done && self.world.clock.now() >= window_to)
    }

    /// Timeout of the wait for sockets.
    fn wait(&self, next_look: WallDuration) -> Timespec {
        let timer = self.world.timers.next().into_iter();
        let next = timer.chain(self.next_arrival()).min();
        let look = next_look.saturating_sub(self.world.clock.wall());
        let now = self.world.clock.now();
        let wait = next.map_or(look, |next| {
            self.world.clock.wall_until(now, next).min(look)
        });
        Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        }
    }

    fn finish(mut self, watch: &mut dyn RunObserver) -> Recording {
        let now = self.world.clock.now();
        for viewer in self.viewers.iter_mut().flatten() {
            viewer.leave();
        }
        if let Some(calls) = self.world.calls.take() {
            watch.calls(calls);
        }
        self.world.close_interval();
        if let Some(reason) = self.world.fatal.take() {
            self.world.invalid(reason);
        }
        let recording = &mut self.world.recording;
        recording.close(now);
        // Timeouts are processed in time order, but failures may be reported later than others.
        let told = &mut recording.report.first_failures;
        told.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.cpu.finish(self.world.clock.wall());
        let recording = &mut self.world.recording;
        recording.report.cpu_share = self.cpu.share();
        recording.report.cpu_share_max = self.cpu.share_max();
        self.world.recording.judge();
        self.world.recording
    }
}

/// Refuses a trace that certainly exceeds the limits.
fn check_limits(
    sessions: &[Session],
    target: &Target,
    sources: &SourceAddresses,
) -> Result<(), PlayError> {
    let needed = schedule::connections_min(sessions);
    let descriptors = self_check::raise_descriptors().saturating_sub(self_check::DESCRIPTORS_OTHER);
    if needed > descriptors {
        return Err(PlayError::TooMany {
            needed,
            what: "file descriptors",
            limit: descriptors,
            remedy: "raise the hard limit (ulimit -Hn), or play parts of the trace from several \
                     machines",
        });
    }
    let sources = sources.count(target.is_loopback_v4());
    let ports = self_check::ports().saturating_mul(sources);
    if needed > ports {
        return Err(PlayError::TooMany {
            needed,
            what: "ports",
            limit: ports,
            remedy: "name more source addresses, or widen net.ipv4.ip_local_port_range",
        });
    }
    Ok(())
}

/// The content of an object and its offset in the title, if it is verified and its path identifies
/// it.
fn locate(path: &str, settings: &LoadSettings) -> Option<(Content, u64)> {
    if !settings.verify {
        return None;
    }
    let (title, offset) = headlong_workload::locate(path, settings.chunk_bytes)?;
    Some((Content::of_title(title), offset))
}
