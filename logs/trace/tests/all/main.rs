//! Log formats and the report.

mod characterised;
mod real_formats;
