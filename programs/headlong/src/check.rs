//! `headlong check`: what `headlong serve` with the same arguments would do.

use std::fmt::Write as _;
use std::time::Duration;

use headlong_config::Config;
use headlong_library::{DeviceInfo, inspect_roots, links_out};
use headlong_serve::{now_unix_s, package_survey};
use headlong_settings::one_line;
use headlong_units::Bytes;

use crate::args::CheckArgs;
use crate::nginx;
use crate::warnings::Warnings;

/// Time for the headers of files that are packaged: a disk has some hundred of them in it.
const PACKAGE_SURVEY_TIME: Duration = Duration::from_secs(10);

/// Checks or converts, as the options say.
pub(crate) fn check(checking: &CheckArgs) -> anyhow::Result<()> {
    let warnings = match &checking.nginx {
        Some(file) => nginx::convert(file, checking.quiet)?,
        None => check_settings(checking)?,
    };
    match checking.strict {
        true => Ok(warnings.refuse()?),
        false => Ok(()),
    }
}

/// Prints warnings first, then folders, devices and settings, as a valid configuration file. A
/// failing part is no mistake, but a warning.
fn check_settings(checking: &CheckArgs) -> anyhow::Result<Warnings> {
    let mut config = checking.serving.config()?;
    // So that the settings mean the same wherever they are saved.
    config.join_paths(&std::env::current_dir()?);
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
    let mut warnings = Warnings::default();
    for ill in config.ill_parts() {
        warnings.say(format_args!(
            "{ill}; the server starts without it and tries it again"
        ));
    }
    let served = config.served().into_iter().map(|root| root.folder);
    let served: Vec<_> = served.chain(config.link_targets.iter().cloned()).collect();
    let links = links_out(&served, config.link_targets.len()).into_iter();
    let links = links.map(|link| format!("roots: {}: {}", link.path, link.reason));
    let certificates = config.certificate_problems(now_unix_s()).into_iter();
    let certificates = certificates.map(|problem| format!("tls.certificate: {problem}"));
    let all = certificates.chain(config.warnings(&named));
    for warning in all.chain(config.disk_warnings()).chain(links) {
        warnings.say(format_args!("warning: {warning}"));
    }
    survey_packages(&config, &mut warnings);
    if !checking.quiet {
        let engines = devices.iter().zip(engines);
        let engines = engines.map(|(device, engine)| engine_line(&config, device, &engine));
        headlong_survey::print(&page(&config, engines.collect(), &devices))?;
    }
    Ok(warnings)
}

/// Names files of which no HLS or DASH can be made. That there were more files than time is no
/// warning: the server reads them when they are asked for.
fn survey_packages(config: &Config, warnings: &mut Warnings) {
    let survey = package_survey::survey(config, PACKAGE_SURVEY_TIME);
    for (path, reason) in &survey.problems {
        let path = one_line(&path.display().to_string());
        warnings.say(format_args!("warning: package: {path}: {reason}"));
    }
    let more = survey.problem_count - survey.problems.len();
    if more > 0 {
        warnings.say(format_args!(
            "warning: package: {more} more files cannot be packaged"
        ));
    }
    if survey.is_cut {
        headlong_report::say!(
            "headlong: package: checked {} files in {} s; the others are checked when a viewer asks \
             for them, and named in `odd` of /library.json",
            survey.file_count,
            PACKAGE_SURVEY_TIME.as_secs()
        );
    }
}

fn engine_line(
    config: &Config,
    device: &DeviceInfo,
    engine: &headlong_engine::EngineConfig,
) -> String {
    let name = &device.name;
    let roots = device.roots.iter().map(|root| root.display().to_string());
    let roots: Vec<String> = roots.collect();
    let rotates = config.device(name).rotational;
    let kind = match rotates.unwrap_or_else(|| device.rotates()) {
        true => "rotating",
        false => "flash",
    };
    format!(
        "# device {name}: {kind}, {} outstanding, {} of memory, {} prefetch {}, serves {}\n",
        engine.outstanding_reads_max,
        Bytes(engine.memory_bytes).rounded(),
        engine.sizing.policy.name(),
        match engine.control.mode.name() {
            "off" => Bytes(engine.sizing.reference_bytes).to_string(),
            name => name.to_owned(),
        },
        roots.join(", ")
    )
}

fn page(config: &Config, engines: Vec<String>, devices: &[DeviceInfo]) -> String {
    let mut page = String::from(
        "# Dry run of `headlong serve`. The settings form an equivalent file, except for secrets; \
         those not shown have their defaults.\n",
    );
    engines.iter().for_each(|line| page.push_str(line));
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(page, "# memory at most: {}", config.memory_parts());
    let kernel: String = devices
        .iter()
        .map(|device| headlong_survey::kernel_settings(&device.name))
        .collect();
    if !kernel.is_empty() {
        page.push_str("# To set in the kernel (see `headlong tune`):\n");
    }
    for line in kernel.lines() {
        let _ = writeln!(page, "#   {line}");
    }
    page.push('\n');
    page.push_str(&config.show());
    page
}
