//! `headlong disk layout`: where files and titles lie on their disk.

use std::fmt::Write as _;
use std::path::PathBuf;

use headlong_report::{Cell, Table};
use headlong_units::Bytes;
use headlong_vdisk::layout::{Divergence, Layout, LayoutError, TitleLayout, TitleRule};
use serde_json::json;

use super::{check_folder, layout_page, mistake, print};

/// Most fragmented titles and outliers that are listed.
const LISTED_MAX: usize = 10;

/// What to look at, and what to tell.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  headlong disk layout /srv/videos
  headlong disk layout /srv/whole --beside /srv/chunked --report layout.html
  headlong disk layout /srv/videos --json | jq '.layout.titles[] | select(.is_outlier) | .name'")]
pub(crate) struct LayingOut {
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
pub(crate) fn layout(laying_out: &LayingOut) -> anyhow::Result<()> {
    let report = laying_out.report.as_deref();
    if let Some(problem) = report.and_then(|path| check_folder("--report", path)) {
        return Err(mistake(problem));
    }
    let look = |directory| Layout::of(directory, laying_out.titles.into()).map_err(told);
    let first = look(&laying_out.directory)?;
    let second = laying_out.beside.as_deref().map(look).transpose()?;
    let apart = match &second {
        Some(second) => Some(first.divergence_from(second).map_err(told)?),
        None => None,
    };
    if let Some(path) = &laying_out.report {
        let page = layout_page::page(&first, second.as_ref(), apart.as_ref());
        page.write(path).map_err(mistake)?;
    }
    if laying_out.json {
        let beside = second.as_ref().map(
            |second| json!({ "summary": second.summary(), "layout": second, "divergence": apart }),
        );
        let all = json!({ "summary": first.summary(), "layout": first, "beside": beside });
        return print(&format!("{all}\n"));
    }
    let mut text = tell(&first, laying_out.all);
    if let (Some(second), Some(apart)) = (&second, &apart) {
        text.push('\n');
        text.push_str(&tell(second, laying_out.all));
        text.push('\n');
        text.push_str(&tell_apart(apart));
    }
    print(&text)
}

fn told(error: LayoutError) -> anyhow::Error {
    match error.is_mistake() {
        true => mistake(error),
        false => error.into(),
    }
}

/// What a layout comes to, and what is remarkable in it.
fn tell(layout: &Layout, all: bool) -> String {
    let summary = layout.summary();
    let mut text = format!(
        "{}: {} titles, {} files, {} on {} ({} sectors)\n",
        layout.directory.display(),
        summary.titles,
        summary.files,
        people(summary.bytes),
        layout.device,
        layout.device_sectors,
    );
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(
        text,
        "  {} files in more than one extent; {} titles in one run; {} per run",
        summary.fragmented_files,
        summary.contiguous_titles,
        people(summary.bytes_per_run as u64),
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

pub(super) fn table<'a>(titles: impl Iterator<Item = &'a TitleLayout>) -> Table {
    let heads = [
        "Title",
        "Bytes",
        "Files",
        "Runs",
        "Mean LBA",
        "Out of sequence (LBA)",
    ];
    let mut table = Table::new(heads);
    for title in titles {
        table.push([
            title.name.as_str().into(),
            title.bytes.into(),
            title.files.len().into(),
            title.runs.into(),
            title
                .mean_lba
                .map_or(Cell::Missing, |lba| Cell::number(lba, 0)),
            Cell::number(title.out_of_sequence_lba, 0),
        ]);
    }
    table
}

pub(super) fn tell_apart(apart: &Divergence) -> String {
    format!(
        "Titles of one name lie {:.0} sectors apart on average ({:.2} % of the disk): {} compared, {} \
         outliers not counted, {} titles in one folder only\n",
        apart.mean_lba,
        apart.share * 100.0,
        apart.titles.len() as u64 - apart.outliers,
        apart.outliers,
        apart.unmatched,
    )
}

/// Bytes as people read them, to three digits.
pub(super) fn people(bytes: u64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => Bytes(bytes).to_string(),
        _ => format!(
            "{value:.*} {}",
            if value < 9.995 {
                2
            } else {
                usize::from(value < 99.95)
            },
            units[unit]
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_three_digits() {
        for (bytes, text) in [
            (999, Bytes(999).to_string()),
            (1_000, "1.00 KB".into()),
            (52_428_800, "52.4 MB".into()),
            (999_600_000, "1.00 GB".into()),
            (1_000_204_886_016, "1.00 TB".into()),
            (146_815_737_856, "147 GB".into()),
        ] {
            assert_eq!(people(bytes), text);
        }
    }
}
