//! Output of the reproduction: an HTML page, JSON, and Markdown tables for the documentation.

use headlong_bench::series_charts;
use headlong_published::PublishedValue;
use headlong_report::{Axis, Bar, Bars, Cell, Chart, Page, Section, Series, Table};
use headlong_sim::RunFigures;

use super::results::{
    AutomatedResult, ConfigurationLimit, ControllerRun, ScenarioOutcome, TABLE_1, TABLE_1_FIGURES,
    name_of, said,
};
use super::scenarios::{MemoryModel, PrefetchSizing, SCALES, SCALES_SIZE_MIB, SQUARE_ROOT_SCALE};
use crate::claims::{claims_table, outcome_of};
use crate::report::PaperReport;

/// The simulator's rates are in MiB/s, those of the papers in 10^6 bytes.
const MB_PER_MIB: f64 = 1.048_576;
const MEMORIES: [MemoryModel; 2] = [MemoryModel::PageCache, MemoryModel::Own];

fn rate(limit: Option<&ConfigurationLimit>) -> Cell {
    Cell::maybe(limit.map(|limit| limit.rate_mib_s * MB_PER_MIB), 1)
}

impl AutomatedResult {
    pub(super) fn report(&self, command: &str) -> PaperReport {
        let claims = self.claims();
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["claims"] = serde_json::to_value(&claims).unwrap_or_default();
        let outcome = outcome_of(&claims);
        let judged = claims_table(&claims);
        let memories = MEMORIES.map(|memory| self.table(memory));
        let mut tables = memories.to_vec();
        tables.extend([self.sizes_table(), judged.clone()]);
        PaperReport {
            lead: String::new(),
            tables,
            json,
            page: self.page(command, [judged].into_iter().chain(memories)),
            outcome,
        }
    }

    /// Best fixed size, automatic sizes and their ratios.
    fn table(&self, memory: MemoryModel) -> Table {
        let caption = match memory {
            MemoryModel::PageCache => "The paper's server: prefetches on a miss into a page cache.",
            MemoryModel::Own => "Headlong's own scheduling and memory management.",
        };
        let best = |outcome: &ScenarioOutcome| outcome.best(memory).cloned();
        let auto = |outcome: &ScenarioOutcome| {
            let auto = outcome.automatic(memory, PrefetchSizing::Auto);
            auto.cloned()
        };
        let by_best =
            |outcome: &ScenarioOutcome, sizing| Cell::maybe(outcome.by_best(memory, sizing), 2);
        let by_vanilla =
            |ratio: Option<f64>| Cell::maybe(ratio.filter(|_| memory == MemoryModel::PageCache), 2);
        let printed = |value: Option<PublishedValue>| Cell::from(value.map(|v| v.to_string()));
        let table = Table::of(
            &self.outcomes,
            &[
                ("Scenario", &|of| of.name.into()),
                ("Best size (MB)", &|of| {
                    best(of).and_then(|best| best.size_mib).into()
                }),
                ("published", &|of| printed(said(of.name).best)),
                ("Best (MB/s)", &|of| rate(best(of).as_ref())),
                ("auto (MB/s)", &|of| rate(auto(of).as_ref())),
                ("auto / best", &|of| by_best(of, PrefetchSizing::Auto)),
                ("auto size (MB)", &|of| {
                    Cell::maybe(auto(of).map(|auto| auto.mean(|r| r.prefetch_mib)), 1)
                }),
                ("auto-paper / best", &|of| {
                    by_best(of, PrefetchSizing::AutoPaper)
                }),
                ("published", &|of| printed(said(of.name).auto_by_best)),
                ("best / vanilla", &|of| by_vanilla(of.by_vanilla())),
                ("published", &|of| printed(said(of.name).by_vanilla)),
            ],
        );
        table.caption(caption)
    }

    /// The highest failure-free rate of every size.
    fn sizes_table(&self) -> Table {
        let automatic = [
            PrefetchSizing::AutoPaper,
            PrefetchSizing::Auto,
            PrefetchSizing::Vanilla,
        ];
        let first = self.outcomes.first();
        let sizes = first
            .into_iter()
            .flat_map(|outcome| outcome.fixed(MemoryModel::PageCache));
        let sizes = sizes.map(|limit| limit.sizing.clone());
        let heads = ["Scenario", "Memory"]
            .map(str::to_owned)
            .into_iter()
            .chain(sizes);
        let heads = heads.chain(automatic.map(PrefetchSizing::name));
        let mut table = Table::new(heads).caption("Highest failure-free rate, MB/s.");
        for outcome in &self.outcomes {
            for memory in MEMORIES {
                let fixed = outcome.fixed(memory).map(|limit| rate(Some(limit)));
                let automatic = automatic.map(|sizing| rate(outcome.automatic(memory, sizing)));
                let names = [outcome.name.into(), name_of(memory).into()];
                table.push(names.into_iter().chain(fixed).chain(automatic));
            }
        }
        table
    }

    fn page(&self, command: &str, tables: impl Iterator<Item = Table>) -> Page {
        let effort = if self.is_quick { "quick" } else { "full" };
        let lead = format!(
            "Automated Control of Aggressive Prefetching (SYSTOR 2014; thesis chapter 4) in \
             virtual time, {effort}, viewers of {} seed{}, in {:.0} s.",
            self.seeds,
            if self.seeds == 1 { "" } else { "s" },
            self.seconds
        );
        let summary = Section::new("Reproduced results").command(command);
        let summary = tables.fold(summary, Section::table);
        let mut sections = vec![summary];
        sections.extend(self.outcomes.iter().map(scenario_section));
        sections.extend(self.outcome("SD, 4 GB, Red").map(extra_section));
        sections.extend(self.outcome("mixed, 4 GB, Red").map(scales_section));
        sections.extend(self.in_action.iter().map(in_action_section));
        let page = Page::new("Automatic prefetch sizes").lead(lead);
        sections.into_iter().fold(page, Page::section)
    }
}

fn scenario_section(outcome: &ScenarioOutcome) -> Section {
    let said = said(outcome.name);
    let mut chart = Chart::lines(
        "Highest failure-free rate over the prefetch size",
        Axis::new("Prefetch size", "MB").from(0.0),
        Axis::new("Rate", "MB/s").from(0.0),
    );
    for (memory, words) in [
        (MemoryModel::PageCache, "page cache"),
        (MemoryModel::Own, "own memory"),
    ] {
        type DrawnFigure = (&'static str, fn(&RunFigures) -> f64);
        let drawn: &[DrawnFigure] = &[
            ("goodput", |r| r.served_mib_s),
            ("disk", |r| r.disk_mib_s),
            ("evicted", |r| r.evicted_mib_s),
        ];
        let drawn = if memory == MemoryModel::Own {
            &drawn[..1]
        } else {
            drawn
        };
        for (name, figure) in drawn {
            let points = outcome.fixed(memory).filter_map(|limit| {
                Some((limit.size_mib? as f64, limit.mean(figure) * MB_PER_MIB))
            });
            chart = chart.series(Series::new(format!("{words}, {name}"), points));
        }
        if let Some(auto) = outcome.automatic(memory, PrefetchSizing::Auto) {
            let served = auto.mean(|r| r.served_mib_s) * MB_PER_MIB;
            chart = chart.line_at_y(served, format!("auto, {words}"));
        }
    }
    if let Some(best) = &said.best {
        chart = chart.line_at_x(best.number, "published best");
    }
    let mut published = Vec::new();
    published.extend(said.best.map(|best| format!("best size {best}")));
    published.extend(
        said.by_vanilla
            .map(|by| format!("{by} times the vanilla server")),
    );
    published.extend(
        said.auto_by_best
            .map(|by| format!("automatic {by} of the best fixed")),
    );
    let words = match published.is_empty() {
        true => "The text gives no figures.".to_owned(),
        false => format!(
            "Published: {} (section {}).",
            published.join(", "),
            said.source
        ),
    };
    Section::new(format!(
        "{}: Figures {}",
        outcome.name, outcome.scenario.figures
    ))
    .text(words)
    .figure(chart)
}

/// Figure 2 and Table 1, for the SD titles.
fn extra_section(outcome: &ScenarioOutcome) -> Section {
    let by_size = |memory, figure: fn(&RunFigures) -> f64| {
        let limits = outcome.fixed(memory);
        limits.filter_map(move |limit| Some((limit.size_mib? as f64, limit.mean(figure))))
    };
    let chart = |title: &str, y: Axis, figure| {
        Chart::lines(
            title,
            Axis::new("Prefetch size", "MB").from(0.0),
            y.from(0.0),
        )
        .series(Series::new(
            "page cache",
            by_size(MemoryModel::PageCache, figure),
        ))
        .series(Series::new("own memory", by_size(MemoryModel::Own, figure)))
    };
    let times = chart("Disk time for 128 KiB", Axis::new("Time", "ms"), |r| {
        r.read_ms / r.read_kib.max(1e-9) * 128.0
    });
    let published = TABLE_1.map(|(size, [disk, ..])| (size as f64, disk));
    let misses = chart("Miss ratio", Axis::new("Read / requested", ""), |r| {
        r.disk_mib_s / r.served_mib_s.max(1e-9)
    });
    let misses = misses.series(Series::new("published (Table 1)", published).reference());
    let heads = "Size (MB) | Disk / requested | published | Evicted / requested | published | \
        Wasted / requested | published | own memory: disk | evicted | wasted";
    let mut table = Table::headed(heads).caption("Table 1 (thesis 4.1): bytes by bytes requested.");
    for (size_mib, published) in TABLE_1 {
        let ratios = |memory| {
            let limit = outcome
                .fixed(memory)
                .find(|limit| limit.size_mib == Some(size_mib));
            TABLE_1_FIGURES.map(|figure| Cell::maybe(limit.map(|limit| limit.mean(figure)), 2))
        };
        let cache = ratios(MemoryModel::PageCache).into_iter().zip(published);
        let cache = cache.flat_map(|(ours, published)| [ours, Cell::number(published, 2)]);
        let size = [Cell::from(size_mib)].into_iter();
        table.push(size.chain(cache).chain(ratios(MemoryModel::Own)));
    }
    Section::new("Cost of large prefetches: Figure 2 (4.2), Table 1 (4.1)")
        .text(
            "SD titles, 4 GB, each size at its highest failure-free rate. The published ratios \
             are from runs at rates that the paper does not give. Wasted bytes fall with the size \
             here, where the paper's rise: what was evicted before it was sent counts as evicted \
             and not as wasted.",
        )
        .figure(times)
        .figure(misses)
        .table(table)
}

/// Figure 10.
fn scales_section(outcome: &ScenarioOutcome) -> Section {
    let mut bars = Bars::new(
        "Highest rate by the size of SD prefetches",
        Axis::new("Rate", "MB/s"),
    )
    .series(format!("{SCALES_SIZE_MIB} MB for HD"))
    .series("auto-paper");
    for scale in SCALES {
        let of = |sizing: PrefetchSizing| {
            let mut limits = outcome.limits.iter();
            let limit = limits.find(|limit| {
                limit.scale == Some(scale)
                    && limit.sizing == sizing.name()
                    && limit.memory == name_of(MemoryModel::PageCache)
            });
            limit.map(|limit| Bar::new(limit.rate_mib_s * MB_PER_MIB))
        };
        let name = match scale == SQUARE_ROOT_SCALE {
            true => format!("{scale} (square root)"),
            false => scale.to_string(),
        };
        bars = bars.group(
            name,
            [
                of(PrefetchSizing::Fixed(SCALES_SIZE_MIB)),
                of(PrefetchSizing::AutoPaper),
            ],
        );
    }
    Section::new("Mixed bit rates: Figure 10 (4.10)")
        .text(
            "Half of the sessions watch HD. Published: 0.45 is as good as or better than the \
             others, and the differences are small (7.4).",
        )
        .figure(bars)
}

fn in_action_section(run: &ControllerRun) -> Section {
    let heading = format!(
        "Figure {}: {} from {} MB",
        run.figure, run.controller, run.start_mib
    );
    let published = match run.start_mib {
        8 => "Published: evictions at 500 s, a jump to 3 MB, then descent (4.3).",
        _ => "Published: a local minimum at 1,000 s, left by deflation, then up to 7.5 MB (4.3).",
    };
    let mut section = Section::new(heading).text(format!(
        "From 80 % of {:.0} MB/s in steps of 5 % over 2,700 s, then 1,200 s at 100 %; {} calls \
         failed then, {} before. {published}",
        run.rate_mib_s * MB_PER_MIB,
        run.record.failures,
        run.record.failures_outside,
    ));
    for chart in series_charts(&run.record).into_iter().take(4) {
        section = section.figure(chart);
    }
    section
}
