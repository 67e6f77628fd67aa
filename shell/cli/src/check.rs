//! `headlong check`: what `headlong serve` with the same arguments would do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};

use headlong_server::config::Config;
use headlong_units::Bytes;

use crate::args::Serving;
use crate::device::{self, Device};

/// Prints folders, devices and settings; the settings are a file that says the same.
pub(crate) fn check(serving: &Serving) -> anyhow::Result<()> {
    let mut config = serving.config()?;
    // So that the settings mean the same wherever they are saved.
    config.join_paths(&std::env::current_dir()?);
    let page = report(&config)?;
    let printed = std::io::stdout().write_all(page.as_bytes());
    match printed {
        // Whoever reads had enough: not a failure of ours.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn report(config: &Config) -> anyhow::Result<String> {
    let mut devices: BTreeMap<String, (Device, Vec<String>)> = BTreeMap::new();
    for root in &config.roots {
        let device = device::of(root)?;
        let (_, roots) = devices
            .entry(device.name.clone())
            .or_insert((device, Vec::new()));
        roots.push(root.display().to_string());
    }
    let named: Vec<_> = devices
        .values()
        .map(|(device, _)| (device.name.clone(), device.rotational))
        .collect();
    let engines = config.engines_for(&named)?;
    let mut page =
        String::from("# What would be served. The settings are a file that says the same.\n");
    for ((name, (device, roots)), engine) in devices.iter().zip(engines) {
        let kind = match config.device(name).rotational.unwrap_or(device.rotational) {
            true => "rotating",
            false => "flash",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            page,
            "# device {name}: {kind}, {} outstanding, {} of memory, {} prefetch {}, serves {}",
            engine.outstanding_reads_max,
            Bytes(engine.memory_bytes),
            engine.sizing.policy.name(),
            Bytes(engine.sizing.reference_bytes),
            roots.join(", ")
        );
    }
    for warning in config.warnings(&named) {
        let _ = writeln!(page, "# {warning}");
    }
    page.push('\n');
    page.push_str(&config.show());
    Ok(page)
}
