//! Standard output that may be closed early, progress, and reports.

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;

use headlong_characterise::Characterisation;
use indicatif::{ProgressBar, ProgressStyle};

use crate::mistake::Mistakes;

/// Prints; a closed pipe is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints a line.
pub(crate) fn print_line(line: &str) -> anyhow::Result<()> {
    print(&format!("{line}\n"))
}

/// Checks that output files can be created, so that a missing folder is reported before hours of
/// work.
pub(crate) fn have_folders(files: &[(&str, Option<&Path>)]) -> Result<(), Mistakes> {
    let mut mistakes = Vec::new();
    for (option, file) in files {
        let Some(file) = file else { continue };
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let shown = file.display();
        if file.is_dir() {
            mistakes.push(format!("{option} {shown}: is a folder; name a file"));
        } else if !folder.is_dir() {
            let folder = folder.display();
            mistakes.push(format!(
                "{option} {shown}: there is no folder {folder}; create it, or name another file"
            ));
        }
    }
    Mistakes::if_any(mistakes)
}

/// Progress over so many requests, on a terminal.
pub(crate) fn counting(requests: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(requests);
    let style = format!("{what} {{wide_bar}} {{pos}}/{{len}} {{eta}}");
    if let Ok(style) = ProgressStyle::with_template(&style) {
        bar.set_style(style);
    }
    bar
}

/// Tables of the text; the page and JSON have all.
const TEXT_TABLES: [&str; 8] = [
    "table-5.1",
    "table-viewers",
    "table-titles",
    "table-failures",
    "table-stores",
    "table-5.2",
    "table-5.4",
    "table-phases",
];

/// Prints a characterisation: as JSON, or a few of its tables.
pub(crate) fn print_report(result: &Characterisation, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_line(&serde_json::to_string_pretty(result)?);
    }
    let mut text = String::from("\n");
    for id in TEXT_TABLES {
        for table in result.tables().filter(|table| table.id == id) {
            text.push_str(&headlong_trace::text(table));
            text.push('\n');
        }
    }
    if result.sessions_left_out > 0 {
        text.push_str(&format!(
            "Tables of requests, chains and phases are without the {} sessions that start near the \
             end of the log and still run there.\n",
            result.sessions_left_out
        ));
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_missing_output_folder_first() {
        let check_folders = |file: &str| have_folders(&[("--html", Some(Path::new(file)))]);
        let Err(Mistakes(wrong)) = check_folders("/no/such/folder/a.html") else {
            panic!("there is no such folder");
        };
        let text = "--html /no/such/folder/a.html: there is no folder /no/such/folder; create it, \
                    or name another file";
        assert_eq!(wrong, [text]);
        assert!(check_folders("/").is_err(), "a folder");
        assert!(check_folders("a.html").is_ok());
        assert!(have_folders(&[("--html", None)]).is_ok());
    }
}
