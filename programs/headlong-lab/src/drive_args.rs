//! A drive as an argument: the name of a preset, or a drive description file.

use std::fs;

use headlong_drive::{DriveSpec, preset};

/// The drive named by `name`: a file if it ends in `.toml`, such as those written by `headlong disk
/// probe -o`, else a preset.
pub(crate) fn drive_spec(name: &str) -> Result<DriveSpec, String> {
    if !name.ends_with(".toml") {
        return preset(name).map_err(|error| error.to_string());
    }
    let text = fs::read_to_string(name).map_err(|error| format!("{name}: {error}"))?;
    let spec: DriveSpec = toml::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    spec.check().map_err(|error| format!("{name}: {error}"))?;
    Ok(spec)
}
