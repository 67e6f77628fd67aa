//! What an operator may say, in a file and in flags, checked as a whole.
//!
//! The one idea: two stages, *typed* and *meant*. What was typed is read key by key through one
//! table (`keys.rs`), which also writes the manual; what it means is a [`Config`] in which every
//! value is right by itself and no two contradict each other.
//!
//! Invariants: every error is reported, not the first; [`Config::load`] opens nothing but the
//! configuration file; [`Config::check_machine`] looks at folders and certificates, but binds no
//! port and reads no title; a default exists once. Nothing here changes a running server: a
//! reload loads a second `Config`, and the caller decides what to do with the difference.

mod check;
mod engine;
mod error;
mod keys;
mod load;
mod machine;
mod manual;
mod settings;
#[cfg(test)]
mod tests;
mod texts;
mod value;

pub use error::{ConfigError, ConfigErrors, Place};
pub use load::Flags;
pub use manual::manual;
pub use settings::{
    AccessFormat, Admin, Config, Cors, DeviceOverride, Io, Limits, Log, LogLevel, LogSink,
    Prefetch, ServerTiming, SessionKeys, Tcp, Tls,
};
