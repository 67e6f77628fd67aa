//! `headlong health`: whether a running server can serve, for health checks without a shell or curl.

use std::time::Duration;

use crate::admin_client::AdminClient;

/// Health checks repeat; a server that takes longer is ill.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// The server to ask.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct HealthArgs {
    /// The server's admin address
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    admin: String,
}

/// Prints the server's own word on its health; an error if it cannot serve.
pub(crate) fn health(asking: &HealthArgs) -> anyhow::Result<()> {
    let client = AdminClient::new(&asking.admin, ANSWER_TIMEOUT);
    let url = client.url("/healthz");
    let mut answer = client.get(&url)?;
    let failed = |error| anyhow::anyhow!("{url}: {error}");
    let text = answer.body_mut().read_to_string().map_err(failed)?;
    let (status, text) = (answer.status().as_u16(), text.trim());
    anyhow::ensure!(status == 200, "{url}: {status}: {text}");
    Ok(headlong_survey::print(&format!("{text}\n"))?)
}
