//! What an operator may say, in a file and in flags, checked as a whole.
//!
//! The one idea: two stages, *typed* and *meant*. What was typed is read by one set of rows
//! (`keys.rs`, and the engine's own), which also write the manual; what it means is a [`Config`] in
//! which every value is right by itself and no two contradict each other.
//!
//! Invariants: every mistake is reported, not the first, those that only this machine knows
//! included; nothing is opened but the configuration file, logs for a moment and folders, no port
//! is bound and no title read; a default exists once. Nothing here changes a running server: a
//! reload loads a second `Config`, and the caller decides what to do with the difference.

mod changes;
mod check;
mod engine;
mod ill_parts;
mod keys;
mod kinds;
mod load;
mod machine;
mod manual;
mod memory;
mod path_rule;
mod paths;
mod pull_rule;
mod pulls;
mod settings;
#[cfg(test)]
mod tests;

pub use changes::Changes;
pub use headlong_settings::Mistakes;
pub use keys::{device_rows, disk_rows};
pub use load::Flags;
pub use manual::manual;
pub use memory::memory_available;
pub use path_rule::{Access, AuthBy, Door, PathRule};
pub use pull_rule::{PullRule, target_of};
pub use settings::{
    Admin, Config, Cors, DeviceOverride, Limits, ListenOn, Log, LogLevel, Pacing, Proxies,
    ServerTiming, SessionKeys, Tcp, Tls,
};
