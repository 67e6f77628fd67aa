//! `headlong serve`: everything is checked before anything is started.

use std::sync::Arc;

use crate::args::Serving;

/// Serves until it is told to stop, or until another process has its place. A reload reads what these arguments mean by then.
pub(crate) fn serve(serving: &Serving) -> anyhow::Result<()> {
    let config = serving.config()?;
    if headlong_serve::upgrade::step_aside()? {
        return Ok(());
    }
    let again = serving.clone();
    headlong_serve::run::run(config, Arc::new(move || again.config()))?;
    Ok(())
}
