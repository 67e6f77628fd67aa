//! Players of generated sessions, against instantaneous servers.

use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::{
    CallId, Command, ObjectId, PartialRead, Player, SOCKET_BYTES, SessionEnd, SessionPlan,
    TransportEnd,
};
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::phased::{PhasedRequest, PhasedSessions, PhasedSpecification};
use crate::specification::{ArrivalRate, TraceExtent};
use crate::trace::{Session, Trace};
use crate::{Catalogue, NetworkClass, SessionStream, Specification, Workload, generate};

/// Largest piece that arrives at once.
const SLICE_BYTES: u64 = 16 * 1024;

fn preset(sessions: u64) -> Specification {
    let preset = Specification::preset("netflix-2014-catalog", &[]);
    preset.expect("the preset is well formed").scaled(sessions)
}

/// A request as the server sees it: its time, file, range, and the bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SeenRequest {
    at_ms: i64,
    object: ObjectId,
    range: ByteRange,
    bytes: u64,
}

/// A reply in transit.
struct PendingReply {
    call: CallId,
    index: usize,
    ready: Instant,
    sent: Instant,
    size: u64,
    given: u64,
    reading: Option<PartialRead>,
}

impl PendingReply {
    fn slice(&self, is_limited: bool) -> u64 {
        let most = self.reading.map_or(self.size, |reading| reading.bytes);
        let left = most - self.given;
        if is_limited {
            left.min(SLICE_BYTES)
        } else {
            left
        }
    }

    /// When its next slice may be on the line.
    fn available(&self, is_limited: bool) -> Instant {
        let slice = self.slice(is_limited);
        match self.reading {
            _ if slice == 0 => Instant::NEVER,
            Some(reading) if is_limited => self
                .ready
                .max(self.sent + reading.room_at(self.given + slice)),
            _ => self.ready,
        }
    }
}

/// Plays a session against a server that has every byte at once: over the line of its class, or
/// over none.
fn play(session: &Session, class: Option<&NetworkClass>) -> (Vec<SeenRequest>, SessionEnd) {
    let start = Instant(session.arrival.0);
    let rate = class.and_then(|class| class.bandwidth);
    let round_trip = class.map_or(Duration::ZERO, |class| class.delay.times(2));
    let mut player = Player::new(&session.plan, start);
    let (mut seen, mut replies): (Vec<SeenRequest>, Vec<PendingReply>) = Default::default();
    let (mut now, mut free) = (start, start);
    player.handle_start(now);
    loop {
        while let Some(command) = player.poll_command() {
            match command {
                Command::Send {
                    call,
                    object,
                    range,
                    expected_bytes,
                    reading,
                    ..
                } => {
                    replies.push(PendingReply {
                        call,
                        index: seen.len(),
                        ready: now + round_trip,
                        sent: now,
                        size: expected_bytes.expect("every call has a size"),
                        given: 0,
                        reading,
                    });
                    seen.push(SeenRequest {
                        at_ms: (now.0 / 1_000_000) as i64,
                        object,
                        range: range.expect("every call has a range"),
                        bytes: 0,
                    });
                }
                Command::Abandon { call } => replies.retain(|reply| reply.call != call),
                Command::Close => {}
            }
        }
        while let Some(record) = player.poll_record() {
            assert!(!record.end.is_failure(), "{record:?} of {session:?}");
        }
        if let Some(end) = player.end() {
            return (seen, end);
        }
        let is_limited = rate.is_some();
        let next = replies
            .iter_mut()
            .min_by_key(|reply| reply.available(is_limited));
        let next = next.filter(|reply| reply.available(is_limited) < Instant::NEVER);
        let arrives = next.as_ref().map(|reply| {
            let takes = rate.map_or(Duration::ZERO, |rate| rate.time_for(reply.slice(true)));
            reply.available(is_limited).max(free) + takes
        });
        let due = player.poll_timeout().unwrap_or(Instant::NEVER);
        let arrives = arrives.unwrap_or(Instant::NEVER);
        now = now.max(arrives.min(due));
        let Some(reply) = next.filter(|_| arrives <= due) else {
            assert!(due < Instant::NEVER, "the session hangs: {session:?}");
            player.handle_timeout(now);
            continue;
        };
        free = arrives;
        let (call, slice) = (reply.call, reply.slice(is_limited));
        if reply.given == 0 {
            player.handle_head(now, call, 206, Some(reply.size));
        }
        reply.given += slice;
        seen[reply.index].bytes += slice;
        let is_last = reply.given == reply.size;
        player.handle_bytes(now, call, slice);
        if is_last {
            player.handle_end(now, call, TransportEnd::Whole);
            replies.retain(|reply| reply.call != call);
        }
    }
}

/// The requests of a log that have bytes, in order of receipt, with the names of a trace.
fn logged(requests: &[PhasedRequest], trace: &Trace, files: &Catalogue) -> Vec<SeenRequest> {
    let sent = requests.iter().filter(|request| request.sent_bytes > 0);
    let mut seen: Vec<SeenRequest> = sent
        .map(|request| {
            let path = files.files(&files.titles[request.file as usize]).next();
            let path = path.expect("a file").path;
            let object = trace.objects.iter().position(|known| *known == path);
            SeenRequest {
                at_ms: request.received_ms,
                object: ObjectId(object.expect("an object of the trace") as u32),
                range: request.range(),
                bytes: request.sent_bytes,
            }
        })
        .collect();
    seen.sort_by_key(|request| request.at_ms);
    seen
}

#[test]
fn instantaneous_server_sees_the_requests_of_the_log() {
    for seed in [1, 2] {
        let specification = preset(120);
        let Workload { catalogue, trace } = generate(&specification, seed);
        let phases = specification.phases.as_deref().expect("phases");
        let titles = catalogue.phased.as_deref().expect("titles");
        let mut played = trace.sessions.iter();
        let mut requests = 0;
        for session in PhasedSessions::new(phases, titles, seed) {
            let mut wanted = logged(&session.requests, &trace, &catalogue);
            if wanted.is_empty() {
                continue;
            }
            let session = played.next().expect("a session for each of the log");
            let (mut seen, end) = play(session, None);
            assert!(!end.end.is_failure());
            assert_eq!(
                end.bytes,
                wanted.iter().map(|request| request.bytes).sum::<u64>()
            );
            // Two connections may send at the same time.
            seen.sort();
            wanted.sort();
            assert_eq!(seen, wanted);
            requests += seen.len();
        }
        assert!(played.next().is_none() && requests > 20_000, "{requests}");
    }
}

#[test]
fn line_of_class_delays_no_request() {
    let workload = generate(&preset(60), 3);
    let mut late = Vec::new();
    for session in &workload.trace.sessions {
        let class = &workload.trace.classes[session.class as usize];
        let (seen, _) = play(session, Some(class));
        let SessionPlan::Phases(plan) = &session.plan else {
            panic!("a plan of phases");
        };
        assert_eq!(seen.len(), plan.calls.len());
        let at_ms = |at: Duration| (session.arrival + at).as_millis() as i64;
        let mut planned: Vec<i64> = plan.calls.iter().map(|call| at_ms(call.at)).collect();
        planned.sort_unstable();
        let mut sent: Vec<i64> = seen.iter().map(|request| request.at_ms).collect();
        sent.sort_unstable();
        late.extend(
            planned
                .iter()
                .zip(&sent)
                .map(|(planned, sent)| sent - planned),
        );
    }
    late.sort_unstable();
    let share = |share: f64| late[(share * (late.len() - 1) as f64) as usize];
    assert!(share(0.99) < 100, "{} ms at 99 %", share(0.99));
    assert!(share(1.0) < 2000, "{} ms at most", share(1.0));
}

#[test]
fn flow_control_keeps_reader_close_to_playback() {
    let mbps = BitRate::from_kbps(8000);
    let reading = PartialRead {
        reply_bytes: 100_000_000,
        bytes: 10_000_000,
        needed_bytes: 9_000_000,
        speed: Some(mbps),
        buffer: Some(headlong_player::BufferRoom {
            bytes: 2_000_000,
            drain: BitRate::from_kbps(800),
        }),
    };
    assert_eq!(reading.room_at(SOCKET_BYTES), Duration::ZERO);
    // The network alone: 1 MB/s.
    assert_eq!(
        reading.room_at(SOCKET_BYTES + 1_000_000),
        Duration::from_secs(1)
    );
    // 1 MB beyond the room takes playback 10 s.
    assert_eq!(
        reading.room_at(SOCKET_BYTES + 3_000_000),
        Duration::from_secs(10)
    );
    assert_eq!(reading.room_at(10_000_001), Duration::MAX);
}

#[test]
fn resumed_session_asks_for_the_rest_of_its_bytes() {
    let workload = generate(&preset(40), 5);
    let specification = preset(40);
    let titles = workload.catalogue.phased.as_deref().expect("titles");
    let phases = specification.phases.as_deref().expect("phases");
    for session in PhasedSessions::new(phases, titles, 5) {
        let mut all = u64::MAX;
        let begins = session.arrival_s as i64 * 1000;
        for from_ms in (0..30).map(|part| begins + part * 97_003) {
            let plan = super::plan(&session.requests, titles, from_ms, &mut ObjectId);
            assert_eq!(plan.check(), Ok(()));
            assert!(plan.bytes() <= all, "{from_ms}");
            all = plan.bytes();
            let (sessions, at) = (&session.requests, Duration::from_millis(from_ms as u64));
            let is_open = |request: &PhasedRequest| request.completed_ms > from_ms;
            assert_eq!(plan.calls.is_empty(), !sessions.iter().any(is_open), "{at}");
            let session = Session {
                arrival: Duration::ZERO,
                class: 0,
                plan: SessionPlan::Phases(plan),
            };
            play(&session, None);
        }
    }
}

fn streamed(specification: &Specification, seed: u64) -> (Vec<Session>, Catalogue) {
    let catalogue = Catalogue::of(specification);
    let sessions = SessionStream::new(specification, &catalogue, seed);
    (sessions.collect(), catalogue)
}

#[test]
fn rate_in_bytes_gives_that_demand() {
    let length = Duration::from_secs(40_000);
    let rate = ArrivalRate::Bytes(20e6);
    let specification = preset(500).at_rate(rate, TraceExtent::Time(length));
    let (sessions, _) = streamed(&specification, 1);
    let asked: u64 = sessions
        .iter()
        .flat_map(Session::asked)
        .map(|(_, range)| range.map_or(0, ByteRange::len))
        .sum();
    let demand = asked as f64 / length.as_secs_f64();
    assert!((16e6..24e6).contains(&demand), "{demand}");
    assert!(sessions.is_sorted_by_key(|session| session.arrival));
}

#[test]
fn resumed_viewers_make_demand_steady_from_the_start() {
    let rate = ArrivalRate::Bytes(20e6);
    let extent = TraceExtent::Time(Duration::from_secs(1200));
    let mut specification = preset(500).at_rate(rate, extent);
    let within = |sessions: &[Session]| -> u64 {
        let mut bytes = 0;
        for session in sessions {
            let SessionPlan::Phases(plan) = &session.plan else {
                panic!("a plan of phases");
            };
            let is_soon = |at: Duration| session.arrival + at < Duration::from_secs(600);
            let soon = plan
                .calls
                .iter()
                .filter(|call| is_soon(call.at) && call.reading.is_none());
            bytes += soon.map(|call| call.bytes()).sum::<u64>();
        }
        bytes
    };
    let cold = within(&streamed(&specification, 1).0);
    specification.sessions.resume_time = Duration::from_secs(60);
    let steady = within(&streamed(&specification, 1).0);
    assert!(steady > cold * 3 / 2, "{cold} and {steady}");
}

#[test]
fn trace_round_trips_and_bad_plans_are_refused() {
    let trace = generate(&preset(20), 1).trace;
    let text = trace.to_text();
    assert_eq!(Trace::read(text.as_bytes()).expect("it parses"), trace);
    let shares: f64 = trace.classes.iter().map(|class| class.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
    let head = "{\"trace\":{\"version\":2,\"about\":{\"has_arrivals\":true},\"classes\":[]}}\n\
                {\"object\":\"video/000000.bin\"}\n";
    let read = |calls: &str| {
        let plan = "{\"session\":{\"plan\":{\"phases\":{\"timeout\":10000000000,\"calls\":[";
        let text: String = [head, plan, calls, "]}}}}\n"].concat();
        Trace::read(text.as_bytes()).map_err(|errors| alloc::string::ToString::to_string(&errors))
    };
    let call = "{\"object\":0,\"at\":5,\"takes\":5,\"range\":";
    assert!(read(&[call, "[0,9]}"].concat()).is_ok());
    for (call, wrong) in [
        ([call, "[9,9]}"].concat(), "3:"),
        (
            [call, "[9,null]}"].concat(),
            "phases: call 0: reading: is missing",
        ),
        (
            [call, "[0,9],\"connection\":300}"].concat(),
            "call 0: connection: is above 254",
        ),
        (
            [
                call,
                "[0,9],\"reading\":{\"reply_bytes\":9,\"bytes\":9,\"needed_bytes\":0}}",
            ]
            .concat(),
            "needed_bytes: is 0",
        ),
        (
            [
                call,
                "[0,9],\"reading\":{\"reply_bytes\":9,\"bytes\":10,\"needed_bytes\":1}}",
            ]
            .concat(),
            "bytes: is above reply_bytes",
        ),
        ([call, "[0,-9]}"].concat(), "3:"),
        (
            "{\"object\":1,\"at\":5,\"takes\":5,\"range\":[0,9]}".into(),
            "there is no object 1",
        ),
        (
            "{\"object\":0,\"at\":-5,\"takes\":5,\"range\":[0,9]}".into(),
            "at: ",
        ),
        ("{\"object\":0,\"takes\":5,\"range\":[0,9]}".into(), "at"),
    ] {
        let told = read(&call).expect_err(&call);
        assert!(told.contains(wrong), "{wrong} is missing in {told}");
    }
}

#[test]
fn lengths_that_cannot_be_played_are_refused_with_their_key() {
    for (text, part) in [
        (
            "[sessions]\nlength = \"-5s\"\n",
            "mine.toml:3: sessions.length: ",
        ),
        (
            "[sessions]\nlength = \"0s\"\n",
            "mine.toml:3: sessions.length: ",
        ),
        (
            "[sessions]\nrate = \"0/s\"\n",
            "mine.toml:3: sessions.rate: ",
        ),
        (
            "[catalogue]\ndurations = [[-60, 0], [60, 1]]\n",
            "mine.toml:3: catalogue.durations: ",
        ),
        (
            "[viewing]\npause_time = [[-60, 0], [60, 1]]\n",
            "mine.toml:3: viewing.pause_time: ",
        ),
        (
            "[catalogue]\nchunk = \"512KiB\"\n",
            "mine.toml:3: catalogue.chunk: ",
        ),
        (
            "[catalogue]\nvideo = []\n",
            "mine.toml:3: catalogue.video: is empty",
        ),
        (
            "[network]\nheadroom = [[0, 0], [2, 1]]\n",
            "mine.toml:3: network.headroom: ",
        ),
    ] {
        let text: String = ["model = \"phases\"\n", text].concat();
        let told = Specification::read("mine.toml", &text, &[]).expect_err("it is wrong");
        let told = alloc::string::ToString::to_string(&told);
        assert!(told.contains(part), "{part} is missing in {told}");
    }
    let played = PhasedSpecification::read(
        "x.toml",
        "model = \"phases\"\n[sessions]\nrate = \"2/s\"\n",
        &[],
    );
    assert!(
        played.is_ok(),
        "a log ignores how its sessions are played: {played:?}"
    );
}
