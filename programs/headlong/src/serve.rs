//! `headlong serve`: all settings are checked before anything is started.

use std::sync::Arc;

use crate::args::ServeArgs;

/// Serves until it is stopped or replaced by another process. A reload evaluates these arguments
/// again.
pub(crate) fn serve(serving: &ServeArgs) -> anyhow::Result<()> {
    let config = serving.config()?;
    if headlong_serve::upgrade::step_aside()? {
        return Ok(());
    }
    let again = serving.clone();
    headlong_serve::run::run(config, Arc::new(move || again.config()))?;
    Ok(())
}
