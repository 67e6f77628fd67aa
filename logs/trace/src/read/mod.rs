//! Lines of logs, in every format that is known.
//!
//! The one idea: a format is data: a pattern ([`template`]), a line of names ([`columns`]) or keys of
//! JSON ([`json`]). Three readers find the pieces of text in a line ([`row`]), and one place decides
//! what they mean together ([`entry`]). What a log is in is said by the caller or recognised by its
//! head ([`recognise`]).
//!
//! Invariants: no line makes a reader panic; what a line says depends on the line (and, for
//! columns, on the header) alone.

pub(crate) mod advice;
pub(crate) mod alias;
pub(crate) mod columns;
pub(crate) mod device;
pub(crate) mod entry;
pub(crate) mod format;
pub(crate) mod json;
pub(crate) mod number;
mod range;
pub(crate) mod reader;
mod reason;
pub(crate) mod recognise;
pub(crate) mod row;
pub(crate) mod source;
pub(crate) mod template;
mod understand;
mod variables;

pub(crate) use advice::{Lack, lines_to_copy};
pub use alias::{FieldMap, FieldMapError};
pub use format::{Format, FormatError};
pub(crate) use reader::{Reader, trimmed};
pub use reason::Reason;
pub use template::TemplateError;
pub use understand::{NotUnderstood, Understood, understand};
