//! Small worlds with known results: by arithmetic, by conservation, or by repetition.

use std::collections::VecDeque;

use headlong_drive::{
    Completion, Drive, Refusal, Request, RequestId, SECTOR_BYTES, ServiceTimeBreakdown,
};
use headlong_engine::{Admission, EngineConfig, Policy, SizingConfig};
use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_random::Generator;
use headlong_sim::{LayoutFile, RunMeasurements, World, WorldSetup};
use headlong_units::{BitRate, Duration, Instant, KIB, MIB};
use headlong_workload::{Session, Trace};
use proptest::prelude::*;

use crate::{CHUNK_BYTES, seconds, titles, trace, visit, window};

const DELAY: Duration = Duration::from_millis(50);

/// A simple drive: a fixed time for each reposition, then a fixed rate.
#[derive(Debug)]
struct PlainDrive {
    position_time: Duration,
    rate: BitRate,
    head: u64,
    queue: VecDeque<(RequestId, Request)>,
    current: Option<Completion>,
    done: VecDeque<Completion>,
}

impl PlainDrive {
    fn new(position_time: Duration) -> Box<Self> {
        Box::new(Self {
            position_time,
            rate: BitRate(8 * 100 * MIB),
            head: 0,
            queue: VecDeque::new(),
            current: None,
            done: VecDeque::new(),
        })
    }

    fn begin(&mut self, now: Instant) {
        if self.current.is_some() {
            return;
        }
        let Some((id, request)) = self.queue.pop_front() else {
            return;
        };
        let is_sequential = request.sector == self.head;
        let seek = match is_sequential {
            true => Duration::ZERO,
            false => self.position_time,
        };
        let transfer = self
            .rate
            .time_for(u64::from(request.sectors) * SECTOR_BYTES);
        self.head = request.end();
        self.current = Some(Completion {
            id,
            request,
            started: now,
            ended: now + seek + transfer,
            parts: ServiceTimeBreakdown {
                seek,
                transfer,
                ..ServiceTimeBreakdown::default()
            },
            is_sequential,
        });
    }
}

impl Drive for PlainDrive {
    fn capacity_sectors(&self) -> u64 {
        1 << 31
    }
    fn queue_depth(&self) -> usize {
        4
    }
    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        if self.queue.len() + usize::from(self.current.is_some()) >= self.queue_depth() {
            return Err(Refusal::QueueFull);
        }
        self.queue.push_back((id, request));
        self.begin(now);
        Ok(())
    }
    fn handle_timeout(&mut self, now: Instant) {
        if self.current.is_some_and(|current| current.ended <= now) {
            self.done.extend(self.current.take());
            self.begin(now);
        }
    }
    fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.current.map(|current| current.ended)
    }
}

/// The window covers the whole run.
fn setup(engine: EngineConfig) -> WorldSetup {
    WorldSetup {
        engine,
        window: window(0, 10_000),
        checked: true,
        ..WorldSetup::default()
    }
}

fn accepting(memory_bytes: u64) -> EngineConfig {
    EngineConfig {
        memory_bytes,
        admission: Admission::Accept,
        ..EngineConfig::default()
    }
}

/// Many viewers of a few titles on a slow drive with little memory.
fn crowd(seed: u64, viewers: u64) -> Trace {
    let mut generator = Generator::new(seed);
    let mut arrival = Duration::ZERO;
    let mut someone = || {
        arrival += Duration::from_millis(generator.below(400));
        let title = generator.below(12) as u32;
        visit(arrival, title, 1 + generator.below(8))
    };
    let sessions = (0..viewers).map(|_| someone()).collect();
    trace(Some(BitRate::from_kbps(3_500)), sessions)
}

fn calls_of(trace: &Trace) -> u64 {
    let calls = trace.sessions.iter().map(|session| {
        let SessionPlan::Script(script) = &session.plan else {
            panic!("expected a script");
        };
        script.calls.len() as u64
    });
    calls.sum()
}

fn run(
    setup: WorldSetup,
    files: &[LayoutFile],
    trace: &Trace,
    position: Duration,
) -> RunMeasurements {
    let world = World::new(setup, files, trace, PlainDrive::new(position)).expect("a world");
    world.run_to_the_end()
}

#[test]
fn response_time_of_one_viewer_matches_arithmetic() {
    let engine = EngineConfig {
        sizing: SizingConfig {
            policy: Policy::Fixed,
            reference_bytes: CHUNK_BYTES,
            ..SizingConfig::default()
        },
        ahead_horizon: Duration::ZERO,
        ..accepting(64 * MIB)
    };
    // 512 KiB in exactly one second.
    let bandwidth = BitRate(8 * CHUNK_BYTES);
    let trace = trace(Some(bandwidth), vec![visit(Duration::from_secs(1), 1, 1)]);
    let position = Duration::from_millis(20);
    let seen = run(setup(engine), &titles(2, 4, 1), &trace, position);
    // A round trip, a reposition, 512 KiB at 100 MiB/s, and one second on the link.
    let expected = DELAY.times(2) + position + Duration::from_millis(5) + Duration::from_secs(1);
    assert_eq!(seen.response_times[0].count(), 1);
    assert_eq!(seen.response_times[0].max(), expected);
    assert_eq!(seen.waits.count(), 1);
    assert_eq!(seen.waits.max(), position + Duration::from_millis(5));
    assert_eq!(seen.drive.parts.seek, position);
}

#[test]
fn paced_calls_follow_script_and_are_answered() {
    let trace = trace(None, vec![visit(Duration::ZERO, 0, 6)]);
    let seen = run(setup(accepting(64 * MIB)), &titles(1, 6, 1), &trace, DELAY);
    assert_eq!(seen.calls.whole, 6);
    assert_eq!(seen.calls.failures(), 0);
    // Three consecutive calls, then one every ten seconds.
    let last_look = seen.looks().last().expect("looks").at;
    assert!((seconds(30)..seconds(40)).contains(&last_look));
    assert_eq!(seen.drive.bytes, 6 * CHUNK_BYTES, "each byte is read once");
}

#[test]
fn all_requested_bytes_arrive_and_slots_return() {
    let trace = crowd(7, 120);
    let asked = calls_of(&trace) * CHUNK_BYTES;
    let seen = run(setup(accepting(64 * MIB)), &titles(12, 8, 1), &trace, DELAY);
    assert_eq!(seen.calls.failures(), 0);
    assert_eq!(seen.calls.whole_bytes, asked);
    assert_eq!(seen.stats.bytes_sent, asked);
    assert_eq!(seen.stats.bytes_requested, asked);
    assert_eq!(
        (seen.asked_for_bytes(), seen.delivered_bytes()),
        (asked, asked)
    );
    assert_eq!(seen.stats.bytes_read, seen.drive.bytes);
    let memory = seen.memory_at_end.expect("run to the end");
    assert_eq!((memory.sending_bytes, memory.filling_bytes), (0, 0));
}

#[test]
fn slow_drive_fails_calls_but_loses_no_viewer() {
    let trace = crowd(3, 150);
    let position = Duration::from_millis(900);
    let seen = run(
        setup(accepting(16 * MIB)),
        &titles(12, 8, 1),
        &trace,
        position,
    );
    assert!(seen.calls.timed_out > 0);
    assert_eq!(seen.sessions_began(), 150);
    assert_eq!(seen.sessions_ended(), 150);
    // A viewer leaves after a failure and sends no more requests.
    assert!(seen.calls.timed_out <= 150 && seen.calls.ended <= calls_of(&trace));
    assert_eq!(seen.calls.failures(), seen.failures_by_class[0]);
    assert!(seen.asked_for_bytes() > seen.delivered_bytes());
    assert!(
        seen.delivered_bytes() > seen.calls.whole_bytes,
        "parts of failed replies are included"
    );
    let memory = seen.memory_at_end.expect("run to the end");
    assert_eq!(
        memory.sending_bytes, 0,
        "slots of departed viewers are returned"
    );
}

#[test]
fn refused_calls_are_counted() {
    let engine = EngineConfig {
        requests_max: 1,
        ..accepting(64 * MIB)
    };
    let two = |title| visit(Duration::ZERO, title, 1);
    let trace = trace(Some(BitRate::from_kbps(1_000)), vec![two(0), two(1)]);
    let seen = run(setup(engine), &titles(2, 1, 1), &trace, DELAY);
    assert_eq!((seen.calls.whole, seen.calls.refused), (1, 1));
}

#[test]
fn only_events_within_window_count() {
    let trace = trace(None, vec![visit(Duration::ZERO, 0, 9)]);
    let mut setup = setup(accepting(64 * MIB));
    setup.window = window(15, 45);
    let world =
        World::new(setup, &titles(1, 9, 1), &trace, PlainDrive::new(DELAY)).expect("a world");
    let seen = world.run();
    // Calls of 0 s (three), 10 s, 20 s, 30 s, 40 s, ...
    assert_eq!((seen.calls.whole, seen.calls_outside.whole), (3, 4));
    assert_eq!(seen.length(), Duration::from_secs(30));
}

#[test]
fn world_stops_at_first_failure() {
    let trace = crowd(3, 150);
    let mut setup = setup(accepting(16 * MIB));
    setup.stops_at_failure = true;
    let position = Duration::from_millis(900);
    let world =
        World::new(setup, &titles(12, 8, 1), &trace, PlainDrive::new(position)).expect("a world");
    let seen = world.run();
    assert_eq!(seen.calls.failures(), 1);
    assert!(seen.length() < Duration::from_secs(200));
}

#[test]
fn oversized_catalogue_is_rejected_with_both_sizes() {
    let file = LayoutFile {
        size_bytes: 2 << 40,
        ..titles(1, 1, 1)[0]
    };
    let trace = trace(None, Vec::new());
    let world = World::new(
        WorldSetup::default(),
        &[file],
        &trace,
        PlainDrive::new(DELAY),
    );
    let error = world.expect_err("too large").to_string();
    assert!(error.contains("2TiB") && error.contains("1TiB"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Checks the shard's invariants after every step.
    #[test]
    fn any_world_accounts_for_viewers_and_slots(
        seed: u64,
        viewers in 1_u64..60,
        memory_mib in 2_u64..40,
        outstanding in 1_u32..5,
        order in 0..headlong_engine::Order::ALL.len(),
        policy in 0..Policy::ALL.len(),
        position_ms in 1_u64..400,
        socket_kib in 0_u64..600,
    ) {
        let engine = EngineConfig {
            outstanding_reads_max: outstanding,
            order: headlong_engine::Order::ALL[order],
            sizing: SizingConfig { policy: Policy::ALL[policy], ..SizingConfig::default() },
            ..accepting(memory_mib * MIB)
        };
        let mut setup = setup(engine);
        setup.socket_bytes = socket_kib * KIB;
        let trace = crowd(seed, viewers);
        let position = Duration::from_millis(position_ms);
        let seen = run(setup, &titles(12, 8, 1), &trace, position);
        prop_assert_eq!(seen.sessions_ended(), viewers);
        prop_assert!(seen.calls.ended <= calls_of(&trace));
        prop_assert!(seen.calls.failures() > 0 || seen.calls.whole == calls_of(&trace));
        prop_assert_eq!(seen.calls.whole_bytes, seen.calls.whole * CHUNK_BYTES);
        prop_assert_eq!(seen.calls.broken, 0);
        let memory = seen.memory_at_end.expect("run to the end");
        prop_assert_eq!(memory.sending_bytes, 0);
    }
}

/// A title in files of one chunk each, requested whole, one after another.
#[test]
fn files_of_title_are_read_ahead_across() {
    let files: Vec<LayoutFile> = (0..40)
        .map(|part| LayoutFile {
            object: Some(ObjectId(part)),
            size_bytes: CHUNK_BYTES,
            bit_rate: None,
            part: Some((7, part)),
            disk: 0,
        })
        .collect();
    let call = |part| ScriptCall {
        object: ObjectId(part),
        range: None,
        expected_bytes: Some(CHUNK_BYTES),
        timeout: Some(Duration::from_secs(10)),
        pace: None,
        think: None,
        with_previous: false,
    };
    let viewer = Session {
        arrival: Duration::ZERO,
        class: 0,
        plan: SessionPlan::Script(Script::new((0..40).map(call).collect())),
    };
    let trace = trace(None, vec![viewer]);
    let engine = EngineConfig {
        sizing: SizingConfig {
            policy: Policy::Fixed,
            reference_bytes: 8 * CHUNK_BYTES,
            ..SizingConfig::default()
        },
        ..accepting(256 << 20)
    };
    let world = World::new(setup(engine), &files, &trace, PlainDrive::new(DELAY)).expect("right");
    let seen = world.run();
    assert_eq!((seen.calls.failures(), seen.calls.whole), (0, 40));
    // Consecutive files are read in sequence; some reads have others between them.
    let (repositions, bytes) = (seen.drive.repositions, seen.stats.bytes_read);
    assert!(repositions < 20, "{repositions} ways to 40 files");
    assert_eq!(bytes, 40 * CHUNK_BYTES);
}

#[test]
fn live_objects_do_not_grow_with_run_length() {
    let live = |until| {
        // As in a run of hours: the series is at its limit from the start.
        let mut setup = WorldSetup {
            window: window(0, until),
            ..WorldSetup::default()
        };
        setup.engine.memory_bytes = 256 * MIB;
        setup.engine.admission = Admission::Accept;
        let few = [("title.sd.count", "600"), ("title.hd.count", "200")];
        let experiment = crate::experiment("youtube-sd", &few, setup);
        let seen = experiment.observe(8.0, 1).expect("a world");
        assert_eq!(seen.calls.failures(), 0);
        let looks = seen.looks().len();
        (seen.live_max - looks, seen.sessions_began())
    };
    let ((once, few), (twice, many)) = (live(460), live(860));
    assert!(many as f64 > 1.8 * few as f64);
    assert!((twice as f64) < 1.15 * once as f64, "{once} {twice}");
}
