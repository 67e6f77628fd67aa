//! Published results of experiments with their sources, parsed from `published.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use headlong_published::{PublishedFigure, Tolerance};
use headlong_report::Table;
use serde::Deserialize;

use crate::report::{Criterion, criteria_table};

/// A paper, or a part of one with its own experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// "To chunk or not to chunk", NOSSDAV 2012; thesis 3.5 to 3.7.
    ToChunk,
    /// Libception, TOMPECS 2018, section 5.
    Asap,
    /// The same, 6.5.
    ReadAhead,
    /// The same, 6.7: Table 3, its rows for Linux.
    Servers,
    /// The same, 6.6: durations of calls.
    Latencies,
    /// The same, section 7: two drives.
    Disks,
    /// Automated prefetching, SYSTOR 2014, Figure 1; the whole paper is reproduced in virtual time.
    Sizes,
}

/// Our workload and server for a configuration of a paper.
pub(crate) type ConfigurationKey = (String, String);

/// Published results of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedResults {
    /// How the paper's configurations are mapped to ours.
    pub(crate) mapping: String,
    /// Configurations.
    pub(crate) figures: Vec<PublishedConfiguration>,
    /// Shapes that must be reproduced.
    pub(crate) shapes: Vec<PublishedShape>,
}

/// A configuration and its results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedConfiguration {
    /// Name in the paper.
    pub(crate) name: String,
    /// Our workload and server.
    pub(crate) of: ConfigurationKey,
    /// Its failure-free rate, MB/s.
    pub(crate) rate: Option<f64>,
    /// Percentage of its calls shorter than a millisecond (libception Figure 17).
    pub(crate) short_calls: Option<f64>,
    /// Its drive: MB/s, milliseconds per 128 KiB, and per cent of bytes in sequences of at most 128
    /// KiB and of more than 1920 KiB, as far as given (libception Table 2 and 5.5).
    pub(crate) drive: Option<Vec<f64>>,
    /// Source of the rate.
    pub(crate) source: String,
}

/// A shape of a figure that must be reproduced, even where numbers cannot: a ratio of rates within
/// bounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedShape {
    /// Description.
    pub(crate) name: String,
    /// Numerator.
    pub(crate) this: ConfigurationKey,
    /// Denominator.
    pub(crate) that: ConfigurationKey,
    /// Bounds.
    pub(crate) within: Tolerance,
    /// Source.
    pub(crate) source: String,
}

static SAID: LazyLock<BTreeMap<String, PublishedResults>> = LazyLock::new(|| {
    // The file is part of the program and covered by a test.
    toml::from_str(include_str!("published.toml")).expect("published.toml is right")
});

impl Paper {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 7] = [
        Self::ToChunk,
        Self::Asap,
        Self::ReadAhead,
        Self::Servers,
        Self::Latencies,
        Self::Disks,
        Self::Sizes,
    ];

    /// Its experiment: name, which is also that of its table in `published.toml`, and text.
    pub(crate) fn experiment(self) -> (&'static str, &'static str) {
        match self {
            Self::ToChunk => (
                "to-chunk",
                include_str!("../../../experiments/to-chunk.toml"),
            ),
            Self::Asap => (
                "libception-asap",
                include_str!("../../../experiments/libception-asap.toml"),
            ),
            Self::ReadAhead => (
                "libception-readahead",
                include_str!("../../../experiments/libception-readahead.toml"),
            ),
            Self::Servers => (
                "libception-servers",
                include_str!("../../../experiments/libception-servers.toml"),
            ),
            Self::Latencies => (
                "libception-latencies",
                include_str!("../../../experiments/libception-latencies.toml"),
            ),
            Self::Disks => (
                "libception-disks",
                include_str!("../../../experiments/libception-disks.toml"),
            ),
            Self::Sizes => (
                "automated-prefetching",
                include_str!("../../../experiments/automated-prefetching.toml"),
            ),
        }
    }

    /// Its published results.
    pub(crate) fn said(self) -> &'static PublishedResults {
        &SAID[self.experiment().0]
    }

    /// Its shapes with our results: ratios of two values, either of which may be unknown.
    pub(crate) fn shapes_table(self, value: impl Fn(&ConfigurationKey) -> Option<f64>) -> Table {
        let criterion = |shape: &PublishedShape| {
            let values = value(&shape.this).zip(value(&shape.that));
            let ratio = values.map(|(this, that)| this / that);
            Criterion {
                demanded: format!("{} ({})", shape.name, shape.source),
                found: ratio.map(|ratio| format!("{ratio:.2} times")),
                holds: PublishedFigure::new("", None, shape.within).holds(ratio),
            }
        };
        let criteria = self.said().shapes.iter().map(criterion);
        criteria_table(["Published", "Here", "Reproduced"], criteria)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_have_figures_and_shapes() {
        for paper in Paper::ALL {
            let said = paper.said();
            assert!(!said.mapping.is_empty());
            assert!(!said.figures.is_empty());
            for shape in &said.shapes {
                assert!(matches!(shape.within, Tolerance::Between(from, to) if from < to));
            }
        }
        assert_eq!(SAID.len(), Paper::ALL.len());
    }
}
