//! What a workload specification is fitted from: the numbers of [`Observed`] that are not in other
//! tables already.

use headlong_chains::{Chain, Kind};
use headlong_workload::phased::{
    ChainRow, ChainsSeen, LENGTHS, Observed, PhasesSeen, Points, Popularity, RenditionSeen,
    TitlesSeen, ViewingSeen, distribution, length_at,
};

use super::catalogue::CatalogueUse;
use super::chaining::Chaining;
use super::counting::LogHistogram;
use super::devices::Devices;
use super::outcome::per_cent;
use super::phase_shares::PhaseShares;
use super::requests::RequestKinds;
use super::seconds::LONG_MS;
use super::survival::segments;
use super::view::{Log, SessionView, nominal_us};
use super::volume::Volume;

/// A chain from offset zero that is shorter reads the table of segments.
const HEADER_BYTES: u64 = 1 << 20;
/// Content further than this from where the last ended is a skip.
const SKIP_MS: i64 = 30_000;
/// A cluster so soon after an inactive phase is the viewer coming back, not the player adapting.
const RETURN_MS: i64 = 10_000;
/// Inactive phases that begin so early are counted apart.
const FIRST_MINUTE_MS: i64 = 60_000;
/// The head of popularity (thesis Figure 5.4).
const HEAD_TITLES: u64 = 20;
/// Longest stay that is told apart, of the title that was left.
const STAY_MAX_MILLIONTHS: u64 = 1_200_000;
/// Quantiles of a distribution.
const QUANTILES: u32 = 50;

/// Whether a chain reads nothing but the table at the start of a file.
pub(super) const fn is_header(chain: &Chain) -> bool {
    chain.start == 0 && chain.length < HEADER_BYTES
}

/// A histogram as the points of a distribution, its values times `scale`.
pub(super) fn points(histogram: &LogHistogram, scale: f64) -> Points {
    let share = |step: u32| f64::from(step) / f64::from(QUANTILES);
    let point = |step| Some((histogram.quantile(share(step))? * scale, share(step)));
    (0..=QUANTILES).filter_map(point).collect()
}

/// Sums and histograms over sessions.
#[derive(Debug, Clone)]
pub struct Observing {
    sessions: u64,
    active_ms: u64,
    glances: u64,
    early_pauses: u64,
    pauses: u64,
    skips: u64,
    changes: u64,
    starts: LogHistogram,
    lengths_ms: LogHistogram,
    glances_ms: LogHistogram,
    stays: LogHistogram,
    fractions: LogHistogram,
    skips_ms: [LogHistogram; 2],
    pauses_ms: LogHistogram,
    /// By class of rates: nominal microseconds in long chains, or in all for sound.
    rate_us: Vec<u64>,
    rate_bytes: Vec<u64>,
    devices: Devices,
}

impl Observing {
    /// Nothing yet.
    pub fn new(log: &Log) -> Self {
        let none = LogHistogram::default;
        Self {
            sessions: 0,
            active_ms: 0,
            glances: 0,
            early_pauses: 0,
            pauses: 0,
            skips: 0,
            changes: 0,
            starts: none(),
            lengths_ms: none(),
            glances_ms: none(),
            stays: none(),
            fractions: none(),
            skips_ms: [none(), none()],
            pauses_ms: none(),
            rate_us: vec![0; log.rates.classes().len()],
            rate_bytes: vec![0; log.rates.classes().len()],
            devices: Devices::new(log),
        }
    }

    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        let phases = view.phases[0];
        let inactive_ms: u64 = phases.inactive.iter().map(|span| span.ms()).sum();
        let active_ms = view.span.ms().saturating_sub(inactive_ms);
        self.sessions += 1;
        self.active_ms += active_ms;
        self.lengths_ms.add(view.span.ms());
        let is_glance = view.span.ms() as i64 <= LONG_MS;
        if is_glance {
            self.glances += 1;
            self.glances_ms.add(view.span.ms());
        }
        let mut nominal = 0;
        for chain in view.chains {
            let info = log.file(chain.file);
            let us = nominal_us(chain.length, info.kbps);
            if info.kind != Kind::Audio {
                nominal += us;
            }
            if let Some(sum) = self.rate_bytes.get_mut(log.rates.of_file(chain.file)) {
                *sum += chain.length;
                if info.kind == Kind::Audio || chain.end_ms - chain.start_ms > LONG_MS {
                    self.rate_us[log.rates.of_file(chain.file)] += us;
                }
            }
        }
        let is_content =
            |chain: &&Chain| log.file(chain.file).kind != Kind::Audio && !is_header(chain);
        if let Some(first) = view.chains.iter().find(is_content) {
            let info = log.file(first.file);
            let start = share(first.start, info.size_bytes);
            self.starts.add(start);
            let left_us = info.duration_s * (1_000_000 - start) as f64;
            if left_us >= 1.0 && !is_glance {
                let stay = active_ms as f64 * 1e9 / left_us;
                self.stays.add((stay as u64).min(STAY_MAX_MILLIONTHS));
            }
            if info.duration_s > 0.0 {
                self.fractions
                    .add((nominal as f64 / info.duration_s) as u64);
            }
        }
        let skips = self.add_skips(log, view);
        self.add_pauses(view);
        self.devices
            .add(log, view, 1 + skips + phases.inactive.len() as u64);
    }

    /// Counts skips and adaptations; answers how many skips.
    fn add_skips(&mut self, log: &Log, view: &SessionView<'_>) -> u64 {
        let phases = view.phases[0];
        let at_ms = |chain: &Chain, byte: u64| {
            let info = log.file(chain.file);
            (byte as f64 / info.size_bytes.max(1) as f64 * info.duration_s * 1000.0) as i64
        };
        let is_content =
            |chain: &Chain| log.file(chain.file).kind != Kind::Audio && !is_header(chain);
        let mut skips = 0;
        for cluster in phases.transient.iter().skip(1) {
            let mut chains = cluster
                .chains
                .iter()
                .map(|place| &view.chains[*place as usize]);
            let here = chains.find(|chain| is_content(chain));
            let earlier = view
                .chains
                .partition_point(|chain| chain.start_ms < cluster.span.start_ms);
            let before = view.chains[..earlier]
                .iter()
                .rfind(|chain| is_content(chain));
            let by = here.zip(before).map(|(here, before)| {
                at_ms(here, here.start) - at_ms(before, before.start.saturating_add(before.length))
            });
            if let Some(by) = by.filter(|by| by.abs() > SKIP_MS) {
                skips += 1;
                self.skips_ms[usize::from(by > 0)].add(by.unsigned_abs());
                continue;
            }
            let start = cluster.span.start_ms;
            let is_return = phases
                .inactive
                .iter()
                .any(|span| (span.end_ms..=span.end_ms + RETURN_MS).contains(&start));
            self.changes += u64::from(!is_return);
        }
        self.skips += skips;
        skips
    }

    fn add_pauses(&mut self, view: &SessionView<'_>) {
        let is_early = |start: i64| start < view.span.start_ms + FIRST_MINUTE_MS;
        let inactive = &view.phases[0].inactive;
        self.early_pauses += u64::from(inactive.iter().any(|span| is_early(span.start_ms)));
        for span in inactive {
            self.pauses_ms.add(span.ms());
            self.pauses += u64::from(!is_early(span.start_ms));
        }
    }

    /// Those of another part too.
    pub fn merge(&mut self, other: Self) {
        self.sessions += other.sessions;
        self.active_ms += other.active_ms;
        self.glances += other.glances;
        self.early_pauses += other.early_pauses;
        self.pauses += other.pauses;
        self.skips += other.skips;
        self.changes += other.changes;
        self.starts.merge(&other.starts);
        self.lengths_ms.merge(&other.lengths_ms);
        self.glances_ms.merge(&other.glances_ms);
        self.stays.merge(&other.stays);
        self.fractions.merge(&other.fractions);
        self.pauses_ms.merge(&other.pauses_ms);
        for (mine, other) in self.skips_ms.iter_mut().zip(&other.skips_ms) {
            mine.merge(other);
        }
        let add = |mine: &mut [u64], other: &[u64]| {
            mine.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        };
        add(&mut self.rate_us, &other.rate_us);
        add(&mut self.rate_bytes, &other.rate_bytes);
        self.devices.merge(other.devices);
    }

    /// All of it, with what the other accumulators know.
    pub fn finish(&self, log: &Log, others: Others<'_>) -> Observed {
        let (starts, width_ms) = others.volume.arrivals();
        Observed {
            name: String::new(),
            length_s: (log.span_ms.1 - log.span_ms.0) as f64 / 1000.0,
            sessions: self.sessions,
            arrivals: arrivals(starts, width_ms, log),
            titles: titles(log, others.catalogue),
            renditions: self.renditions(log, others.catalogue),
            viewing: self.viewing(others.changes),
            devices: self.devices.finish(log),
            phases: phases(others.phases),
            chains: chains(others.chaining, others.requests),
        }
    }

    fn viewing(&self, changes: [f64; 3]) -> ViewingSeen {
        let hours = self.active_ms as f64 / 3.6e6;
        let per_hour = |count: u64| {
            if hours > 0.0 {
                count as f64 / hours
            } else {
                0.0
            }
        };
        let share = |count: u64| per_cent(count as f64, self.sessions as f64) / 100.0;
        let [down, _, up] = changes;
        ViewingSeen {
            start_share: points(&self.starts, 1e-6),
            session_s: points(&self.lengths_ms, 1e-3),
            glance_share: share(self.glances),
            glance_s: points(&self.glances_ms, 1e-3),
            stay_share: points(&self.stays, 1e-6),
            fraction_downloaded: points(&self.fractions, 1e-6),
            skips_per_hour: per_hour(self.skips),
            skip_s: signed_points(&self.skips_ms),
            pauses_per_hour: per_hour(self.pauses),
            pause_at_start: share(self.early_pauses),
            pause_s: points(&self.pauses_ms, 1e-3),
            changes_per_hour: per_hour(self.changes),
            up_share: up,
            down_share: down,
        }
    }

    fn renditions(&self, log: &Log, catalogue: &CatalogueUse) -> Vec<RenditionSeen> {
        let asked = catalogue.title_counts().len();
        let listed = listed_titles(log);
        let titles = if listed > 0 { listed } else { asked };
        let mut having = vec![0u64; log.rates.classes().len()];
        let mut pairs: Vec<(usize, u32)> = (0..log.files.len() as u32)
            .map(|file| (log.rates.of_file(file), log.file(file).title))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.iter().for_each(|(class, _)| having[*class] += 1);
        let classes = log.rates.classes().iter().enumerate();
        let seen = classes.map(|(place, class)| RenditionSeen {
            kind: class.kind,
            kbps: class.kbps,
            titles_share: (having[place] as f64 / titles.max(1) as f64).min(1.0),
            bytes: self.rate_bytes[place],
            seconds: self.rate_us[place] as f64 / 1e6,
        });
        seen.collect()
    }
}

/// The accumulators whose sums are also in [`Observed`].
#[derive(Debug)]
pub struct Others<'a> {
    /// Arrivals.
    pub volume: &'a Volume,
    /// Titles.
    pub catalogue: &'a CatalogueUse,
    /// Chains.
    pub chaining: &'a Chaining,
    /// Phases.
    pub phases: &'a PhaseShares,
    /// Requests.
    pub requests: &'a RequestKinds,
    /// What the bit rate does after later transient phases: decreases, remains, increases.
    pub changes: [f64; 3],
}

/// Millionths of a whole.
fn share(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 1_000_000 / u128::from(whole.max(1))).min(1_000_000) as u64
}

/// Sessions by hour, or by sixteenths of a log of less than four hours.
fn arrivals(starts: &[u64], width_ms: i64, log: &Log) -> Vec<u64> {
    let span = (log.span_ms.1 - log.span_ms.0).max(1);
    let parts = if span < 4 * 3_600_000 {
        16
    } else {
        (span + 1_799_999) / 3_600_000
    };
    let mut sums = vec![0; parts as usize];
    for (bin, count) in starts.iter().enumerate() {
        let middle = (bin as i64 * width_ms + width_ms / 2).min(span - 1);
        let part = i128::from(middle) * i128::from(parts) / i128::from(span);
        sums[part as usize] += count;
    }
    sums
}

fn listed_titles(log: &Log) -> usize {
    let mut listed: Vec<u32> = log
        .files
        .iter()
        .filter(|file| !file.is_estimated)
        .map(|file| file.title)
        .collect();
    listed.sort_unstable();
    listed.dedup();
    listed.len()
}

fn titles(log: &Log, catalogue: &CatalogueUse) -> TitlesSeen {
    let counts = catalogue.title_counts();
    let mut sessions: Vec<u64> = counts.iter().map(|count| u64::from(*count)).collect();
    let drives = log.files.iter().map(|file| file.disk).max();
    let listed = listed_titles(log) as u64;
    TitlesSeen {
        listed,
        requested: counts.len() as u64,
        files_requested: catalogue.files_requested() as u64,
        drives: drives.map_or(0, |last| last.saturating_add(1)),
        popularity: Popularity::of(&mut sessions, HEAD_TITLES, listed),
        durations_s: distribution(&mut catalogue.durations(log)),
    }
}

/// Points of values that are below zero in one histogram and above in the other.
fn signed_points([below, above]: &[LogHistogram; 2]) -> Points {
    let total = (below.count() + above.count()) as f64;
    if total == 0.0 {
        return Points::new();
    }
    let negative = below.count() as f64 / total;
    let mut all: Points = Points::new();
    for (value, share) in points(below, 1e-3).into_iter().rev() {
        all.push((-value, (1.0 - share) * negative));
    }
    for (value, share) in points(above, 1e-3) {
        all.push((value, negative + share * (1.0 - negative)));
    }
    all
}

fn phases(phases: &PhaseShares) -> PhasesSeen {
    let [content, all] = &phases.readings;
    let seconds = |mean: Option<f64>| mean.unwrap_or(0.0) / 1000.0;
    let shares = [phases.time_shares(0), phases.time_shares(1)];
    PhasesSeen {
        clusters: content.lengths_ms[0].count(),
        stable: content.lengths_ms[1].count(),
        stable_s_mean: seconds(content.lengths_ms[1].mean()),
        clusters_all: all.lengths_ms[0].count(),
        stable_all: all.lengths_ms[1].count(),
        stable_all_s_mean: seconds(all.lengths_ms[1].mean()),
        sessions_with_stable: per_cent(content.with_stable as f64, phases.sessions() as f64)
            / 100.0,
        transient_share: shares[0][0],
        stable_share: shares[0][1],
        inactive_share: shares[0][2],
        stable_all_share: shares[1][1],
        transient_all_share: shares[1][0],
        transient_bytes_share: phases.transient_bytes_share(),
    }
}

fn chains(chaining: &Chaining, requests: &RequestKinds) -> ChainsSeen {
    let mut all = chaining.all_lengths();
    let runs = all.runs().to_vec();
    let weight = |from: f64, bytes: bool| -> f64 {
        let longer = runs.iter().filter(|(length, _)| *length as f64 > from);
        longer
            .map(|(length, count)| *count as f64 * if bytes { *length as f64 } else { 1.0 })
            .sum()
    };
    let survival = |bytes: bool| -> Points {
        let total = weight(-1.0, bytes);
        let at = |index| {
            let length = length_at(index);
            (length, per_cent(weight(length, bytes), total) / 100.0)
        };
        if total > 0.0 {
            (0..LENGTHS).map(at).collect()
        } else {
            Points::new()
        }
    };
    let mut slopes = [0.0; 3];
    for segment in segments(&runs) {
        slopes[segment.place()] = segment.law.c;
    }
    let zero = chaining.zero_shares();
    let mut parallel = [0.0; 6];
    for (mine, share) in parallel.iter_mut().zip(requests.connection_shares()) {
        *mine = share;
    }
    let [open, chunk] = chaining.rows();
    let [open_requests, chunk_requests] = requests.rows();
    ChainsSeen {
        open,
        chunk,
        open_requests,
        chunk_requests,
        survival: survival(false),
        bytes_survival: survival(true),
        slopes,
        at_zero: zero[0],
        open_zero_lump: [zero[1], zero[2]],
        chunk_zero_below: [zero[3], zero[4]],
        later_below: zero[5],
        parallel,
    }
}

/// A row of [`ChainsSeen`], by kinds.
pub(super) type Rows = [[ChainRow; 3]; 2];

/// So that rows of both kinds of sums are made in one way.
pub(super) fn row_of(chains: u64, requests: u64, bytes: u64, us: u128) -> ChainRow {
    ChainRow {
        chains,
        requests,
        bytes,
        seconds: us as f64 / 1e6,
    }
}
