//! Thesis chapter 5 again, on a generated log: what the log is like, and what each rule for
//! prefetch sizes costs on it.
//!
//! The one idea: the thesis' log is private, but what it is like was published, and a specification
//! was made of that. Its sessions are generated one by one and measured as `headlong trace characterise`
//! measures a log; the chains it finds are then simulated. No log is written, and nothing is kept but
//! chains.

use headlong_chain_sim::{
    Algorithm, ChainRow, ChainTable, Point, Report, Settings, SimulationError, Source, Sweep,
    TableError, Wanted, sections,
};
use headlong_chains::Chain;
use headlong_characterise::{Comparison, comparison};
use headlong_engine::Policy;
use headlong_report::{Cell, Page, Section, Table};
use headlong_units::BitRate;
use headlong_workload::SpecificationErrors;
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
    /// Seed.
    pub seed: u64,
    /// What the log is like, beside what was published.
    pub statistics: Vec<Comparison>,
    /// The orders that were published, and whether they came out again.
    pub orders: Vec<Order>,
    /// The simulation.
    pub simulation: Report,
}

/// A published order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Order {
    /// What was published.
    pub published: &'static str,
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
    Specification(#[from] SpecificationErrors),
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
    let statistics = comparison(&log.finish("headlong reproduce netflix"));
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
        seed: reproducing.seed,
        statistics,
        orders: orders(&simulation),
        simulation,
    })
}

fn row(chain: &Chain, catalogue: &Catalogue) -> ChainRow {
    let kbps = catalogue.files[chain.file as usize].kbps;
    ChainRow::of(chain, Some(BitRate::from_kbps(u64::from(kbps))))
}

type Util = fn(&Point) -> f64;

/// The published orders (thesis 5.6.3), taken at the steady figures.
fn orders(report: &Report) -> Vec<Order> {
    let points = |name: &'static str| report.points.of(name);
    let best =
        |name, util: Util| points(name).min_by(|one, other| util(one).total_cmp(&util(other)));
    let utils: [Util; 2] = [|point| point.util_busiest, |point| point.util_mean];
    let order = |published, of: &dyn Fn(Util) -> Option<(bool, String)>| {
        let [busiest, mean] = utils.map(of);
        let here = [("busiest minute", &busiest), ("all time", &mean)].map(|(name, found)| {
            let words = found.as_ref().map_or("not simulated", |found| &found.1);
            format!("{name}: {words}")
        });
        Order {
            published,
            here: here.join("; "),
            holds_busiest: busiest.is_some_and(|found| found.0),
            holds_mean: mean.is_some_and(|found| found.0),
        }
    };
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    vec![
        order("Fixed is U-shaped, with its minimum near 7 MB", &|util| {
            let (first, last) = (points("fixed").next()?, points("fixed").last()?);
            let least = best("fixed", util)?;
            let is_u = util(first) > util(least) && util(last) > util(least);
            let is_near = (5.0..=9.0).contains(&least.size);
            Some((is_u && is_near, format!("least at {} MB", least.size)))
        }),
        order(
            "Square-Root is best near 8 MB and lower than Fixed",
            &|util| {
                let (fixed, root) = (best("fixed", util)?, best("square-root", util)?);
                let is_near = (6.0..=10.0).contains(&root.size);
                let change = util(root) / util(fixed) - 1.0;
                let words = format!(
                    "best at {} MB, {} against Fixed",
                    root.size,
                    percent(change)
                );
                Some((is_near && change < 0.0, words))
            },
        ),
        order("Proportional's best is no better than Fixed's", &|util| {
            let change = util(best("proportional", util)?) / util(best("fixed", util)?) - 1.0;
            Some((change >= 0.0, percent(change)))
        }),
        order("Proportional saves as much memory as Square-Root", &|_| {
            let at = |name| report.points.at(name, 7.0).map(|point| point.mem);
            let fixed = at("fixed")?;
            let (flat, root) = (at("proportional")? / fixed, at("square-root")? / fixed);
            let words = format!("{} and {} of Fixed's at 7 MB", percent(flat), percent(root));
            Some((flat < 1.0 && flat <= root * 1.02, words))
        }),
        order("First-Grow and First-Grow-SR are lowest", &|util| {
            let others = ["fixed", "proportional", "square-root"];
            let others = others
                .iter()
                .filter_map(|name| Some(util(best(name, util)?)));
            let least = others.min_by(f64::total_cmp)?;
            let grown = util(best("first-grow", util)?);
            let rooted = util(best("first-grow-sr", util)?);
            let words = format!(
                "{}, {}; the next {}",
                percent(grown),
                percent(rooted),
                percent(least)
            );
            Some((grown < least && rooted < least, words))
        }),
        order(
            "First-Grow and First-Grow-SR keep falling to 16 MB (within 1 %)",
            &|util| {
                let falls = |name| {
                    let (best, last) = (best(name, util)?, points(name).last()?);
                    Some((best.size, util(last) <= util(best) * 1.01))
                };
                let (grown, rooted) = (falls("first-grow")?, falls("first-grow-sr")?);
                let words = format!("best at {} and {} MB", grown.0, rooted.0);
                // What lies within a hundredth of the least is as low, and only less steady.
                Some((
                    grown.1 && rooted.1 && grown.0 > 8.0 && rooted.0 > 8.0,
                    words,
                ))
            },
        ),
        order(
            "First-Grow-SR is close to First-Grow, with clearly less memory",
            &|util| {
                let pairs: Vec<(&Point, &Point)> = points("first-grow")
                    .filter_map(|grown| {
                        Some((grown, report.points.at("first-grow-sr", grown.size)?))
                    })
                    .collect();
                let count = pairs.len() as f64;
                let mean = |of: &dyn Fn(&Point) -> f64| {
                    let changes = pairs
                        .iter()
                        .map(|(grown, rooted)| of(rooted) / of(grown) - 1.0);
                    changes.sum::<f64>() / count
                };
                let (busy, mem) = (mean(&|point| util(point)), mean(&|point| point.mem));
                let words = format!("utilisation {}, memory {}", percent(busy), percent(mem));
                Some((busy.abs() < 0.05 && mem < -0.05, words))
            },
        ),
    ]
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
            "{}\n{}\n{}",
            self.orders_table().to_markdown(),
            self.statistics_table().to_markdown(),
            headlong_chain_sim::text(&self.simulation)
        )
    }

    fn orders_table(&self) -> Table {
        let heads = ["Published", "Here", "By busiest minute", "By all time"];
        let mut table = Table::new(heads);
        let yes = |holds: bool| Cell::from(if holds { "yes" } else { "no" });
        for order in &self.orders {
            table.push([
                order.published.into(),
                order.here.clone().into(),
                yes(order.holds_busiest),
                yes(order.holds_mean),
            ]);
        }
        table
    }

    fn statistics_table(&self) -> Table {
        let mut table = Table::new(["What", "Here", "Thesis", "Difference (%)", "Where"]);
        for statistic in &self.statistics {
            let number = |value: f64| {
                let decimals = match value.abs() {
                    size if size >= 1_000.0 => 0,
                    size if size >= 10.0 => 1,
                    _ => 3,
                };
                Cell::number(value, decimals)
            };
            let published = statistic.published.filter(|value| *value != 0.0);
            table.push([
                statistic.name.as_str().into(),
                number(statistic.ours),
                statistic.published.map_or(Cell::Missing, number),
                published.map_or(Cell::Missing, |published| {
                    Cell::number(100.0 * (statistic.ours / published - 1.0), 1)
                }),
                statistic.source.as_str().into(),
            ]);
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
    }

    #[test]
    fn the_same_seed_gives_the_same_result() {
        assert_eq!(made(60), made(60));
    }
}
