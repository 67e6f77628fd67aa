//! The daemon's own log: text to standard error, where systemd and people look for it. The journal
//! keeps times itself, and is told the level of each line.

use std::io::{self, IsTerminal};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use super::lossy::Lossy;

/// The daemon's log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum DaemonLogError {
    /// Neither a level nor a list of filters.
    #[error(
        "`{level}` is no log level: {reason}; \
         write error, warn, info, debug or trace, or filters such as headlong=debug,hyper=warn"
    )]
    Level {
        /// What was asked for.
        level: String,
        /// What is wrong with it.
        reason: tracing_subscriber::filter::ParseError,
    },
    /// A log is set up already.
    #[error("the log is already set up: {0}; set it up once")]
    Twice(#[from] TryInitError),
    /// The log that was set up is gone.
    #[error("the log level cannot be changed: {0}; restart the server")]
    Gone(#[from] reload::Error),
}

/// Changes the level of the running log.
#[derive(Debug, Clone)]
pub struct DaemonLog {
    level: reload::Handle<EnvFilter, Registry>,
    lines: Lossy,
}

/// Sets the log up, once. `RUST_LOG` wins over `level`.
pub fn init_daemon_log(level: &str) -> Result<DaemonLog, DaemonLogError> {
    let from_environment = std::env::var("RUST_LOG").ok();
    let wanted = from_environment.as_deref().filter(|text| !text.is_empty());
    let (filter, handle) = reload::Layer::new(parse(wanted.unwrap_or(level))?);
    let is_journal = headlong_report::is_journal();
    let lines = Lossy::new(io::stderr(), is_journal);
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
    /// Another level, from now on; on error the present one stays.
    pub fn set_level(&self, level: &str) -> Result<(), DaemonLogError> {
        Ok(self.level.reload(parse(level)?)?)
    }

    /// Waits until what was said is written, but not for ever.
    pub fn flush(&self) {
        self.lines.flush();
    }
}

/// It warns once a connection of what clients do, which the server counts and says itself.
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
    fn levels_and_filters_are_understood_and_others_named() {
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
