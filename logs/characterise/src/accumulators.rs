//! All accumulators combined, and the report they produce.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::LengthCounts;

use crate::assemble::AccumulatorRefs;
use crate::audience::Audience;
use crate::behaviour::Behaviour;
use crate::bit_rates::TransientRates;
use crate::catalogue::CatalogueUse;
use crate::chain_statistics::ChainStatistics;
use crate::examples::ExampleSessions;
use crate::histograms::{LogHistogram, SECONDS_MAX};
use crate::merge::sums;
use crate::observations::Observations;
use crate::phase_shares::PhaseShares;
use crate::report::{Characterisation, Provenance, ReportSection, SCHEMA};
use crate::requests::RequestKinds;
use crate::seconds::SecondHistogram;
use crate::tables::{Captions, CellValue, ReportItems, Table, per_cent};
use crate::view::{LogContext, SessionView};
use crate::viewing_portions::ViewingPortions;
use crate::volume::LogVolume;

sums! {
    /// The combination of all accumulators.
    #[derive(Debug, Clone)]
    pub struct Accumulators {
        volume: LogVolume,
        audience: Audience,
        catalogue: CatalogueUse,
        viewing: ViewingPortions,
        examples: ExampleSessions,
        requests: RequestKinds,
        chaining: ChainStatistics,
        seconds: SecondHistogram,
        phases: PhaseShares,
        rates: TransientRates,
        behaviour: Behaviour,
    }
}

impl Accumulators {
    /// Empty accumulators.
    pub fn new(log: &LogContext) -> Self {
        Self {
            volume: LogVolume::new(log),
            audience: Audience::new(log),
            catalogue: CatalogueUse::new(log),
            viewing: ViewingPortions::default(),
            examples: ExampleSessions::default(),
            requests: RequestKinds::new(log),
            chaining: ChainStatistics::default(),
            seconds: SecondHistogram::default(),
            phases: PhaseShares::default(),
            rates: TransientRates::new(log),
            behaviour: Behaviour::new(log),
        }
    }

    /// Upper estimate of their memory for such a log, bytes.
    pub fn bytes_max(log: &LogContext) -> u64 {
        let classes = log.rates.classes().len() as u64;
        let by_second = 16 * 8 * SECONDS_MAX as u64;
        let lengths = 3 * LengthCounts::BYTES_MAX as u64;
        let by_file = 40 * (log.files.len() + log.titles) as u64;
        by_second + lengths + by_file + 64 * classes * classes + (2 << 20)
    }

    /// Adds a session.
    pub fn add(&mut self, log: &LogContext, view: &SessionView<'_>) {
        self.volume.add(log, view);
        self.audience.add(log, view);
        if log.is_left_out(view.span) {
            return;
        }
        self.catalogue.add(log, view);
        if !log.has_offsets {
            self.behaviour.add_length(view);
            return;
        }
        self.viewing.add(log, view);
        self.examples.add(log, view);
        self.requests.add(log, view);
        self.chaining.add(log, view);
        self.seconds.add(log, view);
        self.phases.add(log, view);
        self.rates.add(log, view);
        self.behaviour.add(log, view);
    }

    /// The titles whose names the report shows; the caller puts them into
    /// [`LogContext::title_names`].
    pub fn top_titles(&self) -> Vec<u32> {
        self.audience.top_titles()
    }

    /// Produces all tables and figures, in the order of the thesis behind those for operators.
    pub fn finish(mut self, log: &LogContext, about: Provenance) -> Characterisation {
        let captions = &Captions::new();
        let (sessions, left_out) = self.volume.sessions();
        let observed = Observations::of(
            log,
            AccumulatorRefs {
                volume: &self.volume,
                catalogue: &self.catalogue,
                chaining: &self.chaining,
                phases: &self.phases,
                requests: &self.requests,
                behaviour: &self.behaviour,
                changes: self.rates.changes(),
            },
        );
        let sessions_table = sessions_table(self.behaviour.lengths_ms(), &observed, captions);
        let mut phases = self.phases.finish(captions);
        let rates = self.rates.finish(log, captions);
        phases.tables.extend(rates.tables);
        phases.figures.extend(rates.figures);
        let audience = self.audience.finish(log, &about.failures, captions);
        let sections = [
            ("audience", "Viewers, titles and failures", audience),
            (
                "volume",
                "How much, and when",
                self.volume.finish(log, captions),
            ),
            (
                "catalogue",
                "Titles and bit rates",
                self.catalogue.finish(log, captions),
            ),
            ("viewing", "Viewing sessions", self.viewing.finish(captions)),
            (
                "examples",
                "Example sessions",
                self.examples.finish(log, captions),
            ),
            ("requests", "Requests", self.requests.finish(log, captions)),
            ("chains", "Chains", self.chaining.finish(captions)),
            (
                "seconds",
                "Sessions second by second",
                self.seconds.finish(captions),
            ),
            ("phases", "Phases", phases),
        ];
        let needs_no_offsets = |(key, ..): &(&str, &str, ReportItems)| {
            log.has_offsets || matches!(*key, "audience" | "volume" | "catalogue")
        };
        let sections = sections.into_iter().filter(needs_no_offsets);
        let mut sections: Vec<ReportSection> = sections.map(ReportSection::new).collect();
        let parameters = parameters(&sections, &observed, captions);
        let (heading, tables) = match log.has_offsets {
            true => (
                "As a workload specification",
                vec![parameters, sessions_table],
            ),
            false => ("Viewing sessions", vec![sessions_table]),
        };
        let figures = Vec::new();
        sections.push(ReportSection::new((
            "specification",
            heading,
            ReportItems { tables, figures },
        )));
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

/// Table 5.5: the parameters of a workload specification, with their sources.
fn parameters(sections: &[ReportSection], observed: &Observations, captions: &Captions) -> Table {
    let number = |id: &str, row: &str, column: &str| {
        let mut tables = sections.iter().flat_map(|section| &section.tables);
        tables.find(|table| table.id == id)?.number(row, column)
    };
    let measured = |value: Option<f64>, unit: &str| match value {
        Some(value) if libm::trunc(value) == value => CellValue::Text(format!("{value:.0} {unit}")),
        Some(value) => CellValue::Text(format!("{value:.1} {unit}")),
        None => CellValue::None,
    };
    let durations = &observed.titles.durations_s;
    let middle = durations.iter().find(|(_, share)| *share >= 0.5);
    let middle = middle.map(|(seconds, _)| seconds / 60.0);
    let mean_mb = number("table-chunk-sizes", "mean", "bytes").map(|bytes| bytes / 1e6);
    captions.table("table-5.5").filled([
        [
            measured(number("table-5.1", "titles", "value"), "titles"),
            "Popularity of titles and files".into(),
        ],
        [
            measured(middle, "min, median"),
            "Lengths of the titles viewed".into(),
        ],
        [
            measured(Some(observed.renditions.len() as f64), "bit rates"),
            "Bit rates that viewers chose".into(),
        ],
        [
            measured(
                number("table-viewing", "video-20", "value"),
                "% fetch a fifth or less",
            ),
            "Portions of titles".into(),
        ],
        [
            measured(number("table-5.1", "sessions", "value"), "sessions"),
            "Sessions that start".into(),
        ],
        [
            measured(mean_mb, "MB, mean of chunks"),
            "Sizes of chunk requests".into(),
        ],
        [
            measured(
                number("table-phases", "stable", "mean"),
                "s, mean stable phase",
            ),
            "Sessions second by second".into(),
        ],
        [
            measured(
                number("table-changes", "remains", "share"),
                "% of later searches end at the same rate",
            ),
            "Phases".into(),
        ],
        [
            measured(number("table-5.3", "overlap", "1"), "% of files over one"),
            "Parallel downloads of a file".into(),
        ],
    ])
}

/// Further properties by which a generator is judged.
fn sessions_table(
    lengths_ms: &LogHistogram,
    observed: &Observations,
    captions: &Captions,
) -> Table {
    let length_s = |share| [lengths_ms.quantile(share).map(|ms| ms / 1000.0).into()];
    let devices = observed.devices.iter();
    let both: f64 = devices
        .map(|one| one.both_share * one.sessions as f64)
        .sum();
    captions.table("table-sessions").filled([
        [observed.titles.popularity.slope.into()],
        length_s(0.5),
        length_s(0.9),
        [per_cent(both, observed.sessions_kept as f64).into()],
    ])
}
