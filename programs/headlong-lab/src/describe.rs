//! `headlong workload describe`: thesis Tables 3.2 and 3.3 for any workload, with published
//! figures.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use headlong_workload::specification::Specification;
use headlong_workload::summary::{
    CatalogueSummary, TraceSummary, figures, published, published_sessions,
};
use headlong_workload::{generate, preset};
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
    /// One JSON object instead of tables
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
            trace: TraceSummary::of(&trace),
        })
    }

    fn of(specification: Specification, seed: u64) -> Self {
        let workload = generate(&specification, seed);
        Self {
            name: specification.name.clone(),
            groups: CatalogueSummary::of(&workload.catalogue),
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
        let classes: BTreeMap<_, _> = self.trace.classes.iter().map(|(n, c)| (n, c)).collect();
        let value = json!({
            "version": 2,
            "name": self.name,
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
        page
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}
