//! `headlong root`: has a running server take a root out of service, and back.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;

use crate::admin_client::{AdminClient, silent};

/// Longer than the server waits for the scan of a root.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Actions on a root of a running server.
#[derive(Debug, Subcommand)]
pub(crate) enum RootCommand {
    /// Stop serving a root, so that its disk can be unmounted
    Detach(RootTarget),
    /// Serve it again
    Attach(RootTarget),
}

/// The root.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RootTarget {
    /// Folder, as configured
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The server's admin address
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    admin: String,
}

/// Attaches or detaches a root.
pub(crate) fn root(command: &RootCommand) -> anyhow::Result<()> {
    let (verb, target) = match command {
        RootCommand::Detach(target) => ("detach", target),
        RootCommand::Attach(target) => ("attach", target),
    };
    let client = AdminClient::new(&target.admin, ANSWER_TIMEOUT);
    let url = client.url(&format!("/{verb}"));
    let folder = trimmed(&target.folder).display().to_string();
    let failed = |error| silent(&url, &error);
    let mut answer = client
        .post(&url)
        .query("root", folder)
        .send_empty()
        .map_err(failed)?;
    let text = answer.body_mut().read_to_string().map_err(failed)?;
    anyhow::ensure!(answer.status().as_u16() == 200, "{}", text.trim());
    Ok(())
}

/// The folder without a slash at its end, which a shell's completion adds.
fn trimmed(folder: &Path) -> PathBuf {
    folder.components().collect()
}
