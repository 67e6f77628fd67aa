//! `headlong disk layout`: where files and titles lie on their disk.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::json;

use crate::decimal_bytes::decimal_bytes;
use crate::error::SurveyError;
use crate::layout::{Layout, TitleLayout, TitleRule};
use crate::layout_page::page;
use crate::layout_tables::{table, tell_apart};
use crate::output::{check_folder, print};

/// Most fragmented titles and outliers that are listed.
const LISTED_MAX: usize = 10;

/// What to look at, and what to tell.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk layout /srv/videos
  headlong disk layout /srv/whole --beside /srv/chunked --report layout.html
  headlong disk layout /srv/videos --json | jq '.layout.titles[] | select(.is_outlier) | .name'")]
pub struct LayoutArgs {
    /// Folder that holds titles
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// A folder of the same titles to compare with: how far titles of one name lie apart
    #[arg(long, value_name = "DIR2")]
    beside: Option<PathBuf>,
    /// What a title is: auto (a folder with a manifest, or with a number for a name and numbered
    /// files, else a file), files (each file), folders (each folder)
    #[arg(long, value_name = "RULE", default_value = "auto")]
    titles: Rule,
    /// List every title, not only the remarkable ones
    #[arg(long)]
    all: bool,
    /// Print everything as one JSON object, extents included
    #[arg(long)]
    json: bool,
    /// Write a page with charts
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Rule {
    Auto,
    Files,
    Folders,
}

impl From<Rule> for TitleRule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Auto => Self::Automatic,
            Rule::Files => Self::Files,
            Rule::Folders => Self::Folders,
        }
    }
}

/// Looks and tells.
///
/// # Errors
/// If a folder cannot be looked at, or a page cannot be written.
pub fn layout(laying_out: &LayoutArgs) -> Result<(), SurveyError> {
    let report = laying_out.report.as_deref();
    if let Some(problem) = report.and_then(|path| check_folder("--report", path)) {
        return Err(SurveyError::mistake(problem));
    }
    let look = |directory| Layout::of(directory, laying_out.titles.into());
    let first = look(&laying_out.directory)?;
    let second = laying_out.beside.as_deref().map(look).transpose()?;
    let apart = match &second {
        Some(second) => Some(first.divergence_from(second)?),
        None => None,
    };
    if let Some(path) = &laying_out.report {
        page(&first, second.as_ref(), apart.as_ref())
            .write(path)
            .map_err(SurveyError::mistake)?;
    }
    if laying_out.json {
        let beside = second.as_ref().map(
            |second| json!({ "summary": second.summary(), "layout": second, "divergence": apart }),
        );
        let all = json!({ "summary": first.summary(), "layout": first, "beside": beside });
        return Ok(print(&format!("{all}\n"))?);
    }
    let mut text = tell(&first, laying_out.all);
    if let (Some(second), Some(apart)) = (&second, &apart) {
        text.push('\n');
        text.push_str(&tell(second, laying_out.all));
        text.push('\n');
        text.push_str(&tell_apart(apart));
    }
    Ok(print(&text)?)
}

/// What a layout comes to, and what is remarkable in it.
fn tell(layout: &Layout, all: bool) -> String {
    let summary = layout.summary();
    let mut text = format!(
        "{}: {} titles, {} files, {} on {} ({} sectors)\n",
        layout.directory.display(),
        summary.titles,
        summary.files,
        decimal_bytes(summary.bytes),
        layout.device,
        layout.device_sectors,
    );
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "  {} files in more than one extent; {} titles in one run; {} per run",
        summary.fragmented_files,
        summary.contiguous_titles,
        decimal_bytes(summary.bytes_per_run as u64),
    );
    let _ = writeln!(
        text,
        "  {} titles ({:.1} %) out of sequence by more than 1 % of the disk, in order of {}",
        summary.outliers,
        100.0 * summary.outliers as f64 / summary.titles.max(1) as f64,
        if layout.order == "created" {
            "creation"
        } else {
            "name"
        },
    );
    if summary.titles_without_place > 0 {
        let _ = writeln!(
            text,
            "  {} titles have no place of their own (empty, or kept inside their inodes)",
            summary.titles_without_place
        );
    }
    if layout.files_elsewhere > 0 {
        let _ = writeln!(
            text,
            "  {} files lie on other disks and are not counted",
            layout.files_elsewhere
        );
    }
    if all {
        text.push('\n');
        text.push_str(&table(layout.titles.iter()).to_markdown());
        return text;
    }
    let mut torn: Vec<&TitleLayout> = layout
        .titles
        .iter()
        .filter(|title| title.runs > 1)
        .collect();
    torn.sort_by_key(|title| std::cmp::Reverse(title.runs));
    let mut outliers: Vec<&TitleLayout> = layout
        .titles
        .iter()
        .filter(|title| title.is_outlier)
        .collect();
    outliers.sort_by(|a, b| b.out_of_sequence_lba.total_cmp(&a.out_of_sequence_lba));
    for (name, titles) in [
        ("Most torn apart", torn),
        ("Farthest out of sequence", outliers),
    ] {
        if !titles.is_empty() {
            let listed = titles.into_iter().take(LISTED_MAX);
            let _ = write!(text, "\n{}", table(listed).caption(name).to_markdown());
        }
    }
    text
}
