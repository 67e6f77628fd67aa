//! The search for the cheapest size of each rule on certain drives.

use headlong_chain_sim::{
    Algorithm, CatalogueBytes, ChainTable, RuleLoad, SessionGroups, SimulationError, SizingRule,
};
use headlong_engine::Policy;

use crate::figure::{LoadTotals, SessionSamples, figure};
use crate::ranked_files::{COLD, HOT, RankedFiles};
use crate::{
    ASSUMPTIONS, DriveCount, DriveOffer, GB, LogReadings, PeakDemand, PlanError, PlanSearch,
    PlannedFigure, PlannedOption, PriceTable, PurchasePlan, SESSIONS_MIN, SESSIONS_NARROW,
};

/// Demands that are more times the log's busiest minute get a remark.
const GROWTH_REMARKED: f64 = 20.0;
/// Largest number of flash drive counts that are evaluated.
const FLASH_STEPS: usize = 12;

/// Plans for a demand with every rule at its cheapest size, on each kind of drive alone and on each
/// hard drive with each kind of flash as a tier. `size_of` returns a file's bytes, if known.
///
/// # Errors
/// If the log has too few sessions, or a size is too large.
pub fn plan(
    log: LogReadings<'_>,
    size_of: impl Fn(u32) -> Option<u64>,
    demand: &PeakDemand,
    offers: &[DriveOffer],
    prices: &PriceTable,
    search: &PlanSearch<'_>,
) -> Result<PurchasePlan, PlanError> {
    let sessions = log.table.session_count();
    if sessions < SESSIONS_MIN {
        return Err(PlanError::Sessions { sessions });
    }
    let busiest = log.table.consumed_by_minute().into_iter().max();
    let table_bytes_per_s = busiest.unwrap_or(0) as f64 / 60.0;
    let planner = Planner::new(log, size_of, demand, prices, search);
    let mut needs = Vec::new();
    for main in offers {
        needs.extend(planner.cheapest(main, None)?);
        let flashes = offers.iter().filter(|other| other.is_flash());
        for flash in flashes.filter(|_| !main.is_flash()) {
            needs.extend(planner.cheapest(main, Some(flash))?);
        }
    }
    needs.sort_by(|one, other| one.cost.value.total_cmp(&other.cost.value));
    let catalogue = planner.catalogue();
    Ok(PurchasePlan {
        demand_bytes_per_s: demand.bytes_per_s,
        viewers: planner.viewers()?,
        sessions,
        table_bytes_per_s,
        catalogue_bytes: catalogue.bytes,
        catalogue_is_least: catalogue.is_least,
        utilisation_max: demand.utilisation_max,
        currency: prices.currency.clone(),
        price_sources: prices.told(),
        remarks: remarks(log, sessions, demand.bytes_per_s / table_bytes_per_s),
        assumptions: ASSUMPTIONS,
        needs,
    })
}

fn remarks(log: LogReadings<'_>, sessions: usize, growth: f64) -> Vec<String> {
    let mut remarks = Vec::new();
    if sessions < SESSIONS_NARROW {
        remarks.push(format!(
            "the log has {sessions} sessions, fewer than {SESSIONS_NARROW}: intervals are wide"
        ));
    }
    if growth > GROWTH_REMARKED {
        remarks.push(format!(
            "the demand is {growth:.0} times that of the log's busiest minute: so many more viewers \
             may watch other titles in another way, which no interval here covers"
        ));
    }
    if log.scattered.is_some() {
        remarks.push(
            "the log has no byte ranges: estimates are for one sequential chain of each session and \
             file; intervals extend to those of one chain for each request"
                .to_owned(),
        );
    }
    remarks
}

/// One reading of the log.
struct Reading<'p> {
    table: &'p ChainTable,
    samples: SessionSamples,
}

pub(crate) struct Planner<'p> {
    /// The log's own chains, and perhaps those at the other bound.
    readings: Vec<Reading<'p>>,
    demand: &'p PeakDemand,
    prices: &'p PriceTable,
    search: &'p PlanSearch<'p>,
    catalogue: CatalogueBytes,
    files: RankedFiles,
}

/// A rule with its size, and the drives that it is evaluated on.
#[derive(Clone, Copy)]
struct Candidate<'o> {
    policy: Policy,
    size_mb: f64,
    main: &'o DriveOffer,
    flash: Option<&'o DriveOffer>,
    /// Bytes that flash may hold.
    flash_bytes: u64,
    /// Bytes of the files that it holds.
    hot_bytes: u64,
}

/// What a candidate needs for the demand, by one set of totals.
#[derive(Clone, Copy)]
struct Need {
    busy: f64,
    flash_busy: f64,
    flash_share: f64,
    ram_gb: f64,
    viewers: f64,
    drives: f64,
    flash_drives: f64,
    cost: f64,
    watts: f64,
}

impl<'p> Planner<'p> {
    pub(crate) fn new(
        log: LogReadings<'p>,
        size_of: impl Fn(u32) -> Option<u64>,
        demand: &'p PeakDemand,
        prices: &'p PriceTable,
        search: &'p PlanSearch<'p>,
    ) -> Self {
        let readings = std::iter::once(log.table).chain(log.scattered);
        let readings = readings.map(|table| Reading {
            table,
            samples: SessionSamples::new(SessionGroups::new(table)),
        });
        // Single requests are a lower bound of sizes; chains of unknown offsets may read bytes
        // again.
        let files = RankedFiles::new(log.scattered.unwrap_or(log.table), size_of);
        let known = demand.catalogue.unwrap_or(CatalogueBytes {
            bytes: files.bytes,
            is_least: true,
        });
        Self {
            readings: readings.collect(),
            demand,
            prices,
            search,
            catalogue: CatalogueBytes {
                bytes: known.bytes.max(1),
                ..known
            },
            files,
        }
    }

    /// Bytes of all titles.
    pub(crate) const fn catalogue(&self) -> CatalogueBytes {
        self.catalogue
    }

    /// Viewers at the peak, if the log has durations.
    pub(crate) fn viewers(&self) -> Result<Option<PlannedFigure>, SimulationError> {
        let mut readings = Vec::new();
        let mut estimate = None;
        for reading in &self.readings[..1] {
            // The rule has no effect on consumption.
            let load = self.load(reading, reading.table, Policy::Fixed, 1.0)?;
            estimate = Some(self.viewers_by(&reading.samples.totals(&load.groups)));
            let samples = reading.samples.resampled(&load.groups);
            let viewers = samples.iter().map(|totals| self.viewers_by(totals));
            readings.push(viewers.collect());
        }
        let estimate = estimate.filter(|viewers| *viewers > 0.0);
        Ok(estimate.map(|viewers| figure(&viewers, &readings, |viewers| *viewers)))
    }

    fn viewers_by(&self, totals: &LoadTotals) -> f64 {
        self.demand.bytes_per_s * totals.present_s / totals.consumed()
    }

    /// The cheapest point of each rule, with the best amount of flash.
    pub(crate) fn cheapest(
        &self,
        main: &DriveOffer,
        flash: Option<&DriveOffer>,
    ) -> Result<Vec<PlannedOption>, SimulationError> {
        let reading = &self.readings[0];
        let mut cheapest = vec![None; self.search.policies.len()];
        for flash_count in self.flash_counts(flash) {
            let flash_bytes = flash.map_or(0, |flash| flash.spec.capacity_bytes() * flash_count);
            let (parted, hot_bytes) = self.files.parted(reading.table, flash_bytes);
            for (policy, cheapest) in self.search.policies.iter().zip(&mut cheapest) {
                for size_mb in self.search.sizes_mb {
                    let candidate = Candidate {
                        policy: *policy,
                        size_mb: *size_mb,
                        main,
                        flash,
                        flash_bytes,
                        hot_bytes,
                    };
                    let load = self.load(reading, &parted, *policy, *size_mb)?;
                    let need = self.need(&candidate, &reading.samples.totals(&load.groups));
                    // If either kind has nothing to store, the plan equals that of the other kind
                    // alone.
                    if flash.is_some() && (need.drives == 0.0 || need.flash_drives == 0.0) {
                        continue;
                    }
                    let is_better = |best: &(Candidate<'_>, f64)| need.cost < best.1;
                    if cheapest.as_ref().is_none_or(is_better) {
                        *cheapest = Some((candidate, need.cost));
                    }
                }
            }
        }
        let found = cheapest.into_iter().flatten();
        found
            .map(|(candidate, _)| self.option(&candidate))
            .collect()
    }

    /// Numbers of flash drives to evaluate: none without flash, else one, two, four and so on until
    /// they hold everything.
    fn flash_counts(&self, flash: Option<&DriveOffer>) -> Vec<u64> {
        let Some(flash) = flash else {
            return vec![0];
        };
        let all = self
            .files
            .bytes
            .div_ceil(flash.spec.capacity_bytes().max(1));
        let mut counts: Vec<u64> = (0..FLASH_STEPS as u32).map(|power| 1 << power).collect();
        counts.retain(|count| *count < all);
        counts.push(all.max(1));
        counts.truncate(FLASH_STEPS);
        counts
    }

    fn load(
        &self,
        reading: &Reading<'_>,
        parted: &ChainTable,
        policy: Policy,
        size_mb: f64,
    ) -> Result<RuleLoad, SimulationError> {
        let settings = self.search.settings;
        let rule = SizingRule::new(Algorithm::plain(policy), size_mb, settings.megabyte);
        RuleLoad::of(parted, &reading.samples.groups, &rule, settings)
    }

    fn capacity_drives(&self, candidate: &Candidate<'_>) -> (u64, u64) {
        let drives =
            |offer: &DriveOffer, bytes: u64| bytes.div_ceil(offer.spec.capacity_bytes().max(1));
        let cold_bytes = self.catalogue.bytes.saturating_sub(candidate.hot_bytes);
        let flash = candidate.flash;
        let hot = flash.map_or(0, |flash| drives(flash, candidate.hot_bytes));
        (drives(candidate.main, cold_bytes), hot)
    }

    fn need(&self, candidate: &Candidate<'_>, totals: &LoadTotals) -> Need {
        let per_s = self.demand.bytes_per_s / totals.consumed();
        let busy = |offer: &DriveOffer, place: usize| {
            let rates = &offer.rates;
            let transfers = totals.read_bytes[place] / rates.bytes_per_s;
            (transfers + totals.seeks[place] / rates.seeks_per_s) * per_s
        };
        let for_rate = |busy: f64| (busy / self.demand.utilisation_max).ceil();
        let (capacity, flash_capacity) = self.capacity_drives(candidate);
        let main_busy = busy(candidate.main, COLD);
        let flash_busy = candidate.flash.map_or(0.0, |flash| busy(flash, HOT));
        let drives = for_rate(main_busy).max(capacity as f64);
        let flash_drives = for_rate(flash_busy).max(flash_capacity as f64);
        let ram_gb = totals.held_byte_s * per_s / GB;
        let ram = self.prices.ram;
        let mut cost = ram_gb * ram.cost_per_gb + drives * candidate.main.priced.cost;
        let mut watts = (ram_gb / ram.module_gb).ceil() * ram.module_watts
            + drives * candidate.main.priced.watts;
        if let Some(flash) = candidate.flash {
            cost += flash_drives * flash.priced.cost;
            watts += flash_drives * flash.priced.watts;
        }
        Need {
            busy: main_busy,
            flash_busy,
            flash_share: totals.consumed_bytes[HOT] / totals.consumed(),
            ram_gb,
            viewers: self.viewers_by(totals),
            drives,
            flash_drives,
            cost,
            watts,
        }
    }

    /// The candidate with the intervals of all its figures.
    fn option(&self, candidate: &Candidate<'_>) -> Result<PlannedOption, SimulationError> {
        let mut readings = Vec::new();
        let mut estimate = None;
        for reading in &self.readings {
            let (parted, _) = self.files.parted(reading.table, candidate.flash_bytes);
            let load = self.load(reading, &parted, candidate.policy, candidate.size_mb)?;
            let totals = reading.samples.totals(&load.groups);
            estimate = estimate.or(Some(self.need(candidate, &totals)));
            let samples = reading.samples.resampled(&load.groups);
            let needs = samples.iter().map(|totals| self.need(candidate, totals));
            readings.push(needs.collect::<Vec<Need>>());
        }
        // There is at least one reading.
        let Some(need) = estimate else {
            return Err(SimulationError::NoDrive);
        };
        let of = |of: &dyn Fn(&Need) -> f64| figure(&need, &readings, of);
        let limit = self.demand.utilisation_max;
        let (capacity, flash_capacity) = self.capacity_drives(candidate);
        let demand = self.demand.bytes_per_s;
        Ok(PlannedOption {
            policy: candidate.policy.name(),
            size: candidate.size_mb,
            drives: DriveCount {
                drive: candidate.main.spec.name().to_owned(),
                count: of(&|need| need.drives),
                for_rate: of(&|need| (need.busy / limit).ceil()),
                for_capacity: capacity,
                utilisation: of(&|one| one.busy / need.drives.max(1.0)),
            },
            flash: candidate.flash.map(|flash| DriveCount {
                drive: flash.spec.name().to_owned(),
                count: of(&|need| need.flash_drives),
                for_rate: of(&|need| (need.flash_busy / limit).ceil()),
                for_capacity: flash_capacity,
                utilisation: of(&|one| one.flash_busy / need.flash_drives.max(1.0)),
            }),
            flash_share: of(&|need| need.flash_share),
            ram_gb: of(&|need| need.ram_gb),
            cost: of(&|need| need.cost),
            watts: of(&|need| need.watts),
            mb_per_joule: (need.watts > 0.0).then(|| of(&|need| demand / 1e6 / need.watts)),
            cost_per_viewer: (need.viewers > 0.0).then(|| of(&|need| need.cost / need.viewers)),
            watts_per_viewer: (need.viewers > 0.0).then(|| of(&|need| need.watts / need.viewers)),
        })
    }
}
