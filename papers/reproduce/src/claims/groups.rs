//! The reproductions in virtual time whose claims are listed, each in three sizes.

use std::path::Path;

use headlong_bench::{BenchError, BenchOptions, VirtualOptions};
use headlong_chain_sim::SimulationSettings;
use headlong_units::Duration;

use super::Claim;
use crate::automated::{ScenarioSelection, automated_claims};
use crate::experiments::{experiment, imitated_claims};
use crate::flashstream::{FlashstreamOptions, FlashstreamPart, flashstream_claims};
use crate::netflix::{self, NetflixOptions};
use crate::published::Paper;
use crate::report::RunChoice;

headlong_units::names! {
    /// How much is run.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ClaimsSize {
        /// Minutes: few configurations, short times, one seed.
        Small => "small",
        /// The `--quick` form of every reproduction.
        Quick => "quick",
        /// Everything, as the reproductions run by default: an hour.
        Full => "full",
    }
}

/// A reproduction, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClaimGroup {
    /// Key in the stored results and in documents.
    pub(crate) key: &'static str,
    /// Paper and section.
    pub(crate) paper: &'static str,
    /// The command that runs it alone, without the option for its size.
    pub(crate) command: &'static str,
    kind: GroupKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum GroupKind {
    /// An experiment of the bench; below full size with `--quick`.
    Experiment(Paper),
    Automated,
    Flashstream,
    Netflix,
}

const fn group(
    key: &'static str,
    paper: &'static str,
    command: &'static str,
    kind: GroupKind,
) -> ClaimGroup {
    ClaimGroup {
        key,
        paper,
        command,
        kind,
    }
}

/// All of them, in the order of the papers' years.
pub(crate) const GROUPS: [ClaimGroup; 9] = [
    group(
        "to-chunk",
        "To chunk or not to chunk (NOSSDAV 2012; thesis 3.5 to 3.7)",
        "headlong reproduce to-chunk --virtual",
        GroupKind::Experiment(Paper::ToChunk),
    ),
    group(
        "flashstream",
        "FlashStream (MM 2013)",
        "headlong reproduce flashstream",
        GroupKind::Flashstream,
    ),
    group(
        "automated-prefetching",
        "Automated control of aggressive prefetching (SYSTOR 2014; thesis chapter 4)",
        "headlong reproduce automated-prefetching",
        GroupKind::Automated,
    ),
    group(
        "libception-asap",
        "Libception (TOMPECS 2018), section 5",
        "headlong reproduce libception --part asap --virtual",
        GroupKind::Experiment(Paper::Asap),
    ),
    group(
        "libception-schedulers",
        "Libception (TOMPECS 2018), 6.3",
        "headlong reproduce libception --part schedulers --virtual",
        GroupKind::Experiment(Paper::Schedulers),
    ),
    group(
        "libception-modes",
        "Libception (TOMPECS 2018), 6.4",
        "headlong reproduce libception --part modes --virtual",
        GroupKind::Experiment(Paper::Modes),
    ),
    group(
        "libception-readahead",
        "Libception (TOMPECS 2018), 6.5, Figures 14 and 15",
        "headlong reproduce libception --part readahead --virtual",
        GroupKind::Experiment(Paper::ReadAhead),
    ),
    group(
        "libception-both",
        "Libception (TOMPECS 2018), 6.5, Figure 16, and Table 3",
        "headlong reproduce libception --part both --virtual",
        GroupKind::Experiment(Paper::Both),
    ),
    group(
        "netflix",
        "Thesis chapter 5 (2016)",
        "headlong reproduce netflix",
        GroupKind::Netflix,
    ),
];

/// Scenarios of the smallest size.
const SCENARIO_SMALL: &str = "SD, 4 GB, Red";
/// Sessions of the Netflix log below full size.
const SESSIONS_SMALL: u64 = 2_000;
const SESSIONS_QUICK: u64 = 20_000;

impl ClaimGroup {
    /// The command that runs it alone in this size.
    pub(crate) fn command(&self, size: ClaimsSize) -> String {
        let option = match (self.kind, size) {
            (GroupKind::Netflix, ClaimsSize::Small) => format!(" --sessions {SESSIONS_SMALL}"),
            (GroupKind::Netflix, ClaimsSize::Quick) => format!(" --sessions {SESSIONS_QUICK}"),
            (GroupKind::Automated, ClaimsSize::Small) => {
                format!(" --quick --scenario \"{SCENARIO_SMALL}\"")
            }
            (_, ClaimsSize::Full) => String::new(),
            _ => " --quick".to_owned(),
        };
        format!("{}{option}", self.command)
    }

    /// Runs it in virtual time; records are written below `options.results`.
    ///
    /// # Errors
    /// If a record cannot be written.
    pub(crate) fn claims(
        &self,
        size: ClaimsSize,
        choice: &RunChoice,
        options: &BenchOptions,
    ) -> Result<Vec<Claim>, BenchError> {
        let is_quick = size != ClaimsSize::Full;
        let choice = RunChoice {
            is_quick,
            seed: 1,
            ..choice.clone()
        };
        match self.kind {
            GroupKind::Experiment(paper) => {
                // The file is part of the program, and a test covers it.
                let experiment = experiment(paper, is_quick).expect("a valid experiment");
                let how = VirtualOptions {
                    turnaround: Duration::ZERO,
                    replay: self.command(size),
                    threads: choice.threads(),
                };
                let options = BenchOptions {
                    results: options.results.join(self.key),
                    ..options.clone()
                };
                imitated_claims(paper, &experiment, &how, &options)
            }
            GroupKind::Automated => {
                let scenarios = match size {
                    ClaimsSize::Small => vec![SCENARIO_SMALL.to_owned()],
                    _ => Vec::new(),
                };
                let selection = ScenarioSelection { choice, scenarios };
                Ok(automated_claims(&selection))
            }
            GroupKind::Flashstream => Ok(flashstream_claims(&FlashstreamOptions {
                choice,
                // This server's goals need hours and are no claims of the paper.
                parts: FlashstreamPart::ALL
                    .map(|(_, part)| part)
                    .into_iter()
                    .filter(|part| *part != FlashstreamPart::Headlong)
                    .collect(),
                ..FlashstreamOptions::default()
            })),
            GroupKind::Netflix => {
                let reproducing = NetflixOptions {
                    sessions: match size {
                        ClaimsSize::Small => SESSIONS_SMALL,
                        ClaimsSize::Quick => SESSIONS_QUICK,
                        ClaimsSize::Full => netflix::SESSIONS,
                    },
                    seed: 1,
                    sizes_mb: netflix::sizes_mb(),
                    settings: SimulationSettings::default(),
                };
                let made = netflix::netflix(&reproducing, |_| {});
                let made = made.map_err(|error| {
                    let error = std::io::Error::other(error.to_string());
                    BenchError::Result(Path::new(self.key).display().to_string(), error)
                })?;
                Ok(made.claims())
            }
        }
    }
}
