//! Input: a configuration file.

use std::path::Path;

use headlong_config::{Config, Flags};

/// A parsed configuration is shown as an equivalent file; every error is one line.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let file = Path::new("h.toml");
    match Config::from_text(file, text, &Flags::default()) {
        Ok(config) => {
            let shown = config.show();
            let again = Config::from_text(file, &shown, &Flags::default());
            assert_eq!(again.as_ref(), Ok(&config), "{shown}");
            for rotational in [true, false] {
                // A budget may be too small for all devices, which is an error.
                let devices = [("sda".to_string(), rotational), ("sdb".to_string(), true)];
                if let Ok(engines) = config.engines_for(&devices, true) {
                    assert!(engines.iter().all(|engine| engine.check().next().is_none()));
                }
                assert!(
                    config
                        .warnings(&devices)
                        .iter()
                        .all(|warning| is_line(warning))
                );
            }
        }
        Err(errors) => {
            assert!(errors.iter().count() > 0);
            for error in errors.iter() {
                let error = error.to_string();
                assert!(is_line(&error), "{error:?}");
            }
        }
    }
}

/// Whether a text is a single line without control characters.
fn is_line(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
