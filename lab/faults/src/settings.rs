//! Random settings, through the same rows as the server's configuration; only valid values are
//! used.

use headlong_engine::{EngineConfig, knobs};
use headlong_flash::FlashPolicy;
use headlong_settings::Value;
use headlong_units::{Duration, GIB, KIB};

use crate::random_source::RandomSource;

/// Settings that may change, with valid values of each row. Times are short, so that worlds in
/// which they matter are short, too.
const ROWS: &[(&str, &[&str])] = &[
    // A new policy goes to the end; the plans of all seeds change.
    (
        "policy",
        &[
            "fixed",
            "proportional",
            "square-root",
            "first-grow",
            "first-grow-sr",
        ],
    ),
    (
        "prefetch",
        &["16KiB", "64KiB", "256KiB", "8MiB", "auto", "auto-paper"],
    ),
    ("order", &["fcfs", "elevator", "deadline-elevator"]),
    ("retention", &["lru", "popularity", "page-cache"]),
    ("admission", &["accept", "accept", "refuse"]),
    ("read_max", &["16KiB", "64KiB", "32MiB"]),
    ("outstanding_reads_rotating", &["1", "2", "4", "8"]),
    ("outstanding_reads_flash", &["1", "4", "16"]),
    ("outstanding_max", &["1KiB", "64KiB", "24MiB"]),
    ("ahead_horizon", &["0s", "1s", "8s", "1h"]),
    ("sweep", &["100ms", "1s", "10s"]),
    ("chain_gap", &["0s", "2s", "40s"]),
    ("patience", &["100ms", "2s", "1m"]),
    ("startup_patience", &["50ms", "500ms"]),
    ("pace_default", &["100kbps", "4000kbps"]),
    ("send_window", &["1KiB", "16KiB", "64KiB", "512KiB"]),
    ("read_timeout", &["2s", "3s", "10s"]),
    ("wait_timeout", &["1s", "5s", "30s"]),
    ("error_window", &["1s", "60s"]),
    ("errors_offline", &["1", "3", "10"]),
    ("offline_retry", &["1s", "5s", "30s"]),
    (
        "flash_policy",
        &["lru", "lfu-mean", "lfu-median", "adaptive"],
    ),
    ("flash_write_per_day", &["1MiB", "100MiB", "10GiB"]),
    ("flash_horizon", &["10s", "12h"]),
    ("adjust_interval", &["1s", "180s"]),
    ("requests_max", &["2", "8", "65536"]),
    ("chains_max", &["2", "6", "65536"]),
    ("streams_max", &["1", "3", "65536"]),
];

/// New values of some settings, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingChange(pub(crate) Vec<(&'static str, &'static str)>);

impl SettingChange {
    /// At most `count_max` changes.
    pub(crate) fn draw(draw: &mut RandomSource, count_max: u64) -> Self {
        let count = draw.between(1, count_max);
        let row = |_| {
            let (name, values) = draw.pick(ROWS);
            (name, draw.pick(values))
        };
        Self((0..count).map(row).collect())
    }

    /// Applies the changes.
    pub(crate) fn apply(&self, config: &mut EngineConfig) {
        let rows = knobs();
        for (name, value) in &self.0 {
            let set = rows.set(config, name, &Value::of_word(value));
            assert!(set.is_ok(), "{name} = {value}: {set:?}");
        }
    }
}

/// Settings of a small device.
pub(crate) fn engine(
    draw: &mut RandomSource,
    piece_bytes: u64,
    slots_max: u64,
    changed_max: u64,
) -> EngineConfig {
    let mut config = EngineConfig {
        piece_bytes,
        memory_bytes: draw.scaled(8, slots_max) * piece_bytes,
        read_bytes_max: 64 * KIB,
        has_arm: draw.percent(80),
        ..EngineConfig::default()
    };
    config.read_timeout = Duration::from_secs(draw.pick(&[2, 3, 10]));
    config.wait_timeout = Duration::from_secs(draw.pick(&[1, 3, 5, 30]));
    // The write budget is mostly large, so that blocks are reused.
    config.flash.write_per_day_bytes = draw.percent(75).then_some(10 * GIB);
    config.flash.policy = draw.pick(FlashPolicy::ALL);
    SettingChange::draw(draw, changed_max).apply(&mut config);
    config.sizing.reference_bytes = config.sizing.reference_bytes.max(piece_bytes);
    config.read_bytes_max = config.read_bytes_max.max(piece_bytes);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_accept_all_listed_values() {
        for (name, values) in ROWS {
            for value in *values {
                SettingChange(vec![(name, value)]).apply(&mut EngineConfig::default());
            }
        }
    }
}
