//! The answer: the limit of a machine, what one more part of it brings, and the same for nginx.

use std::num::NonZeroUsize;

use headlong_bench::in_parallel;
use headlong_drive::DriveSpec;
use headlong_random::Generator;
use headlong_sim::RunMeasurements;
use headlong_stats::{Comparison, Resamples, Summary, USUAL_CONFIDENCE};
use headlong_trace::CatalogueBytes;
use headlong_units::{Bytes, KIB, MIB, RoundedBytes};
use serde::Serialize;

use crate::draw::FlashContent;
use crate::limit::{
    LimitError, RESOLUTION, RateRun, RunLengths, SampledLimit, SearchStart, Server,
};
use crate::machine::Machine;
use crate::sample::ViewerSample;
use crate::{SESSIONS_MIN, SESSIONS_NARROW};

/// Seed of samples and arrivals; fixed, for reproducible results.
const SEED: u64 = 1;
/// Searches begin at this share of the rate of random blocks of 2 MiB.
const START: f64 = 0.6;
/// The readahead that is searched first; others only as far as they may be better.
const USUAL_READ_AHEAD: u64 = 2 * MIB;
/// Samples that changes and the other server are compared by.
const PAIRS: usize = 3;
/// Readaheads that nginx is tried with; the best counts.
const READ_AHEADS: [u64; 5] = [128 * KIB, 512 * KIB, 2 * MIB, 4 * MIB, 8 * MIB];
/// Rates of the curve, as multiples of the limit.
const CURVE: [f64; 8] = [0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5];
/// A limit that is more times the demand of the log gets a remark.
const GROWTH_REMARKED: f64 = 20.0;

/// How an answer comes about; printed with every one.
pub(crate) const METHOD: &[&str] = &[
    "The sessions of the log are played in virtual time against the server's own decisions and \
     models of the drives; copies of sessions arrive independently of one another, at one rate \
     throughout.",
    "A request fails if it is incomplete 10 s after it was sent, beyond the time of the viewer's \
     link. The limit is the highest rate at which none fails.",
    "A title that one session alone requested stands for those that the log does not show (Good \
     and Turing): each copy of such a session requests a title of its own.",
    "Titles are distributed over the disks by chance and over the whole of each. An SSD begins \
     with what all sessions of the log read most.",
    "Intervals are of 95 %, for another log of the same viewers: several searches, each with \
     sessions drawn with replacement. They do not cover the model of drives and network.",
    "nginx uses sendfile and aio threads above a kernel with the best of several readaheads; each \
     of its disks has an equal part of the memory.",
    "Neither processor nor network card is modelled: check that they bear the rate.",
];

/// Options of an answer.
#[derive(Debug, Clone)]
pub struct CapacityOptions {
    /// Number of samples, at least two.
    pub samples: usize,
    /// Times of each run.
    pub lengths: RunLengths,
    /// Number of threads; the answer does not depend on it.
    pub threads: NonZeroUsize,
    /// Model of the SSD that is added where there is none.
    pub ssd: DriveSpec,
    /// Whether changes of the machine, nginx and the curve are evaluated, too.
    pub is_whole: bool,
}

/// Facts of the log, as far as they are part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogFacts {
    /// Sessions.
    pub sessions: u64,
    /// Mean demand over the log, Mbit/s.
    pub mean_mbit_s: f64,
    /// Mean number of viewers.
    pub mean_viewers: f64,
    /// Share of sessions with a title that no other session requested.
    pub new_title_share: f64,
    /// Bytes of all titles.
    pub catalogue_bytes: u64,
    /// Whether there may be more.
    pub catalogue_is_least: bool,
}

impl LogFacts {
    /// Facts of a sample from a log of this length.
    pub fn new(sample: &ViewerSample, span_s: f64, catalogue: CatalogueBytes) -> Self {
        let kept = sample.sessions.len().max(1) as f64;
        let scale = sample.sessions_in_log as f64 / kept / span_s.max(1.0);
        let bytes: u64 = sample.sessions.iter().map(|session| session.bytes).sum();
        let present_ms: u64 = sample
            .sessions
            .iter()
            .map(|session| session.present_ms)
            .sum();
        let first = sample.sessions.iter().filter(|session| {
            let call = session.visits.first().and_then(|visit| visit.calls.first());
            call.is_some_and(|call| sample.is_fresh(call.file))
        });
        Self {
            sessions: sample.sessions_in_log,
            mean_mbit_s: bytes as f64 * scale * 8.0 / 1e6,
            mean_viewers: present_ms as f64 / 1000.0 * scale,
            new_title_share: first.count() as f64 / kept,
            catalogue_bytes: catalogue.bytes,
            catalogue_is_least: catalogue.is_least,
        }
    }
}

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CapacityFigure {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl CapacityFigure {
    /// The geometric mean of the values of samples, and where that of another log of the same
    /// viewers lies. The spread of samples is that of logs around the viewers' mean. This log
    /// deviates from it, and so does the other one; of the samples, the mean does.
    fn predicted(values: &[f64]) -> Option<Self> {
        let logs: Summary = values.iter().map(|value| value.ln()).collect();
        let interval = logs.interval(USUAL_CONFIDENCE)?;
        let half = interval.half_width() * (2.0 * values.len() as f64 + 1.0).sqrt();
        Some(Self {
            value: interval.estimate.exp(),
            low: (interval.estimate - half).exp(),
            high: (interval.estimate + half).exp(),
        })
    }

    /// The ratio of paired values.
    fn ratio(values: &[f64], of: &[f64]) -> Option<Self> {
        let found = Comparison::of_pairs(values, of, USUAL_CONFIDENCE)
            .ok()?
            .ratio;
        Some(Self {
            value: found.estimate,
            low: found.low,
            high: found.high,
        })
    }

    /// Whether a value lies in the interval.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A change of the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The added part.
    pub what: String,
    /// The limit with it, relative to that without it.
    pub gain: CapacityFigure,
    /// The limit with it, Mbit/s: the gain applied to the estimate.
    pub mbit_s: f64,
    /// Whether it brings more: no request failed up to the highest rate that is tried.
    pub is_least: bool,
}

/// Another server on the same machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtherServer {
    /// Its name.
    pub server: &'static str,
    /// Its best readahead, bytes.
    pub read_ahead_bytes: u64,
    /// Its limit relative to Headlong's.
    pub share: CapacityFigure,
    /// Its limit, Mbit/s.
    pub mbit_s: f64,
    /// Its viewers at the limit.
    pub viewers: f64,
}

/// A point of the curve of failures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The server.
    pub server: &'static str,
    /// Requested rate, Mbit/s.
    pub mbit_s: f64,
    /// Share of requests that failed.
    pub failed_share: f64,
}

/// State of the machine at the limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitState {
    /// How busy the busiest disk is, from 0 to 1.
    pub busiest_disk: f64,
    /// The mean of all disks.
    pub mean_disk: f64,
    /// Share of the memory for pieces that holds bytes read ahead and not sent yet.
    pub unread_share: f64,
    /// Bytes of a prefetch in use, in the mean.
    pub prefetch_bytes: u64,
}

impl LimitState {
    fn of(run: &RateRun) -> Option<Self> {
        let seen: &RunMeasurements = run.worlds.first()?;
        let seconds = seen.length().as_secs_f64().max(1e-9);
        let busy = seen
            .disks
            .iter()
            .map(|disk| disk.drive.busy.as_secs_f64() / seconds);
        let busy: Vec<f64> = busy.collect();
        let sums = &seen.seen;
        let memory: u128 = sums.memory.iter().sum();
        Some(Self {
            busiest_disk: busy.iter().copied().fold(0.0, f64::max),
            mean_disk: busy.iter().sum::<f64>() / busy.len().max(1) as f64,
            // Free, filling, unread, sending, read.
            unread_share: (sums.memory[1] + sums.memory[2]) as f64 / memory.max(1) as f64,
            prefetch_bytes: (sums.prefetch_bytes / u128::from(sums.looks.max(1))) as u64,
        })
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityAnswer {
    /// The log.
    pub log: LogFacts,
    /// The machine, in words.
    pub machine: String,
    /// Highest rate without a failed request, Mbit/s.
    pub mbit_s: CapacityFigure,
    /// Viewers at that rate.
    pub viewers: CapacityFigure,
    /// What limits it, in words.
    pub limited_by: String,
    /// The machine at the limit.
    pub at_limit: LimitState,
    /// The gains of one more part, largest first.
    pub changes: Vec<Change>,
    /// nginx on the same machine; nothing if not evaluated.
    pub nginx: Option<OtherServer>,
    /// Failures over the rate.
    pub curve: Vec<CurvePoint>,
    /// What makes the answer less certain than its intervals.
    pub remarks: Vec<String>,
    /// How it came about.
    pub method: &'static [&'static str],
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// Single viewers would decide.
    #[error(
        "no answer: it needs at least {SESSIONS_MIN} sessions ({SESSIONS_NARROW} for narrow \
         intervals), and the log has {sessions}; give a longer log"
    )]
    Sessions {
        /// Sessions of the log.
        sessions: u64,
    },
    /// The titles need more disks.
    #[error(
        "the titles take {least}{needed}, and the disks hold {held}: at least {disks} of them are \
         needed"
    )]
    Titles {
        /// `at least `, if there may be more.
        least: &'static str,
        /// Bytes of the titles.
        needed: RoundedBytes,
        /// Bytes of the disks.
        held: RoundedBytes,
        /// Disks for them.
        disks: u64,
    },
    /// No rate passes.
    #[error(
        "{machine}: requests fail at every rate that was tried, down to a hundredth of what the \
         disks read; they may be larger than {timeout} s of a viewer's share: check the log with \
         `headlong trace characterise`"
    )]
    NoRate {
        /// The machine.
        machine: String,
        /// Seconds after which a request fails.
        timeout: u64,
    },
    /// A run cannot be made.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// A search to be made: sample, machine, server, start.
struct Search<'s> {
    times: &'s [u32],
    place: usize,
    machine: &'s Machine,
    server: Server,
    start: SearchStart,
}

/// A search for each start, of the first samples.
fn searches<'s>(
    samples: &[&'s [u32]],
    machine: &'s Machine,
    server: &Server,
    starts: impl IntoIterator<Item = SearchStart>,
) -> Vec<Search<'s>> {
    let pairs = samples.iter().zip(starts).enumerate();
    pairs
        .map(|(place, (times, start))| Search {
            times,
            place,
            machine,
            server: server.clone(),
            start,
        })
        .collect()
}

/// A server of the curve: its name, its runs and the content of their flash tiers.
type CurveServer<'a> = (&'static str, SampledLimit<'a>, Option<FlashContent>);

struct Answering<'a> {
    sample: &'a ViewerSample,
    options: &'a CapacityOptions,
}

impl Answering<'_> {
    fn limit<'l>(&'l self, search: &Search<'l>) -> SampledLimit<'l> {
        SampledLimit {
            sample: self.sample,
            times: search.times,
            machine: search.machine,
            server: search.server.clone(),
            lengths: self.options.lengths,
            seed: SEED + search.place as u64,
        }
    }

    /// The limits of all searches, each with its error; one without a limit names the machine.
    fn each_limit(
        &self,
        searches: &[Search<'_>],
        progress: &mut dyn FnMut(),
    ) -> impl Iterator<Item = Result<(f64, RateRun), AnswerError>> {
        let find = |search: &Search<'_>| self.limit(search).search(search.start);
        let found = in_parallel(searches, self.options.threads, find, |_, _| progress());
        let machines = searches.iter().map(|search| search.machine);
        let pairs: Vec<_> = found.into_iter().zip(machines).collect();
        pairs.into_iter().map(|(found, machine)| {
            found?.ok_or_else(|| AnswerError::NoRate {
                machine: machine.told(),
                timeout: 10,
            })
        })
    }

    /// The limits of all samples. The first two begin at a guess, the others near theirs.
    fn base_limits(
        &self,
        (samples, machine): (&[&[u32]], &Machine),
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<(f64, RateRun)>, AnswerError> {
        let guess = SearchStart::Guess(machine.random_bytes_per_s() * START);
        let first = searches(samples, machine, &Server::Headlong, [guess; 2]);
        let mut found = self.limits(&first, progress)?;
        let mean = found.iter().map(|(rate, _)| rate).sum::<f64>() / found.len().max(1) as f64;
        let near = samples.iter().map(|_| SearchStart::Near(mean));
        let others = searches(samples, machine, &Server::Headlong, near);
        found.extend(self.limits(&others[found.len()..], progress)?);
        Ok(found)
    }

    /// The limits of all searches.
    fn limits(
        &self,
        searches: &[Search<'_>],
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<(f64, RateRun)>, AnswerError> {
        self.each_limit(searches, progress).collect()
    }

    /// The limits of changed machines. One that fails at no rate that is tried has that of the
    /// highest, and is marked.
    fn limits_with_changes(
        &self,
        searches: &[Search<'_>],
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<(f64, bool)>, AnswerError> {
        let limits = self.each_limit(searches, progress);
        limits
            .map(|found| match found {
                Err(AnswerError::Limit(LimitError::Unlimited { mbit_s })) => {
                    Ok((mbit_s as f64 * 1e6 / 8.0, true))
                }
                found => found.map(|(rate, _)| (rate, false)),
            })
            .collect()
    }

    /// The readahead with the highest limit under nginx, and that limit, with the first sample. The
    /// usual one is searched, the others only if they reach its limit.
    fn best_read_ahead(
        &self,
        (samples, machine): (&[&[u32]], &Machine),
        start: f64,
        progress: &mut dyn FnMut(),
    ) -> Result<(u64, f64), AnswerError> {
        let of = |read_ahead_bytes, start: SearchStart| {
            let server = Server::Nginx { read_ahead_bytes };
            searches(&samples[..1], machine, &server, [start])
        };
        let usual = of(USUAL_READ_AHEAD, SearchStart::Guess(start));
        let usual = self.limits(&usual, progress)?;
        let mut best = (
            USUAL_READ_AHEAD,
            usual.first().map_or(0.0, |(rate, _)| *rate),
        );
        let better = best.1 * (1.0 + RESOLUTION);
        let others = READ_AHEADS.iter().filter(|bytes| **bytes != best.0);
        let tries: Vec<(u64, Search<'_>)> = others
            .flat_map(|bytes| {
                let search = of(*bytes, SearchStart::Near(better)).into_iter();
                search.map(|search| (*bytes, search))
            })
            .collect();
        let find = |(_, search): &(u64, Search<'_>)| {
            let limit = self.limit(search);
            match limit.reaches(search.start.bytes_per_s())? {
                true => limit.search(search.start),
                false => Ok(None),
            }
        };
        let found = in_parallel(&tries, self.options.threads, find, |_, _| progress());
        for ((bytes, _), found) in tries.iter().zip(found) {
            let rate = found?.map_or(0.0, |(rate, _)| rate);
            if rate > best.1 {
                best = (*bytes, rate);
            }
        }
        Ok(best)
    }

    /// Viewers for each byte per second of a sample.
    fn viewers_per_rate(&self, times: &[u32]) -> f64 {
        let (mut present_ms, mut bytes) = (0.0, 0.0);
        for (session, times) in self.sample.sessions.iter().zip(times) {
            present_ms += f64::from(*times) * session.present_ms as f64;
            bytes += f64::from(*times) * session.bytes as f64;
        }
        present_ms / 1000.0 / bytes.max(1.0)
    }

    fn curve(
        &self,
        servers: &[(&'static str, Server)],
        machine: &Machine,
        limit: f64,
    ) -> Result<Vec<CurvePoint>, AnswerError> {
        let times = vec![1; self.sample.sessions.len()];
        let limits = servers.iter().map(|(name, server)| {
            let search = Search {
                times: &times,
                place: 0,
                machine,
                server: server.clone(),
                start: SearchStart::Near(limit),
            };
            let limit = self.limit(&search);
            let content = limit.flash_content();
            (*name, limit, content)
        });
        let limits: Vec<_> = limits.collect();
        let of_server = |of| CURVE.iter().map(move |factor| (of, limit * factor));
        let points: Vec<_> = limits.iter().flat_map(of_server).collect();
        let run = |((name, of, content), rate): &(&CurveServer<'_>, f64)| {
            let run = of.run(*rate, false, content.as_ref())?;
            Ok::<CurvePoint, LimitError>(CurvePoint {
                server: name,
                mbit_s: rate * 8.0 / 1e6,
                failed_share: run.failures() as f64 / run.ended().max(1) as f64,
            })
        };
        let found = in_parallel(&points, self.options.threads, run, |_, _| {});
        Ok(found.into_iter().collect::<Result<_, LimitError>>()?)
    }
}

/// Answers how many viewers the machine bears. `progress` is called after each search.
///
/// # Errors
/// If the log has too few sessions, the titles do not fit, or no rate passes.
pub fn capacity(
    sample: &ViewerSample,
    log: LogFacts,
    machine: &Machine,
    options: &CapacityOptions,
    progress: &mut dyn FnMut(),
) -> Result<CapacityAnswer, AnswerError> {
    if sample.sessions_in_log < SESSIONS_MIN {
        return Err(AnswerError::Sessions {
            sessions: sample.sessions_in_log,
        });
    }
    let answering = Answering { sample, options };
    if log.catalogue_bytes > machine.capacity_bytes() {
        return Err(AnswerError::Titles {
            least: if log.catalogue_is_least {
                "at least "
            } else {
                ""
            },
            needed: Bytes(log.catalogue_bytes).rounded(),
            held: Bytes(machine.capacity_bytes()).rounded(),
            disks: log
                .catalogue_bytes
                .div_ceil(machine.drive.capacity_bytes().max(1)),
        });
    }
    let mut draws = Generator::new(SEED).fork("samples of sessions");
    let samples = Resamples::new(sample.sessions.len(), options.samples.max(2), |count| {
        draws.below(count)
    });
    let samples: Vec<&[u32]> = samples.samples().collect();
    let headlong = Server::Headlong;
    let base = answering.base_limits((&samples, machine), progress)?;
    let rates: Vec<f64> = base.iter().map(|(rate, _)| *rate).collect();
    let per_rate = samples
        .iter()
        .map(|times| answering.viewers_per_rate(times));
    let per_rate: Vec<f64> = per_rate.collect();
    let viewers: Vec<f64> = rates
        .iter()
        .zip(&per_rate)
        .map(|(rate, per)| rate * per)
        .collect();
    let mbit: Vec<f64> = rates.iter().map(|rate| rate * 8.0 / 1e6).collect();
    let none = || AnswerError::NoRate {
        machine: machine.told(),
        timeout: 10,
    };
    let limit = CapacityFigure::predicted(&mbit).ok_or_else(none)?;
    let known = CapacityFigure::predicted(&viewers).ok_or_else(none)?;
    let median = {
        let mut order: Vec<usize> = (0..rates.len()).collect();
        order.sort_by(|one, other| rates[*one].total_cmp(&rates[*other]));
        order[order.len() / 2]
    };
    let at_limit = LimitState::of(&base[median].1).ok_or_else(none)?;

    let (mut changes, mut nginx, mut curve) = (Vec::new(), None, Vec::new());
    if options.is_whole {
        let pairs = &rates[..rates.len().min(PAIRS)];
        let ssd = machine
            .flash
            .as_ref()
            .map_or(&options.ssd, |flash| &flash.drive);
        let variants = [
            (
                format!("one more {}", machine.drive.name()),
                machine.with_disk(),
            ),
            ("16 GiB more memory".to_owned(), machine.with_memory()),
            (
                format!("one more SSD, {}", ssd.name()),
                machine.with_ssd(ssd),
            ),
        ];
        let all: Vec<Search<'_>> = variants
            .iter()
            .flat_map(|(_, changed)| {
                let more = changed.random_bytes_per_s() / machine.random_bytes_per_s();
                let near = pairs.iter().map(|rate| SearchStart::Near(rate * more));
                searches(&samples, changed, &headlong, near)
            })
            .collect();
        let found = answering.limits_with_changes(&all, progress)?;
        for ((what, _), found) in variants.iter().zip(found.chunks(pairs.len())) {
            let with: Vec<f64> = found.iter().map(|(rate, _)| *rate).collect();
            let gain = CapacityFigure::ratio(&with, pairs).ok_or_else(none)?;
            changes.push(Change {
                what: what.clone(),
                gain,
                mbit_s: limit.value * gain.value,
                is_least: found.iter().any(|(_, is_least)| *is_least),
            });
        }
        changes.sort_by(|one, other| other.gain.value.total_cmp(&one.gain.value));

        let start = pairs.first().map_or(0.0, |rate| rate / 3.0);
        let (read_ahead_bytes, first) =
            answering.best_read_ahead((&samples, machine), start, progress)?;
        let server = Server::Nginx { read_ahead_bytes };
        let starts = pairs.iter().map(|_| SearchStart::Near(first));
        let rest = searches(&samples, machine, &server, starts);
        let rest = answering.limits(&rest[1..], progress)?;
        let limits: Vec<f64> = std::iter::once(first)
            .chain(rest.iter().map(|(rate, _)| *rate))
            .collect();
        let share = CapacityFigure::ratio(&limits, pairs).ok_or_else(none)?;
        nginx = Some(OtherServer {
            server: "nginx",
            read_ahead_bytes,
            share,
            mbit_s: limit.value * share.value,
            viewers: known.value * share.value,
        });
        let servers = [("Headlong", headlong), ("nginx", server)];
        curve = answering.curve(&servers, machine, limit.value * 1e6 / 8.0)?;
    }
    Ok(CapacityAnswer {
        remarks: remarks(sample, &log, limit.value),
        machine: machine.told(),
        mbit_s: limit,
        viewers: known,
        limited_by: limited_by(&at_limit, &changes),
        at_limit,
        changes,
        nginx,
        curve,
        method: METHOD,
        log,
    })
}

/// The part whose increase brings most, if any clearly does.
fn limited_by(state: &LimitState, changes: &[Change]) -> String {
    let busy = state.busiest_disk * 100.0;
    let first = changes.first().filter(|change| change.gain.low > 1.0);
    match first {
        Some(change) => format!(
            "{} brings most; the busiest disk is {busy:.0} % busy, {:.0} % of the memory holds \
             bytes read ahead",
            change.what,
            state.unread_share * 100.0
        ),
        None if state.busiest_disk >= 0.85 => format!("the disks: the busiest is {busy:.0} % busy"),
        None => format!(
            "waiting times rather than throughput: the busiest disk is {busy:.0} % busy, and {:.0} \
             % of the memory holds bytes read ahead",
            state.unread_share * 100.0
        ),
    }
}

fn remarks(sample: &ViewerSample, log: &LogFacts, mbit_s: f64) -> Vec<String> {
    let mut remarks = Vec::new();
    if log.sessions < SESSIONS_NARROW {
        remarks.push(format!(
            "the log has {} sessions, fewer than {SESSIONS_NARROW}: intervals are wide",
            log.sessions
        ));
    }
    let growth = mbit_s / log.mean_mbit_s;
    if growth > GROWTH_REMARKED {
        remarks.push(format!(
            "the limit is {growth:.0} times the mean demand of the log: so many more viewers may \
             watch other titles in another way, which no interval here covers"
        ));
    }
    if log.catalogue_is_least {
        remarks.push(format!(
            "of the titles at least {} are known; whether all fit on the disks is not (--catalogue \
             tells)",
            Bytes(log.catalogue_bytes).rounded()
        ));
    }
    if sample.sessions.len() as u64 != sample.sessions_in_log {
        remarks.push(format!(
            "{} of {} sessions, drawn evenly, are played",
            sample.sessions.len(),
            sample.sessions_in_log
        ));
    }
    let mut visits = sample.sessions.iter().flat_map(|session| &session.visits);
    if visits.all(|visit| visit.bandwidth.is_none()) {
        remarks.push(
            "the log does not tell how long requests took: viewers take every reply at once, and \
             the number of viewers is too low"
                .to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prediction_is_wider_than_the_interval_of_a_mean() {
        let found = CapacityFigure::predicted(&[100.0, 110.0, 90.0, 100.0]).expect("an interval");
        assert!((found.value - 99.75).abs() < 0.1, "{found:?}");
        // 3.18 standard deviations (of 8.2 %) times the root of 2 + 1/4.
        assert!((found.high / found.value - 1.48).abs() < 0.02, "{found:?}");
        assert!(found.contains(found.value) && !found.contains(200.0));
        assert_eq!(CapacityFigure::predicted(&[1.0]), None);
    }

    /// Logs of 300 values each; the figure of a log is their mean.
    #[test]
    fn prediction_from_samples_of_one_log_contains_figure_of_another() {
        let logs = Generator::new(1).fork("logs");
        let log = |number: u64| {
            let mut values = logs.fork_at(number);
            (0..300).map(move |_| values.exponential(1.0))
        };
        let trials = 1_000;
        let inside = (0..trials).filter(|trial| {
            let values: Vec<f64> = log(2 * trial).collect();
            let mut draws = logs.fork_at(*trial).fork("samples");
            let samples = Resamples::new(values.len(), 5, |count| draws.below(count));
            let means = samples.samples().map(|times| {
                let values = values.iter().zip(times);
                values
                    .map(|(value, times)| value * f64::from(*times))
                    .sum::<f64>()
                    / 300.0
            });
            let found = CapacityFigure::predicted(&means.collect::<Vec<f64>>());
            let other = log(2 * trial + 1).sum::<f64>() / 300.0;
            found.is_some_and(|found| found.contains(other))
        });
        let share = inside.count() as f64 / trials as f64;
        assert!((0.93..0.97).contains(&share), "{share}");
    }

    #[test]
    fn the_part_that_brings_most_is_named_only_if_it_is_clear() {
        let state = LimitState {
            busiest_disk: 0.97,
            mean_disk: 0.9,
            unread_share: 0.2,
            prefetch_bytes: 1 << 22,
        };
        let change = |low: f64| Change {
            what: "one more disk".to_owned(),
            gain: CapacityFigure {
                value: 1.2,
                low,
                high: 1.4,
            },
            mbit_s: 1.0,
            is_least: false,
        };
        assert!(limited_by(&state, &[change(1.1)]).starts_with("one more disk brings most"));
        assert!(limited_by(&state, &[change(0.9)]).starts_with("the disks: the busiest is 97 %"));
    }
}
