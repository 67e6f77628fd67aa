//! Parsing of log lines, in all known formats.
//!
//! A format is data: a pattern ([`template`]), a header ([`columns`]) or JSON keys ([`json`]).
//! Three readers split a line into fields ([`row`]), and [`entry`] interprets the fields of all
//! formats. The format is given by the caller or recognised from the head of the log
//! ([`recognise`]).
//!
//! Invariants: no line makes a reader panic; the result depends only on the line (and, for columns,
//! on the header).

pub(crate) mod alias;
pub(crate) mod columns;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod format;
pub(crate) mod json;
mod known;
pub(crate) mod number;
mod parsed_log;
pub(crate) mod reader;
mod reason;
pub(crate) mod recognise;
pub(crate) mod row;
pub(crate) mod source;
pub(crate) mod template;
mod variables;
pub(crate) mod viewer;
pub(crate) mod wrapper;

pub use alias::{FieldMap, FieldMapError};
pub use format::{Format, FormatError};
pub use parsed_log::{ParsedLog, ParsedLogError, understand};
pub(crate) use reader::{LineReader, trimmed};
pub use reason::DropReason;
pub use template::TemplateError;
pub use viewer::TrustedProxies;

#[cfg(test)]
mod line_tests;
