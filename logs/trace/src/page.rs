//! The report of a characterised log as an HTML page.

use headlong_characterise::{
    Axis, AxisScale, CellValue, Characterisation, Figure, ReportSection, SeriesForm, Table,
    published,
};
use headlong_report::{
    Axis as ChartAxis, Bar, Bars, Boxes, Bubbles, Cell, Chart, Figure as ChartFigure, Page,
    Section, Series as ChartSeries, Table as PageTable, group_thousands,
};

/// The page.
pub fn page(told: &Characterisation) -> Page {
    let is_beside = !told.beside_thesis.is_empty();
    let title = match told.about.title.as_str() {
        "" => "Characterisation of a request log",
        title => title,
    };
    let mut page = Page::new(title)
        .lead(lead(told))
        .contents()
        .interactive()
        .section(summary(told, is_beside));
    if is_beside {
        page = page.section(beside(told));
    }
    for section in &told.sections {
        page = page.section(part(section, is_beside));
    }
    let numbers = match is_beside {
        true => {
            " Tables and figures have the numbers of their counterparts in chapter 5 of J. Summers' \
             thesis."
        }
        false => "",
    };
    page.footer(format!(
        "headlong {}. KB, MB and GB are 10^3, 10^6 and 10^9 bytes; every chart's data can be saved \
         beneath it.{numbers}",
        env!("CARGO_PKG_VERSION")
    ))
}

/// A table as text for a terminal.
pub fn text(table: &Table) -> String {
    shown_table(table, false).to_markdown()
}

fn number_of(told: &Characterisation, table: &str, row: &str, column: &str) -> f64 {
    told.number(table, row, column).unwrap_or(0.0)
}

/// The main result in two sentences.
fn lead(told: &Characterisation) -> String {
    let of = |row| number_of(told, "table-5.1", row, "value");
    let chain = |row| number_of(told, "table-chain-lengths", row, "value");
    let phase = |row| number_of(told, "table-phases", row, "time");
    if told.sessions == 0 {
        return "The log has no request that could be used; dropped lines are listed below.".into();
    }
    let volume = format!(
        "{} sessions requested {} titles in {} requests over {} h.",
        shown(of("sessions")),
        shown(of("titles")),
        shown(of("requests")),
        shown(of("hours")),
    );
    if !has_chains(told) {
        return volume;
    }
    format!(
        "{volume} Viewers read in sequence: {:.0} % of \
         the chains are no longer than 1 MB, but {:.0} % of the bytes are in chains of more than 10 MB. \
         {:.0} % of viewing time is steady reading of one file, {:.0} % is trying bit rates and {:.0} % is \
         no reading at all.",
        chain("up-to-1mb"),
        // A difference of sums may be a negative zero, which would be printed with its sign.
        chain("bytes-over-10mb").max(0.0) + 0.0,
        phase("stable"),
        phase("transient"),
        phase("inactive"),
    )
}

/// Whether the log has offsets.
fn has_chains(told: &Characterisation) -> bool {
    told.number("table-chain-lengths", "chains", "value")
        .is_some()
}

fn summary(told: &Characterisation, is_beside: bool) -> Section {
    let about = &told.about;
    let of = |row| number_of(told, "table-5.1", row, "value");
    let mut tiles = vec![
        ("Sessions", shown(of("sessions"))),
        ("Requests", shown(of("requests"))),
        ("Titles", shown(of("titles"))),
        ("Sent", scaled(of("sent") * 1e12, "B")),
        ("Peak", scaled(of("peak") * 1e9, "bit/s")),
        (
            "Viewers at once, peak",
            shown(number_of(told, "table-viewers", "peak", "value")),
        ),
    ];
    let chains = [
        (
            "Chains",
            shown(number_of(told, "table-chain-lengths", "chains", "value")),
        ),
        (
            "Requests a chain",
            shown(number_of(told, "table-5.4", "total", "requests")),
        ),
        (
            "MB a chain",
            shown(number_of(told, "table-5.4", "total", "mb")),
        ),
        (
            "Stable phase, mean",
            format!(
                "{} s",
                shown(number_of(told, "table-phases", "stable", "mean"))
            ),
        ),
    ];
    if has_chains(told) {
        tiles.extend(chains);
    }
    let mut log = PageTable::new(["The log", ""]);
    let mut say = |name: &str, text: String| {
        if !text.is_empty() {
            log.push([name.into(), text.into()]);
        }
    };
    say("Logs", names(&about.logs));
    say("Form", about.format.clone());
    say("Sessions by", about.sessions_by.clone());
    say("Files", files(told));
    say(
        "Left out of statistics",
        match told.sessions_left_out {
            0 => "no session".into(),
            count => format!(
                "{} sessions that start near the end of the log and still run there",
                shown(count as f64)
            ),
        },
    );
    let mut part = Section::new("Summary").tiles(tiles);
    for note in &about.notes {
        part = part.note(note.clone());
    }
    part = part.table(log).table(dropped(told));
    if is_beside {
        part = part.text("Columns headed \"thesis\" hold the published numbers.");
    }
    match about.command.as_str() {
        "" => part,
        command => part.command(command),
    }
}

fn names(logs: &[String]) -> String {
    match logs {
        [] => String::new(),
        few if few.len() <= 4 => few.join(", "),
        [first, .., last] => format!("{first} ... {last} ({} logs)", logs.len()),
        [one] => one.clone(),
    }
}

fn files(told: &Characterisation) -> String {
    let about = &told.about;
    match about.files_estimated {
        0 => format!(
            "{}, all of them known from the files table",
            shown(about.files as f64)
        ),
        estimated => format!(
            "{}, of which {} are in no files table: their kind, bit rate and size are estimates, as is \
             everything derived from them",
            shown(about.files as f64),
            shown(estimated as f64)
        ),
    }
}

fn dropped(told: &Characterisation) -> PageTable {
    let mut table = PageTable::new(["Reason", "Lines", "Example"]).caption("Dropped lines");
    for dropped in &told.about.dropped {
        let sample: String = dropped.sample.chars().take(160).collect();
        table.push([
            dropped.reason.as_str().into(),
            dropped.count.into(),
            sample.into(),
        ]);
    }
    if table.is_empty() {
        table.push(["All lines were used.".into()]);
    }
    table
}

fn beside(told: &Characterisation) -> Section {
    let mut table = PageTable::new(["Where", "What", "Thesis", "Here", "Here / thesis"]);
    for row in &told.beside_thesis {
        let known = row.published;
        // Tables of the thesis are shown beside our tables below.
        if known.place.starts_with("Table 5.") && known.table != "table-5.1" {
            continue;
        }
        let mut all = told.tables().filter(|table| table.id == known.table);
        let Some(source) = all.next() else { continue };
        let name = |key: &str| {
            let row = source.rows.iter().find(|row| row.key == key);
            row.map_or(key.to_string(), |row| row.name.clone())
        };
        let column = source
            .columns
            .iter()
            .find(|column| column.key == known.column);
        let what = match column {
            Some(column) if source.columns.len() > 1 => {
                format!("{}: {}, {}", source.title, name(known.row), column.name)
            }
            _ => format!("{}: {}", source.title, name(known.row)),
        };
        let published = match known.how {
            "" => as_published(known.value),
            how => format!("{how} {}", as_published(known.value)),
        };
        let ratio = row.here.map_or(f64::NAN, |here| here / known.value);
        table.push([
            known.place.into(),
            what.into(),
            published.into(),
            row.here
                .map_or(Cell::Missing, |here| Cell::Number(shown(here))),
            Cell::number(ratio, 2),
        ]);
    }
    Section::new("Beside the thesis")
        .text(
            "Numbers in the text of the thesis for its catalog server, and ours. Its Tables 5.2 \
             to 5.4 are shown beside ours below. \
             Counts depend on the size of the log; compare shares and means.",
        )
        .table(table)
}

fn part(section: &ReportSection, is_beside: bool) -> Section {
    let mut part = Section::new(section.heading.as_str());
    for table in &section.tables {
        part = part
            .table(shown_table(table, is_beside))
            .text(table.reading.as_str());
    }
    for figure in &section.figures {
        part = part.figure(drawn(figure, is_beside));
    }
    part
}

/// `Table 5.4: Chains` for `table-5.4`; the title alone if the thesis has no counterpart.
fn titled(id: &str, title: &str, is_numbered: bool) -> String {
    let number = |kind: &str| {
        let rest = id.strip_prefix(kind)?.strip_prefix("-5.")?;
        Some(rest.split('-').next().unwrap_or(rest).to_string())
    };
    match (number("table"), number("figure")) {
        _ if !is_numbered => title.to_string(),
        (Some(number), _) => format!("Table 5.{number}: {title}"),
        (_, Some(number)) => format!("Figure 5.{number}: {title}"),
        _ => title.to_string(),
    }
}

/// A number with its printed digits, or two decimals if its unit was converted.
fn as_published(value: f64) -> String {
    group_thousands(&format!("{}", (value * 100.0).round() / 100.0))
}

/// A number of bytes, or bits per second, in a suitable decimal unit.
fn scaled(value: f64, unit: &str) -> String {
    const STEPS: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let step = STEPS.iter().find(|(size, _)| value >= *size);
    let (size, prefix) = step.copied().unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", shown(value / size))
}

/// A number with its significant digits.
fn shown(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        m if m >= 1e12 => return format!("{value:.2e}"),
        m if m >= 100.0 || m.fract() == 0.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        m if m >= 0.001 => 3,
        0.0 => 0,
        _ => return format!("{value:.2e}"),
    };
    let text = group_thousands(&format!("{magnitude:.decimals$}"));
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

fn cell(value: &CellValue) -> Cell {
    match value {
        CellValue::Number(number) => Cell::Number(shown(*number)),
        CellValue::Text(text) => Cell::Text(text.clone()),
        CellValue::None => Cell::Missing,
    }
}

fn shown_table(table: &Table, is_beside: bool) -> PageTable {
    let has_published = |column: &str| {
        is_beside
            && table
                .rows
                .iter()
                .any(|row| published(&table.id, &row.key, column).is_some())
    };
    let mut heads = vec![String::new()];
    for column in &table.columns {
        heads.push(column.name.clone());
        if has_published(&column.key) {
            heads.push("thesis".into());
        }
    }
    let mut drawn = PageTable::new(heads).caption(titled(&table.id, &table.title, is_beside));
    for row in &table.rows {
        if let ([value], false) = (row.values.as_slice(), is_beside)
            && let Some((name, text)) = in_its_unit(&row.name, value)
        {
            drawn.push([name.into(), Cell::Number(text)]);
            continue;
        }
        let mut cells = vec![Cell::from(row.name.as_str())];
        for (column, value) in table.columns.iter().zip(&row.values) {
            cells.push(cell(value));
            if has_published(&column.key) {
                let known = published(&table.id, &row.key, &column.key);
                cells.push(known.map_or(Cell::Missing, |known| {
                    Cell::Number(as_published(known.value))
                }));
            }
        }
        drawn.push(cells);
    }
    drawn
}

/// `Sent (TB)` and 0.0012 as `Sent` and `1.2 GB`.
fn in_its_unit<'n>(name: &'n str, value: &CellValue) -> Option<(&'n str, String)> {
    let CellValue::Number(number) = value else {
        return None;
    };
    let scale = |unit, size, of| Some((name.strip_suffix(unit)?, scaled(number * size, of)));
    scale(" (TB)", 1e12, "B").or_else(|| scale(" (Gbit/s)", 1e9, "bit/s"))
}

fn across(axis: &Axis) -> ChartAxis {
    let drawn = ChartAxis::new(axis.quantity.as_str(), axis.unit.as_str());
    match axis.scale {
        AxisScale::Linear => drawn,
        AxisScale::Log => drawn.log(),
    }
}

fn drawn(figure: &Figure, is_numbered: bool) -> ChartFigure {
    let title = titled(&figure.id, &figure.title, is_numbered);
    let reading = figure.reading.as_str();
    match figure.form {
        SeriesForm::Bars => bars(figure, title).caption(reading).into(),
        SeriesForm::Bubbles => bubbles(figure, title).caption(reading).into(),
        SeriesForm::Boxes => boxes(figure, title).caption(reading).into(),
        SeriesForm::Lines | SeriesForm::Steps | SeriesForm::Dots => {
            chart(figure, title).caption(reading).into()
        }
    }
}

fn chart(figure: &Figure, title: String) -> Chart {
    let y = match figure.y.scale {
        AxisScale::Linear => across(&figure.y).from(0.0),
        AxisScale::Log => across(&figure.y),
    };
    let chart = match figure.form {
        SeriesForm::Steps => Chart::steps(title, across(&figure.x), figure.y.quantity.as_str()),
        SeriesForm::Dots => Chart::scatter(title, across(&figure.x), y),
        _ => Chart::lines(title, across(&figure.x), y),
    };
    figure.series.iter().fold(chart, |chart, series| {
        let points = series.points.iter().filter(|point| point.len() == 2);
        let line = ChartSeries::new(
            series.name.as_str(),
            points.map(|point| (point[0], point[1])),
        );
        chart.series(if series.is_reference {
            line.reference()
        } else {
            line
        })
    })
}

fn bars(figure: &Figure, title: String) -> Bars {
    let mut bars = Bars::new(title, across(&figure.y));
    for series in &figure.series {
        bars = bars.series(series.name.as_str());
    }
    for (place, name) in figure.x.names.iter().enumerate() {
        let bar = |points: &[Vec<f64>]| {
            let found = points
                .iter()
                .find(|point| point.first() == Some(&(place as f64)));
            found
                .and_then(|point| point.get(1))
                .map(|value| Bar::new(*value))
        };
        let values: Vec<_> = figure
            .series
            .iter()
            .map(|series| bar(&series.points))
            .collect();
        bars = bars.group(name.as_str(), values);
    }
    bars
}

fn bubbles(figure: &Figure, title: String) -> Bubbles {
    let label = |axis: &Axis| match axis.unit.as_str() {
        "" => axis.quantity.clone(),
        unit => format!("{} ({unit})", axis.quantity),
    };
    let points = figure.series.iter().flat_map(|series| &series.points);
    let values = points.filter(|point| point.len() == 3);
    Bubbles::new(
        title,
        (label(&figure.x), figure.x.names.clone()),
        (label(&figure.y), figure.y.names.clone()),
    )
    .values(values.map(|point| (point[0] as usize, point[1] as usize, point[2])))
}

fn boxes(figure: &Figure, title: String) -> Boxes {
    let mut boxes = Boxes::new(title, across(&figure.x).from(0.0), across(&figure.y));
    if !figure.y.names.is_empty() {
        boxes = boxes.rows(figure.y.names.iter().map(String::as_str));
    }
    figure.series.iter().fold(boxes, |boxes, series| {
        let points = series.points.iter();
        let all = points.filter_map(|point| <[f64; 4]>::try_from(point.as_slice()).ok());
        boxes.series(series.name.as_str(), all)
    })
}

#[cfg(test)]
mod tests {
    use headlong_characterise::{DroppedLines, Provenance};

    use super::*;

    #[test]
    fn numbers_keep_their_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (64_993_469.0, "64\u{202f}993\u{202f}469"),
            (2.9, "2.90"),
            (0.543, "0.543"),
            (30.84, "30.8"),
            (-3.0, "-3"),
            (0.000_02, "2.00e-5"),
            (3.384e15, "3.38e15"),
        ] {
            assert_eq!(shown(value), text);
        }
    }

    fn empty() -> Characterisation {
        let log = headlong_characterise::LogContext::new(Vec::new(), (0, 0));
        headlong_characterise::Accumulators::new(&log).finish(&log, Default::default())
    }

    #[test]
    fn hostile_names_are_escaped() {
        let nasty = "<script>alert('x')</script>\"&";
        let mut told = empty();
        told.about = Provenance {
            title: nasty.into(),
            logs: vec![nasty.into()],
            format: nasty.into(),
            sessions_by: nasty.into(),
            dropped: vec![DroppedLines {
                reason: nasty.into(),
                count: 1,
                sample: nasty.into(),
            }],
            notes: vec![nasty.into()],
            command: nasty.into(),
            ..Provenance::default()
        };
        let html = page(&told.beside_thesis()).to_html();
        assert_eq!(
            html.matches("<script").count(),
            1,
            "only the page's own script"
        );
        assert!(!html.contains("alert('x')"));
    }

    #[test]
    fn empty_log_has_a_page() {
        let html = page(&empty()).to_html();
        assert!(html.contains("no request that could be used") && !html.contains("NaN"));
    }

    #[test]
    fn sizes_are_shown_in_a_suitable_unit() {
        assert_eq!(scaled(1.234e9, "B"), "1.23 GB");
        assert_eq!(scaled(12_600.0, "bit/s"), "12.6 kbit/s");
        let told = in_its_unit("Sent (TB)", &CellValue::Number(0.0012));
        assert_eq!(told, Some(("Sent", "1.20 GB".to_owned())));
    }

    #[test]
    fn titles_name_their_counterparts_in_the_thesis() {
        assert_eq!(
            titled("figure-5.10-time", "Sizes", true),
            "Figure 5.10: Sizes"
        );
        assert_eq!(titled("table-phases", "Phases", true), "Phases");
    }
}
