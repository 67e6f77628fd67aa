//! Reproduction of thesis chapter 5 on a generated log: the log's statistics, and the cost of each
//! rule for prefetch sizes.
//!
//! The thesis' log is private, but its statistics were published, and a specification was derived
//! from them. Its sessions are generated one by one and measured as `headlong trace characterise`
//! measures a log; the resulting chains are then simulated. No log is written, and only chains are
//! kept in memory.

use headlong_bench::CommandOutcome;
use headlong_chain_sim::{
    Algorithm, ChainRow, ChainTable, Claim as RuleClaim, CostPoint, SimulationError,
    SimulationReport, SimulationSettings, Sweep, TableError, TableSource, sections,
};
use headlong_chains::Chain;
use headlong_characterise::{ComparisonRow, comparison};
use headlong_engine::Policy;
use headlong_published::{Bound, PublishedComparison, PublishedFigure, PublishedValue, Tolerance};
use headlong_report::{Cell, Page, Section, Table};
use headlong_units::BitRate;
use headlong_workload::Mistakes;
use headlong_workload::phased::{
    PhasedCatalogue, PhasedSessions, PhasedSpecification, SessionStatistics,
};
use serde::Serialize;

use crate::claims::{Claim, outcome_of};

/// The shipped specification.
pub const SPECIFICATION: &str = "netflix-2014-catalog";
/// Sessions of the published log (thesis Table 5.1).
pub const SESSIONS: u64 = headlong_workload::phased::SESSIONS_FULL;

/// The sizes of thesis 5.6, MB.
pub fn sizes_mb() -> Vec<f64> {
    (1..=16).map(f64::from).collect()
}

/// Parameters of the reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct NetflixOptions {
    /// Number of sessions.
    pub sessions: u64,
    /// Seed of the log.
    pub seed: u64,
    /// Sizes, MB.
    pub sizes_mb: Vec<f64>,
    /// Settings of the simulation.
    pub settings: SimulationSettings,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetflixResult {
    /// The specification.
    pub specification: &'static str,
    /// Number of generated sessions.
    pub sessions: u64,
    /// Number of sessions to which counts and bytes in `statistics` are scaled: the published one.
    pub statistics_sessions: u64,
    /// Seed.
    pub seed: u64,
    /// Statistics of the log, compared with the published ones.
    pub statistics: Vec<PublishedComparison>,
    /// The published orders, and whether they were reproduced.
    pub orders: Vec<PublishedOrder>,
    /// The simulation.
    pub simulation: SimulationReport,
}

/// A published order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedOrder {
    /// The published statement.
    pub published: String,
    /// Our result.
    pub here: String,
    /// Whether it holds by the busiest minute's mean over drives.
    pub holds_busiest: bool,
    /// Whether it holds by the mean over all time.
    pub holds_mean: bool,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum NetflixError {
    /// The specification is invalid.
    #[error("{0}")]
    Specification(#[from] Mistakes),
    /// There are no chains.
    #[error("{0}")]
    Table(#[from] TableError),
    /// The simulation is meaningless.
    #[error("{0}")]
    Simulation(#[from] SimulationError),
}

/// Progress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NetflixProgress<'p> {
    /// Number of sessions to generate.
    Sessions(u64),
    /// A simulated point.
    Point(&'p CostPoint),
}

/// Generates, measures and simulates.
///
/// # Errors
/// If the specification or a setting is invalid.
pub fn netflix(
    reproducing: &NetflixOptions,
    mut seen: impl FnMut(NetflixProgress<'_>),
) -> Result<NetflixResult, NetflixError> {
    let specification =
        PhasedSpecification::preset(SPECIFICATION, &[])?.scaled(reproducing.sessions);
    let catalogue = PhasedCatalogue::of(&specification.catalogue);
    let mut log = SessionStatistics::new(&specification, &catalogue);
    let mut rows = Vec::new();
    let mut sessions = PhasedSessions::new(&specification, &catalogue, reproducing.seed);
    while let Some(session) = sessions.next() {
        log.add(&session, |view| {
            let row = |chain: &Chain| row(chain, &catalogue);
            rows.extend(view.chains.iter().map(row));
        });
        if session.number % 1_000 == 999 {
            seen(NetflixProgress::Sessions(session.number + 1));
        }
        sessions.recycle(session);
    }
    let told = comparison(&log.finish("headlong reproduce netflix"));
    let statistics = told.into_iter().map(beside).collect();
    let table = ChainTable::new(rows)?;
    let settings = &reproducing.settings;
    let source = TableSource::of(SPECIFICATION, &table, settings);
    let sweep = Sweep {
        algorithms: Policy::ALL.iter().copied().map(Algorithm::plain).collect(),
        sizes_mb: reproducing.sizes_mb.clone(),
    };
    let simulation = SimulationReport::make(source, &table, &sweep, settings, true, |point| {
        seen(NetflixProgress::Point(point));
    })?;
    Ok(NetflixResult {
        specification: SPECIFICATION,
        sessions: reproducing.sessions,
        statistics_sessions: SESSIONS,
        seed: reproducing.seed,
        statistics,
        orders: orders(&simulation.claims),
        simulation,
    })
}

fn row(chain: &Chain, catalogue: &PhasedCatalogue) -> ChainRow {
    let kbps = catalogue.files[chain.file as usize].kbps;
    ChainRow::of(chain, Some(BitRate::from_kbps(u64::from(kbps))))
}

/// Tolerance for the statistics of a generated log.
const STATISTIC_SHARE: f64 = 0.15;

/// Statistics for which the thesis gives a bound or says "about".
const BOUNDED: [(&str, Bound); 11] = [
    ("chains longer than 1 MB, %", Bound::Below),
    ("bytes in chains beyond 10 MB, %", Bound::Above),
    ("bytes in chains up to 1 MB, %", Bound::Below),
    ("chunk at zero < 16 KiB, %", Bound::Above),
    ("chains, million", Bound::About),
    ("chains longer than 10 MB, %", Bound::About),
    ("chains longer than 20 MB, %", Bound::About),
    ("chains longer than 450 MB, %", Bound::About),
    ("chains from offset zero, %", Bound::About),
    ("download up to 20 %, %", Bound::About),
    ("download over 100 %, %", Bound::About),
];

fn beside(figure: ComparisonRow) -> PublishedComparison {
    let bound = BOUNDED.iter().find(|(name, _)| *name == figure.name);
    let bound = bound.map_or(Bound::Exact, |(_, bound)| *bound);
    // Of a bound, no tolerance is needed.
    let tolerance = match bound {
        Bound::Above | Bound::Below => Tolerance::Unstated,
        _ => Tolerance::Share(STATISTIC_SHARE),
    };
    let value = figure.published.map(|number| PublishedValue {
        bound,
        ..number.into()
    });
    let published = PublishedFigure::new(figure.source, value, tolerance);
    PublishedComparison::new(figure.name, Some(figure.ours), published)
}

/// The published orders (thesis 5.6.3), by the steady figures: an order holds if all of its claims
/// do.
fn orders(claims: &[RuleClaim]) -> Vec<PublishedOrder> {
    let mut names: Vec<&str> = claims.iter().filter_map(|c| c.order.as_deref()).collect();
    names.dedup();
    // The claims of an order need not be adjacent.
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    let order = |name: &str| {
        let of = || {
            claims
                .iter()
                .filter(|claim| claim.order.as_deref() == Some(name))
        };
        let holds = |value: fn(&RuleClaim) -> Option<f64>| {
            of().all(|claim| claim.published.holds(value(claim)) == Some(true))
        };
        let words = |value: fn(&RuleClaim) -> Option<f64>| {
            let words = of().map(|claim| match (value(claim), claim.unit.as_str()) {
                (None, _) => format!("{}: not simulated", claim.claim),
                (Some(yes), "yes/no") => {
                    format!("{}: {}", claim.claim, if yes == 1.0 { "yes" } else { "no" })
                }
                (Some(value), unit) => format!("{}: {value:.2} {unit}", claim.claim),
            });
            words.collect::<Vec<_>>().join(", ")
        };
        PublishedOrder {
            published: name.to_owned(),
            here: format!(
                "busiest minute: {}; all time: {}",
                words(|claim| claim.busiest),
                words(|claim| claim.mean)
            ),
            holds_busiest: holds(|claim| claim.busiest),
            holds_mean: holds(|claim| claim.mean),
        }
    };
    names.into_iter().map(order).collect()
}

impl NetflixResult {
    /// The published orders, percentages and statistics, with ours; of the statistics, one line for
    /// each place of the thesis.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        let order = |order: &PublishedOrder| {
            let holds = f64::from(u8::from(order.holds_busiest && order.holds_mean));
            let name = format!("order: {}", order.published);
            Claim::of(name, Some(holds), ("", "1 to 1"), "thesis 5.6.3")
        };
        let percentages = self
            .simulation
            .claims
            .iter()
            .filter(|claim| claim.order.is_none());
        let percentage = |claim: &RuleClaim| {
            let compared = PublishedComparison::new(
                claim.claim.clone(),
                claim.busiest,
                claim.published.clone(),
            );
            Claim::published(compared)
        };
        let mut places: Vec<&str> = self.statistics.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        let of_place = |at: &str| {
            let of = self
                .statistics
                .iter()
                .filter(|statistic| place(statistic) == at);
            let judged: Vec<bool> = of.filter_map(PublishedComparison::holds).collect();
            let held = judged.iter().filter(|holds| **holds).count();
            let share = (!judged.is_empty()).then(|| held as f64 / judged.len() as f64 * 100.0);
            let name = format!("{at}: per cent of the figures within 15 %, or their bound");
            Claim::of(name, share, ("", "100 to 100"), at)
                .with_words(Some(format!("{held} of {}", judged.len())))
        };
        let orders = self.orders.iter().map(order);
        let all = orders.chain(percentages.map(percentage));
        let all = all.chain(places.into_iter().map(of_place));
        all.filter(|claim| claim.compared.ours.is_some()).collect()
    }

    /// Missed if a published order, percentage or statistic does not come out.
    pub fn outcome(&self) -> CommandOutcome {
        outcome_of(&self.claims())
    }

    /// The result as one page.
    pub fn page(&self, command: &str) -> Page {
        let holding =
            |of: fn(&PublishedOrder) -> bool| self.orders.iter().filter(|one| of(one)).count();
        let page = Page::new("Thesis chapter 5 on a generated log")
            .lead(format!(
                "{} sessions of {} (seed {}), {} chains. Of {} published orders {} are reproduced \
                 by the busiest minute's mean over drives, {} by the mean over all time.",
                self.sessions,
                self.specification,
                self.seed,
                self.simulation.source.chains,
                self.orders.len(),
                holding(|order| order.holds_busiest),
                holding(|order| order.holds_mean),
            ))
            .section(Section::new("Command").command(command))
            .section(
                Section::new("Published orders")
                    .text(
                        "The published percentages belong to one private log, and the worst drive \
                         in its worst minute is a noisy maximum; so orders are evaluated at the \
                         busiest minute's mean over drives, and at the mean over all time.",
                    )
                    .table(self.orders_table()),
            )
            .section(
                Section::new("Statistics of the log")
                    .text(
                        "Figures of chapter 5 compared with those of the generated log, measured \
                         like headlong trace characterise, but without all sessions that begin in its \
                         last hour. Counts that grow with the number of sessions are scaled to \
                         that of the thesis' log.",
                    )
                    .table(self.statistics_table()),
            );
        sections(&self.simulation)
            .into_iter()
            .fold(page, Page::section)
    }

    /// The orders and the statistics as text.
    pub fn text(&self) -> String {
        format!(
            "{} sessions of {} (seed {}), {} chains\n\n{}\n{}{}\n{}",
            self.sessions,
            self.specification,
            self.seed,
            self.simulation.source.chains,
            self.orders_table().to_markdown(),
            self.scaling(),
            self.statistics_table().to_markdown(),
            headlong_chain_sim::text(&self.simulation)
        )
    }

    /// Note above the statistics of a log of another size, whose counts are scaled.
    fn scaling(&self) -> String {
        if self.sessions == self.statistics_sessions {
            return String::new();
        }
        format!(
            "Counts and bytes that grow with the number of sessions are not those of these {}: they \
             are scaled to the {} published sessions.\n\n",
            self.sessions, self.statistics_sessions
        )
    }

    fn orders_table(&self) -> Table {
        Table::of(
            &self.orders,
            &[
                ("Published", &|order| order.published.as_str().into()),
                ("Here", &|order| order.here.as_str().into()),
                ("By busiest minute", &|order| order.holds_busiest.into()),
                ("By all time", &|order| order.holds_mean.into()),
            ],
        )
    }

    fn statistics_table(&self) -> Table {
        let heads = PublishedComparison::HEADS.into_iter().chain(["Comes out"]);
        let mut table = Table::new(heads);
        for statistic in &self.statistics {
            let cells = statistic.cells().map(Cell::from).into_iter();
            table.push(cells.chain([statistic.verdict().word().into()]));
        }
        table
    }
}

/// Place of a statistic in the thesis: a table or a section, without its notes.
fn place(statistic: &PublishedComparison) -> &str {
    let source = &statistic.published.source;
    let end = source.find([',', '(', ';', ':']).unwrap_or(source.len());
    source[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sessions: u64) -> NetflixResult {
        let reproducing = NetflixOptions {
            sessions,
            seed: 1,
            sizes_mb: vec![1.0, 7.0, 16.0],
            settings: SimulationSettings::default(),
        };
        netflix(&reproducing, |_| ()).expect("a result")
    }

    #[test]
    fn small_log_is_measured_simulated_and_reported() {
        let made = made(300);
        assert!(made.simulation.source.chains > 3_000);
        assert_eq!(made.simulation.points.points.len(), 7 * 3);
        assert_eq!(made.orders.len(), 7);
        let html = made.page("headlong reproduce netflix").to_html();
        for part in [
            "Published orders",
            "Figure 5.22",
            "Table 5.6",
            "30.8",
            "300 sessions",
        ] {
            assert!(html.contains(part), "{part} is missing");
        }
        let text = made.text();
        assert!(text.contains("Fixed is U-shaped"), "{text}");
        for part in [
            "300 sessions of netflix-2014-catalog (seed 1)",
            "not those of these 300: they are scaled to the 126064 published sessions",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
    }

    #[test]
    fn bounds_of_thesis_name_existing_statistics() {
        let made = made(60);
        for (name, bound) in BOUNDED {
            let of = made
                .statistics
                .iter()
                .find(|statistic| statistic.name == name);
            let value = of.and_then(|statistic| statistic.published.value.as_ref());
            assert_eq!(value.map(|value| value.bound), Some(bound), "{name}");
        }
        let claims = made.claims();
        let orders = claims
            .iter()
            .filter(|claim| claim.compared.name.starts_with("order"));
        assert_eq!(orders.count(), 7);
        let names = ["Table 5.2", "First-Grow-SR at 16 MB"];
        for name in names {
            assert!(
                claims
                    .iter()
                    .any(|claim| claim.compared.name.contains(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn same_seed_gives_same_result() {
        assert_eq!(made(60), made(60));
    }
}
