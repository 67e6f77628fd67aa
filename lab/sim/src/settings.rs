//! The engine's settings by name, as in the server's configuration file.
//!
//! The names and the spellings of values are the server's, so that what was found here can be
//! copied there. `outstanding_reads` is as in the server's table of one device.

use headlong_engine::{EngineConfig, knobs};
use headlong_settings::Value;

/// Sets one setting by its name.
///
/// # Errors
/// What is wrong with the name or the value, with the nearest name that there is.
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
    fn every_setting_can_be_set_by_the_name_the_server_gives_it() {
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
    fn a_wrong_name_or_value_is_told_with_what_there_is() {
        let mut config = EngineConfig::default();
        let error = set(&mut config, "pre_fetch", "1MiB").expect_err("no such name");
        assert!(error.contains("did you mean `prefetch`"), "{error}");
        let error = set(&mut config, "order", "random").expect_err("no such order");
        assert!(error.contains("deadline-elevator"), "{error}");
        assert_eq!(config, EngineConfig::default());
    }
}
