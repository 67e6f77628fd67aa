//! Pages of virtual runs: the course of a run, and the comparison of a grid.

use headlong_report::{
    Axis as ChartAxis, Bar, Bars, Cell, Chart, Figure, Page, Section, Series, Table,
};
use headlong_units::Bytes;

use headlong_sim::{RunFigures, SeriesSample};

use crate::grid::{FIGURES, GridAxis, GridRow, SweepQuantity};
use crate::record::RunRecord;

/// The figures of virtual runs, and the course of each.
pub(super) fn sections(records: &[RunRecord]) -> Vec<Section> {
    let fixed = [
        "Offered (MiB/s)",
        "Seed",
        "Failures",
        "In the ramp",
        "The last after (s)",
    ]
    .into_iter();
    let mut table = Table::new(fixed.chain(FIGURES.iter().map(|(name, _)| *name)));
    let mut sections = Vec::new();
    for record in records.iter().filter_map(RunRecord::figures) {
        let fixed = [
            Cell::number(record.rate_mib_s, 1),
            record.seed.into(),
            record.failures.into(),
            record.ramp_failures.into(),
            Cell::number(record.ramp_failed_last_s, 0),
        ];
        let figures = FIGURES.iter();
        let figures = figures.map(|(_, figure)| Cell::number(figure(record), 3));
        table.push(fixed.into_iter().chain(figures));
        let heading = format!("{:.1} MiB/s, seed {}", record.rate_mib_s, record.seed);
        let mut section = Section::new(heading);
        if let Some(table) = viewing_table(record) {
            section = section.table(table);
        }
        sections.push(
            series_charts(record)
                .into_iter()
                .fold(section, Section::figure),
        );
    }
    if !sections.is_empty() {
        let figures = Section::new("Figures").text("In the measured period.");
        sections.insert(0, figures.table(table));
    }
    sections
}

/// Playback quality by class, if bit rates are known.
fn viewing_table(record: &RunFigures) -> Option<Table> {
    let is_known = record.viewing.iter().any(|seen| seen.kbps_mean.is_some());
    let mut table = Table::new(
        [
            "Network",
            "Sessions",
            "Gave up",
            "Start-up p50 (ms)",
            "Start-up p99 (ms)",
            "Stalled sessions",
            "Stalls",
            "Of time (%)",
            "Mean bit rate (kbit/s)",
            "Switches per session",
        ]
        .map(str::to_owned),
    );
    for seen in &record.viewing {
        table.push([
            seen.class.clone().into(),
            seen.sessions.into(),
            seen.gave_up.into(),
            Cell::number(seen.startup_ms.p50, 0),
            Cell::number(seen.startup_ms.p99, 0),
            seen.stalled.into(),
            seen.stalls.into(),
            Cell::number(seen.stall_ratio * 100.0, 2),
            Cell::number(seen.kbps_mean.unwrap_or(0.0), 1),
            Cell::number(seen.switches_mean, 2),
        ]);
    }
    is_known.then_some(table)
}

/// A line of a chart: its name and its value in a sample.
type ChartLine = (&'static str, fn(&SeriesSample) -> f64);

/// The course of a run, chart by chart.
pub fn series_charts(record: &RunFigures) -> Vec<Chart> {
    let time = || ChartAxis::new("Time", "s").from(0.0);
    let lines = |title: &str, y: ChartAxis, lines: &[ChartLine]| {
        let mut chart = Chart::lines(title, time(), y.from(0.0));
        for (name, value) in lines {
            let points = record
                .series
                .iter()
                .map(|sample| (sample.second, value(sample)));
            chart = chart.series(Series::new(*name, points));
        }
        chart
    };
    let rate = || ChartAxis::new("Throughput", "MiB/s");
    let throughput = lines(
        "Throughput",
        rate(),
        &[
            ("asked for", |s| s.asked_for_mib_s),
            ("delivered", |s| s.delivered_mib_s),
            ("disk", |s| s.disk_mib_s),
            ("evicted unread", |s| s.evicted_mib_s),
        ],
    );
    let mut charts = vec![
        throughput.line_at_y(record.rate_mib_s, "offered"),
        lines(
            "Prefetch size",
            ChartAxis::new("Size", "MiB"),
            &[
                ("in use", |s| s.prefetch_mib),
                ("target", |s| s.prefetch_target_mib),
            ],
        ),
        lines(
            "Score: disk time per 128 KiB requested",
            ChartAxis::new("Time", "ms"),
            &[("score", |s| s.score_ms)],
        ),
        lines(
            "Memory",
            ChartAxis::new("Share", "%").to(100.0),
            &[
                ("free", |s| s.memory.free * 100.0),
                ("being read into", |s| s.memory.filling * 100.0),
                ("prefetched, unread", |s| s.memory.unread * 100.0),
                ("in sockets", |s| s.memory.sending * 100.0),
                ("read and kept", |s| s.memory.read * 100.0),
            ],
        ),
        lines(
            "Queue of the device",
            ChartAxis::new("Jobs", ""),
            &[
                ("waiting", |s| s.queue as f64),
                ("demanded", |s| s.queue_demanded as f64),
                ("overdue", |s| s.queue_overdue as f64),
            ],
        ),
        lines(
            "Viewers",
            ChartAxis::new("Present", ""),
            &[
                ("viewers", |s| s.viewers as f64),
                ("chains", |s| s.chains as f64),
            ],
        ),
        lines(
            "Device",
            ChartAxis::new("Busy", "%").to(100.0),
            &[("busy", |s| s.busy * 100.0)],
        ),
    ];
    if record.series.iter().any(|sample| sample.eviction_s > 0.0) {
        let evicted = record
            .series
            .iter()
            .filter(|sample| sample.eviction_s > 0.0);
        let points = evicted.map(|sample| (sample.second, sample.eviction_s));
        let y = ChartAxis::new("In memory", "s").from(0.0);
        charts.push(
            Chart::scatter("Age in memory of bytes evicted unread", time(), y)
                .series(Series::new("mean at each moment", points)),
        );
    }
    let heads = record
        .series
        .iter()
        .map(|sample| (sample.second, sample.head_gib));
    let y = ChartAxis::new("Place", "GiB").from(0.0);
    charts.push(
        Chart::scatter("Head position of the device", time(), y).series(Series::new("head", heads)),
    );
    charts
}

/// A grid as a page: lines over the axis with the most numbers, one for each combination of the
/// others; bars if no axis is numeric.
pub fn sweep_page(
    title: &str,
    axes: &[GridAxis],
    aim: &SweepQuantity,
    rows: &[GridRow],
    command: &str,
) -> Page {
    let (axes, rows) = with_rate_axis(axes, aim, rows);
    let mut section = Section::new("The grid").command(command);
    if !matches!(aim, SweepQuantity::Rates(_)) {
        let maximum = |row: &GridRow| row.rate_mib_s;
        let y = || ChartAxis::new("Highest failure-free rate", "MiB/s");
        let bar = |row: &GridRow| row.rate_mib_s.map(Bar::new);
        section = section.figure(figure("Maximum rate", y, &axes, &rows, maximum, bar));
    }
    type Shown = (
        &'static str,
        &'static str,
        &'static str,
        fn(&RunFigures) -> f64,
    );
    let shown: [Shown; 6] = [
        ("Asked for", "Throughput", "MiB/s", |r| r.asked_for_mib_s),
        ("Delivered", "Throughput", "MiB/s", |r| r.delivered_mib_s),
        ("Read from the device", "Throughput", "MiB/s", |r| {
            r.disk_mib_s
        }),
        ("Evicted unread", "Share of bytes read", "%", |r| {
            r.evicted_ratio * 100.0
        }),
        ("Hits", "Share of bytes sent", "%", |r| r.hit_ratio * 100.0),
        ("Device", "Busy", "%", |r| r.busy * 100.0),
    ];
    for (title, quantity, unit, value) in shown {
        let y = || ChartAxis::new(quantity, unit);
        let mean = |row: &GridRow| row.mean(value);
        let bar = |row: &GridRow| match row.interval(value) {
            Some(interval) => Some(Bar::from(interval)),
            None => row.mean(value).map(Bar::new),
        };
        section = section.figure(figure(title, y, &axes, &rows, mean, bar));
    }
    Page::new(title)
        .section(section)
        .section(Section::new("Numbers").table(grid_table(&axes, &rows)))
}

/// The rows as a table: means over the seeds, with 95 % intervals if there are several.
pub fn grid_table(axes: &[GridAxis], rows: &[GridRow]) -> Table {
    let heads = axes.iter().map(|axis| axis.name.clone());
    let fixed = ["Offered (MiB/s)", "Fails at", "Failures"].map(str::to_owned);
    let figures = FIGURES.iter().map(|(name, _)| (*name).to_owned());
    let mut table = Table::new(heads.chain(fixed).chain(figures));
    for row in rows {
        let values = row.values.iter().map(|value| Cell::from(value.as_str()));
        let fixed = [
            Cell::maybe(row.rate_mib_s, 1),
            Cell::maybe(row.failed_mib_s, 1),
            row.failures.into(),
        ];
        let figures = FIGURES
            .iter()
            .map(|(_, figure)| match row.interval(figure) {
                Some(interval) => Cell::interval(&interval, 3),
                None => Cell::maybe(row.mean(figure), 3),
            });
        table.push(values.chain(fixed).chain(figures));
    }
    table
}

/// Adds the given rates as a further axis.
fn with_rate_axis(
    axes: &[GridAxis],
    aim: &SweepQuantity,
    rows: &[GridRow],
) -> (Vec<GridAxis>, Vec<GridRow>) {
    let (mut axes, mut rows) = (axes.to_vec(), rows.to_vec());
    if let SweepQuantity::Rates(rates) = aim
        && rates.len() > 1
    {
        axes.push(GridAxis {
            name: "rate (MiB/s)".to_owned(),
            values: rates.iter().map(ToString::to_string).collect(),
        });
        for row in &mut rows {
            row.values
                .extend(row.rate_mib_s.map(|rate| rate.to_string()));
        }
    }
    (axes, rows)
}

/// The value of an axis as a number with its unit: `4MiB`, `0.8`, `10s`.
fn number(value: &str) -> Option<(f64, &'static str)> {
    if let Ok(number) = value.parse::<f64>() {
        return Some((number, ""));
    }
    if let Ok(Bytes(bytes)) = value.parse() {
        return Some((bytes as f64 / (1u64 << 20) as f64, "MiB"));
    }
    let time: headlong_units::Duration = value.parse().ok()?;
    Some((time.as_secs_f64(), "s"))
}

fn figure(
    title: &str,
    y: impl Fn() -> ChartAxis,
    axes: &[GridAxis],
    rows: &[GridRow],
    value: impl Fn(&GridRow) -> Option<f64>,
    bar: impl Fn(&GridRow) -> Option<Bar>,
) -> Figure {
    let numbers = |axis: &GridAxis| axis.values.iter().all(|value| number(value).is_some());
    let places = 0..axes.len();
    let along = places.filter(|place| numbers(&axes[*place]) && axes[*place].values.len() > 1);
    let others = |row: &GridRow, along: Option<usize>| {
        let named = axes.iter().zip(&row.values).enumerate();
        let named =
            named.filter(|(place, (axis, _))| Some(*place) != along && axis.values.len() > 1);
        let named: Vec<String> = named
            .map(|(_, (axis, value))| format!("{} {value}", axis.name))
            .collect();
        named.join(", ")
    };
    let Some(along) = along.max_by_key(|place| axes[*place].values.len()) else {
        let mut bars = Bars::new(title, y()).series("mean over the seeds");
        for row in rows {
            bars = bars.group(others(row, None), [bar(row)]);
        }
        return bars.into();
    };
    let unit = number(&axes[along].values[0]).map_or("", |(_, unit)| unit);
    let x = ChartAxis::new(axes[along].name.clone(), unit).from(0.0);
    let mut chart = Chart::lines(title, x, y().from(0.0));
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        let name = others(row, Some(along));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let of_name = rows.iter().filter(|row| others(row, Some(along)) == name);
        let points = of_name.filter_map(|row| {
            let (x, _) = number(row.values.get(along)?)?;
            Some((x, value(row)?))
        });
        let points: Vec<(f64, f64)> = points.collect();
        let label = if name.is_empty() {
            "mean over the seeds".to_owned()
        } else {
            name
        };
        chart = chart.series(Series::new(label, points));
    }
    chart.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[&str], rate: f64) -> GridRow {
        GridRow {
            values: values.iter().map(ToString::to_string).collect(),
            rate_mib_s: Some(rate),
            failed_mib_s: None,
            failures: 0,
            worlds: 1,
            records: Vec::new(),
        }
    }

    fn axis(name: &str, values: &[&str]) -> GridAxis {
        GridAxis {
            name: name.to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn numeric_axis_draws_lines_and_names_draw_bars() {
        let axes = [
            axis("drive", &["a", "b"]),
            axis("prefetch", &["1MiB", "2MiB", "4MiB"]),
        ];
        let rows: Vec<GridRow> = crate::grid::combinations(&axes)
            .iter()
            .map(|values| row(&values.iter().map(String::as_str).collect::<Vec<_>>(), 1.0))
            .collect();
        let y = || ChartAxis::new("Rate", "MiB/s");
        let rate = |row: &GridRow| row.rate_mib_s;
        let bar = |row: &GridRow| row.rate_mib_s.map(Bar::new);
        let drawn = figure("t", y, &axes, &rows, rate, bar);
        assert!(matches!(&drawn, Figure::Chart(_)));
        let svg = drawn.to_svg();
        assert!(svg.contains("drive a") && svg.contains("drive b"), "{svg}");
        let drawn = figure("t", y, &axes[..1], &rows, rate, bar);
        assert!(matches!(drawn, Figure::Bars(_)));
    }

    #[test]
    fn axis_values_parse_into_display_units() {
        assert_eq!(number("4MiB"), Some((4.0, "MiB")));
        assert_eq!(number("0.8"), Some((0.8, "")));
        assert_eq!(number("10s"), Some((10.0, "s")));
        assert_eq!(number("elevator"), None);
    }
}
