//! Standard output, which may be closed before all is said.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use crate::mistake::Mistakes;

/// Prints; a reader that had enough is no failure of ours.
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

/// That files can be put where options say, so that nobody learns after hours of work that a folder
/// is not there.
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
                "{option} {shown}: there is no folder {folder}; make it, or name another file"
            ));
        }
    }
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Mistakes(mistakes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_no_folder_is_told_before_the_work() {
        let told = |file: &str| have_folders(&[("--html", Some(Path::new(file)))]);
        let Err(Mistakes(wrong)) = told("/no/such/folder/a.html") else {
            panic!("there is no such folder");
        };
        let text = "--html /no/such/folder/a.html: there is no folder /no/such/folder; make it, or \
                    name another file";
        assert_eq!(wrong, [text]);
        assert!(told("/").is_err(), "a folder");
        assert!(told("a.html").is_ok());
        assert!(have_folders(&[("--html", None)]).is_ok());
    }
}
