//! The engine's settings by name, as in the server's configuration file.
//!
//! The names and the spellings of values are the server's, so that what was found here can be
//! copied there.

use core::fmt::Display;
use core::str::FromStr;

use headlong_engine::{Admission, Control, EngineConfig, Order, Policy, Retention};
use headlong_units::{Bytes, nearest_three};

/// A setting: its name, and how it is set from a text.
type Setting = (
    &'static str,
    fn(&mut EngineConfig, &str) -> Result<(), String>,
);

/// A setting that parses itself.
fn parsed<T: FromStr<Err: Display>>(target: &mut T, text: &str) -> Result<(), String> {
    *target = text.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(())
}

fn bytes(target: &mut u64, text: &str) -> Result<(), String> {
    let Bytes(value) = text
        .parse()
        .map_err(|error: headlong_units::ParseError| error.to_string())?;
    *target = value;
    Ok(())
}

/// A size, or the name of a controller that finds it.
fn prefetch(config: &mut EngineConfig, text: &str) -> Result<(), String> {
    match Control::from_name(text) {
        Some(mode) if mode != Control::Off => config.control.mode = mode,
        _ => {
            bytes(&mut config.sizing.reference_bytes, text)
                .map_err(|why| format!("{why}; or write auto or auto-paper"))?;
            config.control.mode = Control::Off;
        }
    }
    Ok(())
}

macro_rules! one_of {
    ($type:ident, $target:expr, $text:expr) => {
        match $type::from_name($text) {
            Some(value) => {
                $target = value;
                Ok(())
            }
            None => {
                let names: Vec<&str> = $type::ALL.iter().map(|value| value.name()).collect();
                Err(format!("`{}` is none of {}", $text, names.join(", ")))
            }
        }
    };
}

const SETTINGS: &[Setting] = &[
    ("piece", |c, t| bytes(&mut c.piece_bytes, t)),
    ("memory", |c, t| bytes(&mut c.memory_bytes, t)),
    ("policy", |c, t| one_of!(Policy, c.sizing.policy, t)),
    ("prefetch", prefetch),
    ("prefetch_start", |c, t| {
        let mut start = 0;
        bytes(&mut start, t)?;
        c.control.start_bytes = Some(start);
        Ok(())
    }),
    ("prefetch_step", |c, t| bytes(&mut c.control.step_bytes, t)),
    ("adjust_interval", |c, t| {
        parsed(&mut c.control.adjust_interval, t)
    }),
    ("reference_bit_rate", |c, t| {
        parsed(&mut c.sizing.reference_bit_rate, t)
    }),
    ("order", |c, t| one_of!(Order, c.order, t)),
    ("retention", |c, t| one_of!(Retention, c.retention, t)),
    ("outstanding_reads", |c, t| {
        parsed(&mut c.outstanding_reads_max, t)
    }),
    ("outstanding_max", |c, t| {
        bytes(&mut c.outstanding_bytes_max, t)
    }),
    ("read_max", |c, t| bytes(&mut c.read_bytes_max, t)),
    ("chain_gap", |c, t| parsed(&mut c.chain_gap, t)),
    ("ahead_horizon", |c, t| parsed(&mut c.ahead_horizon, t)),
    ("pace_default", |c, t| parsed(&mut c.pace_default, t)),
    ("startup_patience", |c, t| {
        parsed(&mut c.startup_patience, t)
    }),
    ("patience", |c, t| parsed(&mut c.patience, t)),
    ("send_window", |c, t| bytes(&mut c.send_window_bytes, t)),
    ("admission", |c, t| one_of!(Admission, c.admission, t)),
    ("read_timeout", |c, t| parsed(&mut c.read_timeout, t)),
    ("error_window", |c, t| parsed(&mut c.error_window, t)),
    ("errors_offline", |c, t| parsed(&mut c.errors_offline, t)),
    ("offline_retry", |c, t| parsed(&mut c.offline_retry, t)),
    ("requests_max", |c, t| parsed(&mut c.requests_max, t)),
    ("chains_max", |c, t| parsed(&mut c.chains_max, t)),
    ("streams_max", |c, t| parsed(&mut c.streams_max, t)),
];

/// Sets one setting by its name.
///
/// # Errors
/// What is wrong with the name or the value, with the names that are known.
pub fn set(config: &mut EngineConfig, name: &str, value: &str) -> Result<(), String> {
    let Some((_, set)) = SETTINGS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<&str> = SETTINGS.iter().map(|(known, _)| *known).collect();
        let nearest = nearest_three(name, names.iter().copied())[0];
        return Err(format!(
            "the engine has no setting `{name}`; did you mean `{nearest}`? There are {}",
            names.join(", ")
        ));
    };
    set(config, value).map_err(|why| format!("engine setting {name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::{Duration, MIB};

    #[test]
    fn every_setting_can_be_set_by_the_name_the_server_gives_it() {
        let mut config = EngineConfig::default();
        for (name, value) in [
            ("prefetch", "3MiB"),
            ("policy", "fixed"),
            ("patience", "5s"),
            ("outstanding_reads", "4"),
        ] {
            set(&mut config, name, value).expect(name);
        }
        assert_eq!(config.sizing.reference_bytes, 3 * MIB);
        assert_eq!(config.sizing.policy, Policy::Fixed);
        assert_eq!(config.patience, Duration::from_secs(5));
        assert_eq!(config.outstanding_reads_max, 4);
    }

    #[test]
    fn prefetch_is_a_size_or_a_controller() {
        let mut config = EngineConfig::default();
        set(&mut config, "prefetch", "auto-paper").expect("a controller");
        assert_eq!(config.control.mode, Control::Paper);
        set(&mut config, "prefetch_start", "2MiB").expect("a size");
        assert_eq!(config.control.start_bytes, Some(2 * MIB));
        set(&mut config, "prefetch", "6MiB").expect("a size");
        assert_eq!(config.control.mode, Control::Off);
        let error = set(&mut config, "prefetch", "automatic").expect_err("neither");
        assert!(error.contains("auto-paper"), "{error}");
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
