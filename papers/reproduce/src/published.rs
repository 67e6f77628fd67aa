//! Published results of experiments with their sources, parsed from `published.toml`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use headlong_published::{PublishedFigure, Tolerance};
use serde::Deserialize;

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
pub type ConfigurationKey = (String, String);

/// Published results of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedResults {
    /// How the paper's configurations are mapped to ours.
    pub mapping: String,
    /// Configurations.
    pub figures: Vec<PublishedConfiguration>,
    /// Shapes that must be reproduced.
    pub shapes: Vec<PublishedShape>,
}

/// A configuration and its results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "FigureRow")]
pub struct PublishedConfiguration {
    /// Name in the paper.
    pub name: String,
    /// Our workload and server.
    pub of: ConfigurationKey,
    /// Its failure-free rate, MB/s.
    pub rate: PublishedFigure,
    /// Percentage of its calls shorter than a millisecond (libception Figure 17).
    pub short_calls: Option<f64>,
    /// Its drive: MB/s, milliseconds per 128 KiB, and per cent of bytes in sequences of at most 128
    /// KiB and of more than 1920 KiB (libception Table 2 and 5.5).
    pub drive: Option<[Option<f64>; 4]>,
}

/// A shape of a figure that must be reproduced: a ratio of rates within bounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "ShapeRow")]
pub struct PublishedShape {
    /// Description.
    pub name: String,
    /// Numerator.
    pub this: ConfigurationKey,
    /// Denominator.
    pub that: ConfigurationKey,
    /// Source and bounds.
    pub ratio: PublishedFigure,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureRow {
    name: String,
    of: ConfigurationKey,
    rate: Option<f64>,
    short_calls: Option<f64>,
    drive: Option<Vec<f64>>,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeRow {
    name: String,
    this: ConfigurationKey,
    that: ConfigurationKey,
    within: Tolerance,
    source: String,
}

fn published(value: Option<f64>, source: String, tolerance: Tolerance) -> PublishedFigure {
    PublishedFigure {
        value,
        source: Cow::Owned(source),
        tolerance,
    }
}

impl From<FigureRow> for PublishedConfiguration {
    fn from(row: FigureRow) -> Self {
        Self {
            name: row.name,
            of: row.of,
            short_calls: row.short_calls,
            rate: published(row.rate, row.source, Tolerance::Unstated),
            drive: row
                .drive
                .map(|drive| [0, 1, 2, 3].map(|at| drive.get(at).copied())),
        }
    }
}

impl From<ShapeRow> for PublishedShape {
    fn from(row: ShapeRow) -> Self {
        Self {
            name: row.name,
            this: row.this,
            that: row.that,
            ratio: published(None, row.source, row.within),
        }
    }
}

static SAID: LazyLock<BTreeMap<String, PublishedResults>> = LazyLock::new(|| {
    // The file is part of the program and covered by a test.
    toml::from_str(include_str!("published.toml")).expect("published.toml is right")
});

impl Paper {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ToChunk,
        Self::Asap,
        Self::ReadAhead,
        Self::Servers,
        Self::Latencies,
        Self::Disks,
        Self::Sizes,
    ];

    /// Its experiment: name, which is also that of its table in `published.toml`, and text.
    pub fn experiment(self) -> (&'static str, &'static str) {
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
    pub fn said(self) -> &'static PublishedResults {
        &SAID[self.experiment().0]
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
                let within = &shape.ratio.tolerance;
                assert!(matches!(within, Tolerance::Between(from, to) if from < to));
            }
        }
        assert_eq!(SAID.len(), Paper::ALL.len());
    }

    #[test]
    fn drive_figures_are_present_where_published() {
        let drives: Vec<_> = Paper::Asap.said().figures.iter().map(|f| f.drive).collect();
        assert_eq!(drives[0], Some([21.6, 2.81, 11.0, 0.0].map(Some)));
        assert_eq!(drives[1], Some([Some(18.8), Some(3.67), None, None]));
    }
}
