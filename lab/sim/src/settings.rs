//! Engine settings by name, as in the server's configuration file.
//!
//! Names and value syntax are the server's, so settings found by simulation can be copied there.
//! `outstanding_reads` is the name in the server's table of one device.

use headlong_engine::{EngineConfig, knobs};
use headlong_settings::Value;

/// Sets one setting by name.
///
/// # Errors
/// The error in the name or the value, with the nearest valid name.
pub fn set(config: &mut EngineConfig, name: &str, value: &str) -> Result<(), String> {
    let row = match name {
        "outstanding_reads" => "outstanding_reads_rotating",
        name => name,
    };
    let set = knobs().set(config, row, &Value::of_word(value));
    set.map_err(|why| format!("engine setting {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_engine::Policy;
    use headlong_units::{Duration, MIB};

    #[test]
    fn settings_are_set_by_their_server_names() {
        let mut config = EngineConfig::default();
        for (name, value) in [
            ("prefetch", "3MiB"),
            ("policy", "fixed"),
            ("patience", "5s"),
            ("outstanding_reads", "4"),
            ("outstanding_reads_rotating", "5"),
            ("outstanding_reads_flash", "6"),
        ] {
            set(&mut config, name, value).expect(name);
        }
        assert_eq!(config.sizing.reference_bytes, 3 * MIB);
        assert_eq!(config.sizing.policy, Policy::Fixed);
        assert_eq!(config.patience, Duration::from_secs(5));
        let reads = (config.outstanding_reads_max, config.outstanding_reads_flash);
        assert_eq!(reads, (5, 6));
    }

    #[test]
    fn wrong_name_or_value_lists_valid_ones() {
        let mut config = EngineConfig::default();
        let error = set(&mut config, "pre_fetch", "1MiB").expect_err("no such name");
        assert!(error.contains("did you mean `prefetch`"), "{error}");
        let error = set(&mut config, "order", "random").expect_err("no such order");
        assert!(error.contains("deadline-elevator"), "{error}");
        assert_eq!(config, EngineConfig::default());
    }
}
