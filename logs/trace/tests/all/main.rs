//! Log formats and the report.

mod characterised;
mod r_page;
mod real_formats;
