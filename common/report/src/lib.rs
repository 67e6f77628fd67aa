//! Charts and pages: what was measured, as one file that anybody can open.
//!
//! The one idea: a page is self-contained. No script, font or style comes from elsewhere, so a
//! result that was kept can be read in ten years. Charts are SVG written here, because the colours
//! must follow the reader's light or dark theme, every chart needs a description for those who
//! cannot see it, and the libraries that draw charts fix colours as they draw.
//!
//! Invariants: text from outside is escaped; a value that is no finite number is left out and said
//! to be; same input, same bytes; a file is written whole or not at all.

mod chart;
mod command_line;
mod disk_trace;
mod figures;
mod html;
mod journal;
mod output;
mod page;
mod standard_error;
mod table;

pub use chart::{Axis, Bar, Bars, Boxes, Bubbles, Chart, Figure, Point, Series};
pub use command_line::{command_line, shell_word};
pub use disk_trace::{DiskAccess, DiskTraceError, read_disk_trace};
pub use figures::{
    disk_layout, divergence_by_size, latency_cdf, lba_over_transactions, maximum_rates,
};
pub use journal::{Priority, error_prefix, is_journal};
pub use output::{IsInput, Output, outputs_are_no_inputs, write_output};
pub use page::{Page, Section, WriteError};
pub use standard_error::say_line;
pub use table::{Cell, Table};
