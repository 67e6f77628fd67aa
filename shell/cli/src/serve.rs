//! `headlong serve`: everything is checked before anything is started.

use crate::args::Serving;

/// Serves until it is told to stop.
pub(crate) fn serve(serving: &Serving) -> anyhow::Result<()> {
    let config = serving.config()?;
    headlong_server::run::run(config)?;
    Ok(())
}
