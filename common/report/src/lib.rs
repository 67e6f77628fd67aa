//! Charts and pages: measurement results in one file that anybody can open.
//!
//! A page is self-contained. No script, font or style comes from elsewhere, so a stored result can
//! still be read in ten years. Charts are written here as SVG, because their colours must follow
//! the light or dark theme of the reader, every chart needs a description for people who cannot see
//! it, and chart libraries fix the colours when they draw.
//!
//! Invariants: external text is escaped; a value that is not finite is omitted and reported; the
//! same input gives the same bytes; a file is written completely or not at all.

mod chart;
mod html;
mod output;
mod page;
mod standard_error;
mod table;

pub use chart::{
    Axis, Bar, Bars, Boxes, Bubbles, Chart, Figure, Point, Series, divergence_by_size,
    group_thousands, latency_cdf, lba_over_transactions, maximum_rates,
};
pub use output::{Output, OutputIsInput, outputs_are_no_inputs, write_output};
pub use page::{Page, Section, WriteError};
pub use standard_error::{Priority, command_line, error_prefix, is_journal, say_line, shell_word};
pub use table::{Cell, Column, Table};
