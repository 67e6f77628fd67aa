//! What a log is told as: the tables and figures of thesis 5.1 to 5.4, summed up part by part.
//!
//! The one idea: every table and figure is a sum over sessions, so each has an accumulator that
//! sees one session at a time, adds up to another of its kind, and is told at the end. All sums are
//! whole numbers: however the sessions were spread over threads, the answer is the same.
//!
//! Invariants: memory does not grow with the number of requests; sessions that start in the last
//! hour of a long log count in Table 5.1 and Figure 5.1 and nowhere else (A16).

mod bit_rates;
mod catalogue;
mod chaining;
mod counting;
mod devices;
mod examples;
mod generated;
mod observing;
mod outcome;
mod page;
mod part;
mod phase_shares;
mod published;
mod requests;
mod run;
mod seconds;
mod survival;
mod view;
mod viewing;
mod volume;

#[cfg(test)]
mod naive_tests;

use headlong_workload::phased::Observed;
use serde::Serialize;

pub use bit_rates::TransientRates;
pub use catalogue::CatalogueUse;
pub use chaining::Chaining;
pub use counting::{Alive, BySecond, Lengths, LogHistogram};
pub use examples::Examples;
pub use generated::Generated;
pub use observing::{Observing, Others};
pub use outcome::{Axis, Column, Figure, Form, Outcome, Row, Scale, Series, Table, Value};
pub use page::{page, text};
pub use part::Teller;
pub use phase_shares::PhaseShares;
pub use published::{Beside, Published, beside, published};
pub use requests::RequestKinds;
pub use run::{Telling, TellingError, characterise, telling_bytes_max};
pub use seconds::Seconds;
pub use view::{Cluster, Log, NO_CHAIN, PhasesOf, RateClass, Rates, SessionView, Span};
pub use viewing::Viewing;
pub use volume::Volume;

/// Name of the form of [`Characterisation`] as JSON; docs/schemas/characterisation-1.json.
pub const SCHEMA: &str = "headlong-characterisation-1";

/// All accumulators.
#[derive(Debug, Clone)]
pub struct Told {
    volume: Volume,
    catalogue: CatalogueUse,
    viewing: Viewing,
    examples: Examples,
    requests: RequestKinds,
    chaining: Chaining,
    seconds: Seconds,
    phases: PhaseShares,
    rates: TransientRates,
    observing: Observing,
}

impl Told {
    /// Nothing yet.
    pub fn new(log: &Log) -> Self {
        Self {
            volume: Volume::new(log),
            catalogue: CatalogueUse::new(log),
            viewing: Viewing::default(),
            examples: Examples::default(),
            requests: RequestKinds::new(log),
            chaining: Chaining::default(),
            seconds: Seconds::default(),
            phases: PhaseShares::default(),
            rates: TransientRates::new(log),
            observing: Observing::new(log),
        }
    }

    /// Most bytes of memory that one takes for such a log, near enough.
    pub fn bytes_max(log: &Log) -> u64 {
        let classes = log.rates.classes().len() as u64;
        let by_second = 16 * 8 * counting::SECONDS_MAX as u64;
        let lengths = 3 * Lengths::BYTES_MAX as u64;
        let by_file = 16 * (log.files.len() + log.titles) as u64;
        by_second + lengths + by_file + 64 * classes * classes + (2 << 20)
    }

    /// One session more.
    pub fn add(&mut self, log: &Log, view: &SessionView<'_>) {
        self.volume.add(log, view);
        if view.span.start_ms >= log.kept_before_ms {
            return;
        }
        self.catalogue.add(log, view);
        self.viewing.add(log, view);
        self.examples.add(log, view);
        self.requests.add(log, view);
        self.chaining.add(log, view);
        self.seconds.add(log, view);
        self.phases.add(log, view);
        self.rates.add(log, view);
        self.observing.add(log, view);
    }

    /// Those of another too.
    pub fn merge(&mut self, other: Self) {
        self.volume.merge(&other.volume);
        self.catalogue.merge(&other.catalogue);
        self.viewing.merge(&other.viewing);
        self.examples.merge(other.examples);
        self.requests.merge(&other.requests);
        self.chaining.merge(other.chaining);
        self.seconds.merge(&other.seconds);
        self.phases.merge(&other.phases);
        self.rates.merge(&other.rates);
        self.observing.merge(other.observing);
    }

    /// Everything as tables and figures, in the order of the thesis.
    pub fn finish(mut self, log: &Log, about: About) -> Characterisation {
        let (sessions, left_out) = self.volume.sessions();
        let section = |key: &str, heading: &str, outcomes: Vec<Outcome>| {
            let mut all = Outcome::default();
            for outcome in outcomes {
                all.tables.extend(outcome.tables);
                all.figures.extend(outcome.figures);
            }
            Section {
                key: key.into(),
                heading: heading.into(),
                tables: all.tables,
                figures: all.figures,
            }
        };
        let chains = self.chaining.finish();
        let others = Others {
            volume: &self.volume,
            catalogue: &self.catalogue,
            chaining: &self.chaining,
            phases: &self.phases,
            requests: &self.requests,
            changes: self.rates.changes(),
        };
        let observed = self.observing.finish(log, others);
        let mut sections = vec![
            section(
                "volume",
                "How much, and when",
                vec![self.volume.finish(log)],
            ),
            section(
                "catalogue",
                "Titles and bit rates",
                vec![self.catalogue.finish(log)],
            ),
            section("viewing", "Viewing sessions", vec![self.viewing.finish()]),
            section(
                "examples",
                "Example sessions",
                vec![self.examples.finish(log)],
            ),
            section("requests", "Requests", vec![self.requests.finish(log)]),
            section("chains", "Chains", vec![chains]),
            section(
                "seconds",
                "Sessions second by second",
                vec![self.seconds.finish()],
            ),
            section(
                "phases",
                "Phases",
                vec![self.phases.finish(), self.rates.finish(log)],
            ),
        ];
        let table = specification(&sections, &observed);
        sections.push(section(
            "specification",
            "As a workload specification",
            vec![table],
        ));
        Characterisation {
            schema: SCHEMA.into(),
            about,
            sessions,
            sessions_left_out: left_out,
            sections,
            beside_thesis: Vec::new(),
            specification: None,
            observed,
        }
    }
}

/// Table 5.5: the parameters of a workload specification, and where each was measured.
fn specification(sections: &[Section], observed: &Observed) -> Outcome {
    let number = |id: &str, row: &str, column: &str| {
        let mut tables = sections.iter().flat_map(|section| &section.tables);
        tables.find(|table| table.id == id)?.number(row, column)
    };
    let mut table = Table::new(
        "table-5.5",
        "Parameters of a workload specification",
        "What a generator needs to know, and where it is measured. With --spec they are written in full, \
         as a file that `headlong workload generate` takes.",
        &[("measured", "Measured"), ("source", "Figure or table")],
    );
    let told = |value: Option<f64>, unit: &str| match value {
        Some(value) if value.fract() == 0.0 => Value::Text(format!("{value:.0} {unit}")),
        Some(value) => Value::Text(format!("{value:.1} {unit}")),
        None => Value::None,
    };
    let durations = &observed.titles.durations_s;
    let middle = durations.iter().find(|(_, share)| *share >= 0.5);
    let middle = middle.map(|(seconds, _)| seconds / 60.0);
    let rows: [(&str, &str, Value, &str); 9] = [
        (
            "popularity",
            "Popularity of titles",
            told(number("table-5.1", "titles", "value"), "titles"),
            "Figure 5.4",
        ),
        (
            "durations",
            "Lengths of titles",
            told(middle, "min, median"),
            "Figure 5.3",
        ),
        (
            "rates",
            "Bit rates",
            told(Some(observed.renditions.len() as f64), "bit rates"),
            "Figure 5.2",
        ),
        (
            "length",
            "Length of sessions",
            told(
                number("table-viewing", "video-20", "value"),
                "% fetch a fifth or less",
            ),
            "Figures 5.5 and 5.7",
        ),
        (
            "arrivals",
            "Arrivals of sessions",
            told(number("table-5.1", "sessions", "value"), "sessions"),
            "Sessions that start",
        ),
        (
            "sizes",
            "Sizes of requests",
            told(
                number("table-chunk-sizes", "mean", "bytes").map(|b| b / 1e6),
                "MB, mean of chunks",
            ),
            "Figure 5.10",
        ),
        (
            "pacing",
            "Pacing",
            told(
                number("table-phases", "stable", "mean"),
                "s, mean stable phase",
            ),
            "Figures 5.14 and 5.19",
        ),
        (
            "adaptation",
            "Adaptation",
            told(
                number("table-changes", "remains", "share"),
                "% of later searches end at the same rate",
            ),
            "Figures 5.15, 5.17 and 5.18",
        ),
        (
            "parallel",
            "Connections",
            told(number("table-5.3", "overlap", "1"), "% of files over one"),
            "Table 5.3",
        ),
    ];
    for (key, name, value, source) in rows {
        table.push(key, name, [value, source.into()]);
    }
    Outcome {
        tables: vec![table],
        figures: Vec::new(),
    }
}

/// Lines of a log that were not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// The first of them: where it is and what it says.
    pub sample: String,
}

/// Where the numbers are from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct About {
    /// What the report is called.
    pub title: String,
    /// Names of the logs.
    pub logs: Vec<String>,
    /// Their form, and how it was found.
    pub format: String,
    /// What a session is made from.
    pub sessions_by: String,
    /// Bytes that the requests sent.
    pub bytes: u64,
    /// Requests that were understood.
    pub requests: u64,
    /// What was left out and why.
    pub dropped: Vec<Dropped>,
    /// Files whose kind, bit rate and size were estimated because no table named them.
    pub files_estimated: u64,
    /// Files in all.
    pub files: u64,
    /// Anything else that a reader must know.
    pub notes: Vec<String>,
    /// The command that made it.
    pub command: String,
}

/// A part of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    /// What programs call it.
    pub key: String,
    /// What people call it.
    pub heading: String,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// A log, told.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Characterisation {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where it is from.
    pub about: About,
    /// Sessions in the log.
    pub sessions: u64,
    /// Those of them that start too near its end to count (A16).
    pub sessions_left_out: u64,
    /// Tables and figures.
    pub sections: Vec<Section>,
    /// Published numbers of the thesis beside ours, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub beside_thesis: Vec<Beside>,
    /// The workload specification that is fitted to it, as TOML, if it was asked for: what `--spec`
    /// writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specification: Option<String>,
    /// What it is fitted from.
    #[serde(skip)]
    pub observed: Observed,
}

impl Characterisation {
    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &Table> + Clone {
        self.sections.iter().flat_map(|section| &section.tables)
    }

    /// All figures.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> + Clone {
        self.sections.iter().flat_map(|section| &section.figures)
    }

    /// A number by table, row and column.
    pub fn number(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let mut tables = self.tables().filter(|known| known.id == table);
        tables.find_map(|table| table.number(row, column))
    }

    /// With the workload specification that is fitted to it, which takes some seconds: logs of it are
    /// tried.
    pub fn with_specification(mut self) -> Self {
        self.specification = Some(headlong_workload::phased::fit(&self.observed).to_toml());
        self
    }

    /// With the published numbers of the thesis beside it.
    pub fn beside_thesis(mut self) -> Self {
        self.beside_thesis = beside(self.tables());
        self
    }
}
