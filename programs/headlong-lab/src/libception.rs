//! `headlong reproduce libception`: one of its parts, or all of them in turn.

use anyhow::anyhow;
use clap::ValueEnum;
use headlong_bench::{BenchError, CommandOutcome};
use headlong_report::say;
use headlong_reproduce::{DiffOptions, Paper, diff_again};

use crate::bench::judge;
use crate::reproduction_args::{RealOrVirtualArgs, of_paper};

/// A part of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PaperPart {
    /// Section 5: Table 2, Figures 2 to 6
    Asap,
    /// 6.3: Figures 9 and 10
    Schedulers,
    /// 6.4: Figures 11 to 13
    Modes,
    /// 6.5: Figures 14 and 15
    Readahead,
    /// 6.5: Figure 16, and Table 3 without rising rates
    Both,
    /// 6.6: Figure 17
    Latencies,
    /// 6.7: Table 3, Linux
    Servers,
    /// Section 7: two drives
    Disks,
    /// Section 8: Figure 18 and Table 4, with the drive in real time, on an otherwise idle machine
    Diff,
    /// All of these, each with its own page
    All,
}

/// Parts in the order of the paper.
const PARTS: [PaperPart; 9] = [
    PaperPart::Asap,
    PaperPart::Schedulers,
    PaperPart::Modes,
    PaperPart::Readahead,
    PaperPart::Both,
    PaperPart::Latencies,
    PaperPart::Servers,
    PaperPart::Disks,
    PaperPart::Diff,
];

/// Serialized and large reads, the kernel's read-ahead, and small files (TOMPECS 2018)
///
/// Exit code 4 if a published result is not reproduced, 3 if a run does not count.
///
///   headlong reproduce libception --part all --quick
///   headlong reproduce libception --part servers --quick
///   headlong reproduce libception --part asap --virtual
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LibceptionArgs {
    #[arg(long, value_name = "NAME")]
    part: PaperPart,
    #[command(flatten)]
    way: RealOrVirtualArgs,
}

impl PaperPart {
    fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The paper part, if it is an experiment of the bench.
    fn paper(self) -> Option<Paper> {
        match self {
            Self::Asap => Some(Paper::Asap),
            Self::Schedulers => Some(Paper::Schedulers),
            Self::Modes => Some(Paper::Modes),
            Self::Readahead => Some(Paper::ReadAhead),
            Self::Both => Some(Paper::Both),
            Self::Latencies => Some(Paper::Latencies),
            Self::Servers => Some(Paper::Servers),
            Self::Disks => Some(Paper::Disks),
            Self::Diff | Self::All => None,
        }
    }

    /// Why it cannot be run with these options, if so.
    fn lack(self, way: &RealOrVirtualArgs) -> Option<&'static str> {
        match self {
            Self::Latencies if way.is_virtual => {
                Some("it times calls of real programs: leave out --virtual")
            }
            Self::Servers if way.is_virtual => Some(
                "rates that rise within a run cannot be simulated: leave out --virtual, or use \
                 --part both, which has nginx's rows",
            ),
            Self::Disks if way.is_virtual => {
                Some("several drives cannot be simulated: leave out --virtual")
            }
            Self::Diff if way.is_virtual => Some("it runs real programs: leave out --virtual"),
            _ => None,
        }
    }

    fn make(self, way: &RealOrVirtualArgs) -> anyhow::Result<CommandOutcome> {
        if let Some(paper) = self.paper() {
            return of_paper(paper, &way.again, way.is_virtual);
        }
        let is_quick = way.again.quick;
        let options = way.again.output.options("libception-diff", is_quick)?;
        Ok(diff_again(&DiffOptions { is_quick, seed: 1 }, &options)?)
    }
}

impl LibceptionArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let name = self.part.name();
        if self.part != PaperPart::All {
            return match self.part.lack(&self.way) {
                Some(why) => Err(anyhow!("--part {name}: {why}")),
                None => judge(self.part.make(&self.way)?),
            };
        }
        let output = &self.way.again.output;
        if let Some(option) = output.one_page() {
            return Err(anyhow!(
                "{option} is for one part: leave it out with --part all; each part writes its own"
            ));
        }
        self.all()
    }

    /// Runs all parts; a part that misses a value or cannot be measured does not stop the others.
    fn all(&self) -> anyhow::Result<()> {
        let mut worst = CommandOutcome::Done;
        for part in PARTS {
            let name = part.name();
            if let Some(why) = part.lack(&self.way) {
                say!("{name}: left out: {why}");
                continue;
            }
            say!("{name}: begins");
            let ending = match part.make(&self.way) {
                Ok(ending) => ending,
                Err(error) if is_refusal(&error) => {
                    say!("{name}: {error:#}");
                    CommandOutcome::Refused
                }
                Err(error) => return Err(error.context(format!("--part {name}"))),
            };
            worst = worst.and(ending);
        }
        judge(worst)
    }
}

/// Whether this machine lacks a requirement of one part, which others may not need.
fn is_refusal(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(BenchError::Missing(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_except_diffs_are_experiments() {
        let known = PaperPart::value_variants().iter();
        let known: Vec<_> = known.filter(|part| **part != PaperPart::All).collect();
        assert_eq!(known.len(), PARTS.len());
        assert!(known.iter().all(|part| PARTS.contains(part)));
        let without = PARTS.iter().filter(|part| part.paper().is_none());
        assert_eq!(without.collect::<Vec<_>>(), [&PaperPart::Diff]);
    }
}
