//! `headlong workload describe`: thesis Tables 3.2 and 3.3 for any workload, with published
//! figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use headlong_units::Bytes;
use headlong_workload::specification::{
    ArrivalDistribution, PlayerKind, RequestSettings, RequestSize, Specification, StartPosition,
    TraceExtent, player_text,
};
use headlong_workload::summary::{
    CatalogueSummary, TraceSummary, figures, published, published_sessions,
};
use headlong_workload::{Curve, generate, preset};
use serde_json::json;

use crate::mistake::Mistakes;
use crate::output::print;
use crate::phased;
use crate::spec_args::{SpecOverrides, not_of_phases};
use crate::trace_file::read_trace;

/// Arguments of `workload describe`.
#[derive(Debug, clap::Args)]
pub(crate) struct DescribeArgs {
    /// A preset, a specification (a file whose name ends in .toml), or a trace (any other file)
    #[arg(value_name = "SPEC or TRACE")]
    name: String,
    #[command(flatten)]
    changes: SpecOverrides,
    /// Seed of the sessions generated for the statistics; a trace has its own
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// One JSON object instead of tables and plots
    #[arg(long)]
    json: bool,
    /// Number of viewers; for workloads with `model = "phases"` only
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    sessions: Option<u64>,
    /// Print the text of a preset, as a template for a custom specification
    #[arg(long, conflicts_with = "json")]
    text: bool,
}

/// The workload to describe.
struct DescribedWorkload {
    name: String,
    specification: Option<Specification>,
    groups: Vec<CatalogueSummary>,
    /// Playing times of all titles, in seconds.
    durations: Vec<f64>,
    trace: TraceSummary,
}

/// Runs the verb.
pub(crate) fn describe(arguments: &DescribeArgs) -> anyhow::Result<()> {
    if arguments.text {
        let text = preset::text(&arguments.name).ok_or_else(|| {
            let names: Vec<&str> = preset::names().collect();
            let (name, names) = (&arguments.name, names.join(", "));
            Mistakes::of(format!(
                "--text: {name} is not a preset; the presets are {names}"
            ))
        })?;
        return print(text);
    }
    let (name, seed) = (&arguments.name, arguments.seed);
    let is_trace =
        preset::text(name).is_none() && !name.ends_with(".toml") && Path::new(name).exists();
    let subject = match is_trace {
        true => DescribedWorkload::of_trace(name)?,
        false => {
            let specification = arguments.changes.read(name, &[])?;
            if let Some(phases) = specification.phases {
                let phases = Arc::unwrap_or_clone(phases);
                let (sessions, is_json) = (arguments.sessions, arguments.json);
                return print(&phased::describe(phases, sessions, seed, is_json));
            }
            if let Some(count) = arguments.sessions {
                return Err(not_of_phases(name, count).into());
            }
            DescribedWorkload::of(specification, seed)
        }
    };
    print(&if arguments.json {
        subject.json()
    } else {
        subject.page()
    })
}

impl DescribedWorkload {
    fn of_trace(name: &str) -> anyhow::Result<Self> {
        let trace = read_trace(Path::new(name)).map_err(Mistakes)?;
        Ok(Self {
            name: trace.about.name.clone(),
            specification: None,
            groups: Vec::new(),
            durations: Vec::new(),
            trace: TraceSummary::of(&trace),
        })
    }

    fn of(specification: Specification, seed: u64) -> Self {
        let workload = generate(&specification, seed);
        let durations = workload
            .catalogue
            .titles
            .iter()
            .map(|title| title.duration.as_secs_f64());
        Self {
            name: specification.name.clone(),
            groups: CatalogueSummary::of(&workload.catalogue),
            durations: durations.collect(),
            trace: TraceSummary::of(&workload.trace),
            specification: Some(specification),
        }
    }

    /// The groups with viewers, to which published figures refer.
    fn watched(&self) -> Option<Vec<CatalogueSummary>> {
        let specification = self.specification.as_ref()?;
        let is_watched = |summary: &&CatalogueSummary| {
            let mut groups = specification.groups.iter();
            groups.any(|group| group.name == summary.group && group.weight > 0.0)
        };
        Some(self.groups.iter().filter(is_watched).cloned().collect())
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        figures(self.watched().as_deref(), &self.trace)
    }

    fn json(&self) -> String {
        let ours: BTreeMap<&str, f64> = self.figures().into_iter().collect();
        let papers = published(&self.name).iter().map(|figure| {
            let value = json!({ "value": figure.value, "source": figure.source });
            (figure.figure.to_string(), value)
        });
        let papers: BTreeMap<_, _> = papers.collect();
        let parameters = self.specification.as_ref().map(parameters);
        let parameters: BTreeMap<_, _> = parameters.into_iter().flatten().collect();
        let classes: BTreeMap<_, _> = self.trace.classes.iter().map(|(n, c)| (n, c)).collect();
        let value = json!({
            "version": 1,
            "name": self.name,
            "parameters": parameters,
            "figures": ours,
            "published": papers,
            "sessions_per_class": classes,
            "sessions_per_title": self.trace.sessions_per_title,
            "requests_per_session": self.trace.requests_per_session,
        });
        format!("{value:#}\n")
    }

    fn page(&self) -> String {
        let mut page = String::new();
        let name = if self.name.is_empty() {
            "a foreign trace"
        } else {
            &self.name
        };
        let _ = writeln!(page, "{name}\n");
        if let Some(specification) = &self.specification {
            for (name, value) in parameters(specification) {
                let _ = writeln!(page, "  {name:<34} {value}");
            }
            page.push('\n');
        }
        let papers = published(&self.name);
        let head = match published_sessions(&self.name) {
            Some(count) if count != self.trace.sessions => {
                format!("published, of {count} sessions")
            }
            Some(_) => "published".to_string(),
            None => String::new(),
        };
        let _ = writeln!(page, "  {:<34} {:>12}  {head}", "", "ours");
        for (name, value) in self.figures() {
            let paper = papers.iter().find(|figure| figure.figure == name);
            let paper = paper.map_or(String::new(), |figure| {
                format!("{} ({})", figure.value, figure.source)
            });
            let line = format!(
                "  {:<34} {:>12}  {paper}",
                name.replace('_', " "),
                number(value)
            );
            let _ = writeln!(page, "{}", line.trim_end());
        }
        for (class, sessions) in &self.trace.classes {
            let _ = writeln!(
                page,
                "  {:<34} {sessions:>12}",
                format!("sessions on {class}")
            );
        }
        if self.trace.adaptive.is_some() {
            page += "\n  Requests and playback of adaptive players assume an ideal server.\n";
        }
        self.plots(&mut page);
        page
    }

    fn plots(&self, page: &mut String) {
        if let Some(specification) = &self.specification {
            let shares = cumulative(&self.durations);
            let shares: Vec<(f64, f64)> = shares
                .into_iter()
                .filter(|(value, _)| *value <= 900.0)
                .collect();
            *page += &plot(
                "Share of titles by duration in seconds (thesis Figure 3.3)",
                &shares,
            );
            if specification.viewing.start == StartPosition::Beginning {
                let points = specification.viewing.fraction.law.points();
                *page += &plot(
                    "Share of sessions by fraction of the title (thesis Figure 3.4)",
                    points,
                );
            }
        }
        let mut rank = 0;
        let mut popularity = Vec::new();
        for (times, titles) in self.trace.sessions_per_title.iter().rev() {
            for _ in 0..*titles {
                rank += 1;
                popularity.push((f64::from(rank).log10(), (*times as f64).log10()));
            }
        }
        *page += &plot(
            "Sessions of a title by its rank, powers of ten (thesis Figure 3.2)",
            &popularity,
        );
        let sessions = self.trace.sessions.max(1) as f64;
        let mut sum = 0;
        let requests = self
            .trace
            .requests_per_session
            .iter()
            .map(|(requests, count)| {
                sum += count;
                (*requests as f64, sum as f64 / sessions)
            });
        *page += &plot(
            "Share of sessions by requests",
            &requests.collect::<Vec<_>>(),
        );
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

/// The cumulative distribution of values.
fn cumulative(values: &[f64]) -> Vec<(f64, f64)> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let count = values.len().max(1) as f64;
    let share = |(index, value): (usize, f64)| (value, (index + 1) as f64 / count);
    values.into_iter().enumerate().map(share).collect()
}

fn curve(curve: &Curve, unit: &str) -> String {
    format!("{}, mean {:.4}{unit}", curve.name, curve.law.mean())
}

/// Parameters of thesis Tables 3.1 and 3.2.
fn parameters(specification: &Specification) -> Vec<(String, String)> {
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| rows.push((name.to_string(), value));
    for group in &specification.groups {
        let name = |what: &str| format!("{} {what}", group.name);
        row(&name("titles"), group.count.to_string());
        row(&name("weight"), group.weight.to_string());
        row(
            &name("popularity"),
            format!("Zipf, alpha {}", group.zipf_alpha),
        );
        row(&name("durations"), curve(&group.durations, " s"));
        let seconds = group.segment_time.as_secs_f64();
        if !group.renditions.is_empty() {
            let rates: Vec<String> = group.renditions.iter().map(ToString::to_string).collect();
            row(&name("renditions"), rates.join(", "));
        }
        let rate = |(bytes, share): &(u64, f64)| {
            let kbps = *bytes as f64 * 8.0 / seconds / 1000.0;
            match group.segment_bytes.len() {
                1 => format!("{kbps:.0} kbps"),
                _ => format!("{kbps:.0} kbps {:.0} %", share * 100.0),
            }
        };
        let rates: Vec<String> = group.segment_bytes.iter().map(rate).collect();
        if group.renditions.is_empty() {
            row(&name("bit rate"), rates.join(", "));
        }
        row(&name("segment"), group.segment_time.to_string());
        if group.segment_variation > 0.0 {
            row(
                &name("segment variation"),
                format!("+-{:.0} %", group.segment_variation * 100.0),
            );
        }
        if group.table_entry_bytes > 0 {
            let text = format!("{} for each segment", Bytes(group.table_entry_bytes));
            row(&name("table of offsets"), text);
        }
    }
    row("storage", specification.storage.form.label());
    row(
        "padded to",
        Bytes(specification.storage.pad_bytes).to_string(),
    );
    row(
        "placement",
        format!("random, seed {}", specification.catalogue_seed),
    );
    let sessions = &specification.sessions;
    row(
        "sessions",
        match sessions.extent {
            TraceExtent::Sessions(count) => count.to_string(),
            TraceExtent::Time(time) => format!("for {time}"),
        },
    );
    row(
        "arrivals",
        match sessions.arrivals {
            ArrivalDistribution::Poisson => format!("Poisson, {}", sessions.rate),
            ArrivalDistribution::Constant => format!("constant, {}", sessions.rate),
            ArrivalDistribution::Logged => "as in a log".to_owned(),
        },
    );
    row(
        "ramp up, ramp down",
        format!(
            "{} sessions and {}, {} sessions and {}",
            sessions.ramp_up.sessions,
            sessions.ramp_up.time,
            sessions.ramp_down.sessions,
            sessions.ramp_down.time
        ),
    );
    row("warming", format!("{} ranges", sessions.warming_count));
    let viewing = &specification.viewing;
    match viewing.start {
        StartPosition::Beginning => row("fraction watched", curve(&viewing.fraction, "")),
        StartPosition::RandomSegment => row("watched", "one segment, drawn evenly".into()),
    }
    let unit = match specification.has_adaptive_players() {
        true => "segment (of simple players, request)",
        false => "request",
    };
    for (name, chance) in [
        ("early end", viewing.early_end),
        ("pause", viewing.pause),
        ("skip", viewing.skip),
    ] {
        if chance > 0.0 {
            row(name, format!("{chance} at each {unit}"));
        }
    }
    for kind in &specification.players {
        let share = format!("{:.1} % of sessions", kind.share * 100.0);
        let text = match &kind.make {
            None => format!("simple, {share}"),
            Some(make) => format!("{share}: {}", player_text(make)),
        };
        row(&format!("player {}", kind.name), text);
    }
    let requests = &specification.requests;
    let is_simple = |kind: &PlayerKind| kind.make.is_none();
    if specification.players.iter().any(is_simple) {
        request_rows(requests, &mut row);
    }
    for class in &specification.classes {
        let bandwidth = class
            .bandwidth
            .map_or("unlimited".to_string(), |rate| rate.to_string());
        let text = format!(
            "{bandwidth}, {} one way, {:.1} % of sessions",
            class.delay,
            class.share * 100.0
        );
        row(&format!("network {}", class.name), text);
    }
    rows
}

/// Parameters of the requests of simple players.
fn request_rows(requests: &RequestSettings, row: &mut impl FnMut(&str, String)) {
    row(
        "request size",
        match requests.size {
            RequestSize::Time(time) => format!("{time} of content"),
            RequestSize::Bytes(bytes) => Bytes(bytes).to_string(),
        },
    );
    row(
        "pacing",
        if requests.pacing {
            format!("after {} requests", requests.unpaced)
        } else {
            "none".into()
        },
    );
    row(
        "timeout",
        requests
            .timeout
            .map_or("none".into(), |timeout| timeout.to_string()),
    );
    row("connections", requests.connections.to_string());
}

// Plots in text mode.

const COLUMNS: usize = 64;
const ROWS: usize = 12;

/// A plot with a title of points sorted by x; empty without points.
pub(crate) fn plot(title: &str, points: &[(f64, f64)]) -> String {
    let span = |of: fn(&(f64, f64)) -> f64| {
        let values = points.iter().map(of).filter(|value| value.is_finite());
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let ((left, right), (bottom, top)) = (span(|point| point.0), span(|point| point.1));
    // Otherwise there are no points, or none with finite coordinates.
    if !(left <= right && bottom <= top) {
        return String::new();
    }
    let place = |value: f64, low: f64, high: f64, cells: usize| {
        let share = if high > low {
            (value - low) / (high - low)
        } else {
            0.0
        };
        ((share * (cells - 1) as f64).round() as usize).min(cells - 1)
    };
    let mut cells = [[' '; COLUMNS]; ROWS];
    for (x, y) in points {
        let row = ROWS - 1 - place(*y, bottom, top, ROWS);
        cells[row][place(*x, left, right, COLUMNS)] = '*';
    }
    let mut text = format!("\n  {title}\n");
    for (index, row) in cells.iter().enumerate() {
        let label = match index {
            0 => format!("{top:.2}"),
            index if index == ROWS - 1 => format!("{bottom:.2}"),
            _ => String::new(),
        };
        let row: String = row.iter().collect();
        let _ = writeln!(text, "  {label:>8} |{}", row.trim_end());
    }
    let _ = writeln!(text, "  {:>8} +{}", "", "-".repeat(COLUMNS));
    let (left, right) = (format!("{left:.2}"), format!("{right:.2}"));
    let gap = COLUMNS - left.len().min(COLUMNS / 2);
    let _ = writeln!(text, "  {:>8}  {left}{right:>gap$}", "");
    text
}

#[cfg(test)]
mod tests {
    use super::plot;

    #[test]
    fn points_are_plotted_at_their_coordinates() {
        let text = plot("a line", &[(0.0, 0.0), (1.0, 1.0), (2.0, 2.0)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  a line");
        assert_eq!(lines[2].find('*'), Some(11 + 1 + 63 - 1 + 1));
        assert!(lines[2].starts_with("      2.00 |") && lines[13].starts_with("      0.00 |*"));
        assert!(lines[15].ends_with("2.00"), "{text}");
    }

    #[test]
    fn empty_data_gives_no_plot() {
        assert_eq!(plot("nothing", &[]), "");
        assert_eq!(plot("nothing", &[(f64::NAN, 1.0)]), "");
        assert!(plot("one", &[(1.0, 1.0)]).contains('*'));
    }
}
