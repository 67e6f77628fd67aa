//! Figures in the text and the tables of automated-prefetching (SYSTOR 2014); its charts are
//! pictures, from which no numbers are taken.

/// Table 1 (thesis Table 4.1): SD titles, 4 GB; bytes by bytes requested.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ExtraRow {
    /// Prefetch size in MB; `None` is the vanilla server.
    pub(super) size_mib: Option<u64>,
    pub(super) disk: f64,
    pub(super) cached: f64,
    pub(super) evicted: f64,
    pub(super) wasted: f64,
}

const fn extra(
    size_mib: Option<u64>,
    disk: f64,
    cached: f64,
    evicted: f64,
    wasted: f64,
) -> ExtraRow {
    ExtraRow {
        size_mib,
        disk,
        cached,
        evicted,
        wasted,
    }
}

pub(super) const TABLE_1: [ExtraRow; 7] = [
    extra(None, 0.85, 0.15, 0.00, 0.00),
    extra(Some(2), 0.90, 0.14, 0.00, 0.03),
    extra(Some(4), 1.10, 0.08, 0.10, 0.08),
    extra(Some(6), 1.62, 0.02, 0.52, 0.12),
    extra(Some(8), 2.04, -0.02, 0.86, 0.16),
    extra(Some(10), 2.36, -0.06, 1.12, 0.18),
    extra(Some(12), 2.63, -0.09, 1.34, 0.20),
];

/// Published figures of a scenario: best size, its ratio to vanilla, and the ratio of the automatic
/// size to it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct PublishedSizes {
    pub(super) best_mib: Option<u64>,
    pub(super) by_vanilla: Option<f64>,
    pub(super) auto_by_best: Option<f64>,
    pub(super) source: &'static str,
}

/// Published figures of the scenario with this name.
pub(super) fn said(scenario: &str) -> PublishedSizes {
    match scenario {
        "SD, 4 GB, Red" => PublishedSizes {
            best_mib: Some(4),
            by_vanilla: Some(2.5),
            auto_by_best: Some(1.07),
            source: "3; 7.3 (2.4 there)",
        },
        "HD, 4 GB, Red" => PublishedSizes {
            best_mib: Some(8),
            by_vanilla: Some(3.4),
            auto_by_best: None,
            source: "3",
        },
        "HD, 2 GB, Red" => PublishedSizes {
            best_mib: Some(6),
            source: "7.1",
            ..PublishedSizes::default()
        },
        "HD, 8 GB, Red" => PublishedSizes {
            best_mib: Some(12),
            auto_by_best: Some(0.84),
            source: "7.1",
            ..PublishedSizes::default()
        },
        "SD, 8 GB, Red" => PublishedSizes {
            best_mib: Some(4),
            source: "7.1: 35 % more with 4 MB than with 2 MB",
            ..PublishedSizes::default()
        },
        "SD, 4 GB, Red, alpha 0.6" => PublishedSizes {
            best_mib: Some(4),
            source: "7.2",
            ..PublishedSizes::default()
        },
        "SD, 4 GB, Red, alpha 1.0" => PublishedSizes {
            best_mib: Some(4),
            auto_by_best: Some(1.14),
            source: "7.2: it found 3 MB",
            ..PublishedSizes::default()
        },
        "SD, 4 GB, Seagate" => PublishedSizes {
            by_vanilla: Some(3.6),
            auto_by_best: Some(0.89),
            source: "7.3",
            ..PublishedSizes::default()
        },
        "HD, 4 GB, Seagate" => PublishedSizes {
            by_vanilla: Some(5.2),
            source: "7.3",
            ..PublishedSizes::default()
        },
        "mixed, 4 GB, Red" => PublishedSizes {
            best_mib: Some(6),
            source: "7.4",
            ..PublishedSizes::default()
        },
        _ => PublishedSizes::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automated::scenarios::SCENARIOS;

    #[test]
    fn published_figures_name_existing_scenarios() {
        let named = SCENARIOS
            .iter()
            .filter(|s| said(s.name) != PublishedSizes::default());
        assert_eq!(named.count(), 10);
    }

    #[test]
    fn rows_of_table_add_up() {
        for row in TABLE_1 {
            // Footnote 1: cached bytes are the requested ones, minus disk, plus evicted and wasted.
            let cached = 1.0 - row.disk + row.evicted + row.wasted;
            assert!((cached - row.cached).abs() < 0.011, "{row:?}: {cached}");
        }
    }
}
