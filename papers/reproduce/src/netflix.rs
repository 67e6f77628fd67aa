//! Thesis chapter 5 again, on a generated log: what the log is like, and what each rule for
//! prefetch sizes costs on it.
//!
//! The one idea: the thesis' log is private, but what it is like was published, and a specification
//! was made of that. Its sessions are generated one by one and measured as `headlong trace characterise`
//! measures a log; the chains it finds are then simulated. No log is written, and nothing is kept but
//! chains.

use headlong_chain_sim::{
    Algorithm, ChainRow, ChainTable, Claim, Point, Report, Settings, SimulationError, Source,
    Sweep, TableError, Wanted, sections,
};
use headlong_chains::Chain;
use headlong_characterise::{Comparison, comparison};
use headlong_engine::Policy;
use headlong_published::{Beside, Judgement, Published};
use headlong_report::{Cell, Page, Section, Table};
use headlong_units::BitRate;
use headlong_workload::Mistakes;
use headlong_workload::phased::{Catalogue, Measure, Sessions, Specification};
use serde::Serialize;

/// The shipped specification.
pub const SPECIFICATION: &str = "netflix-2014-catalog";
/// Sessions of the published log (thesis Table 5.1).
pub const SESSIONS: u64 = headlong_workload::phased::SESSIONS_FULL;

/// What to generate and try.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproducing {
    /// How many sessions.
    pub sessions: u64,
    /// Seed of the log.
    pub seed: u64,
    /// Sizes, MB.
    pub sizes_mb: Vec<f64>,
    /// Against what.
    pub settings: Settings,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Netflix {
    /// The specification.
    pub specification: &'static str,
    /// Sessions that were generated.
    pub sessions: u64,
    /// Sessions for which counts and bytes of `statistics` are given: as many as were published.
    pub statistics_sessions: u64,
    /// Seed.
    pub seed: u64,
    /// What the log is like, beside what was published.
    pub statistics: Vec<Beside>,
    /// The orders that were published, and whether they came out again.
    pub orders: Vec<Order>,
    /// The simulation.
    pub simulation: Report,
}

/// A published order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Order {
    /// What was published.
    pub published: String,
    /// What is here.
    pub here: String,
    /// Whether it is so by the busiest minute's mean over drives.
    pub holds_busiest: bool,
    /// Whether it is so by the mean over all time.
    pub holds_mean: bool,
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum NetflixError {
    /// The specification is not what it should be.
    #[error("{0}")]
    Specification(#[from] Mistakes),
    /// There are no chains.
    #[error("{0}")]
    Table(#[from] TableError),
    /// The simulation makes no sense.
    #[error("{0}")]
    Simulation(#[from] SimulationError),
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step<'p> {
    /// So many sessions are generated.
    Sessions(u64),
    /// A point is simulated.
    Point(&'p Point),
}

/// Generates, measures and simulates.
///
/// # Errors
/// If the specification has mistakes, or a setting makes no sense.
pub fn netflix(
    reproducing: &Reproducing,
    mut seen: impl FnMut(Step<'_>),
) -> Result<Netflix, NetflixError> {
    let specification = Specification::preset(SPECIFICATION, &[])?.scaled(reproducing.sessions);
    let catalogue = Catalogue::of(&specification.catalogue);
    let mut log = Measure::new(&specification, &catalogue);
    let mut rows = Vec::new();
    let mut sessions = Sessions::new(&specification, &catalogue, reproducing.seed);
    while let Some(session) = sessions.next() {
        log.add(&session, |view| {
            let row = |chain: &Chain| row(chain, &catalogue);
            rows.extend(view.chains.iter().map(row));
        });
        if session.number % 1_000 == 999 {
            seen(Step::Sessions(session.number + 1));
        }
        sessions.recycle(session);
    }
    let told = comparison(&log.finish("headlong reproduce netflix"));
    let statistics = told.into_iter().map(beside).collect();
    let table = ChainTable::new(rows)?;
    let settings = &reproducing.settings;
    let source = Source::of(SPECIFICATION, &table, settings);
    let sweep = Sweep {
        algorithms: Policy::ALL.iter().copied().map(Algorithm::plain).collect(),
        sizes_mb: reproducing.sizes_mb.clone(),
    };
    let wanted = Wanted {
        fitted: true,
        frontier: true,
    };
    let simulation = Report::make(source, &table, &sweep, settings, wanted, |point| {
        seen(Step::Point(point));
    })?;
    Ok(Netflix {
        specification: SPECIFICATION,
        sessions: reproducing.sessions,
        statistics_sessions: SESSIONS,
        seed: reproducing.seed,
        statistics,
        orders: orders(&simulation.claims),
        simulation,
    })
}

fn row(chain: &Chain, catalogue: &Catalogue) -> ChainRow {
    let kbps = catalogue.files[chain.file as usize].kbps;
    ChainRow::of(chain, Some(BitRate::from_kbps(u64::from(kbps))))
}

fn beside(figure: Comparison) -> Beside {
    let published = Published {
        value: figure.published,
        source: figure.source.into(),
        ..Published::without_number("")
    };
    Beside::new(figure.name, Some(figure.ours), published)
}

/// The published orders (thesis 5.6.3), taken at the steady figures: an order holds if all claims
/// that it is made of do.
fn orders(claims: &[Claim]) -> Vec<Order> {
    let mut names: Vec<&str> = claims.iter().filter_map(|c| c.order.as_deref()).collect();
    names.dedup();
    // A claim of one order may stand apart from the others.
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    let order = |name: &str| {
        let of = || {
            claims
                .iter()
                .filter(|claim| claim.order.as_deref() == Some(name))
        };
        let holds = |value: fn(&Claim) -> Option<f64>| {
            of().all(|claim| claim.published.judge(value(claim)) == Judgement::Within)
        };
        let words = |value: fn(&Claim) -> Option<f64>| {
            let words = of().map(|claim| match (value(claim), claim.unit.as_str()) {
                (None, _) => format!("{}: not simulated", claim.claim),
                (Some(yes), "yes/no") => {
                    format!("{}: {}", claim.claim, if yes == 1.0 { "yes" } else { "no" })
                }
                (Some(value), unit) => format!("{}: {value:.2} {unit}", claim.claim),
            });
            words.collect::<Vec<_>>().join(", ")
        };
        Order {
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

impl Netflix {
    /// All of it as one page.
    pub fn page(&self, command: &str) -> Page {
        let holding = |of: fn(&Order) -> bool| self.orders.iter().filter(|one| of(one)).count();
        let page = Page::new("Thesis chapter 5 again, on a generated log")
            .lead(format!(
                "{} sessions of {} (seed {}), {} chains. Of {} published orders {} come out again \
                 by the busiest minute's mean over drives, {} by the mean over all time.",
                self.sessions,
                self.specification,
                self.seed,
                self.simulation.source.chains,
                self.orders.len(),
                holding(|order| order.holds_busiest),
                holding(|order| order.holds_mean),
            ))
            .section(Section::new("How to get it again").command(command))
            .section(
                Section::new("Published orders")
                    .text(
                        "The published percentages belong to one private log, and the worst drive \
                         in its worst minute is a noisy maximum; so orders are taken at the \
                         busiest minute's mean over drives, and at the mean over all time.",
                    )
                    .table(self.orders_table()),
            )
            .section(
                Section::new("What the log is like")
                    .text(
                        "Figures of chapter 5 beside those of the generated log, as headlong trace \
                         characterise tells it: without the sessions that begin in its last hour. \
                         Counts that grow with the number of sessions are given for as many as \
                         the thesis' log has.",
                    )
                    .table(self.statistics_table()),
            );
        sections(&self.simulation)
            .into_iter()
            .fold(page, Page::section)
    }

    /// The orders and what the log is like, for a terminal.
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

    /// Above the statistics of a log of another size, whose counts are not what was counted.
    fn scaling(&self) -> String {
        if self.sessions == self.statistics_sessions {
            return String::new();
        }
        format!(
            "Counts and bytes that grow with the number of sessions are not those of these {}: they \
             are given in proportion, for the {} that were published.\n\n",
            self.sessions, self.statistics_sessions
        )
    }

    fn orders_table(&self) -> Table {
        let heads = ["Published", "Here", "By busiest minute", "By all time"];
        let mut table = Table::new(heads);
        let yes = |holds: bool| Cell::from(if holds { "yes" } else { "no" });
        for order in &self.orders {
            table.push([
                order.published.as_str().into(),
                order.here.clone().into(),
                yes(order.holds_busiest),
                yes(order.holds_mean),
            ]);
        }
        table
    }

    fn statistics_table(&self) -> Table {
        let mut table = Table::new(Beside::HEADS);
        for statistic in &self.statistics {
            table.push(statistic.cells().map(Cell::from));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(sessions: u64) -> Netflix {
        let reproducing = Reproducing {
            sessions,
            seed: 1,
            sizes_mb: vec![1.0, 7.0, 16.0],
            settings: Settings::default(),
        };
        netflix(&reproducing, |_| ()).expect("a result")
    }

    #[test]
    fn a_small_log_is_measured_simulated_and_told() {
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
            "not those of these 300: they are given in proportion, for the 126064 that",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_result() {
        assert_eq!(made(60), made(60));
    }
}
