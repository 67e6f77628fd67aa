//! Published results of experiments with their sources, parsed from `published.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use headlong_published::{PublishedComparison, PublishedFigure, PublishedValue, Tolerance};
use serde::Deserialize;

use crate::claims::Claim;

/// A paper, or a part of one with its own experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// "To chunk or not to chunk", NOSSDAV 2012; thesis 3.5 to 3.7.
    ToChunk,
    /// Libception, TOMPECS 2018, section 5.
    Asap,
    /// The same, 6.3: Figures 9 and 10.
    Schedulers,
    /// The same, 6.4: Figures 11 to 13.
    Modes,
    /// The same, 6.5: Figures 14 and 15.
    ReadAhead,
    /// The same, 6.5: Figure 16.
    Both,
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
    /// Which of our rates is of the same kind as the paper's.
    pub(crate) compares: RateKind,
    /// Configurations.
    pub(crate) figures: Vec<PublishedConfiguration>,
    /// Shapes that must be reproduced.
    pub(crate) shapes: Vec<PublishedShape>,
    /// Rows of tables without a counterpart here.
    #[serde(default)]
    pub(crate) only_published: Vec<PublishedRow>,
}

/// The bytes that a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RateKind {
    /// Requested by viewers: a target request rate.
    Offered,
    /// Received by viewers: a throughput.
    Delivered,
}

/// A configuration and its results.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedConfiguration {
    /// Name in the paper.
    pub(crate) name: String,
    /// Our workload and server, if it is run here.
    pub(crate) of: Option<ConfigurationKey>,
    /// Its failure-free rate.
    pub(crate) published: Option<PublishedValue>,
    /// Share of its calls shorter than a millisecond (libception Figure 17).
    pub(crate) short_calls: Option<PublishedValue>,
    /// Its drive (libception Table 2 and 5.5), as far as given: rate, time per 128 KiB, and bytes in
    /// sequences of at most 128 KiB and of more than 1920 KiB.
    #[serde(default)]
    pub(crate) drive: Vec<PublishedValue>,
    /// Source of the rate.
    pub(crate) source: String,
}

/// A shape of a figure that must be reproduced, even where numbers cannot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedShape {
    /// Description.
    pub(crate) name: String,
    /// The ratio, or the difference if it has a unit; `None` if the paper only shows curves.
    pub(crate) published: Option<PublishedValue>,
    /// Numerator.
    pub(crate) this: ConfigurationKey,
    /// Denominator.
    pub(crate) that: ConfigurationKey,
    /// Tolerance.
    #[serde(default)]
    pub(crate) within: Tolerance,
    /// Source.
    pub(crate) source: String,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PublishedRow {
    /// The measured configuration.
    pub(crate) name: String,
    /// Its numbers.
    pub(crate) values: Vec<PublishedValue>,
    /// Source, and why it has no counterpart.
    pub(crate) source: String,
}

impl PublishedShape {
    /// The comparison of two rates, either of which may be unknown: bytes per second, or any other
    /// quantity if the shape is a ratio.
    fn compared(&self, this: Option<f64>, that: Option<f64>) -> PublishedComparison {
        let unit = self.published.as_ref().map_or("", |value| &value.unit);
        let both = this.zip(that);
        let ours = both.map(|(this, that)| match unit {
            "" => this / that,
            unit => in_unit(this - that, unit),
        });
        let figure = PublishedFigure::new(self.source.clone(), self.published.clone(), self.within);
        PublishedComparison::new(self.name.clone(), ours, figure)
    }
}

/// A rate in bytes per second in a unit of the papers.
pub(crate) fn in_unit(rate: f64, unit: &str) -> f64 {
    let bytes = match unit {
        "MB/s" => 1e6,
        // Requests of 0.5 MB and chunks of 2 MB are binary (libception 4, thesis 3.5).
        "requests/s" => f64::from(1 << 19),
        "chunks/s" => f64::from(2 << 20),
        _ => f64::NAN,
    };
    rate / bytes
}

static SAID: LazyLock<BTreeMap<String, PublishedResults>> = LazyLock::new(|| {
    // The file is part of the program and covered by a test.
    toml::from_str(include_str!("published.toml")).expect("published.toml is right")
});

impl Paper {
    /// All of them.
    pub(crate) const ALL: [Self; 10] = [
        Self::ToChunk,
        Self::Asap,
        Self::Schedulers,
        Self::Modes,
        Self::ReadAhead,
        Self::Both,
        Self::Servers,
        Self::Latencies,
        Self::Disks,
        Self::Sizes,
    ];

    /// Its experiment: name, which is also that of its table in `published.toml`, and text.
    pub(crate) fn experiment(self) -> (&'static str, &'static str) {
        macro_rules! experiment {
            ($name:literal) => {
                (
                    $name,
                    include_str!(concat!("../../../experiments/", $name, ".toml")),
                )
            };
        }
        match self {
            Self::ToChunk => experiment!("to-chunk"),
            Self::Asap => experiment!("libception-asap"),
            Self::Schedulers => experiment!("libception-schedulers"),
            Self::Modes => experiment!("libception-modes"),
            Self::Both => experiment!("libception-both"),
            Self::ReadAhead => experiment!("libception-readahead"),
            Self::Servers => experiment!("libception-servers"),
            Self::Latencies => experiment!("libception-latencies"),
            Self::Disks => experiment!("libception-disks"),
            Self::Sizes => experiment!("automated-prefetching"),
        }
    }

    /// Its published results.
    pub(crate) fn said(self) -> &'static PublishedResults {
        &SAID[self.experiment().0]
    }

    /// Its shapes with our results; either of two values may be unknown.
    pub(crate) fn claims(self, value: impl Fn(&ConfigurationKey) -> Option<f64>) -> Vec<Claim> {
        let claim = |shape: &PublishedShape| {
            let compared = shape.compared(value(&shape.this), value(&shape.that));
            Claim::published(compared)
        };
        self.said().shapes.iter().map(claim).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_published::Bound;

    #[test]
    fn papers_have_figures_and_shapes() {
        for paper in Paper::ALL {
            let said = paper.said();
            assert!(!said.mapping.is_empty());
            assert!(!said.figures.is_empty());
            for shape in &said.shapes {
                let has_bound =
                    |value: &PublishedValue| !matches!(value.bound, Bound::Exact | Bound::About);
                let can_fail = shape.within != Tolerance::Unstated
                    || shape.published.as_ref().is_some_and(has_bound);
                assert!(can_fail, "{shape:?}");
            }
            let known = ["", "MB/s", "requests/s", "chunks/s"];
            let shapes = said.shapes.iter().filter_map(|s| s.published.as_ref());
            let rates = said.figures.iter().filter_map(|f| f.published.as_ref());
            for value in shapes.chain(rates) {
                assert!(known.contains(&value.unit.as_str()), "{value}");
            }
        }
        assert_eq!(SAID.len(), Paper::ALL.len());
    }
    #[test]
    fn shape_with_unit_is_difference() {
        let shape = |published: &str| PublishedShape {
            name: "a shape".into(),
            published: published.parse().ok(),
            this: ("sd".into(), "one".into()),
            that: ("sd".into(), "other".into()),
            within: Tolerance::Between(10.0, 30.0),
            source: "nowhere".into(),
        };
        let compared = shape("about 20 MB/s").compared(Some(5e7), Some(3e7));
        assert_eq!((compared.ours, compared.holds()), (Some(20.0), Some(true)));
        let compared = shape("20").compared(Some(5e7), Some(2e7));
        assert_eq!((compared.ours, compared.holds()), (Some(2.5), Some(false)));
        assert_eq!(shape("20").compared(None, Some(2e7)).ours, None);
    }
}
