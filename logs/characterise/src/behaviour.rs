//! Behaviour of viewers and devices: the inputs of a fitted workload specification that no table or
//! figure shows.

use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{Chain, ContentKind};

use crate::catalogue::CatalogueUse;
use crate::devices::DeviceStatistics;
use crate::histograms::LogHistogram;
use crate::merge::sums;
use crate::observations::{DistributionPoints, RenditionObservations, ViewingObservations};
use crate::tables::per_cent;
use crate::view::{LONG_MS, LogContext, SessionView, is_long, nominal_us};

/// A jump of more content than this from the last end is a skip.
const SKIP_MS: i64 = 30_000;
/// A cluster this soon after an inactive phase is the return of the viewer, not an adaptation.
const RETURN_MS: i64 = 10_000;
/// Inactive phases that begin this early are counted separately.
const FIRST_MINUTE_MS: i64 = 60_000;
/// Upper limit of the recorded stay, as a share of the remaining title.
const STAY_MAX_MILLIONTHS: u64 = 1_200_000;

sums! {
    /// Sums and histograms over sessions.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct Behaviour {
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
        /// By rate class: nominal microseconds in long chains, or in all chains for audio.
        rate_us: Vec<u64>,
        rate_bytes: Vec<u64>,
        /// By type of device.
        pub(crate) devices: DeviceStatistics,
    }
}

impl Behaviour {
    /// An empty accumulator.
    pub(crate) fn new(log: &LogContext) -> Self {
        let classes = log.rates.classes().len();
        Self {
            rate_us: vec![0; classes],
            rate_bytes: vec![0; classes],
            devices: DeviceStatistics::new(log),
            ..Self::default()
        }
    }

    /// Adds a session.
    pub(crate) fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        let phases = view.phases[0];
        let inactive_ms: u64 = phases.inactive.iter().map(|span| span.ms()).sum();
        let active_ms = view.span.ms().saturating_sub(inactive_ms);
        self.sessions += 1;
        self.active_ms += active_ms;
        self.add_length(view);
        let is_glance = view.span.ms() as i64 <= LONG_MS;
        if is_glance {
            self.glances += 1;
            self.glances_ms.add(view.span.ms());
        }
        let mut nominal = 0;
        for chain in view.chains {
            let info = log.file(chain.file);
            let us = nominal_us(chain.length, info.kbps);
            if info.kind != ContentKind::Audio {
                nominal += us;
            }
            if let Some(sum) = self.rate_bytes.get_mut(log.rates.of_file(chain.file)) {
                *sum += chain.length;
                if info.kind == ContentKind::Audio || is_long(chain) {
                    self.rate_us[log.rates.of_file(chain.file)] += us;
                }
            }
        }
        let is_content = |chain: &&Chain| {
            log.file(chain.file).kind != ContentKind::Audio && !log.is_header(chain)
        };
        if let Some(first) = view.chains.iter().find(is_content) {
            let (seconds, bytes) = (log.seconds(first.file), log.file(first.file).size_bytes);
            let start = share(first.start, bytes);
            self.starts.add(start);
            let left_us = seconds * (1_000_000 - start) as f64;
            if left_us >= 1.0 && !is_glance {
                let stay = active_ms as f64 * 1e9 / left_us;
                self.stays.add((stay as u64).min(STAY_MAX_MILLIONTHS));
            }
            if seconds > 0.0 {
                self.fractions.add((nominal as f64 / seconds) as u64);
            }
        }
        let skips = self.add_skips(log, view);
        self.add_pauses(view);
        self.devices
            .add(log, view, 1 + skips + phases.inactive.len() as u64);
    }

    /// Adds the length of a session, which needs no offsets.
    pub(crate) fn add_length(&mut self, view: &SessionView<'_>) {
        self.lengths_ms.add(view.span.ms());
    }

    /// Counts skips and adaptations; returns the number of skips.
    fn add_skips(&mut self, log: &LogContext, view: &SessionView<'_>) -> u64 {
        let phases = view.phases[0];
        let at_ms = |chain: &Chain, byte: u64| {
            let bytes = log.file(chain.file).size_bytes.max(1);
            (byte as f64 / bytes as f64 * log.seconds(chain.file) * 1000.0) as i64
        };
        let is_content = |chain: &Chain| {
            log.file(chain.file).kind != ContentKind::Audio && !log.is_header(chain)
        };
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
        skips += self.add_direct_skips(view, |chain| is_content(chain), at_ms);
        self.skips += skips;
        skips
    }

    /// Counts skips without a transient phase: a player that does not adapt continues at another
    /// position immediately.
    fn add_direct_skips(
        &mut self,
        view: &SessionView<'_>,
        is_content: impl Fn(&Chain) -> bool,
        at_ms: impl Fn(&Chain, u64) -> i64,
    ) -> u64 {
        let mut skips = 0;
        let mut before: Option<&Chain> = None;
        for chain in view.chains.iter().filter(|chain| is_content(chain)) {
            let is_same = |other: &&Chain| other.file == chain.file;
            if let Some(last) = before.filter(is_same).filter(|_| is_long(chain)) {
                let end = last.start.saturating_add(last.length);
                let by = at_ms(chain, chain.start) - at_ms(last, end);
                if by.abs() > SKIP_MS {
                    skips += 1;
                    self.skips_ms[usize::from(by > 0)].add(by.unsigned_abs());
                }
            }
            before = Some(chain);
        }
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

    /// Viewing behaviour; `changes` are the shares of later transient phases after which the bit
    /// rate decreases, remains, increases.
    pub(crate) fn viewing(&self, changes: [f64; 3]) -> ViewingObservations {
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
        ViewingObservations {
            start_share: self.starts.points(1e-6),
            session_s: self.lengths_ms.points(1e-3),
            glance_share: share(self.glances),
            glance_s: self.glances_ms.points(1e-3),
            stay_share: self.stays.points(1e-6),
            fraction_downloaded: self.fractions.points(1e-6),
            skips_per_hour: per_hour(self.skips),
            skip_s: signed_points(&self.skips_ms),
            pauses_per_hour: per_hour(self.pauses),
            pause_at_start: share(self.early_pauses),
            pause_s: self.pauses_ms.points(1e-3),
            changes_per_hour: per_hour(self.changes),
            up_share: up,
            down_share: down,
        }
    }

    /// Lengths of sessions, ms.
    pub(crate) const fn lengths_ms(&self) -> &LogHistogram {
        &self.lengths_ms
    }

    /// Bit rates, and the amount read in each.
    pub(crate) fn renditions(
        &self,
        log: &LogContext,
        catalogue: &CatalogueUse,
    ) -> Vec<RenditionObservations> {
        let asked = catalogue.title_counts().len();
        let listed = log.listed_titles();
        let titles = if listed > 0 { listed } else { asked };
        let mut having = vec![0u64; log.rates.classes().len()];
        let mut pairs: Vec<(usize, u32)> = (0..log.files.len() as u32)
            .map(|file| (log.rates.of_file(file), log.file(file).title))
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs.iter().for_each(|(class, _)| having[*class] += 1);
        let classes = log.rates.classes().iter().enumerate();
        let seen = classes.map(|(place, class)| RenditionObservations {
            kind: class.kind,
            kbps: class.kbps,
            titles_share: (having[place] as f64 / titles.max(1) as f64).min(1.0),
            bytes: self.rate_bytes[place],
            seconds: self.rate_us[place] as f64 / 1e6,
        });
        seen.collect()
    }
}

/// A share in millionths.
fn share(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 1_000_000 / u128::from(whole.max(1))).min(1_000_000) as u64
}

/// Merges a histogram of negative values and one of positive values into the points of one
/// distribution.
fn signed_points([below, above]: &[LogHistogram; 2]) -> DistributionPoints {
    let total = (below.count() + above.count()) as f64;
    if total == 0.0 {
        return DistributionPoints::new();
    }
    let negative = below.count() as f64 / total;
    let mut all: DistributionPoints = DistributionPoints::new();
    for (value, share) in below.points(1e-3).into_iter().rev() {
        all.push((-value, (1.0 - share) * negative));
    }
    for (value, share) in above.points(1e-3) {
        all.push((value, negative + share * (1.0 - negative)));
    }
    all
}
