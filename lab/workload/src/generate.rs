//! Generates a workload from a specification and a seed.
//!
//! Each purpose has its own random generator. The title of session i depends only on the seed and
//! i; its class, its viewer's behaviour and its arrival are drawn separately. So another rate,
//! network or form of storage changes nothing else, and two runs differ only in the changed
//! parameter (thesis 3.4: "the size and timing of requests is the same for all three storage
//! methods").

mod adaptive;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Weak;
use alloc::vec::Vec;
use core::iter::Peekable;

use headlong_player::{ObjectId, PlaybackSpec, Script, ScriptCall, SessionPlan};
use headlong_random::{Generator, Zipf};
use headlong_units::{BitRate, ByteRange, Duration};

use crate::catalogue::{Catalogue, Title};
use crate::ideal_server;
use crate::phased::log::ArrivalTimes;
use crate::phased::session::SessionContext;
use crate::phased::{PhasedCatalogue, PhasedSpecification};
use crate::specification::{
    ArrivalDistribution, ArrivalRate, PlayerKind, RequestSize, SESSIONS_MAX, Specification,
    StartPosition, TraceExtent, request_bytes,
};
use crate::trace::{Session, Trace, TraceMetadata, WarmupRange};

/// Sessions sampled to estimate the mean bytes of a session, which converts a rate in bytes to one
/// in sessions: always the same ones, however many sessions are played.
const SAMPLE_SESSIONS: u64 = 16_384;
/// The same if sessions must be simulated to know their bytes: accurate within some percent.
const SAMPLE_SESSIONS_PLAYED: u64 = 2048;
/// A simple player selects a rendition of at most this share of its bandwidth, in tenths.
const BEARABLE_TENTHS: u64 = 9;

/// A catalogue and the requests to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The titles.
    pub catalogue: Catalogue,
    /// The sessions.
    pub trace: Trace,
}

/// Generates the workload of a specification. Same specification and seed, same workload; the
/// catalogue is the same for every seed. At most [`SESSIONS_MAX`] sessions are generated.
pub fn generate(specification: &Specification, seed: u64) -> Workload {
    generate_in_steps(specification, seed, &[])
}

/// The same with a load that varies over time, as in [`SessionStream::with_steps`].
pub fn generate_in_steps(
    specification: &Specification,
    seed: u64,
    steps: &[(Duration, f64)],
) -> Workload {
    let catalogue = Catalogue::of(specification);
    let trace = SessionPlanner::new(specification, &catalogue, seed).trace(seed, steps);
    Workload { catalogue, trace }
}

/// A specification's sessions one by one, for callers that play them without storing them: the same
/// as those of [`generate`], in the same order, with the same object ids. Its memory is bounded by
/// the catalogue, however long it runs.
pub struct SessionStream<'a> {
    director: SessionPlanner<'a>,
    objects: RequestedObjects,
    gap_s: f64,
    now_s: f64,
    index: u64,
    /// Arrival of the next new viewer.
    next: Option<Duration>,
    resumed: Peekable<alloc::vec::IntoIter<ArrivingViewer>>,
    /// Load factors, each with the time from which it applies.
    steps: Vec<(Duration, f64)>,
    /// Arrivals of a log, if they are to be played.
    logged: Option<ArrivalTimes>,
    /// When that log ends.
    log_end_ms: Option<i64>,
}

impl<'a> SessionStream<'a> {
    /// The sessions of a specification, for its catalogue and a seed.
    pub fn new(specification: &'a Specification, catalogue: &'a Catalogue, seed: u64) -> Self {
        Self::of(SessionPlanner::new(specification, catalogue, seed))
    }

    fn of(director: SessionPlanner<'a>) -> Self {
        let gap_s = director.mean_gap();
        let (specification, phases) = (director.specification, director.phases());
        let logged =
            phases.filter(|_| specification.sessions.arrivals == ArrivalDistribution::Logged);
        let end_ms = |(phases, _): (&PhasedSpecification, _)| phases.sessions.end_ms();
        let log_end_ms = logged.map(end_ms);
        let logged = logged.map(|(phases, _)| ArrivalTimes::new(phases, director.seed));
        let of = (specification, director.catalogue);
        let chance = director.arrivals.fork("resumed");
        let goes_on = |index, seen| director.goes_on(index, seen);
        let resumed = resumed(of, gap_s, chance, goes_on);
        Self {
            gap_s,
            resumed: resumed.into_iter().peekable(),
            director,
            objects: RequestedObjects::default(),
            now_s: 0.0,
            index: 0,
            next: None,
            steps: Vec::new(),
            logged,
            log_end_ms,
        }
    }

    /// Varies the load over time: each step multiplies the specified rate from its time until the
    /// next step. The times must be sorted. Sessions stay the same, only their arrivals change.
    pub fn with_steps(mut self, steps: impl IntoIterator<Item = (Duration, f64)>) -> Self {
        self.steps = steps.into_iter().collect();
        self
    }

    /// The number of the title to which an object belongs, and the object's offset in it.
    pub fn object(&self, object: ObjectId) -> Option<(u32, u64)> {
        self.objects.keys.get(object.0 as usize).copied()
    }

    /// Number of objects so far: their ids count from zero.
    pub fn object_count(&self) -> usize {
        self.objects.keys.len()
    }

    /// When session `index` arrives, if it does.
    fn arrival(&mut self) -> Option<Duration> {
        if self.index >= SESSIONS_MAX {
            return None;
        }
        if let Some(logged) = &mut self.logged {
            self.now_s = logged.next()?;
            return Some(Duration(libm::round(self.now_s * 1e9) as u64));
        }
        let gap_s = self.gap_s / self.load();
        let sessions = &self.director.specification.sessions;
        self.now_s += match sessions.arrivals {
            ArrivalDistribution::Constant => gap_s,
            _ => self.director.arrivals.exponential(gap_s),
        };
        let arrival = Duration(libm::round(self.now_s * 1e9) as u64);
        let is_over = match sessions.extent {
            TraceExtent::Sessions(count) => self.index >= count,
            TraceExtent::Time(length) => arrival > length,
        };
        (!is_over).then_some(arrival)
    }

    /// The current load factor.
    fn load(&self) -> f64 {
        let begun = self.steps.iter();
        let begun = begun.take_while(|(from, _)| from.as_secs_f64() <= self.now_s);
        begun.last().map_or(1.0, |(_, load)| load.max(1e-9))
    }
}

impl core::fmt::Debug for SessionStream<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SessionStream")
            .field("now_s", &self.now_s)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Iterator for SessionStream<'_> {
    type Item = Session;

    fn next(&mut self) -> Option<Session> {
        loop {
            // A viewer of a workload of phases may leave before its first request is answered.
            let session = self.draw()?;
            if !matches!(&session.plan, SessionPlan::Phases(plan) if plan.calls.is_empty()) {
                return Some(session);
            }
        }
    }
}

impl SessionStream<'_> {
    fn draw(&mut self) -> Option<Session> {
        if self.next.is_none() {
            self.next = self.arrival();
        }
        let is_first =
            |resumed: &ArrivingViewer| self.next.is_none_or(|next| resumed.arrival < next);
        let viewer = match self.resumed.next_if(is_first) {
            Some(resumed) => resumed,
            None => {
                let arrival = self.next.take()?;
                self.index += 1;
                ArrivingViewer {
                    arrival,
                    index: self.index - 1,
                    seen: Duration::ZERO,
                }
            }
        };
        let (objects, log_end_ms) = (&mut self.objects, self.log_end_ms);
        if let Some(session) = self.director.phased(viewer, log_end_ms, objects) {
            return Some(session);
        }
        let ArrivingViewer {
            arrival,
            index,
            seen,
        } = viewer;
        Some(Session {
            arrival,
            class: self.director.class(index),
            plan: self.director.plan(index, seen, &mut self.objects),
        })
    }
}

/// A request before it is divided by files.
struct UndividedRequest {
    range: ByteRange,
    pace: Option<Duration>,
    with_previous: bool,
}

/// Draws all decisions about sessions.
struct SessionPlanner<'a> {
    specification: &'a Specification,
    catalogue: &'a Catalogue,
    /// Of each group: number of its first title, titles per work, and popularity.
    groups: Vec<(u32, u32, Zipf)>,
    seed: u64,
    sessions: Generator,
    arrivals: Generator,
    /// Draws the sessions of a workload of phases.
    phased: Option<SessionContext<'a>>,
}

impl<'a> SessionPlanner<'a> {
    fn new(specification: &'a Specification, catalogue: &'a Catalogue, seed: u64) -> Self {
        let mut first = 0;
        let groups = specification.groups.iter().map(|group| {
            let start = first;
            first += group.count * group.files_per_work();
            let popularity = Zipf::new(group.count as usize, group.zipf_alpha);
            (start, group.files_per_work(), popularity)
        });
        let root = Generator::new(seed);
        let mut planner = Self {
            specification,
            catalogue,
            groups: groups.collect(),
            seed,
            sessions: root.fork("sessions"),
            arrivals: root.fork("arrivals"),
            phased: None,
        };
        let phases = planner.phases();
        planner.phased = phases.map(|(of, titles)| SessionContext::new(of, titles, seed));
        planner
    }

    /// The specification and the titles of a workload of phases.
    fn phases(&self) -> Option<(&'a PhasedSpecification, &'a PhasedCatalogue)> {
        let titles = self.catalogue.phased.as_deref();
        self.specification.phases.as_deref().zip(titles)
    }

    fn trace(self, seed: u64, steps: &[(Duration, f64)]) -> Trace {
        let specification = self.specification;
        let mut trace = Trace {
            classes: specification.classes.clone(),
            about: TraceMetadata {
                name: specification.name.clone(),
                seed: Some(seed),
                catalogue: Some(self.catalogue.fingerprint()),
                chunk_bytes: specification.storage.form.chunk_bytes(),
                identity: specification.requests.identity,
                has_arrivals: true,
                ramp_up: specification.sessions.ramp_up,
                ramp_down: specification.sessions.ramp_down,
                warming: Vec::new(),
            },
            ..Trace::default()
        };
        let mut stream = SessionStream::of(self).with_steps(steps.iter().copied());
        trace.sessions.extend(&mut stream);
        if specification.phases.is_some() {
            share_out(&mut trace);
        }
        trace.objects = stream.objects.paths;
        trace.about.warming = warming(&trace, specification.sessions.warming_count);
        trace
    }

    /// Mean time between arrivals, in seconds.
    fn mean_gap(&self) -> f64 {
        match self.specification.sessions.rate {
            ArrivalRate::Sessions(rate) => 1.0 / rate,
            ArrivalRate::Bytes(rate) => {
                let is_played = self.phased.is_some() || self.specification.has_adaptive_players();
                let sample = match is_played {
                    true => SAMPLE_SESSIONS_PLAYED,
                    false => SAMPLE_SESSIONS,
                };
                let bytes: u64 = (0..sample).map(|index| self.asked_bytes(index)).sum();
                bytes as f64 / sample as f64 / rate
            }
        }
    }

    /// Bytes requested by session `index`; for an adaptive player, from an ideal server.
    fn asked_bytes(&self, index: u64) -> u64 {
        if let Some(session) = self.phased_session(index, Duration::ZERO) {
            return session
                .requests
                .iter()
                .map(|request| request.sent_bytes)
                .sum();
        }
        if self.player(index).make.is_none() {
            let (_, requests) = self.session(index, Duration::ZERO);
            let bytes = requests.iter().map(|request| request.range.len());
            return bytes.sum();
        }
        let plan = self.plan(index, Duration::ZERO, &mut RequestedObjects::default());
        let class = &self.specification.classes[self.class(index) as usize];
        ideal_server::watch(&plan, class, &mut |_| {}).bytes
    }

    /// Whether session `index` continues after `seen` of it has been watched.
    fn goes_on(&self, index: u64, seen: Duration) -> bool {
        if let Some(session) = self.phased_session(index, Duration::ZERO) {
            let ends = session.requests.iter().map(|request| request.completed_ms);
            return ends.max() > Some(seen.as_millis() as i64);
        }
        match self.player(index).make {
            Some(_) => !self.acts(index, seen).1.is_empty(),
            None => !self.session(index, seen).1.is_empty(),
        }
    }

    /// The plan of session `index` from the point at which `seen` of it has been watched.
    fn plan(&self, index: u64, seen: Duration, objects: &mut RequestedObjects) -> SessionPlan {
        if let Some(make) = &self.player(index).make {
            return SessionPlan::Adaptive(self.adaptive((index, seen), make, objects));
        }
        let (title, requests) = self.session(index, seen);
        SessionPlan::Script(Script {
            calls: self.calls(title, &requests, objects),
            playback: self.playback(title),
        })
    }

    /// The player of session `index`.
    fn player(&self, index: u64) -> &'a PlayerKind {
        let kinds = &self.specification.players;
        let [_, _, ..] = kinds[..] else {
            return &kinds[0];
        };
        let mut left = self.sessions.fork_at(index).fork("player").unit();
        let chosen = kinds.iter().position(|kind| {
            left -= kind.share;
            left < 0.0
        });
        &kinds[chosen.unwrap_or(kinds.len() - 1)]
    }

    /// The title and the requests of session `index` with a simple player, from the point at which
    /// `seen` of it has been watched.
    fn session(&self, index: u64, seen: Duration) -> (&'a Title, Vec<UndividedRequest>) {
        let session = self.sessions.fork_at(index);
        let title = self.bearable(self.work(&mut session.fork("title")), index);
        let mut viewing = session.fork("viewing");
        let specification = self.specification;
        let pieces = TitleRequests::of(title, specification.requests.size);
        let places = match specification.viewing.start {
            StartPosition::Beginning => {
                let fraction = specification.viewing.fraction.law.sample(&mut viewing);
                let watched = libm::ceil(fraction * title.bytes as f64) as u64;
                0..pieces.count_to(watched.clamp(1, title.bytes))
            }
            StartPosition::RandomSegment => {
                let place = viewing.below(pieces.count_to(title.bytes));
                place..place + 1
            }
        };
        if specification.requests.open_ended {
            let range = ByteRange::new(pieces.range(places.start).start, title.file_bytes);
            let request = UndividedRequest {
                range,
                pace: None,
                with_previous: false,
            };
            return (title, alloc::vec![request]);
        }
        let whims = session.fork("whims");
        (title, self.requests(&pieces, places, seen, whims))
    }

    /// Draws a work, as the titles of its renditions.
    fn work(&self, generator: &mut Generator) -> &'a [Title] {
        let weights: f64 = self
            .specification
            .groups
            .iter()
            .map(|group| group.weight)
            .sum();
        let mut left = generator.unit() * weights;
        let chosen = self.specification.groups.iter().position(|group| {
            left -= group.weight;
            left < 0.0
        });
        // Rounding may leave a remainder: it goes to the last group with a weight.
        let last = || {
            self.specification
                .groups
                .iter()
                .rposition(|group| group.weight > 0.0)
        };
        let (first, count, zipf) = &self.groups[chosen.or_else(last).unwrap_or(0)];
        let count = *count as usize;
        let first = *first as usize + zipf.sample(generator) * count;
        &self.catalogue.titles[first..first + count]
    }

    /// The highest rendition that the network of session `index` sustains, or else the lowest.
    fn bearable(&self, work: &'a [Title], index: u64) -> &'a Title {
        let [_, _, ..] = work else {
            return &work[0];
        };
        let class = &self.specification.classes[self.class(index) as usize];
        let is_bearable = |title: &&Title| {
            let most = |bandwidth: BitRate| bandwidth.0 / 10 * BEARABLE_TENTHS;
            let most = class.bandwidth.map_or(u64::MAX, most);
            title.bit_rate() <= most as f64
        };
        work.iter().rev().find(is_bearable).unwrap_or(&work[0])
    }

    fn class(&self, index: u64) -> u32 {
        let mut left = self.sessions.fork_at(index).fork("class").unit();
        let classes = &self.specification.classes;
        let chosen = classes.iter().position(|class| {
            left -= class.share;
            left < 0.0
        });
        chosen.unwrap_or(classes.len().saturating_sub(1)) as u32
    }

    /// The requests of a session that watches the pieces `places`, with its pauses, skips and early
    /// end; without those of the first `seen`.
    fn requests(
        &self,
        pieces: &TitleRequests<'_>,
        places: core::ops::Range<u64>,
        seen: Duration,
        mut whims: Generator,
    ) -> Vec<UndividedRequest> {
        let (viewing, rules) = (&self.specification.viewing, &self.specification.requests);
        let pieces_count = pieces.count_to(pieces.title.bytes);
        let mut requests = Vec::new();
        let (mut place, mut since_start) = (places.start, 0u32);
        // Playing time of the last request, or burst of requests.
        let mut playing = Duration::ZERO;
        // When playback reaches the end of this piece.
        let mut ends = Duration::ZERO;
        for step in 0..places.end - places.start {
            let mut pause = None;
            if step > 0 {
                if happens(&mut whims, viewing.early_end) {
                    break;
                }
                if happens(&mut whims, viewing.skip) {
                    (place, since_start) = (whims.below(pieces_count), 0);
                }
                if happens(&mut whims, viewing.pause) {
                    let seconds = viewing.pause_time.law.sample(&mut whims);
                    pause = Some(Duration::from_millis(libm::round(seconds * 1000.0) as u64));
                }
            }
            if place >= pieces_count {
                break;
            }
            ends += pause.unwrap_or_default() + pieces.time;
            if ends <= seen {
                (place, since_start) = (place + 1, 0);
                continue;
            }
            // A resumed session does not start with a pause.
            pause = pause.filter(|_| !requests.is_empty() || seen == Duration::ZERO);
            let is_first = since_start.is_multiple_of(rules.connections.max(1));
            let with_previous = !is_first && pause.is_none();
            let is_paced = rules.pacing && since_start >= rules.unpaced && !with_previous;
            let pace = is_paced.then_some(playing);
            if !with_previous {
                playing = Duration::ZERO;
            }
            playing += pieces.time;
            requests.push(UndividedRequest {
                range: pieces.range(place),
                pace: match (pace, pause) {
                    (pace, None) => pace,
                    (pace, Some(pause)) => Some(pace.unwrap_or_default() + pause),
                },
                with_previous,
            });
            place += 1;
            since_start = since_start.saturating_add(1);
        }
        requests
    }

    /// Playback parameters of a title, counted from the first request or segment.
    fn playback(&self, title: &Title) -> Option<PlaybackSpec> {
        if self.specification.viewing.start == StartPosition::RandomSegment {
            return None;
        }
        let bits = title.bit_rate();
        Some(PlaybackSpec {
            bit_rate: BitRate(libm::round(bits) as u64),
            start_bytes: title.segment_bytes.min(title.bytes),
        })
    }

    /// The calls for these requests, file by file.
    fn calls(
        &self,
        title: &Title,
        requests: &[UndividedRequest],
        objects: &mut RequestedObjects,
    ) -> Vec<ScriptCall> {
        let mut calls = Vec::with_capacity(requests.len());
        for request in requests {
            let files = self.catalogue.files_of(title, request.range);
            for (index, file) in files.enumerate() {
                let wanted = request.range.intersection(file.range);
                let start = file.range.start;
                // A chunk file is requested without a range; the single file of a title with
                // ranges, even if a range covers all of it.
                let is_whole = self.catalogue.form.is_split() && wanted == file.range;
                let end = match self.specification.requests.open_ended {
                    true => u64::MAX,
                    false => wanted.end - start,
                };
                calls.push(ScriptCall {
                    object: objects.id((title.number, start), || file.path),
                    range: (!is_whole).then(|| ByteRange::new(wanted.start - start, end)),
                    expected_bytes: Some(wanted.len()),
                    timeout: self.specification.requests.timeout,
                    pace: request.pace.filter(|_| index == 0),
                    think: None,
                    with_previous: request.with_previous && index == 0,
                });
            }
        }
        calls
    }
}

fn happens(generator: &mut Generator, chance: f64) -> bool {
    chance > 0.0 && generator.unit() < chance
}

/// Sets the shares of classes to those of the sessions.
fn share_out(trace: &mut Trace) {
    let count = trace.sessions.len().max(1) as f64;
    for class in &mut trace.classes {
        class.share = 0.0;
    }
    for session in &trace.sessions {
        trace.classes[session.class as usize].share += 1.0 / count;
    }
}

/// Ids of requested objects, in order of first use.
#[derive(Default)]
struct RequestedObjects {
    paths: Vec<String>,
    /// Title and file index of each id.
    keys: Vec<(u32, u64)>,
    /// Ids by title and file index.
    ids: BTreeMap<(u32, u64), ObjectId>,
    /// Works that are being watched with an adaptive player, by their first title's number.
    watched: BTreeMap<u32, Weak<headlong_player::Title>>,
}

impl RequestedObjects {
    /// The id of an object; assigns a new one at its first use.
    fn id(&mut self, key: (u32, u64), path: impl FnOnce() -> String) -> ObjectId {
        *self.ids.entry(key).or_insert_with(|| {
            self.paths.push(path());
            self.keys.push(key);
            ObjectId(self.paths.len() as u32 - 1)
        })
    }
}

/// A title divided into requests.
struct TitleRequests<'a> {
    title: &'a Title,
    /// Bytes of each request, unless `segments` is set.
    bytes: u64,
    /// Segments of each request, if segments differ in size and requests follow them.
    segments: Option<usize>,
    /// Playing time of each request.
    time: Duration,
}

impl<'a> TitleRequests<'a> {
    fn of(title: &'a Title, size: RequestSize) -> Self {
        let (time, segment) = match size {
            RequestSize::Time(time) => (time, title.segment_time.0.max(1)),
            RequestSize::Bytes(bytes) => {
                let time = u128::from(bytes) * u128::from(title.segment_time.0)
                    / u128::from(title.segment_bytes.max(1));
                (Duration(u64::try_from(time).unwrap_or(u64::MAX)), u64::MAX)
            }
        };
        let follows = !title.segment_ends.is_empty() && segment < u64::MAX;
        Self {
            title,
            bytes: request_bytes(size, title.segment_time, title.segment_bytes).max(1),
            segments: follows.then(|| (time.0 / segment).max(1) as usize),
            time,
        }
    }

    /// Number of requests that cover the first `bytes` of the content.
    fn count_to(&self, bytes: u64) -> u64 {
        match self.segments {
            None => bytes.div_ceil(self.bytes),
            Some(segments) => {
                let ends = &self.title.segment_ends;
                let last = ends.partition_point(|end| *end < bytes);
                (last.min(ends.len() - 1) / segments) as u64 + 1
            }
        }
    }

    /// The byte range of a request. A viewer's fraction is rounded up to whole requests (thesis
    /// Table 3.3), but never beyond the end of the file.
    fn range(&self, place: u64) -> ByteRange {
        let header_bytes = self.title.header_bytes;
        let Some(segments) = self.segments else {
            let start = place.saturating_mul(self.bytes) + header_bytes;
            let end = start.saturating_add(self.bytes).min(self.title.file_bytes);
            return ByteRange::new(start, end);
        };
        let ends = &self.title.segment_ends;
        let end_of = |count: usize| match count.min(ends.len()) {
            0 => header_bytes,
            count => ends[count - 1] + header_bytes,
        };
        let first = place as usize * segments;
        ByteRange::new(end_of(first), end_of(first + segments))
    }
}

/// A viewer as it arrives or resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ArrivingViewer {
    /// From the start of the trace.
    arrival: Duration,
    /// Index of its session; if it resumes, above those of all new sessions.
    index: u64,
    /// How long it would have watched by then; zero for a new viewer.
    seen: Duration,
}

/// Viewers in the middle of a title when a trace begins, as after a restart of the server, by
/// arrival; `goes_on` tells whether a session continues after the given time of watching.
///
/// They are the viewers who would be present if viewers had always arrived at the current rate.
/// Each resumes at a time drawn evenly from `sessions.resume_time`, at its playback position by
/// then, with an empty buffer; viewers who would have left by then do not resume. So the total
/// demand rises to that of the steady state, and not above it.
fn resumed(
    (specification, catalogue): (&Specification, &Catalogue),
    mean_gap_s: f64,
    mut chance: Generator,
    goes_on: impl Fn(u64, Duration) -> bool,
) -> Vec<ArrivingViewer> {
    let sessions = &specification.sessions;
    let within_s = sessions.resume_time.as_secs_f64();
    let longest_s = longest_s(specification, catalogue);
    let mut age_s = 0.0;
    let mut found = Vec::new();
    if sessions.resume_time == Duration::ZERO {
        return found;
    }
    // Newest first: a viewer who began longer ago than the longest session has left.
    for index in SESSIONS_MAX..2 * SESSIONS_MAX {
        age_s += match sessions.arrivals {
            ArrivalDistribution::Constant => mean_gap_s,
            _ => chance.exponential(mean_gap_s),
        };
        if age_s > longest_s {
            break;
        }
        let arrival_s = chance.unit() * within_s;
        let seen = Duration(libm::round((age_s + arrival_s) * 1e9) as u64);
        if goes_on(index, seen) {
            let arrival = Duration(libm::round(arrival_s * 1e9) as u64);
            found.push(ArrivingViewer {
                arrival,
                index,
                seen,
            });
        }
    }
    found.sort_unstable();
    found
}

/// Upper bound of a session's length: the longest title, and a pause before each further request.
fn longest_s(specification: &Specification, catalogue: &Catalogue) -> f64 {
    if let Some(phases) = &specification.phases {
        return phases.session_s_max();
    }
    let viewing = &specification.viewing;
    let pauses = viewing.pause_time.law.points();
    let pause_s = match viewing.pause > 0.0 {
        true => pauses.last().map_or(0.0, |point| point.0),
        false => 0.0,
    };
    let titles = catalogue.titles.iter();
    let length_s = titles.map(|title| {
        let segments = f64::from(title.segments());
        segments * (title.segment_time.as_secs_f64() + pause_s)
    });
    length_s.fold(0.0, f64::max)
}

/// The `count` most frequently requested ranges; ties are broken by first use. For adaptive
/// players, their requests to an ideal server.
fn warming(trace: &Trace, count: u64) -> Vec<WarmupRange> {
    if count == 0 {
        return Vec::new();
    }
    let mut asked: BTreeMap<WarmupRange, (u64, usize)> = BTreeMap::new();
    let mut index = 0;
    let mut note = |object, range| {
        asked
            .entry(WarmupRange { object, range })
            .or_insert((0, index))
            .0 += 1;
        index += 1;
    };
    for session in &trace.sessions {
        for (object, range) in session.asked() {
            note(object, range);
        }
        if let SessionPlan::Adaptive(_) = session.plan {
            let class = &trace.classes[session.class as usize];
            ideal_server::watch(&session.plan, class, &mut |sent| {
                note(sent.object, sent.range);
            });
        }
    }
    let mut asked: Vec<_> = asked.into_iter().collect();
    asked.sort_by_key(|(_, (times, first))| (core::cmp::Reverse(*times), *first));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    asked.into_iter().take(count).map(|(key, _)| key).collect()
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
