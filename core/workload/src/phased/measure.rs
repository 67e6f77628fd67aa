//! Measures sessions as thesis chapter 5 measured its log: [`Observed`] of what was generated.
//!
//! The one idea: a generator is judged by what a log of it shows, not by what it meant. So this
//! forgets what is known of a session and looks at lines as a log has them (whole seconds of
//! completion), by the literal rules: chains by matching ends with starts, each once, 40 s; clusters
//! at gaps below 10 s; inactive from 40 s. Sessions come one at a time, which keeps it simple; logs
//! of any order are for `headlong trace`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::catalogue::Catalogue;
use super::chaining::{Chain, Spans, chains};
use super::observed::{
    ChainRow, ChainsSeen, DeviceSeen, LENGTHS, Observed, PhasesSeen, Points, Popularity,
    RenditionSeen, TitlesSeen, ViewingSeen, distribution, length_at,
};
use super::session::Session;
use super::specification::Specification;
use super::survival::slopes;
use super::{Kind, SOCKET_BYTES};

/// Longest short chain, ms (thesis 5.4.3).
const SHORT_MS: i64 = 40_000;
/// A cluster ends at a gap of this, ms (thesis 5.4.3).
const CLUSTER_GAP_MS: i64 = 10_000;
/// An inactive phase is at least this, ms (thesis 5.4.5).
const INACTIVE_MS: i64 = 40_000;
/// A jump of more than this is a skip, s.
const SKIP_S: f64 = 30.0;
/// Chains at offset zero below this are headers, bytes.
const HEADER_BYTES: u64 = 1 << 20;
/// Of a device or a title, no more values than this are kept.
const KEPT_MAX: usize = 200_000;

/// Sums over sessions.
pub struct Measure<'a> {
    specification: &'a Specification,
    catalogue: &'a Catalogue,
    seen: Observed,
    titles: Vec<u64>,
    files: BTreeSet<u32>,
    lengths: Vec<u64>,
    rows: [[ChainRow; 3]; 2],
    requests: [[ChainRow; 3]; 2],
    at_zero: u64,
    open_zero: [u64; 3],
    chunk_zero: [u64; 3],
    later: [u64; 2],
    parallel: [u64; 6],
    rates: BTreeMap<(Kind, u32), (u64, f64)>,
    values: Values,
    sums: Sums,
    devices: Vec<DeviceSums>,
}

/// Values that become distributions.
#[derive(Default)]
struct Values {
    start: Vec<f64>,
    session: Vec<f64>,
    glance: Vec<f64>,
    stay: Vec<f64>,
    fraction: Vec<f64>,
    skip: Vec<f64>,
    pause: Vec<f64>,
}

/// Times are ms.
#[derive(Default)]
struct Sums {
    span: i64,
    inactive: i64,
    transient: i64,
    stable: i64,
    stable_all: i64,
    transient_all: i64,
    clusters: u64,
    clusters_all: u64,
    stables: u64,
    stables_all: u64,
    stable_ms: i64,
    stable_all_ms: i64,
    with_stable: u64,
    short_bytes: u64,
    bytes: u64,
    skips: u64,
    pauses: u64,
    early_pauses: u64,
    changes: u64,
    moves: [u64; 3],
}

#[derive(Default)]
struct DeviceSums {
    sessions: u64,
    separate: u64,
    content: [u64; 2],
    audio: [u64; 2],
    both: u64,
    kbps: BTreeMap<u32, f64>,
    request_s: Vec<f64>,
    request_bytes: Vec<f64>,
    connections: Vec<f64>,
    audio_request_s: Vec<f64>,
    spacing: Vec<f64>,
    ahead: Vec<f64>,
    audio_ahead: Vec<f64>,
    header: Vec<f64>,
    first: (u64, u64),
    next: (u64, u64),
    probe: (u64, f64),
    audio_chains: (u64, u64),
    headroom: Vec<f64>,
}

fn keep(values: &mut Vec<f64>, value: f64) {
    if values.len() < KEPT_MAX {
        values.push(value);
    }
}

impl<'a> Measure<'a> {
    /// Nothing measured yet. Only names are taken from the specification, and what a table of files
    /// has from the catalogue.
    pub fn new(specification: &'a Specification, catalogue: &'a Catalogue) -> Self {
        let parts = specification.sessions.arrivals.len().max(1);
        let mut seen = Observed {
            arrivals: vec![0; parts],
            ..Observed::default()
        };
        seen.name.clone_from(&specification.name);
        seen.length_s = specification.sessions.length_s;
        let devices = specification.devices.iter().map(|_| DeviceSums::default());
        Self {
            specification,
            catalogue,
            seen,
            titles: vec![0; catalogue.titles.len()],
            files: BTreeSet::new(),
            lengths: Vec::new(),
            rows: Default::default(),
            requests: Default::default(),
            at_zero: 0,
            open_zero: [0; 3],
            chunk_zero: [0; 3],
            later: [0; 2],
            parallel: [0; 6],
            rates: BTreeMap::new(),
            values: Values::default(),
            sums: Sums::default(),
            devices: devices.collect(),
        }
    }

    /// Adds a session. One without requests is not in a log, and does not count.
    pub fn add(&mut self, session: &Session) {
        let mut lines: Vec<_> = session.requests.clone();
        for line in &mut lines {
            // As a log has it: completion in whole seconds, and received before that.
            let service = line.completed_ms - line.received_ms;
            line.completed_ms = line.completed_ms.div_euclid(1000) * 1000;
            line.received_ms = line.completed_ms - service;
        }
        let (Some(first), Some(last)) = (
            lines.iter().map(|line| line.received_ms).min(),
            lines.iter().map(|line| line.completed_ms).max(),
        ) else {
            return;
        };
        self.seen.sessions += 1;
        let part = libm::fmax(first as f64, 0.0) / 1000.0 / self.seen.length_s;
        let parts = self.seen.arrivals.len();
        self.seen.arrivals[((part * parts as f64) as usize).min(parts - 1)] += 1;
        self.titles[session.title as usize] += 1;
        for line in &lines {
            self.files.insert(line.file);
            let kind = self.kind(line.file);
            let row = &mut self.requests[usize::from(line.asked_bytes.is_none())][kind as usize];
            row.requests += 1;
            row.bytes += line.sent_bytes;
            self.sums.bytes += line.sent_bytes;
        }
        let found = chains(&mut lines, &mut |most| {
            self.parallel[(most as usize).clamp(1, 6) - 1] += 1;
        });
        for chain in &found {
            self.add_chain(chain);
        }
        self.add_phases(session, &found, first, last);
        self.add_device(session, &lines, &found);
    }

    fn kind(&self, file: u32) -> Kind {
        self.catalogue.files[file as usize].kind
    }

    fn kbps(&self, file: u32) -> u32 {
        self.catalogue.files[file as usize].kbps
    }

    fn seconds(&self, chain: &Chain) -> f64 {
        chain.length as f64 / (f64::from(self.kbps(chain.file)) * 125.0)
    }

    fn position_s(&self, file: u32, offset: u64) -> f64 {
        let file = &self.catalogue.files[file as usize];
        let duration = self.catalogue.titles[file.title as usize].duration_s;
        offset as f64 / file.size as f64 * duration
    }

    fn is_header(chain: &Chain) -> bool {
        chain.start == 0 && chain.length < HEADER_BYTES
    }

    fn add_chain(&mut self, chain: &Chain) {
        let kind = self.kind(chain.file);
        let seconds = self.seconds(chain);
        let row = &mut self.rows[usize::from(chain.is_open)][kind as usize];
        row.chains += 1;
        row.requests += u64::from(chain.requests);
        row.bytes += chain.length;
        row.seconds += seconds;
        self.lengths.push(chain.length);
        if chain.start == 0 {
            self.at_zero += 1;
            if chain.is_open {
                self.open_zero[0] += 1;
                self.open_zero[1] += u64::from(chain.length == SOCKET_BYTES);
                self.open_zero[2] += u64::from(chain.length < SOCKET_BYTES);
            } else {
                self.chunk_zero[0] += 1;
                self.chunk_zero[1] += u64::from(chain.length < 16 * 1024);
                self.chunk_zero[2] += u64::from(chain.length < 128 * 1024);
            }
        } else {
            self.later[0] += 1;
            self.later[1] += u64::from(chain.length < SOCKET_BYTES);
        }
        let is_long = chain.duration_ms() > SHORT_MS;
        if !is_long {
            self.sums.short_bytes += chain.length;
        }
        let rate = self.rates.entry((kind, self.kbps(chain.file))).or_default();
        rate.0 += chain.length;
        if is_long || kind == Kind::Audio {
            rate.1 += seconds;
        }
    }

    fn add_phases(&mut self, session: &Session, found: &[Chain], first: i64, last: i64) {
        let is_content = |chain: &&Chain| self.kind(chain.file) != Kind::Audio;
        let all = Spans::of(found.iter(), SHORT_MS, CLUSTER_GAP_MS);
        let content = Spans::of(found.iter().filter(is_content), SHORT_MS, CLUSTER_GAP_MS);
        let breaks = all.breaks(INACTIVE_MS);
        let sums = &mut self.sums;
        let span = last - first;
        let inactive: i64 = breaks.iter().map(|(from, to)| to - from).sum();
        sums.span += span;
        sums.inactive += inactive;
        sums.transient += Spans::union(&content.clusters);
        sums.transient_all += Spans::union(&all.clusters);
        sums.stable += Spans::union(&content.stable);
        sums.stable_all += Spans::union(&all.stable);
        sums.clusters += content.clusters.len() as u64;
        sums.clusters_all += all.clusters.len() as u64;
        sums.stables += content.stable.len() as u64;
        sums.stables_all += all.stable.len() as u64;
        let total = |spans: &[(i64, i64)]| spans.iter().map(|(from, to)| to - from).sum::<i64>();
        sums.stable_ms += total(&content.stable);
        sums.stable_all_ms += total(&all.stable);
        sums.with_stable += u64::from(!content.stable.is_empty());
        for (from, to) in &breaks {
            self.values.pause.push((to - from) as f64 / 1000.0);
            if from - first < 60_000 {
                continue;
            }
            sums.pauses += 1;
        }
        sums.early_pauses += u64::from(breaks.iter().any(|(from, _)| from - first < 60_000));
        self.add_viewing(session, found, span, inactive);
        self.add_moves(session, found, &content, &breaks);
    }

    fn add_viewing(&mut self, session: &Session, found: &[Chain], span: i64, inactive: i64) {
        let duration = self.catalogue.titles[session.title as usize].duration_s;
        let content = found
            .iter()
            .filter(|chain| self.kind(chain.file) != Kind::Audio);
        let content: Vec<&Chain> = content.collect();
        let earliest = content.iter().filter(|chain| !Self::is_header(chain));
        let earliest = earliest.min_by_key(|chain| (chain.start_ms, chain.start));
        let start = earliest.map(|chain| self.position_s(chain.file, chain.start) / duration);
        let seconds = span as f64 / 1000.0;
        let values = &mut self.values;
        values.start.extend(start);
        values.session.push(seconds);
        if seconds <= SHORT_MS as f64 / 1000.0 {
            values.glance.push(seconds);
        } else if let Some(start) = start {
            let active = seconds - inactive as f64 / 1000.0;
            let rest = libm::fmax(duration * (1.0 - start), 1.0);
            values.stay.push(libm::fmin(active / rest, 1.2));
        }
        let read: f64 = content.iter().map(|chain| self.seconds(chain)).sum();
        self.values.fraction.push(read / duration);
    }

    /// What is between phases: skips, adaptations, and where the bit rate goes.
    fn add_moves(
        &mut self,
        session: &Session,
        found: &[Chain],
        content: &Spans,
        breaks: &[(i64, i64)],
    ) {
        let mut order: Vec<&Chain> = found
            .iter()
            .filter(|chain| self.kind(chain.file) != Kind::Audio && !Self::is_header(chain))
            .collect();
        order.sort_unstable_by_key(|chain| (chain.start_ms, chain.start, chain.file));
        let device = &mut self.devices[session.device as usize];
        let mut stretches = 1;
        for (index, cluster) in content.clusters.iter().enumerate() {
            let within = order.iter().filter(|chain| {
                chain.start_ms >= cluster.0
                    && chain.end_ms <= cluster.1
                    && chain.duration_ms() <= SHORT_MS
            });
            let within: Vec<&&Chain> = within.collect();
            let after = content.stable.iter();
            let mut after =
                after.filter(|(from, _)| (cluster.0..cluster.1 + 11_000).contains(from));
            if after.next().is_some() {
                let sums = if index == 0 {
                    &mut device.first
                } else {
                    &mut device.next
                };
                sums.0 += 1;
                sums.1 += within.len() as u64;
                for chain in &within {
                    let kbps = f64::from(self.catalogue.files[chain.file as usize].kbps);
                    device.probe.0 += 1;
                    device.probe.1 += chain.length as f64 / (kbps * 125.0);
                }
            }
            let Some(head) = within.first().filter(|_| index > 0) else {
                continue;
            };
            let before = order.iter().filter(|chain| chain.start_ms < cluster.0);
            let Some(before) = before.max_by_key(|chain| (chain.end_ms, chain.start)) else {
                continue;
            };
            let place = |file: u32, offset: u64| {
                let file = &self.catalogue.files[file as usize];
                let duration = self.catalogue.titles[file.title as usize].duration_s;
                offset as f64 / file.size as f64 * duration
            };
            let from = place(before.file, before.start + before.length);
            let jump = place(head.file, head.start) - from;
            let mut is_pause = breaks.iter();
            let is_pause = is_pause.any(|(_, to)| (to - 1_000..to + 10_000).contains(&cluster.0));
            if is_pause {
                stretches += 1;
            } else if libm::fabs(jump) > SKIP_S {
                stretches += 1;
                self.sums.skips += 1;
                self.values.skip.push(jump);
            } else {
                self.sums.changes += 1;
            }
        }
        let audio = found.iter().filter(|chain| {
            self.catalogue.files[chain.file as usize].kind == Kind::Audio && chain.start > 0
        });
        let audio = audio.count() as u64;
        if audio > 0 {
            device.audio_chains.0 += stretches;
            device.audio_chains.1 += audio;
        }
        let stable: Vec<u32> = order
            .iter()
            .filter(|chain| chain.duration_ms() > SHORT_MS)
            .map(|chain| self.catalogue.files[chain.file as usize].kbps)
            .collect();
        for pair in stable.windows(2) {
            let way = match pair[1].cmp(&pair[0]) {
                core::cmp::Ordering::Greater => 0,
                core::cmp::Ordering::Less => 1,
                core::cmp::Ordering::Equal => 2,
            };
            self.sums.moves[way] += 1;
        }
    }

    fn add_device(&mut self, session: &Session, lines: &[super::Request], found: &[Chain]) {
        let catalogue = self.catalogue;
        let segments = catalogue.titles[session.title as usize].segments;
        let file = |number: u32| &catalogue.files[number as usize];
        let device = &mut self.devices[session.device as usize];
        device.sessions += 1;
        let mut forms = [0u64; 2];
        let (mut first_long, mut first_audio) = (None::<&Chain>, None::<&Chain>);
        for chain in found {
            let seconds = chain.length as f64 / (f64::from(file(chain.file).kbps) * 125.0);
            let is_audio = file(chain.file).kind == Kind::Audio;
            if Self::is_header(chain) && !chain.is_open && chain.requests == 1 {
                keep(
                    &mut device.header,
                    chain.length as f64 / f64::from(segments),
                );
            }
            if is_audio {
                device.audio[usize::from(chain.is_open)] += 1;
            } else {
                forms[usize::from(chain.is_open)] += 1;
            }
            if chain.duration_ms() <= SHORT_MS {
                continue;
            }
            let earliest = if is_audio {
                &mut first_audio
            } else {
                &mut first_long
            };
            if earliest.is_none_or(|known| chain.start_ms < known.start_ms) {
                *earliest = Some(chain);
            }
            if !is_audio {
                *device.kbps.entry(file(chain.file).kbps).or_default() += seconds;
            }
        }
        let is_separate = found
            .iter()
            .any(|chain| file(chain.file).kind == Kind::Video);
        device.separate += u64::from(is_separate);
        device.content[0] += forms[0];
        device.content[1] += forms[1];
        device.both += u64::from(forms[0] > 1 && forms[1] > 1);
        for (chain, values) in [
            (first_long, &mut device.ahead),
            (first_audio, &mut device.audio_ahead),
        ] {
            let Some(chain) = chain.filter(|chain| chain.duration_ms() > 200_000) else {
                continue;
            };
            let seconds = chain.length as f64 / (f64::from(file(chain.file).kbps) * 125.0);
            keep(values, seconds - chain.duration_ms() as f64 / 1000.0);
        }
        let rate = first_long.map(|chain| file(chain.file).bytes_per_s);
        let mut by_second: BTreeMap<i64, u64> = BTreeMap::new();
        for line in lines {
            let kbps = f64::from(file(line.file).kbps);
            let Some(asked) = line.asked_bytes else {
                continue;
            };
            if line.sent_bytes >= 64 * 1024 {
                *by_second.entry(line.completed_ms).or_default() += line.sent_bytes;
            }
            if file(line.file).kind == Kind::Audio && line.offset > 0 {
                keep(&mut device.audio_request_s, asked as f64 / (kbps * 125.0));
            }
        }
        let fastest = by_second.values().copied().max().unwrap_or(0) as f64;
        if let Some(rate) = rate.filter(|_| fastest > 0.0) {
            keep(&mut device.headroom, fastest / rate);
        }
        let Some(long) = first_long.filter(|chain| !chain.is_open) else {
            return;
        };
        let within: Vec<_> = lines
            .iter()
            .filter(|line| line.file == long.file && line.asked_bytes.is_some())
            .filter(|line| {
                line.offset >= long.start
                    && line.offset < long.start + long.length
                    && (long.start_ms..=long.end_ms).contains(&line.received_ms)
            })
            .collect();
        let middle = (long.start_ms + long.end_ms) / 2;
        let mut arrivals: Vec<i64> = within.iter().map(|line| line.received_ms).collect();
        arrivals.sort_unstable();
        let late = arrivals.windows(2).filter(|pair| pair[0] >= middle);
        if let Some(gap) = late.map(|pair| pair[1] - pair[0]).max() {
            keep(&mut device.spacing, gap as f64 / 1000.0);
        }
        let kbps = f64::from(file(long.file).kbps);
        for line in &within {
            let bytes = line.asked_bytes.unwrap_or(0) as f64;
            keep(&mut device.request_bytes, bytes);
            keep(&mut device.request_s, bytes / (kbps * 125.0));
        }
        let most = super::chaining::most_at_once(
            &mut within
                .iter()
                .map(|line| (line.received_ms, line.completed_ms)),
        );
        keep(&mut device.connections, f64::from(most));
    }

    /// What came of it.
    pub fn finish(mut self) -> Observed {
        let sessions = self.seen.sessions.max(1) as f64;
        let sums = &self.sums;
        let hours = libm::fmax((sums.span - sums.inactive) as f64 / 3.6e6, 1e-9);
        let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let moves: u64 = sums.moves.iter().sum();
        let span = sums.span.max(1) as f64;
        let mean_s = |ms: i64, count: u64| ms as f64 / 1000.0 / count.max(1) as f64;
        self.seen.phases = PhasesSeen {
            clusters: sums.clusters,
            stable: sums.stables,
            stable_s_mean: mean_s(sums.stable_ms, sums.stables),
            clusters_all: sums.clusters_all,
            stable_all: sums.stables_all,
            stable_all_s_mean: mean_s(sums.stable_all_ms, sums.stables_all),
            sessions_with_stable: sums.with_stable as f64 / sessions,
            transient_share: sums.transient as f64 / span,
            stable_share: sums.stable as f64 / span,
            inactive_share: sums.inactive as f64 / span,
            stable_all_share: sums.stable_all as f64 / span,
            transient_all_share: sums.transient_all as f64 / span,
            transient_bytes_share: ratio(sums.short_bytes, sums.bytes),
        };
        let values = &mut self.values;
        self.seen.viewing = ViewingSeen {
            glance_share: values.glance.len() as f64 / sessions,
            start_share: distribution(&mut values.start),
            session_s: distribution(&mut values.session),
            glance_s: distribution(&mut values.glance),
            stay_share: distribution(&mut values.stay),
            fraction_downloaded: distribution(&mut values.fraction),
            skips_per_hour: sums.skips as f64 / hours,
            skip_s: distribution(&mut values.skip),
            pauses_per_hour: sums.pauses as f64 / hours,
            pause_at_start: sums.early_pauses as f64 / sessions,
            pause_s: distribution(&mut values.pause),
            changes_per_hour: sums.changes as f64 / hours,
            up_share: ratio(sums.moves[0], moves),
            down_share: ratio(sums.moves[1], moves),
        };
        self.finish_titles();
        let devices = core::mem::take(&mut self.devices);
        let names = self
            .specification
            .devices
            .iter()
            .map(|device| device.name.clone());
        self.seen.devices = names
            .zip(devices)
            .map(|(name, sums)| sums.finish(name))
            .collect();
        self.finish_chains();
        self.seen
    }

    fn finish_titles(&mut self) {
        let asked = self.titles.iter().zip(&self.catalogue.titles);
        let asked = asked.filter(|(sessions, _)| **sessions > 0);
        let mut durations: Vec<f64> = asked.map(|(_, title)| title.duration_s).collect();
        let drives: BTreeSet<u16> = self.catalogue.files.iter().map(|file| file.disk).collect();
        self.seen.titles = TitlesSeen {
            listed: self.catalogue.titles.len() as u64,
            requested: durations.len() as u64,
            files_requested: self.files.len() as u64,
            drives: drives.len() as u16,
            popularity: Popularity::of(&mut self.titles, self.specification.catalogue.head_titles),
            durations_s: distribution(&mut durations),
        };
        let mut having: BTreeMap<(Kind, u32), u64> = BTreeMap::new();
        for file in &self.catalogue.files {
            *having.entry((file.kind, file.kbps)).or_default() += 1;
        }
        let titles = self.catalogue.titles.len().max(1) as f64;
        self.seen.renditions = having
            .into_iter()
            .map(|((kind, kbps), count)| {
                let (bytes, seconds) = self.rates.get(&(kind, kbps)).copied().unwrap_or_default();
                RenditionSeen {
                    kind,
                    kbps,
                    titles_share: count as f64 / titles,
                    bytes,
                    seconds,
                }
            })
            .collect();
    }

    fn finish_chains(&mut self) {
        self.lengths.sort_unstable();
        let count = self.lengths.len().max(1) as f64;
        let total: u64 = self.lengths.iter().sum();
        let mut below = 0;
        let (mut survival, mut bytes_survival) = (Points::new(), Points::new());
        let mut bytes_below = 0;
        for index in 0..LENGTHS {
            let length = length_at(index);
            while below < self.lengths.len() && self.lengths[below] as f64 <= length {
                bytes_below += self.lengths[below];
                below += 1;
            }
            survival.push((length, 1.0 - below as f64 / count));
            bytes_survival.push((length, 1.0 - bytes_below as f64 / total.max(1) as f64));
        }
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let files: u64 = self.parallel.iter().sum();
        let [chunk, open] = self.rows;
        let [chunk_requests, open_requests] = self.requests;
        self.seen.chains = ChainsSeen {
            open,
            chunk,
            open_requests,
            chunk_requests,
            survival,
            bytes_survival,
            slopes: slopes(&self.lengths),
            at_zero: self.at_zero as f64 / count,
            open_zero_lump: [
                share(self.open_zero[1], self.open_zero[0]),
                share(self.open_zero[2], self.open_zero[0]),
            ],
            chunk_zero_below: [
                share(self.chunk_zero[1], self.chunk_zero[0]),
                share(self.chunk_zero[2], self.chunk_zero[0]),
            ],
            later_below: share(self.later[1], self.later[0]),
            parallel: self.parallel.map(|count| share(count, files)),
        };
    }
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values
        .get(at.min(values.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0.0)
}

impl DeviceSums {
    fn finish(mut self, name: alloc::string::String) -> DeviceSeen {
        let share = |open: [u64; 2]| open[1] as f64 / (open[0] + open[1]).max(1) as f64;
        let seconds: f64 = self.kbps.values().sum();
        let mut highest = self.kbps.iter().rev().scan(0.0, |sum, (kbps, seconds)| {
            *sum += seconds;
            Some((*kbps, *sum))
        });
        let highest = highest.find(|(_, sum)| *sum > seconds * 0.001);
        let mean = |(count, sum): (u64, u64)| sum as f64 / count.max(1) as f64;
        let (sessions, of_sessions) = (self.sessions, self.sessions.max(1) as f64);
        DeviceSeen {
            name,
            sessions,
            separate_share: self.separate as f64 / of_sessions,
            open_content_share: share(self.content),
            open_audio_share: share(self.audio),
            both_share: self.both as f64 / of_sessions,
            kbps_max: highest.map_or(0, |(kbps, _)| kbps),
            request_s: quantile(&mut self.request_s, 0.95),
            request_bytes: quantile(&mut self.request_bytes, 0.95),
            connections: quantile(&mut self.connections, 0.5) as u32,
            audio_request_s: quantile(&mut self.audio_request_s, 0.5),
            spacing_s: quantile(&mut self.spacing, 0.5),
            ahead_s: quantile(&mut self.ahead, 0.5),
            audio_ahead_s: quantile(&mut self.audio_ahead, 0.5),
            header_bytes_per_segment: quantile(&mut self.header, 0.5),
            probes_first: mean(self.first),
            probes_next: mean(self.next),
            probe_s: self.probe.1 / self.probe.0.max(1) as f64,
            audio_chains: mean(self.audio_chains),
            headroom: distribution(&mut self.headroom),
        }
    }
}

/// What a log of `specification` with this seed looks like.
pub fn observe(specification: &Specification, catalogue: &Catalogue, seed: u64) -> Observed {
    let mut measure = Measure::new(specification, catalogue);
    let mut sessions = super::Sessions::new(specification, catalogue, seed);
    while let Some(session) = sessions.next() {
        measure.add(&session);
        sessions.recycle(session);
    }
    measure.finish()
}
