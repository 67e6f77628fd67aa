//! `headlong mount`: a tree as a file system that any program can read.

use std::path::PathBuf;

use anyhow::Context as _;
use headlong_mount::{Flags, Settings};

/// Options of `headlong mount`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MountArgs {
    /// Settings in TOML; /usr/share/doc/headlong/mount-settings.md lists the keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// Print the state of the mount at this mount point as JSON, and exit
    #[arg(long, value_name = "MOUNTPOINT", conflicts_with_all = ["directory", "mount_point"])]
    status: Option<PathBuf>,
}

/// The mount.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MountKeeperArgs {
    #[arg(value_name = "MOUNTPOINT")]
    mount_point: PathBuf,
}

/// Mounts, and serves requests until it is stopped; or prints the status of a mount.
pub(crate) fn mount(mounting: &MountArgs) -> anyhow::Result<()> {
    if let Some(mount_point) = &mounting.status {
        let status = headlong_mount::status(mount_point)?;
        return Ok(headlong_survey::print(&format!("{status}\n"))?);
    }
    let settings = Settings::load(mounting.config.as_deref(), &mounting.flags)?;
    Ok(headlong_mount::run(&settings)?)
}

/// Waits for the end of the daemon that started this process, and unmounts its mount.
pub(crate) fn keep(keeping: &MountKeeperArgs) -> anyhow::Result<()> {
    headlong_mount::run_cleanup(&keeping.mount_point)
        .with_context(|| format!("cannot unmount {}", keeping.mount_point.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn keeper_is_started_by_an_existing_verb() {
        let command = crate::args::command();
        assert!(
            command
                .find_subcommand(headlong_mount::KEEPER_VERB)
                .is_some()
        );
    }
}
