//! The configuration: file and flags, checked as a whole.
//!
//! There are two stages. The text is parsed by one table of rows (`keys.rs`, and the engine's own),
//! which also generates the manual. Its meaning is a [`Config`], in which every value is valid and
//! no two values contradict each other.
//!
//! Invariants: every mistake is reported, not only the first, including those that depend on this
//! machine; checking opens only the configuration file, folders and, briefly, logs; it binds no
//! port and reads no title; each default is defined once. Nothing here changes a running server: a
//! reload loads a second `Config`, and the caller applies the difference.

mod changes;
mod check;
mod cors;
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
mod process_memory;
mod pulls;
mod settings;
mod sites;
mod steering;
#[cfg(test)]
mod tests;
mod warnings;

pub use changes::Changes;
pub use headlong_net::ValidityProblem;
pub use headlong_settings::Mistakes;
pub use keys::{device_rows, disk_rows, page_of};
pub use load::{Flags, time_scale};
pub use machine::names;
pub use manual::{Section, manual, manual_expert, sections};
pub use memory::memory_available;
pub use path_rule::{
    AccessCheckRule, AccessPolicy, AuthBy, ListingFormat, Packaging, PathRule, Site, TokenLocation,
    site_prefix,
};
pub use process_memory::{
    MemoryParts, PACKAGE_READING_BYTES, PACKAGE_SEGMENT_BYTES, PACKAGE_STORING_BYTES,
};
pub use settings::{
    Admin, ClientLimits, Config, Cors, DeviceOverride, EtagTime, Gzip, ListenSetting, Log,
    LogLevel, Pacing, Proxies, ReplyField, SessionKeys, Tcp, Tls,
};
pub use steering::SteeringSettings;
