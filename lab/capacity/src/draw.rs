//! Viewers at a rate: copies of logged sessions that arrive independently.
//!
//! Every session of a sample is a source of copies, at the rate at which all together request the
//! wanted bytes. Viewers that arrived before the start are in the middle of their visits, so demand
//! is steady from the first second.
//!
//! A title that one session alone requested stands for the titles that the log does not show: by
//! Good and Turing, the share of such sessions is the chance that the next session requests a title
//! without an earlier one. So each copy of such a session requests a title of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use headlong_flash::SEGMENT_BYTES;
use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_random::Generator;
use headlong_sim::LayoutFile;
use headlong_units::{BitRate, ByteRange, Duration};
use headlong_workload::{NetworkClass, Session, Trace};

use crate::sample::{LoggedCall, LoggedVisit, ViewerSample};

/// A reply that is incomplete after this time, and that which the viewer's link takes, fails
/// (thesis 3.4).
const TIMEOUT: Duration = Duration::from_secs(10);
/// One-way delay of viewers; logs do not tell it.
const DELAY: Duration = Duration::from_millis(20);
/// Steps of bandwidth for each doubling: visits of one step are one class.
const CLASS_STEPS: f64 = 2.0;
/// A server reads at most this far ahead of a viewer.
const AHEAD_BYTES: u64 = 32 << 20;

/// Viewers and the files that they request.
#[derive(Debug)]
pub struct Draw {
    /// The viewers.
    pub trace: Trace,
    /// Their files, in the order of their places on disk.
    pub files: Vec<LayoutFile>,
    /// Files of titles with several viewers, by object.
    shared: BTreeMap<ObjectId, u32>,
}

/// Segments of files that the sessions of a sample read most, as many as a flash tier holds.
#[derive(Debug)]
pub(crate) struct FlashContent(HashSet<(u32, u64)>);

/// The subject of the drawing.
#[derive(Debug, Clone, Copy)]
pub struct DrawSettings<'s> {
    /// How often each session of the sample counts.
    pub times: &'s [u32],
    /// Bytes per second that all viewers request.
    pub bytes_per_s: f64,
    /// How long viewers arrive.
    pub length: Duration,
    /// Number of disks; titles are distributed over them.
    pub disks: u32,
    /// Whether titles without a request lie on the disks, too: their segments may be on flash.
    pub has_library: bool,
    /// Requests for files of this disk alone, as the only one.
    pub only_disk: Option<u32>,
    /// Seed of the arrivals.
    pub seed: u64,
}

/// A file of a title, or of a copy of it: copy, title, file.
type FileKey = (u64, u32, u32);

struct Drawing<'d> {
    sample: &'d ViewerSample,
    settings: DrawSettings<'d>,
    objects: BTreeMap<FileKey, ObjectId>,
    shared: BTreeMap<ObjectId, u32>,
    classes: BTreeMap<i32, u32>,
    sessions: Vec<Session>,
    copies: u64,
}

impl Draw {
    /// Draws viewers.
    pub fn new(sample: &ViewerSample, settings: DrawSettings<'_>) -> Self {
        let mut drawing = Drawing {
            sample,
            settings,
            objects: BTreeMap::new(),
            shared: BTreeMap::new(),
            classes: BTreeMap::new(),
            sessions: Vec::new(),
            copies: 0,
        };
        if settings.has_library {
            drawing.add_library();
        }
        drawing.draw();
        drawing.finished()
    }

    /// What drawn viewers may read of a flash tier with this content. The rest would take memory and
    /// time, and no viewer requests it.
    pub(crate) fn reached(&self, content: &FlashContent) -> Vec<(ObjectId, Option<ByteRange>)> {
        let mut reached = Vec::new();
        let mut read: HashMap<u32, (u64, u64)> = HashMap::new();
        for session in &self.trace.sessions {
            read.clear();
            for call in session.calls() {
                let Some((file, range)) = self.shared.get(&call.object).zip(call.range) else {
                    continue;
                };
                let ahead = ByteRange::new(range.start, range.end + AHEAD_BYTES);
                let (mut first, end) = segments_of(ahead);
                let before = read.entry(*file).or_insert((first, first));
                match (before.0..=before.1).contains(&first) {
                    true => first = before.1,
                    false => *before = (first, first),
                }
                before.1 = before.1.max(end);
                let held = (first..end).filter(|segment| content.0.contains(&(*file, *segment)));
                reached.extend(held.map(|segment| {
                    let from = segment * SEGMENT_BYTES;
                    (
                        call.object,
                        Some(ByteRange::new(from, from + SEGMENT_BYTES)),
                    )
                }));
            }
        }
        reached
    }
}

/// The first segment of a range, and the one behind the last.
fn segments_of(range: ByteRange) -> (u64, u64) {
    (
        range.start / SEGMENT_BYTES,
        range.end.div_ceil(SEGMENT_BYTES),
    )
}

impl FlashContent {
    /// What all sessions that count read most of titles with several viewers, for each byte of a
    /// segment, up to `bytes` for each disk.
    pub(crate) fn most_read(
        sample: &ViewerSample,
        times: &[u32],
        (disks, bytes): (u32, u64),
    ) -> Self {
        let mut read: HashMap<(u32, u64), u64> = HashMap::new();
        let counted = sample.sessions.iter().zip(times);
        for (session, times) in counted.filter(|(_, times)| **times > 0) {
            let calls = session.visits.iter().flat_map(|visit| &visit.calls);
            for call in calls.filter(|call| !sample.is_fresh(call.file)) {
                let (first, end) = segments_of(ByteRange::new(call.start, call.end()));
                for segment in first..end {
                    let from = call.start.max(segment * SEGMENT_BYTES);
                    let to = call.end().min((segment + 1) * SEGMENT_BYTES);
                    *read.entry((call.file, segment)).or_default() +=
                        (to - from) * u64::from(*times);
                }
            }
        }
        let size = |(file, segment): (u32, u64)| {
            let rest = sample.files[file as usize].size_bytes - segment * SEGMENT_BYTES;
            rest.clamp(1, SEGMENT_BYTES)
        };
        let mut order: Vec<_> = read.into_iter().collect();
        order.sort_unstable_by_key(|(of, bytes)| (Reverse(bytes * 1024 / size(*of)), *of));
        let mut left = vec![bytes; disks.max(1) as usize];
        let held = order.into_iter().map(|(of, _)| of).filter(|of| {
            let title = sample.files[of.0 as usize].title;
            let left = &mut left[disk_of(0, title, disks) as usize];
            let fits = size(*of) <= *left;
            // Nothing follows the first that does not fit: it is read less.
            *left = if fits { *left - size(*of) } else { 0 };
            fits
        });
        Self(held.collect())
    }
}

/// The disk of a title, or of a copy of one.
fn disk_of(copy: u64, title: u32, disks: u32) -> u32 {
    let titles = Generator::new(u64::from(title)).fork("disk of a title");
    titles.fork_at(copy).below(u64::from(disks.max(1))) as u32
}

impl Drawing<'_> {
    fn draw(&mut self) {
        let counted = self.sample.sessions.iter().zip(self.settings.times);
        let bytes = counted.map(|(session, times)| session.bytes as f64 * f64::from(*times));
        let per_s = self.settings.bytes_per_s / bytes.sum::<f64>().max(1.0);
        let arrivals = Generator::new(self.settings.seed).fork("arrivals of logged sessions");
        let length_ms = self.settings.length.as_secs_f64() * 1000.0;
        let sample = self.sample;
        let counted = sample.sessions.iter().zip(self.settings.times);
        for (session, times) in counted.filter(|(_, times)| **times > 0) {
            let of_session = arrivals.fork_at(u64::from(session.number));
            let gap_ms = 1000.0 / (per_s * f64::from(*times));
            for (place, visit) in (0..).zip(&session.visits) {
                let mut gaps = of_session.fork_at(place);
                let mut at_ms = gaps.exponential(gap_ms) - visit.lasts_ms as f64;
                while at_ms < length_ms {
                    self.copies += 1;
                    self.arrive(visit, at_ms);
                    at_ms += gaps.exponential(gap_ms);
                }
            }
        }
        self.sessions.sort_by_key(|session| session.arrival);
    }

    /// Adds all files of the log that several sessions share.
    fn add_library(&mut self) {
        let files = (0..).zip(&self.sample.files);
        for (number, _) in files.filter(|(_, file)| file.size_bytes > 0) {
            let title = self.sample.files[number as usize].title;
            let is_on_disk = |only| disk_of(0, title, self.settings.disks) == only;
            if !self.sample.is_fresh(number) && self.settings.only_disk.is_none_or(is_on_disk) {
                let object = self.object(number, 0);
                self.shared.insert(object, number);
            }
        }
    }

    fn object(&mut self, file: u32, copy: u64) -> ObjectId {
        let title = self.sample.files[file as usize].title;
        let next = ObjectId(self.objects.len() as u32);
        *self.objects.entry((copy, title, file)).or_insert(next)
    }

    /// A copy of a visit arrives, before the start if the time is negative.
    fn arrive(&mut self, visit: &LoggedVisit, at_ms: f64) {
        let settings = self.settings;
        let copy = self.copies;
        let mut calls: Vec<ScriptCall> = Vec::new();
        let (mut arrival_ms, mut burst_ms) = (0.0, 0.0);
        let mut is_burst_kept = false;
        for (call, burst_bytes) in visit.bursts().flat_map(with_bytes) {
            let time_ms = at_ms + f64::from(call.at_ms);
            if time_ms < 0.0 {
                is_burst_kept = false;
                continue;
            }
            if time_ms >= settings.length.as_secs_f64() * 1000.0 {
                break;
            }
            let copy = if self.sample.is_fresh(call.file) {
                copy
            } else {
                0
            };
            let title = self.sample.files[call.file as usize].title;
            let disk = disk_of(copy, title, settings.disks);
            if settings.only_disk.is_some_and(|only| only != disk) {
                continue;
            }
            // The first kept request of a burst begins it.
            let with_previous = call.with_previous && is_burst_kept;
            let pace_ms = time_ms - burst_ms;
            if calls.is_empty() {
                arrival_ms = time_ms;
            }
            if !with_previous {
                burst_ms = time_ms;
            }
            is_burst_kept = true;
            let link = |bandwidth: BitRate| bandwidth.time_for(burst_bytes);
            let on_link = visit.bandwidth.map_or(Duration::ZERO, link);
            calls.push(ScriptCall {
                object: self.object(call.file, copy),
                range: Some(ByteRange::new(call.start, call.end())),
                expected_bytes: Some(call.bytes.into()),
                timeout: Some(TIMEOUT + on_link),
                pace: (!calls.is_empty() && !with_previous).then(|| milliseconds(pace_ms)),
                think: None,
                with_previous,
            });
        }
        if calls.is_empty() {
            return;
        }
        let step = visit.bandwidth.map_or(i32::MAX, |bandwidth| {
            ((bandwidth.0 as f64).log2() * CLASS_STEPS).ceil() as i32
        });
        let next = self.classes.len() as u32;
        self.sessions.push(Session {
            arrival: milliseconds(arrival_ms),
            class: *self.classes.entry(step).or_insert(next),
            plan: SessionPlan::Script(Script::new(calls)),
        });
    }

    fn finished(self) -> Draw {
        let settings = self.settings;
        // Titles lie in an order that has nothing to do with their popularity.
        let mut order: Vec<(u64, FileKey, ObjectId)> = self
            .objects
            .iter()
            .map(|(key, object)| {
                let titles = Generator::new(u64::from(key.1)).fork("place of a title");
                (titles.fork_at(key.0).bits(), *key, *object)
            })
            .collect();
        order.sort_unstable_by_key(|(place, key, _)| (*place, *key));
        let files = order
            .iter()
            .map(|(_, (copy, title, file), object)| LayoutFile {
                object: Some(*object),
                size_bytes: self.sample.files[*file as usize].size_bytes,
                bit_rate: None,
                part: None,
                disk: match settings.only_disk {
                    Some(_) => 0,
                    None => disk_of(*copy, *title, settings.disks),
                },
            });
        let mut classes: Vec<(u32, i32)> = self
            .classes
            .iter()
            .map(|(step, number)| (*number, *step))
            .collect();
        classes.sort_unstable();
        let classes = classes.into_iter().map(|(_, step)| {
            let bits = (f64::from(step) / CLASS_STEPS).exp2() as u64;
            NetworkClass {
                name: format!("step {step}"),
                bandwidth: (step < i32::MAX).then_some(BitRate(bits.max(1))),
                delay: DELAY,
                share: 1.0 / self.classes.len() as f64,
            }
        });
        Draw {
            files: files.collect(),
            shared: self.shared,
            trace: Trace {
                classes: classes.collect(),
                sessions: self.sessions,
                ..Trace::default()
            },
        }
    }
}

/// The requests of a burst, each with the bytes of all.
fn with_bytes(burst: &[LoggedCall]) -> impl Iterator<Item = (&LoggedCall, u64)> {
    let bytes = burst.iter().map(|call| u64::from(call.bytes)).sum();
    burst.iter().map(move |call| (call, bytes))
}

fn milliseconds(ms: f64) -> Duration {
    Duration((ms.max(0.0) * 1e6) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{LoggedFile, LoggedSession};

    /// Sessions of a megabyte each 4 s; every third watches a title of its own.
    pub(crate) fn sample(count: u32) -> ViewerSample {
        let session = |number: u32| {
            let file = if number.is_multiple_of(3) {
                10 + number
            } else {
                number % 10
            };
            let calls = (0..50).map(|place| LoggedCall {
                start: u64::from(place) * 1_000_000,
                bytes: 1_000_000,
                at_ms: place * 4_000,
                file,
                with_previous: false,
            });
            LoggedSession {
                number,
                visits: vec![LoggedVisit {
                    calls: calls.collect(),
                    lasts_ms: 197_000,
                    bandwidth: Some(BitRate(20_000_000)),
                }],
                bytes: 50_000_000,
                present_ms: 197_000,
            }
        };
        ViewerSample {
            sessions: (0..count).map(session).collect(),
            files: (0..10 + count)
                .map(|title| LoggedFile {
                    title,
                    size_bytes: 80_000_000,
                })
                .collect(),
            watched_once: (0..10 + count).map(|title| title >= 10).collect(),
            sessions_in_log: u64::from(count),
        }
    }

    fn settings(times: &[u32], seed: u64) -> DrawSettings<'_> {
        DrawSettings {
            times,
            bytes_per_s: 50e6,
            length: Duration::from_secs(600),
            disks: 3,
            has_library: false,
            only_disk: None,
            seed,
        }
    }

    #[test]
    fn demand_is_steady_and_as_wanted_from_the_start() {
        let (sample, times) = (sample(300), vec![1; 300]);
        let draw = Draw::new(&sample, settings(&times, 1));
        let mut asked = [0.0; 3];
        for session in &draw.trace.sessions {
            let mut at = session.arrival.as_secs_f64();
            for call in session.calls() {
                at += call.pace.unwrap_or(Duration::ZERO).as_secs_f64();
                assert!(at < 600.0, "{at}");
                asked[(at / 200.0) as usize] += call.expected_bytes.unwrap_or(0) as f64;
            }
        }
        for asked in asked {
            assert!((asked / 200.0 / 50e6 - 1.0).abs() < 0.15, "{asked}");
        }
        assert!(
            draw.trace
                .sessions
                .is_sorted_by_key(|session| session.arrival)
        );
    }

    #[test]
    fn titles_of_one_session_are_new_in_each_copy() {
        let (sample, times) = (sample(300), vec![1; 300]);
        let draw = Draw::new(&sample, settings(&times, 1));
        let mut viewers: BTreeMap<u32, u32> = BTreeMap::new();
        for session in &draw.trace.sessions {
            *viewers.entry(session.calls()[0].object.0).or_default() += 1;
        }
        let shared = viewers.values().filter(|count| **count > 1).count();
        let sessions = draw.trace.sessions.len();
        assert!(
            shared <= 10 && viewers.len() > sessions / 4,
            "{shared} of {sessions}"
        );
        assert_eq!(draw.files.len(), viewers.len());
    }

    #[test]
    fn disks_divide_the_requests_of_one_draw() {
        let (sample, times) = (sample(300), vec![1; 300]);
        let calls = |only_disk| {
            let draw = Draw::new(
                &sample,
                DrawSettings {
                    only_disk,
                    ..settings(&times, 1)
                },
            );
            let sessions = draw.trace.sessions.iter();
            sessions.map(|session| session.calls().len()).sum::<usize>()
        };
        let parts: usize = (0..3).map(|disk| calls(Some(disk))).sum();
        assert_eq!(parts, calls(None));
    }

    #[test]
    fn viewers_reach_only_what_they_may_read_of_the_flash_tier() {
        let (sample, times) = (sample(300), vec![1; 300]);
        let settings = DrawSettings {
            has_library: true,
            length: Duration::from_secs(10),
            bytes_per_s: 5e6,
            ..settings(&times, 1)
        };
        let draw = Draw::new(&sample, settings);
        // 50 MB of each of ten titles are read: 24 segments.
        let all = FlashContent::most_read(&sample, &times, (3, 1 << 40));
        assert_eq!(all.0.len(), 240);
        let reached = draw.reached(&all);
        assert!(!reached.is_empty() && reached.len() < 24 * draw.trace.sessions.len());
        // A viewer of a few megabytes may read 32 MiB ahead.
        let calls = draw.trace.sessions.iter().flat_map(Session::calls);
        for call in calls.filter(|call| draw.shared.contains_key(&call.object)) {
            let at = call.range.expect("a range").start / SEGMENT_BYTES * SEGMENT_BYTES;
            let range = Some(ByteRange::new(at, at + SEGMENT_BYTES));
            assert!(reached.contains(&(call.object, range)), "{call:?}");
        }
        let little = FlashContent::most_read(&sample, &times, (3, 11 << 20));
        assert_eq!(little.0.len(), 3 * 5);
        assert!(little.0.is_subset(&all.0));
        assert!(draw.reached(&little).len() < reached.len());
    }

    #[test]
    fn sessions_that_do_not_count_are_not_drawn() {
        let sample = sample(300);
        let mut times = vec![0; 300];
        times[1] = 2;
        let draw = Draw::new(&sample, settings(&times, 1));
        assert_eq!(draw.files.len(), 1);
        assert!(draw.trace.sessions.len() > 400);
        let draw = Draw::new(
            &sample,
            DrawSettings {
                has_library: true,
                ..settings(&times, 1)
            },
        );
        assert_eq!(draw.files.len(), 10);
    }
}
