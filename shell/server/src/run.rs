//! The server as a whole: from a checked configuration to listeners and devices, and to a stop.

use crate::config::Config;

/// Why the server did not start, or did not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// This build holds the parts, but nothing that joins them.
    #[error("this build cannot serve yet: its parts are not joined; use a later one")]
    NotAssembled,
}

/// Serves until it is told to stop. `config` has passed [`Config::check_machine`].
pub fn run(config: Config) -> Result<(), RunError> {
    drop(config);
    Err(RunError::NotAssembled)
}
