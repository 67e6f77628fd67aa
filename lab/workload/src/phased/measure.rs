//! Measures sessions as thesis chapter 5 measured its log: [`Observed`] of what was generated.
//!
//! The one idea: a generator is judged by what a log of it shows, not by what it meant. So this
//! forgets what is known of a session and looks at lines as a log has them (whole seconds of
//! completion). Chains, phases and survival are those of [`headlong_chains`], by its default
//! (literal) rules. Sessions come one at a time, which keeps it simple; logs of any order are for
//! `headlong trace`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{
    Chain, FitPoints, Joiner, Lengths, PhaseKind, PhaseRules, PhaseTotals, Request, Rules,
    SessionPhases, Survival, most_at_once, phases,
};

use super::catalogue::Catalogue;
use super::observed::{
    ChainRow, ChainsSeen, DeviceSeen, LENGTHS, Observed, PhasesSeen, Points, Popularity,
    RenditionSeen, TitlesSeen, ViewingSeen, distribution, length_at,
};
use super::session::Session;
use super::specification::Specification;
use super::{Kind, SOCKET_BYTES};

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
    lengths: Lengths,
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
    joiner: Joiner,
    lines: Vec<Request>,
    found: Vec<Chain>,
    edges: Vec<(i64, i64)>,
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

#[derive(Default)]
struct Sums {
    /// Without sound, and with it (A12).
    phases: [PhaseTotals; 2],
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
            lengths: Lengths::new(),
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
            joiner: Joiner::new(Rules::default()),
            lines: Vec::new(),
            found: Vec::new(),
            edges: Vec::new(),
        }
    }

    /// Adds a session. One without requests is not in a log, and does not count.
    pub fn add(&mut self, session: &Session) {
        let mut lines = core::mem::take(&mut self.lines);
        let mut found = core::mem::take(&mut self.found);
        session.logged(self.catalogue, &mut lines);
        self.joiner.join(&lines, &mut found);
        if let Some(first) = lines.iter().map(|line| line.received_ms).min() {
            self.add_lines(session, first, &mut lines);
            for chain in &found {
                self.add_chain(chain);
            }
            self.add_phases(session, &found);
            self.add_device(session, &lines, &found);
        }
        (self.lines, self.found) = (lines, found);
    }

    /// Leaves the lines sorted by file.
    fn add_lines(&mut self, session: &Session, first: i64, lines: &mut [Request]) {
        self.seen.sessions += 1;
        let part = libm::fmax(first as f64, 0.0) / 1000.0 / self.seen.length_s;
        let parts = self.seen.arrivals.len();
        self.seen.arrivals[((part * parts as f64) as usize).min(parts - 1)] += 1;
        self.titles[session.title as usize] += 1;
        lines.sort_unstable_by_key(|line| (line.file, line.received_ms, line.line));
        for of_file in lines.chunk_by(|one, other| one.file == other.file) {
            self.files.insert(of_file[0].file);
            let kind = self.kind(of_file[0].file);
            for line in of_file {
                let row =
                    &mut self.requests[usize::from(line.asked_bytes.is_none())][kind as usize];
                row.requests += 1;
                row.bytes += line.sent_bytes;
            }
            let spans = of_file
                .iter()
                .map(|line| (line.received_ms, line.completed_ms));
            let most = most_at_once(spans, &mut self.edges);
            self.parallel[most.min(self.parallel.len()) - 1] += 1;
        }
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
        self.lengths.add(chain.length);
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
        let rate = self.rates.entry((kind, self.kbps(chain.file))).or_default();
        rate.0 += chain.length;
        if is_long(chain) || kind == Kind::Audio {
            rate.1 += seconds;
        }
    }

    fn add_phases(&mut self, session: &Session, found: &[Chain]) {
        let catalogue = self.catalogue;
        let kind_of = |file: u32| catalogue.files[file as usize].kind;
        let mut of_content = None;
        for (with_audio, totals) in [false, true].into_iter().zip(&mut self.sums.phases) {
            let rules = PhaseRules {
                with_audio,
                ..PhaseRules::default()
            };
            if let Some(of) = phases(found, kind_of, &rules) {
                totals.add(&of, &rules);
                of_content.get_or_insert(of);
            }
        }
        // Of a session that got no byte there is no more to tell.
        let Some(content) = of_content else { return };
        let breaks = spans(&content, PhaseKind::Inactive);
        let is_early = |from: i64| from - content.start_ms < 60_000;
        for (from, to) in &breaks {
            self.values.pause.push((to - from) as f64 / 1000.0);
            self.sums.pauses += u64::from(!is_early(*from));
        }
        self.sums.early_pauses += u64::from(breaks.iter().any(|(from, _)| is_early(*from)));
        self.add_viewing(session, found, content.span_ms(), content.inactive_ms);
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
        if span <= PhaseRules::default().short_ms_max {
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
        content: &SessionPhases,
        breaks: &[(i64, i64)],
    ) {
        let mut order: Vec<&Chain> = found
            .iter()
            .filter(|chain| self.kind(chain.file) != Kind::Audio && !Self::is_header(chain))
            .collect();
        order.sort_unstable_by_key(|chain| (chain.start_ms, chain.start, chain.file));
        let device = &mut self.devices[session.device as usize];
        let mut stretches = 1;
        let clusters = spans(content, PhaseKind::Transient);
        let stable = spans(content, PhaseKind::Stable);
        for (index, cluster) in clusters.iter().enumerate() {
            let within = order.iter().filter(|chain| {
                chain.start_ms >= cluster.0 && chain.end_ms <= cluster.1 && !is_long(chain)
            });
            let within: Vec<&&Chain> = within.collect();
            let mut after = stable.iter();
            if after.any(|(from, _)| (cluster.0..cluster.1 + 11_000).contains(from)) {
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
            if libm::fabs(jump) > SKIP_S {
                // However long the break was.
                stretches += 1;
                self.sums.skips += 1;
                self.values.skip.push(jump);
            } else if is_pause {
                stretches += 1;
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
            .filter(|chain| is_long(chain))
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

    fn add_device(&mut self, session: &Session, lines: &[Request], found: &[Chain]) {
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
            if !is_long(chain) {
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
        let under_way = within
            .iter()
            .map(|line| (line.received_ms, line.completed_ms));
        let most = most_at_once(under_way, &mut self.edges);
        keep(&mut device.connections, most as f64);
    }

    /// What came of it.
    pub fn finish(mut self) -> Observed {
        let sessions = self.seen.sessions.max(1) as f64;
        let sums = &self.sums;
        let [content, all] = &sums.phases;
        let active_ms = content.span_ms - content.inactive_ms;
        let hours = libm::fmax(active_ms as f64 / 3.6e6, 1e-9);
        let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let moves: u64 = sums.moves.iter().sum();
        let share = |totals: &PhaseTotals, ms: i64| totals.share(ms).unwrap_or(0.0);
        let mean_s = |totals: &PhaseTotals| totals.mean_stable_ms().unwrap_or(0.0) / 1000.0;
        self.seen.phases = PhasesSeen {
            clusters: content.transients,
            stable: content.stables,
            stable_s_mean: mean_s(content),
            clusters_all: all.transients,
            stable_all: all.stables,
            stable_all_s_mean: mean_s(all),
            sessions_with_stable: content.with_stable as f64 / sessions,
            transient_share: share(content, content.transient_ms),
            stable_share: share(content, content.stable_ms),
            inactive_share: share(content, content.inactive_ms),
            stable_all_share: share(all, all.stable_ms),
            transient_all_share: share(all, all.transient_ms),
            transient_bytes_share: ratio(
                all.transient_bytes,
                all.transient_bytes + all.stable_bytes,
            ),
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
            popularity: Popularity::of(
                &mut self.titles,
                self.specification.catalogue.head_titles,
                self.catalogue.titles.len() as u64,
            ),
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
        let count = self.lengths.total().max(1) as f64;
        let counted = self.lengths.counted();
        let bytes = |runs: &[(u64, u64)]| -> u64 { runs.iter().map(|run| run.0 * run.1).sum() };
        let total = bytes(counted).max(1) as f64;
        let lives = Survival::of(counted);
        let (mut survival, mut bytes_survival) = (Points::new(), Points::new());
        for index in 0..LENGTHS {
            let length = length_at(index);
            let shorter = counted.partition_point(|run| run.0 as f64 <= length);
            survival.push((length, lives.at(length as u64)));
            bytes_survival.push((length, bytes(&counted[shorter..]) as f64 / total));
        }
        let laws = lives.fit(FitPoints::Distinct).segments;
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
            slopes: laws.map(|law| law.map_or(0.0, |law| law.c)),
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

/// Whether it is a stable phase: short ones are of clusters (A11).
fn is_long(chain: &Chain) -> bool {
    chain.duration_ms() > PhaseRules::default().short_ms_max
}

/// From when to when phases of a kind are, ms.
fn spans(of: &SessionPhases, kind: PhaseKind) -> Vec<(i64, i64)> {
    let of_kind = of.phases.iter().filter(|phase| phase.kind == kind);
    of_kind
        .map(|phase| (phase.start_ms, phase.end_ms))
        .collect()
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
