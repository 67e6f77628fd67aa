//! The daemon's own log: text on standard error. The journal adds times itself and receives the
//! level of each line.

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use super::lossy::LossyQueue;

/// Error of the daemon's log.
#[derive(Debug, thiserror::Error)]
pub enum DaemonLogError {
    /// Neither a level nor a list of filters.
    #[error(
        "`{level}` is not a log level: {reason}; \
         write error, warn, info, debug or trace, or filters such as headlong=debug,hyper=warn"
    )]
    Level {
        /// The given text.
        level: String,
        /// Parser error.
        reason: tracing_subscriber::filter::ParseError,
    },
    /// Logging was initialized before.
    #[error("logging is already initialized: {0}; initialize it once")]
    Twice(#[from] TryInitError),
    /// The log no longer exists.
    #[error("cannot change the log level: {0}; restart the server")]
    Gone(#[from] reload::Error),
}

/// Handle to the running log.
#[derive(Debug, Clone)]
pub struct DaemonLog {
    level: reload::Handle<EnvFilter, Registry>,
    lines: LossyQueue,
}

/// Initializes the log, once. `RUST_LOG` takes precedence over `level`.
pub fn init_daemon_log(level: &str) -> Result<DaemonLog, DaemonLogError> {
    let from_environment = std::env::var("RUST_LOG").ok();
    let wanted = from_environment.as_deref().filter(|text| !text.is_empty());
    let (filter, handle) = reload::Layer::new(parse(wanted.unwrap_or(level))?);
    let is_journal = headlong_report::is_journal();
    let lines = LossyQueue::new(io::stderr(), is_journal);
    let text = fmt::layer()
        .with_writer(lines.clone())
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    let text = match is_journal {
        true => text.without_time().with_level(false).boxed(),
        false => text.boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(text)
        .try_init()?;
    Ok(DaemonLog {
        level: handle,
        lines,
    })
}

impl DaemonLog {
    /// Sets another level; on error the current one stays in force.
    pub fn set_level(&self, level: &str) -> Result<(), DaemonLogError> {
        Ok(self.level.reload(parse(level)?)?)
    }

    /// Waits until queued lines are written, up to a limit.
    pub fn flush(&self) {
        self.lines.flush();
    }
}

/// The library warns once per connection about client behaviour that the server counts and logs
/// itself.
const HTTP2_LIBRARY: &str = "h2";
const HTTP2_LIBRARY_LEVEL: &str = ",h2=error";

fn parse(level: &str) -> Result<EnvFilter, DaemonLogError> {
    let mut directives = level.to_owned();
    if !level.contains(HTTP2_LIBRARY) {
        directives += HTTP2_LIBRARY_LEVEL;
    }
    EnvFilter::builder()
        .parse(directives)
        .map_err(|reason| DaemonLogError::Level {
            level: level.to_owned(),
            reason,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_levels_and_filters_and_names_bad_ones() {
        for good in ["info", "headlong=debug,hyper=warn"] {
            parse(good).expect(good);
        }
        let shown = |level: &str| parse(level).expect(level).to_string();
        assert!(shown("info").contains("h2=error"));
        assert!(!shown("info,h2=debug").contains("h2=error"));
        let error = parse("a=loud").expect_err("no level").to_string();
        assert!(
            error.contains("a=loud") && error.contains("debug"),
            "{error}"
        );
    }
}
