//! Results, compared with the paper; tables and page.

use headlong_report::{
    Axis, Bar, Bars, Cell, Chart, Page, Section, Series, Table, divergence_by_size, latency_cdf,
};
use headlong_stats::Cdf;
use serde::Serialize;

use super::headlong_tier::HeadlongLimit;
use super::machine::SsdSample;
use super::ssds::{SizeLatencies, SsdFigures};
use super::tiered_systems::{BlockRun, SystemLimit};
use crate::claims::{Claim, ClaimRow, claims_table, outcome_of};
use crate::report::{FOOTER, PaperReport};

const WORDS: &str = "The paper's own system, ZFS and flashcache are models of this repository, \
                     over its drive models; measurements on a real kernel are reported elsewhere. \
                     The paper's disk has 7,200 rpm and 550 GB; ours is a Seagate of 1 TB, with \
                     the titles spread over it. With one outstanding window it alone bears about \
                     as much as the paper's; with two, as asynchronous read-ahead has, more than \
                     twice as much. A scale divides titles, memory and flash; rates are not \
                     scaled.";
const ZIPF: &str = "\"Zipf with 0.2\" can be 1/rank^0.2, or 1/rank^(1-0.2), as in the literature \
                    that uses parameters of 0.2 to 0.4. With the first, 75 GB of 545 get a fifth \
                    of the requests and no cache could double a rate; the published share of hits, \
                    34 %, corresponds to the second, which is used here unless --alpha is set.";

/// Time to fill an empty SSD.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FillTime {
    pub(super) name: &'static str,
    /// The request rate.
    pub(super) requests_per_s: f64,
    /// For an SSD of full size; nothing if it took longer than four days.
    pub(super) minutes: Option<f64>,
}

/// A machine of Table 5.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct MachineResult {
    pub(super) limit: SystemLimit,
    pub(super) watts: f64,
    pub(super) requests_per_joule: Option<f64>,
}

/// All results.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(super) struct FlashstreamResult {
    pub(super) schema: &'static str,
    pub(super) is_quick: bool,
    pub(super) scale: u64,
    pub(super) alpha: f64,
    pub(super) seeds: Vec<u64>,
    pub(super) seconds: f64,
    pub(super) ssds: Option<SsdFigures>,
    pub(super) limits: Vec<SystemLimit>,
    pub(super) machines: Vec<MachineResult>,
    pub(super) fills: Vec<FillTime>,
    pub(super) blocks: Vec<BlockRun>,
    pub(super) ours: Vec<HeadlongLimit>,
}

fn published_rows() -> impl Iterator<Item = ClaimRow> {
    ClaimRow::read(include_str!("published.csv"))
}

impl FlashstreamResult {
    pub(super) fn rate_of(&self, name: &str) -> Option<f64> {
        self.figure("rate", name)
    }

    /// A figure of the system, machine, server, SSD or block size called `name`.
    fn figure(&self, figure: &str, name: &str) -> Option<f64> {
        // Figures of machines with outstanding windows have names of their own.
        let (figure, windows) = match figure.strip_prefix("pipelined ") {
            Some(figure) => (figure, 2),
            None => (figure, 1),
        };
        let limit = || {
            let mut limits = self.limits.iter();
            limits.find(|of| of.name == name && of.windows == windows)
        };
        let machine = || {
            let mut machines = self.machines.iter();
            machines.find(|of| of.limit.name == name && of.limit.windows == windows)
        };
        let fill = || self.fills.iter().find(|of| of.name == name);
        let ours = || self.ours.iter().find(|of| of.name == name);
        let number = || name.parse::<u64>().ok();
        let small = || self.ssds.as_ref()?.small.get(number()? as usize);
        let latencies = || {
            let bytes = number()? << 20;
            let mut all = self.ssds.as_ref()?.latencies.iter();
            all.find(|of| of.bytes == bytes)
        };
        let block = || {
            let bytes = number()?;
            self.blocks.iter().find(|run| run.block_bytes == bytes)
        };
        match figure {
            "read" => Some(small()?.read_mb_s),
            "write" => Some(small()?.written_mb_s),
            "longest" => {
                let latencies = latencies()?.random_s.iter().copied();
                Some(latencies.fold(0.0, f64::max) * 1e3)
            }
            "divergence" => Some(latencies()?.divergence),
            "optimal" => {
                self.ssds
                    .as_ref()?
                    .blocks
                    .get(number()? as usize)?
                    .optimal_mib
            }
            "rate" => limit()?.requests_per_s,
            "hits" => Some(limit()?.ssd_share * 100.0),
            "fill" => fill()?.minutes,
            "filled" => Some(block()?.filled * 100.0),
            "block hits" => Some(block()?.ssd_share * 100.0),
            "late" => Some(block()?.missed_share * 100.0),
            "busy" => Some(block()?.busy * 100.0),
            "machine" => machine()?.limit.requests_per_s,
            "joule" => machine()?.requests_per_joule,
            "ours" => ours()?.requests_per_s,
            "written" => Some(ours()?.written_gb_per_day),
            _ => None,
        }
    }

    /// All published numbers of the parts that were run, with ours; the goals of this project last.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let claim = |row: ClaimRow| {
            let part = row.part.clone();
            let claim = row.claim(|figure, name| self.figure(figure, name));
            let was_run = match part.as_str() {
                "ssds" => self.ssds.is_some(),
                "systems" => !self.fills.is_empty(),
                "blocks" => !self.blocks.is_empty(),
                "machines" => !self.machines.is_empty(),
                // Its ratios need the limits of other parts.
                _ => claim.compared.ours.is_some(),
            };
            let is_goal = part == "headlong";
            was_run.then(|| if is_goal { claim.into_goal() } else { claim })
        };
        published_rows().filter_map(claim).collect()
    }

    pub(super) fn report(&self, command: &str) -> PaperReport {
        let claims = self.claims();
        let mut json = serde_json::to_value(self).unwrap_or_default();
        json["claims"] = serde_json::to_value(&claims).unwrap_or_default();
        let comparison = claims_table(&claims).caption("Comparison with published figures");
        let seeds: Vec<String> = self.seeds.iter().map(ToString::to_string).collect();
        let tables = [
            comparison.clone(),
            self.limits(),
            self.machines(),
            self.fills(),
            self.servers(),
        ];
        PaperReport {
            lead: format!(
                "Scale {}, Zipf's exponent {}, seeds {}, {:.0} s\n\n",
                self.scale,
                self.alpha,
                seeds.join(", "),
                self.seconds
            ),
            tables: tables
                .into_iter()
                .filter(|table| !table.is_empty())
                .collect(),
            json,
            page: self.page(comparison, command),
            outcome: outcome_of(&claims),
        }
    }

    /// Figure 7.
    fn limits(&self) -> Table {
        limits_table(self.limits.iter())
            .caption("Highest rate without a missed segment, and its sources (Figure 7)")
    }

    /// Table 5.
    fn machines(&self) -> Table {
        limits_table(self.machines.iter().map(|machine| &machine.limit))
            .caption("The machines of Table 5, and which part of them is busy")
    }

    fn fills(&self) -> Table {
        Table::of(
            &self.fills,
            &[
                ("System", &|of| of.name.into()),
                ("Requests per second", &|of| {
                    Cell::number(of.requests_per_s, 0)
                }),
                ("Minutes to fill 75 GB", &|of| Cell::maybe(of.minutes, 0)),
            ],
        )
        .caption(
            "From empty, at the rate of the machine without an SSD, or the system's own if lower",
        )
    }

    fn servers(&self) -> Table {
        Table::of(
            &self.ours,
            &[
                ("Server", &|of| of.name.into()),
                ("Requests per second without a miss", &|of| {
                    Cell::maybe(of.requests_per_s, 1)
                }),
                ("Bytes from flash (%)", &|of| {
                    Cell::number(of.flash_share * 100.0, 1)
                }),
                ("Bytes from memory (%)", &|of| {
                    Cell::number(of.memory_share * 100.0, 1)
                }),
                ("Written (GB per day)", &|of| {
                    Cell::number(of.written_gb_per_day, 1)
                }),
            ],
        )
        .caption("This server in place of the paper's")
    }

    fn page(&self, comparison: Table, command: &str) -> Page {
        let mut sections = vec![
            Section::new("Comparison with published figures")
                .text(WORDS)
                .text(ZIPF)
                .command(command)
                .table(comparison),
        ];
        if !self.limits.is_empty() {
            let bars = Bars::new(
                "Highest rate without a missed segment (Figure 7a)",
                Axis::new("Requests", "1/s").from(0.0),
            )
            .series("here");
            let first = self.limits.iter().filter(|limit| limit.windows == 1);
            let bars = first.fold(bars, |bars, limit| {
                bars.group(limit.name, [limit.requests_per_s.map(Bar::from)])
            });
            let mut section = Section::new("Systems").figure(bars).table(self.limits());
            if !self.fills.is_empty() {
                section = section.table(self.fills());
            }
            sections.push(section);
        }
        if !self.machines.is_empty() {
            sections.push(Section::new("Machines").table(self.machines()));
        }
        if !self.ours.is_empty() {
            sections.push(Section::new("This server").table(self.servers()));
        }
        if !self.blocks.is_empty() {
            sections.push(block_section(&self.blocks));
        }
        if let Some(ssds) = &self.ssds {
            let section = Section::new("SSDs and block sizes");
            let section = ssds.latencies.iter().fold(section, latency_charts);
            let chart = divergence_by_size("Random against sequential writes (Figure 3)", 0.1);
            let chart = ssds.blocks.iter().fold(chart, |chart, blocks| {
                let points = blocks.divergences.iter().copied();
                chart.series(Series::new(blocks.drive.as_str(), points))
            });
            sections.push(section.figure(chart));
        }
        let lead = format!("Scale {}, run time {:.0} s.", self.scale, self.seconds);
        let page = Page::new("FlashStream").lead(lead).footer(FOOTER);
        sections.into_iter().fold(page, Page::section)
    }
}

fn limits_table<'l>(limits: impl Iterator<Item = &'l SystemLimit>) -> Table {
    Table::of(
        limits,
        &[
            ("System", &|of| of.name.into()),
            ("Outstanding windows", &|of| {
                Cell::number(of.windows.into(), 0)
            }),
            ("Requests per second without a miss", &|of| {
                Cell::maybe(of.requests_per_s, 0)
            }),
            ("From the SSD (%)", &|of| {
                Cell::number(of.ssd_share * 100.0, 1)
            }),
            ("From memory (%)", &|of| {
                Cell::number(of.memory_share * 100.0, 1)
            }),
            ("Disk busy (%)", &|of| Cell::number(of.disk_busy * 100.0, 0)),
            ("SSD busy (%)", &|of| Cell::number(of.ssd_busy * 100.0, 0)),
            ("Longest wait (s)", &|of| Cell::number(of.longest_s, 2)),
        ],
    )
}

fn latency_charts(section: Section, latencies: &SizeLatencies) -> Section {
    let mib = latencies.bytes >> 20;
    let x = Axis::new("Write", "").from(0.0);
    let y = Axis::new("Latency", "ms").from(0.0);
    let in_order = |values: &[f64]| -> Vec<(f64, f64)> {
        let numbered = values.iter().enumerate();
        numbered.map(|(index, s)| (index as f64, s * 1e3)).collect()
    };
    let chart = Chart::scatter(format!("Consecutive writes of {mib} MB"), x, y)
        .series(Series::new("sequential", in_order(&latencies.sequential_s)))
        .series(Series::new("random", in_order(&latencies.random_s)));
    let cdfs = [&latencies.sequential_s, &latencies.random_s].map(|of| Cdf::of(of.clone()));
    match cdfs {
        [Ok(sequential), Ok(random)] => section.figure(chart).figure(latency_cdf(
            format!("The same, as a distribution ({mib} MB)"),
            "writes",
            [("sequential", &sequential), ("random", &random)],
        )),
        _ => section.figure(chart),
    }
}

fn block_section(runs: &[BlockRun]) -> Section {
    type SampleFigure = fn(&SsdSample) -> f64;
    let section = Section::new("Effect of block sizes (Figure 8)")
        .text("An hour from a cold cache, with free blocks selected at random; scaled.");
    let figures: [(&str, &str, SampleFigure); 3] = [
        ("Read from the SSD", "MB/s", |sample| sample.read_mb_s),
        ("Written to the SSD", "MB/s", |sample| sample.written_mb_s),
        ("SSD busy", "%", |sample| sample.busy * 100.0),
    ];
    figures
        .into_iter()
        .fold(section, |section, (title, unit, figure)| {
            let x = Axis::new("Time", "min").from(0.0);
            let mut chart = Chart::lines(title, x, Axis::new(title, unit).from(0.0));
            for run in runs {
                let name = match run.block_bytes {
                    4096 => "4 KB blocks",
                    _ => "16 MB blocks",
                };
                let samples = run.stretches.iter();
                let points = samples.map(|sample| (sample.minute, figure(sample)));
                chart = chart.series(Series::new(name, points));
            }
            section.figure(chart)
        })
}

#[cfg(test)]
mod tests {
    use super::super::headlong_tier;
    use super::super::tiered_systems::{FIGURE_7, TABLE_5};
    use super::*;

    #[test]
    fn published_rows_name_existing_systems() {
        let systems = FIGURE_7.iter().map(|system| ("systems", system.name));
        let machines = TABLE_5.iter().map(|system| ("machines", system.name));
        let ours = headlong_tier::ALL
            .iter()
            .map(|ours| ("headlong", ours.name));
        let known: Vec<_> = systems.chain(machines).chain(ours).collect();
        for row in published_rows() {
            for (_, name) in row
                .figure
                .split(" / ")
                .filter_map(|text| text.split_once(": "))
            {
                let is_known = known.iter().any(|(_, known)| *known == name);
                assert!(is_known || name.parse::<u64>().is_ok(), "{row:?}");
            }
            assert!(
                super::super::FlashstreamPart::ALL
                    .iter()
                    .any(|(part, _)| *part == row.part)
            );
        }
    }
}
