//! `headlong trace`: what request logs say.

use crate::characterise::{Characterise, characterise};

/// What to do with logs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Trace {
    Characterise(Box<Characterise>),
}

/// Does it.
pub(crate) fn trace(command: &Trace) -> anyhow::Result<()> {
    match command {
        Trace::Characterise(arguments) => characterise(arguments),
    }
}
