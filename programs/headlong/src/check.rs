//! `headlong check`: what `headlong serve` with the same arguments would do.

use std::fmt::Write as _;

use headlong_library::{inspect_roots, links_out};
use headlong_serve::config::{Config, ValidityProblem};
use headlong_serve::now_unix_s;
use headlong_units::Bytes;

use crate::args::CheckArgs;

/// Prints folders, devices and settings, as a valid configuration file. A failing part is no
/// mistake: it is reported on standard error, as is a certificate that expires soon. An expired one
/// is an error, although `serve` would start with it.
pub(crate) fn check(checking: &CheckArgs) -> anyhow::Result<()> {
    let mut config = checking.serving.config()?;
    // So that the settings mean the same wherever they are saved.
    config.join_paths(&std::env::current_dir()?);
    let page = report(&config)?;
    let prefix = headlong_report::error_prefix();
    for ill in config.ill_parts() {
        headlong_report::say!(
            "{prefix}headlong: {ill}; the server starts without it and tries it again"
        );
    }
    let mut expired = Vec::new();
    for problem in config.certificate_problems(now_unix_s()) {
        match problem {
            ValidityProblem::Expired(text) => expired.push(text),
            ValidityProblem::Warning(text) => {
                headlong_report::say!("{prefix}headlong: tls.certificate: {text}");
            }
        }
    }
    if !checking.quiet {
        headlong_survey::print(&page)?;
    }
    anyhow::ensure!(
        expired.is_empty(),
        "tls.certificate: {}",
        expired.join("; ")
    );
    Ok(())
}

fn report(config: &Config) -> anyhow::Result<String> {
    let seen = inspect_roots(&config.folders(), config.link_targets.len()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(lines.join("\n"))
    })?;
    let devices = seen.devices;
    let named: Vec<(String, bool)> = devices
        .iter()
        .map(|device| (device.name.clone(), device.rotates()))
        .collect();
    let engines = config.engines_for(&named, seen.missing.is_empty())?;
    let mut page = String::from(
        "# Dry run of `headlong serve`. The settings form an equivalent file, except for secrets; \
         those not shown have their defaults.\n",
    );
    for (device, engine) in devices.iter().zip(engines) {
        let name = &device.name;
        let roots = device.roots.iter().map(|root| root.display().to_string());
        let roots: Vec<String> = roots.collect();
        let rotates = config.device(name).rotational;
        let kind = match rotates.unwrap_or_else(|| device.rotates()) {
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
            match engine.control.mode.name() {
                "off" => Bytes(engine.sizing.reference_bytes).to_string(),
                name => name.to_owned(),
            },
            roots.join(", ")
        );
    }
    let _ = writeln!(page, "# memory at most: {}", config.memory_parts());
    page.push_str("# Set by the kernel (docs/operate/tune.md):\n");
    for device in &devices {
        for line in headlong_survey::kernel_settings(&device.name).lines() {
            let _ = writeln!(page, "#   {line}");
        }
    }
    let served = [&config.roots[..], &config.link_targets].concat();
    for link in links_out(&served, config.link_targets.len()) {
        let _ = writeln!(page, "# roots: {}: {}", link.path, link.reason);
    }
    for warning in config.warnings(&named) {
        let _ = writeln!(page, "# {warning}");
    }
    page.push('\n');
    page.push_str(&config.show());
    Ok(page)
}
