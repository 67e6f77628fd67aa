//! HTML pages of a comparison and of a single run.

use headlong_report::{Axis, Bar, Bars, Chart, Page, Section, Series, lba_over_transactions};

use super::tables::{in_mib, scaled, servers};
use super::{MIB, ratios_table, runs_table, virtual_time, workload_table};
use crate::compare::ComparisonResult;
use crate::experiment::Experiment;
use crate::load_result::QualityRules;
use crate::record::{OutcomeName, RunRecord};

/// All results of a comparison; `command` is the command line.
pub fn comparison_page(
    experiment: &Experiment,
    compared: &ComparisonResult,
    command: &str,
) -> Page {
    let ratios = compared.ratios(experiment);
    let missed = ratios.iter().filter(|ratio| !ratio.holds()).count();
    let goals = ratios.iter().filter(|ratio| ratio.at_least.is_some());
    let lead = match (goals.count(), missed) {
        (0, 0) => experiment.about.clone(),
        (_, 0) => format!("{} All required ratios are reached.", experiment.about),
        (_, missed) => format!(
            "{} Required ratios missed or not settled: {missed} of {}.",
            experiment.about,
            ratios.len()
        ),
    };
    let mut page = Page::new(experiment.name.as_str()).lead(lead.trim());
    let mut result = Section::new("Result").command(command);
    if !ratios.is_empty() {
        result = result.table(ratios_table(&ratios));
    }
    page = page.section(result);
    for workload in compared.workloads(experiment) {
        page = page.section(workload_section(compared, workload));
    }
    page = page.section(how(experiment));
    for section in records_sections(compared) {
        page = page.section(section);
    }
    page.footer(footer(
        compared.limits.iter().find_map(|limit| limit.best.as_ref()),
    ))
}

fn workload_section(compared: &ComparisonResult, workload: &str) -> Section {
    let mut section = Section::new(format!("Workload {workload}"))
        .figure(rates_chart(compared, workload))
        .table(workload_table(compared, workload));
    for limit in compared
        .limits
        .iter()
        .filter(|limit| limit.workload == workload)
    {
        if let Some(machine) = &limit.machine {
            section = section.note(format!("{}: refused: {machine}", limit.server));
        }
    }
    let best = best_runs(compared, workload);
    section = section.figure(sequentiality(&best));
    for record in best {
        let title = format!("Access pattern of the drive under {}", record.server);
        section = section.figure(lba_over_transactions(title, record.disk.pattern.lbas()));
    }
    section
}

/// The run at the limit of each server, of the last repeat that has one.
fn best_runs<'c>(compared: &'c ComparisonResult, workload: &str) -> Vec<&'c RunRecord> {
    let names = servers(compared, workload);
    let best = names.into_iter().filter_map(|server| {
        let limits = compared.limits.iter().rev();
        let of_server = |limit: &&crate::search_driver::ServerLimit| {
            limit.workload == workload && limit.server == server
        };
        limits
            .filter(of_server)
            .find_map(|limit| limit.best.as_ref())
    });
    best.collect()
}

fn rates_chart(compared: &ComparisonResult, workload: &str) -> Bars {
    let axis = Axis::new("Throughput", "MiB/s");
    let title = format!("Highest failure-free rate offered by {workload} viewers");
    let mut bars = Bars::new(title, axis)
        .series("offered")
        .series("asked for")
        .series("delivered");
    let best = best_runs(compared, workload);
    for server in servers(compared, workload) {
        let of_server = best.iter().find(|run| run.server == server);
        let asked_for = of_server.and_then(|run| in_mib(run.verdict.asked_for));
        let asked_for = asked_for.map(Bar::new);
        let delivered = of_server.map(|run| Bar::new(run.verdict.delivered / MIB));
        let bar = compared
            .rates(workload, server)
            .map(|rates| match rates.interval {
                Some(interval) => Bar::from(scaled(interval)),
                None => Bar::new(rates.mean / MIB),
            });
        bars = bars.group(server, [bar, asked_for, delivered]);
    }
    bars
}

/// Libception Figure 6 for these runs.
pub(crate) fn sequentiality(records: &[&RunRecord]) -> Chart {
    let x = Axis::new("Length of sequence", "KiB").log2();
    let mut chart = Chart::steps("Bytes in sequences no longer than this", x, "Bytes")
        .caption("Adjacent requests are one sequence; each sequence costs a seek.");
    for record in records {
        if let Some(cdf) = record.disk.pattern.cdf() {
            chart = chart.series(Series::of_cdf(record.server.as_str(), &cdf, 1.0 / 1024.0));
        }
    }
    chart
}

fn how(experiment: &Experiment) -> Section {
    let seconds = |time: headlong_units::Duration| format!("{} s", time.as_secs_f64());
    let phases = &experiment.phases;
    let rules = &experiment.search;
    let memory = match experiment.memory {
        Some(bytes) => format!(
            "{} of memory, page cache included",
            headlong_units::Bytes(bytes)
        ),
        None => "no limit on memory".to_owned(),
    };
    Section::new("Method").text(format!(
        "Everything {} times faster than the model's time; all figures are in model time. \
         Ramps {} and {}, {} measured between them; only sessions that lie wholly between them \
         count, and at most {} % of those may fail{}. {memory}. Each limit was searched {} times; \
         a failing rate is at most {:.0} % above the passing one.",
        experiment.time_scale,
        seconds(phases.ramp_up),
        seconds(phases.ramp_down),
        seconds(phases.measured),
        rules.failures_max * 100.0,
        and_quality(&rules.quality),
        experiment.repeats,
        rules.resolution * 100.0,
    ))
}

/// Further requirements, as the rest of the sentence.
fn and_quality(quality: &QualityRules) -> String {
    let stalled = quality.stalled_max.map(|most| {
        let most = most * 100.0;
        format!("; at most {most} % may stall, or give up waiting for playback")
    });
    let rate = quality
        .bit_rate_min
        .map(|least| format!("; their mean bit rate must be at least {least}"));
    [stalled, rate].into_iter().flatten().collect()
}

/// Commands and files of each server, once.
fn records_sections(compared: &ComparisonResult) -> Vec<Section> {
    let mut seen: Vec<&str> = Vec::new();
    let mut sections = Vec::new();
    for record in compared
        .limits
        .iter()
        .filter_map(|limit| limit.best.as_ref())
    {
        if seen.contains(&record.server.as_str()) {
            continue;
        }
        seen.push(&record.server);
        sections.push(setup_section(record));
    }
    sections
}

fn setup_section(record: &RunRecord) -> Section {
    let queue = &record.setup.queue;
    let mut section = Section::new(format!("Setup of {}", record.server))
        .text(format!(
            "Queue: {}, read_ahead_kb {}, max_sectors_kb {}.",
            queue.scheduler, queue.read_ahead_kb, queue.max_sectors_kb
        ))
        .command(record.setup.commands.join("\n"));
    for (name, text) in &record.setup.files {
        section = section.text(name.as_str()).command(text.as_str());
    }
    section
}

/// Runs of one server under one workload; `command` is the command line.
pub fn run_page(records: &[RunRecord], command: &str) -> Page {
    let mut section = Section::new("Result")
        .command(command)
        .table(runs_table(records));
    for record in records {
        let verdict = &record.verdict;
        for why in verdict.refused_because.iter().chain(&verdict.limit) {
            section = section.note(why.as_str());
        }
        if !record.is_virtual() {
            section = section.text(processors(record));
        }
    }
    let title = records.first().map_or_else(String::new, |record| {
        format!(
            "{}: {}, {}",
            record.experiment, record.server, record.workload
        )
    });
    let mut page = Page::new(title).lead(lead(records)).section(section);
    for section in virtual_time::sections(records) {
        page = page.section(section);
    }
    let all: Vec<&RunRecord> = records.iter().collect();
    let mut pattern = Section::new("The drive").figure(sequentiality(&all));
    for record in records {
        let lbas = record.disk.pattern.lbas();
        pattern = pattern.figure(lba_over_transactions("Requests in a row", lbas));
    }
    page = page.section(pattern);
    for record in records.iter().take(1) {
        page = page.section(setup_section(record));
    }
    page.footer(footer(records.first()))
}

fn lead(records: &[RunRecord]) -> &'static str {
    let is_any = |outcome| records.iter().any(|r| r.verdict.outcome == outcome);
    match (is_any(OutcomeName::Refused), is_any(OutcomeName::Failed)) {
        (true, _) => "A run does not count.",
        (false, true) => "More sessions failed than allowed.",
        (false, false) => "No more sessions failed than allowed.",
    }
}

fn processors(record: &RunRecord) -> String {
    let cpu = &record.cpu;
    let memory = &record.server_facts.memory;
    format!(
        "Processors: server {:.2}, viewers {:.2}, drive {:.2} of one; memory {} at most, {} of \
         page cache at the end.",
        cpu.server_cores,
        cpu.load_cores,
        cpu.drive_cores,
        mib(memory.peak_bytes),
        mib(memory.page_cache_bytes),
    )
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / MIB)
}

fn footer(record: Option<&RunRecord>) -> String {
    record.map_or_else(String::new, |record| {
        let machine = &record.setup.machine;
        format!(
            "headlong {}; {}, {} processors, {} of memory",
            record.setup.version,
            machine.kernel,
            machine.processors,
            mib(machine.memory_bytes)
        )
    })
}
