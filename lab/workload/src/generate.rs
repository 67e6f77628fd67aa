//! From a specification and a seed to a workload.
//!
//! The one idea: every purpose has a generator of its own. What session number i watches depends on
//! the seed and on i alone; its class, its whims and its arrival are drawn elsewhere. So another
//! rate, other networks or another form of storage change nothing else, and two runs differ only in
//! what was meant to differ (thesis 3.4: "the size and timing of requests is the same for all three
//! storage methods").

mod adaptive;
mod objects;
mod pieces;
mod resumed;
mod warming;

use alloc::vec::Vec;
use core::iter::Peekable;

use headlong_player::{Call, ObjectId, Plan, Playback, Script};
use headlong_random::{Generator, Zipf};
use headlong_units::{BitRate, ByteRange, Duration};

use crate::catalogue::{Catalogue, Title};
use crate::ideal;
use crate::specification::{
    Arrivals, Extent, PlayerKind, Rate, SESSIONS_MAX, Specification, Start,
};
use crate::trace::{About, Session, Trace};
use objects::Objects;
use pieces::Pieces;
use resumed::{Resumed, resumed};
use warming::warming;

/// So many sessions tell how much one asks for on average, which turns a rate in bytes into one in
/// sessions: always the same ones, however many are played.
const SAMPLE_SESSIONS: u64 = 16_384;
/// The same where some have to be played to know: their mean is within some percent of that of all.
const SAMPLE_SESSIONS_PLAYED: u64 = 2048;
/// A simple player takes a rendition of at most this share of its bandwidth, in tenths.
const BEARABLE_TENTHS: u64 = 9;

/// What exists, and what is asked of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The titles.
    pub catalogue: Catalogue,
    /// The sessions.
    pub trace: Trace,
}

/// The workload of a specification. Same specification and seed, same workload; the catalogue is
/// the same for every seed. No more than [`SESSIONS_MAX`] sessions are made.
pub fn generate(specification: &Specification, seed: u64) -> Workload {
    let catalogue = Catalogue::of(specification);
    let trace = Director::new(specification, &catalogue, seed).trace(seed);
    Workload { catalogue, trace }
}

/// The sessions of a specification one by one, for those who play them as they come and keep none:
/// the same that [`generate`] writes down, in the same order, with the same names of objects. What it
/// remembers is bounded by the catalogue, however long it goes on.
pub struct SessionStream<'a> {
    director: Director<'a>,
    objects: Objects,
    gap_s: f64,
    now_s: f64,
    index: u64,
    /// The next who comes anew, and when.
    next: Option<Duration>,
    resumed: Peekable<alloc::vec::IntoIter<Resumed>>,
    /// From when on how many times the usual number of viewers come.
    steps: Vec<(Duration, f64)>,
}

impl<'a> SessionStream<'a> {
    /// The sessions of a specification, its catalogue and a seed.
    pub fn new(specification: &'a Specification, catalogue: &'a Catalogue, seed: u64) -> Self {
        Self::of(Director::new(specification, catalogue, seed))
    }

    fn of(director: Director<'a>) -> Self {
        let gap_s = director.mean_gap();
        let of = (director.specification, director.catalogue);
        let chance = director.arrivals.fork("resumed");
        let goes_on = |index, seen| director.goes_on(index, seen);
        let resumed = resumed(of, gap_s, chance, goes_on);
        Self {
            gap_s,
            resumed: resumed.into_iter().peekable(),
            director,
            objects: Objects::default(),
            now_s: 0.0,
            index: 0,
            next: None,
            steps: Vec::new(),
        }
    }

    /// With another load in the course of time: from each moment on, so many times the specified
    /// rate, until the next. The moments are to be in order. Who comes stays the same, only when
    /// changes.
    pub fn with_steps(mut self, steps: impl IntoIterator<Item = (Duration, f64)>) -> Self {
        self.steps = steps.into_iter().collect();
        self
    }

    /// The number of the title that a named object holds some of, and where in it the object begins.
    pub fn object(&self, object: ObjectId) -> Option<(u32, u64)> {
        self.objects.keys.get(object.0 as usize).copied()
    }

    /// How many objects have been named: their ids count from zero.
    pub fn object_count(&self) -> usize {
        self.objects.keys.len()
    }

    /// When session number `index` comes, if it does.
    fn arrival(&mut self) -> Option<Duration> {
        if self.index >= SESSIONS_MAX {
            return None;
        }
        let gap_s = self.gap_s / self.load();
        let sessions = &self.director.specification.sessions;
        self.now_s += match sessions.arrivals {
            Arrivals::Poisson => self.director.arrivals.exponential(gap_s),
            Arrivals::Constant => gap_s,
        };
        let arrival = Duration(libm::round(self.now_s * 1e9) as u64);
        let is_over = match sessions.extent {
            Extent::Sessions(count) => self.index >= count,
            Extent::Time(length) => arrival > length,
        };
        (!is_over).then_some(arrival)
    }

    /// How much more than usual is asked for now.
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
        if self.next.is_none() {
            self.next = self.arrival();
        }
        let is_first = |resumed: &Resumed| self.next.is_none_or(|next| resumed.arrival < next);
        let (arrival, index, seen) = match self.resumed.next_if(is_first) {
            Some(resumed) => (resumed.arrival, resumed.index, resumed.seen),
            None => {
                let arrival = self.next.take()?;
                self.index += 1;
                (arrival, self.index - 1, Duration::ZERO)
            }
        };
        Some(Session {
            arrival,
            class: self.director.class(index),
            plan: self.director.plan(index, seen, &mut self.objects),
        })
    }
}

/// One request before it is cut into files.
struct Request {
    range: ByteRange,
    pace: Option<Duration>,
    with_previous: bool,
}

/// What decides about sessions.
struct Director<'a> {
    specification: &'a Specification,
    catalogue: &'a Catalogue,
    /// Number of each group's first title, in how many titles its works are, and their popularity.
    groups: Vec<(u32, u32, Zipf)>,
    sessions: Generator,
    arrivals: Generator,
}

impl<'a> Director<'a> {
    fn new(specification: &'a Specification, catalogue: &'a Catalogue, seed: u64) -> Self {
        let mut first = 0;
        let groups = specification.groups.iter().map(|group| {
            let start = first;
            first += group.count * group.files_per_work();
            let popularity = Zipf::new(group.count as usize, group.zipf_alpha);
            (start, group.files_per_work(), popularity)
        });
        let root = Generator::new(seed);
        Self {
            specification,
            catalogue,
            groups: groups.collect(),
            sessions: root.fork("sessions"),
            arrivals: root.fork("arrivals"),
        }
    }

    fn trace(self, seed: u64) -> Trace {
        let specification = self.specification;
        let mut trace = Trace {
            classes: specification.classes.clone(),
            about: About {
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
        let mut stream = SessionStream::of(self);
        trace.sessions.extend(&mut stream);
        trace.objects = stream.objects.paths;
        trace.about.warming = warming(&trace, specification.sessions.warming_count);
        trace
    }

    /// Mean time between arrivals, in seconds.
    fn mean_gap(&self) -> f64 {
        match self.specification.sessions.rate {
            Rate::Sessions(rate) => 1.0 / rate,
            Rate::Bytes(rate) => {
                let sample = match self.specification.has_adaptive_players() {
                    true => SAMPLE_SESSIONS_PLAYED,
                    false => SAMPLE_SESSIONS,
                };
                let bytes: u64 = (0..sample).map(|index| self.asked_bytes(index)).sum();
                bytes as f64 / sample as f64 / rate
            }
        }
    }

    /// How many bytes session number `index` asks for; those of an adaptive player if the server
    /// took no time.
    fn asked_bytes(&self, index: u64) -> u64 {
        if self.player(index).make.is_none() {
            let (_, requests) = self.session(index, Duration::ZERO);
            let bytes = requests.iter().map(|request| request.range.len());
            return bytes.sum();
        }
        let plan = self.plan(index, Duration::ZERO, &mut Objects::default());
        let class = &self.specification.classes[self.class(index) as usize];
        ideal::watch(&plan, class, &mut |_| {}).bytes
    }

    /// Whether session number `index` is not over when `seen` of it has been watched.
    fn goes_on(&self, index: u64, seen: Duration) -> bool {
        match self.player(index).make {
            Some(_) => !self.acts(index, seen).1.is_empty(),
            None => !self.session(index, seen).1.is_empty(),
        }
    }

    /// What session number `index` will do from where it is when `seen` of it has been watched.
    fn plan(&self, index: u64, seen: Duration, objects: &mut Objects) -> Plan {
        if let Some(make) = &self.player(index).make {
            return Plan::Adaptive(self.adaptive((index, seen), make, objects));
        }
        let (title, requests) = self.session(index, seen);
        Plan::Script(Script {
            calls: self.calls(title, &requests, objects),
            playback: self.playback(title),
        })
    }

    /// What session number `index` plays with.
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

    /// What a simple player of session number `index` watches, and what it asks for when `seen` of
    /// it has been watched.
    fn session(&self, index: u64, seen: Duration) -> (&'a Title, Vec<Request>) {
        let session = self.sessions.fork_at(index);
        let title = self.bearable(self.work(&mut session.fork("title")), index);
        let mut viewing = session.fork("viewing");
        let specification = self.specification;
        let pieces = Pieces::of(title, specification.requests.size);
        let places = match specification.viewing.start {
            Start::Beginning => {
                let fraction = specification.viewing.fraction.law.sample(&mut viewing);
                let watched = libm::ceil(fraction * title.bytes as f64) as u64;
                0..pieces.count_to(watched.clamp(1, title.bytes))
            }
            Start::RandomSegment => {
                let place = viewing.below(pieces.count_to(title.bytes));
                place..place + 1
            }
        };
        if specification.requests.open_ended {
            let range = ByteRange::new(pieces.range(places.start).start, title.file_bytes);
            let request = Request {
                range,
                pace: None,
                with_previous: false,
            };
            return (title, alloc::vec![request]);
        }
        let whims = session.fork("whims");
        (title, self.requests(&pieces, places, seen, whims))
    }

    /// A work, as the titles of its renditions.
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
        // Rounding may leave a little: it goes to the last group that anybody watches.
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

    /// The highest rendition that the network of session number `index` bears, or else the lowest.
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

    /// The requests of a session that watches the pieces `places`, its pauses, skips and early end;
    /// without those of the first `seen`.
    fn requests(
        &self,
        pieces: &Pieces<'_>,
        places: core::ops::Range<u64>,
        seen: Duration,
        mut whims: Generator,
    ) -> Vec<Request> {
        let (viewing, rules) = (&self.specification.viewing, &self.specification.requests);
        let pieces_count = pieces.count_to(pieces.title.bytes);
        let mut requests = Vec::new();
        let (mut place, mut since_start) = (places.start, 0u32);
        // How long the last request, or burst of them, plays.
        let mut playing = Duration::ZERO;
        // When the picture comes to the end of this place.
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
            // Whoever comes back has no pause behind it.
            pause = pause.filter(|_| !requests.is_empty() || seen == Duration::ZERO);
            let is_first = since_start.is_multiple_of(rules.connections.max(1));
            let with_previous = !is_first && pause.is_none();
            let is_paced = rules.pacing && since_start >= rules.unpaced && !with_previous;
            let pace = is_paced.then_some(playing);
            if !with_previous {
                playing = Duration::ZERO;
            }
            playing += pieces.time;
            requests.push(Request {
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

    /// How a title is shown: from its first request on, or segment.
    fn playback(&self, title: &Title) -> Option<Playback> {
        if self.specification.viewing.start == Start::RandomSegment {
            return None;
        }
        let bits = title.bit_rate();
        Some(Playback {
            bit_rate: BitRate(libm::round(bits) as u64),
            start_bytes: title.segment_bytes.min(title.bytes),
        })
    }

    /// The calls that ask for them, file by file.
    fn calls(&self, title: &Title, requests: &[Request], objects: &mut Objects) -> Vec<Call> {
        let mut calls = Vec::with_capacity(requests.len());
        for request in requests {
            let files = self.catalogue.files_of(title, request.range);
            for (index, file) in files.enumerate() {
                let wanted = request.range.intersection(file.range);
                let start = file.range.start;
                // A chunk file is asked for as it is; a title's file by ranges, even if one of them
                // is all of it.
                let is_whole = self.catalogue.form.is_split() && wanted == file.range;
                let end = match self.specification.requests.open_ended {
                    true => u64::MAX,
                    false => wanted.end - start,
                };
                calls.push(Call {
                    object: objects.id((title.number, start), file.path),
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

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
