//! Output of the reproduction: an HTML page, JSON, and Markdown tables for the documentation.

use headlong_report::{Axis, Bar, Bars, Cell, Chart, Page, Section, Series, Table};
use headlong_sim::RunFigures;

use super::published::{TABLE_1, said};
use super::results::{
    AutomatedResult, ConfigurationLimit, ControllerRun, ScenarioOutcome, name_of,
};
use super::scenarios::{MemoryModel, PrefetchSizing, SCALES, SCALES_SIZE_MIB, SQUARE_ROOT_SCALE};
use headlong_bench::{BenchError, BenchOptions, CommandOutcome, series_charts};

/// Name of the section in the documentation.
const MARKS: &str = "automated-prefetching";

/// The simulator's rates are in MiB/s, those of the papers in 10^6 bytes.
const MB_PER_MIB: f64 = 1.048_576;

/// Writes the page, its JSON and the tables of the documentation, and prints the result.
pub(super) fn publish(
    result: &AutomatedResult,
    options: &BenchOptions,
) -> Result<CommandOutcome, BenchError> {
    let (json, text) = (result.json(), result.text(&options.command_line));
    options.keep(&json)?;
    let page = result.page(&options.command_line);
    options.publish(page, (MARKS, &text), (&json, &text))?;
    let holds = result.judged().iter().all(|line| line.holds != Some(false));
    Ok(if holds {
        CommandOutcome::Done
    } else {
        CommandOutcome::Missed
    })
}

fn rate(mib_s: Option<f64>) -> Cell {
    mib_s.map_or(Cell::Missing, |rate| Cell::number(rate * MB_PER_MIB, 1))
}

fn ratio(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing, |value| Cell::number(value, 2))
}

impl AutomatedResult {
    fn json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        value["judged"] = serde_json::to_value(self.judged()).unwrap_or_default();
        value
    }

    /// Text for the terminal and the documentation.
    fn text(&self, command: &str) -> String {
        let tables = [
            self.table(MemoryModel::PageCache),
            self.table(MemoryModel::Own),
            self.sizes_table(),
            self.judged_table(),
        ];
        let tables: Vec<String> = tables.iter().map(Table::to_markdown).collect();
        format!("    {command}\n\n{}", tables.join("\n"))
    }

    /// Best fixed size, automatic sizes and their ratios.
    fn table(&self, memory: MemoryModel) -> Table {
        let heads = "Scenario | Best size (MB) | published | Best (MB/s) | auto (MB/s) | auto / \
            best | auto size (MB) | auto-paper / best | published | best / vanilla | published | \
            Share of the bound (%)";
        let caption = match memory {
            MemoryModel::PageCache => "The paper's server: prefetches on a miss into a page cache.",
            MemoryModel::Own => "Headlong's own scheduling and memory management.",
        };
        let mut table = Table::headed(heads).caption(caption);
        for outcome in &self.outcomes {
            let said = said(outcome.name);
            let best = outcome.best(memory);
            let auto = outcome.automatic(memory, PrefetchSizing::Auto);
            let top = outcome
                .of(memory)
                .map(|limit| limit.rate_mib_s)
                .fold(0.0, f64::max);
            let by_vanilla = outcome.by_vanilla();
            let by_vanilla = by_vanilla.filter(|_| memory == MemoryModel::PageCache);
            table.push([
                outcome.name.into(),
                best.and_then(|best| best.size_mib)
                    .map_or(Cell::Missing, Cell::from),
                said.best_mib.map_or(Cell::Missing, Cell::from),
                rate(best.map(|best| best.rate_mib_s)),
                rate(auto.map(|auto| auto.rate_mib_s)),
                ratio(outcome.by_best(memory, PrefetchSizing::Auto)),
                auto.map_or(Cell::Missing, |auto| {
                    Cell::number(auto.mean(|r| r.prefetch_mib), 1)
                }),
                ratio(outcome.by_best(memory, PrefetchSizing::AutoPaper)),
                ratio(said.auto_by_best),
                ratio(by_vanilla),
                ratio(said.by_vanilla.filter(|_| memory == MemoryModel::PageCache)),
                outcome
                    .bound_mib_s
                    .map_or(Cell::Missing, |bound| Cell::number(top / bound * 100.0, 0)),
            ]);
        }
        table
    }

    /// The highest failure-free rate of every size.
    fn sizes_table(&self) -> Table {
        let sizes: Vec<u64> = self.outcomes.first().map_or(Vec::new(), |outcome| {
            outcome
                .fixed(MemoryModel::PageCache)
                .filter_map(|limit| limit.size_mib)
                .collect()
        });
        let heads = sizes.iter().map(|size| format!("{size} MB"));
        let heads = ["Scenario".to_owned(), "Memory".to_owned()]
            .into_iter()
            .chain(heads);
        let automatic = ["auto-paper", "auto", "vanilla"].map(str::to_owned);
        let heads = heads.chain(automatic);
        let mut table = Table::new(heads).caption("Highest failure-free rate, MB/s.");
        for outcome in &self.outcomes {
            for memory in [MemoryModel::PageCache, MemoryModel::Own] {
                let fixed = outcome
                    .fixed(memory)
                    .map(|limit| rate(Some(limit.rate_mib_s)));
                let sizings = [
                    PrefetchSizing::AutoPaper,
                    PrefetchSizing::Auto,
                    PrefetchSizing::Vanilla,
                ];
                let automatic = sizings.map(|sizing| {
                    rate(
                        outcome
                            .automatic(memory, sizing)
                            .map(|limit| limit.rate_mib_s),
                    )
                });
                let names = [outcome.name.into(), name_of(memory).into()];
                table.push(names.into_iter().chain(fixed).chain(automatic));
            }
        }
        table
    }

    fn judged_table(&self) -> Table {
        let mut table = Table::new(["Demanded", "Found", "Holds"]);
        for line in self.judged() {
            let holds = match line.holds {
                None => Cell::Missing,
                Some(true) => "yes".into(),
                Some(false) => "no".into(),
            };
            table.push([line.demanded.into(), line.found.into(), holds]);
        }
        table
    }

    fn page(&self, command: &str) -> Page {
        let effort = if self.is_quick { "quick" } else { "full" };
        let lead = format!(
            "Automated Control of Aggressive Prefetching (SYSTOR 2014; thesis chapter 4) in \
             virtual time, {effort}, viewers of {} seed{}, in {:.0} s.",
            self.seeds,
            if self.seeds == 1 { "" } else { "s" },
            self.seconds
        );
        let summary = Section::new("Reproduced results")
            .command(command)
            .table(self.judged_table())
            .table(self.table(MemoryModel::PageCache))
            .table(self.table(MemoryModel::Own))
            .text(
                "The bound is what no server can exceed, with all of the future known: each byte \
                 passes a head once at its track's speed, and memory holds only bytes that are \
                 read again (docs/lab/simulate-bound.md).",
            );
        let mut page = Page::new("Automatic prefetch sizes")
            .lead(lead)
            .section(summary);
        for outcome in &self.outcomes {
            page = page.section(scenario_section(outcome));
        }
        if let Some(sd) = self
            .outcomes
            .iter()
            .find(|outcome| outcome.name == "SD, 4 GB, Red")
        {
            page = page.section(extra_section(sd));
        }
        if let Some(mixed) = self.outcomes.iter().find(|o| o.name == "mixed, 4 GB, Red") {
            page = page.section(scales_section(mixed));
        }
        for run in &self.in_action {
            page = page.section(in_action_section(run));
        }
        page
    }
}

/// Name of the bytes of calls answered completely.
const GOODPUT: &str = "goodput";

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
        type Drawn = (&'static str, fn(&RunFigures) -> f64);
        let drawn: [Drawn; 3] = [
            (GOODPUT, |r| r.served_mib_s),
            ("disk", |r| r.disk_mib_s),
            ("evicted", |r| r.evicted_mib_s),
        ];
        for (name, figure) in drawn {
            if memory == MemoryModel::Own && name != GOODPUT {
                continue;
            }
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
    if let Some(best) = said.best_mib {
        chart = chart.line_at_x(best as f64, "published best");
    }
    let mut published = Vec::new();
    published.extend(said.best_mib.map(|best| format!("best size {best} MB")));
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
    let by_served = |limit: &ConfigurationLimit, figure: fn(&RunFigures) -> f64| {
        limit.mean(|r| figure(r) / r.served_mib_s.max(1e-9))
    };
    let x = || Axis::new("Prefetch size", "MB").from(0.0);
    let time = |memory| {
        let points = outcome.fixed(memory).filter_map(|limit| {
            let for_128_kib = limit.mean(|r| r.read_ms / r.read_kib.max(1e-9) * 128.0);
            Some((limit.size_mib? as f64, for_128_kib))
        });
        points.collect::<Vec<_>>()
    };
    let misses = |memory| {
        let points = outcome
            .fixed(memory)
            .filter_map(|limit| Some((limit.size_mib? as f64, by_served(limit, |r| r.disk_mib_s))));
        points.collect::<Vec<_>>()
    };
    let times = Chart::lines(
        "Disk time for 128 KiB",
        x(),
        Axis::new("Time", "ms").from(0.0),
    )
    .series(Series::new("page cache", time(MemoryModel::PageCache)))
    .series(Series::new("own memory", time(MemoryModel::Own)));
    let published = TABLE_1
        .iter()
        .filter_map(|row| Some((row.size_mib? as f64, row.disk)));
    let misses = Chart::lines(
        "Miss ratio",
        x(),
        Axis::new("Read / requested", "").from(0.0),
    )
    .series(Series::new("page cache", misses(MemoryModel::PageCache)))
    .series(Series::new("own memory", misses(MemoryModel::Own)))
    .series(Series::new("published (Table 1)", published).reference());
    let heads = "Size (MB) | Disk / requested | published | Evicted / requested | published | \
        Wasted / requested | published | own memory: disk | evicted | wasted";
    let mut table = Table::headed(heads).caption("Table 1 (thesis 4.1): bytes by bytes requested.");
    for row in TABLE_1.iter().filter(|row| row.size_mib.is_some()) {
        let of = |memory| {
            outcome
                .fixed(memory)
                .find(|limit| limit.size_mib == row.size_mib)
        };
        let cells = |memory| {
            let figures: [fn(&RunFigures) -> f64; 3] = [
                |r| r.disk_mib_s,
                |r| r.evicted_mib_s,
                |r| r.waste_ratio * r.disk_mib_s,
            ];
            figures.map(|figure| ratio(of(memory).map(|limit| by_served(limit, figure))))
        };
        let ([disk, evicted, wasted], own) =
            (cells(MemoryModel::PageCache), cells(MemoryModel::Own));
        let size = row.size_mib.map_or(Cell::Missing, Cell::from);
        table.push(
            [
                size,
                disk,
                Cell::number(row.disk, 2),
                evicted,
                Cell::number(row.evicted, 2),
                wasted,
                Cell::number(row.wasted, 2),
            ]
            .into_iter()
            .chain(own),
        );
    }
    Section::new("Cost of large prefetches: Figure 2 (4.2), Table 1 (4.1)")
        .text(
            "SD titles, 4 GB, each size at its highest failure-free rate. The published ratios \
             are from runs at rates that the paper does not give.",
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
