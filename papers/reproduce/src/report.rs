//! Report of a reproduction: every one prints tables or JSON, writes a page and `results.json`,
//! updates a documentation page, and ends with the verdict, in the same way.

use std::num::{NonZeroU32, NonZeroUsize};

use headlong_bench::{BenchError, BenchOptions, CommandOutcome};
use headlong_report::{Page, Table};
use serde_json::Value;

/// Footer of a page whose runs have no machine of their own to describe.
pub(crate) const FOOTER: &str = concat!("headlong ", env!("CARGO_PKG_VERSION"));

/// Output of a reproduction.
#[derive(Debug)]
pub(crate) struct PaperReport {
    /// Text above the tables.
    pub(crate) lead: String,
    /// The tables to print.
    pub(crate) tables: Vec<Table>,
    /// All results.
    pub(crate) json: Value,
    /// The page with charts.
    pub(crate) page: Page,
    /// The verdict.
    pub(crate) outcome: CommandOutcome,
}

impl PaperReport {
    /// The tables as text.
    pub(crate) fn text(&self) -> String {
        let tables: Vec<String> = self.tables.iter().map(Table::to_markdown).collect();
        self.lead.clone() + &tables.join("\n")
    }

    /// Writes and prints everything; returns the verdict.
    ///
    /// # Errors
    /// If a result cannot be written.
    pub(crate) fn publish(self, options: &BenchOptions) -> Result<CommandOutcome, BenchError> {
        options.keep(&self.json)?;
        let text = self.text();
        options.publish(self.page, &self.json, &text)?;
        Ok(self.outcome)
    }
}

/// Choices of a reproduction in virtual time.
#[derive(Debug, Clone, Default)]
pub struct RunChoice {
    /// Fewer configurations and seeds, shorter times, coarser steps.
    pub is_quick: bool,
    /// The first seed.
    pub seed: u64,
    /// Number of seeds; that of the reproduction if `None`.
    pub seeds: Option<NonZeroU32>,
    /// Concurrent measurements; the number of processors if `None`. The results do not depend on
    /// it.
    pub threads: Option<NonZeroUsize>,
}

impl RunChoice {
    pub(crate) fn threads(&self) -> NonZeroUsize {
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(processors)
    }

    /// The number of seeds.
    pub(crate) fn seeds(&self, usual: u32) -> u32 {
        self.seeds.map_or(usual, NonZeroU32::get)
    }

    /// The seeds, given their number.
    pub(crate) fn all_seeds(&self, count: u32) -> Vec<u64> {
        (self.seed..).take(count as usize).collect()
    }
}
