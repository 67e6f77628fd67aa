//! Configured parts that are unavailable on this machine. The server starts without them, serves
//! the rest and retries them, so they are not configuration mistakes.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use headlong_edge::store_folder;
use headlong_library::inspect_roots;
use headlong_settings::one_line;
use headlong_storage::flash;
use headlong_telemetry::LogTarget;
use headlong_telemetry::degraded_parts::cannot_write;
use rustix::fs::{Access, Mode, OFlags, access, open};

use crate::machine::{folder_of, is_pipe};
use crate::settings::Config;

impl Config {
    /// A message for each part that is unavailable now: roots, SSDs of the flash tier, logs,
    /// `state`, `acme_folder`, folders of edges. Reads folders and leaves no file behind.
    pub fn ill_parts(&self) -> Vec<String> {
        let mut ill = Vec::new();
        let mut add = |key: &str, text: String| ill.push(one_line(&format!("{key}: {text}")));
        for error in inspect_roots(&self.folders(), self.link_targets.len())
            .map_or(Vec::new(), |seen| seen.missing)
        {
            add(&self.key_of_folder(&error), error.to_string());
        }
        for error in flash::check_ssds(&self.flash, self.engine.piece_bytes, 1) {
            add("flash", error.to_string());
        }
        for (key, sink) in self.log.sinks() {
            if let LogTarget::File(path) = sink
                && let Err(text) = check_log(path)
            {
                add(key, text);
            }
        }
        for (table, prefix, rule) in self.pulls() {
            // The server's own folder may belong to another user.
            let own = store_folder(&rule.folder, prefix);
            let mut folders = own
                .ancestors()
                .take_while(|of| of.starts_with(&rule.folder));
            if let Some(folder) = folders.find(|folder| folder.is_dir())
                && let Err(error) = try_to_write(folder)
            {
                let text = cannot_write(&rule.folder, &error, "name another folder");
                add(&format!("{table}.folder"), text);
            }
        }
        if let Some(text) = self.state_trouble() {
            add("state", text);
        }
        if let Some(folder) = self.acme_folder.as_ref().filter(|of| !of.is_dir()) {
            let text = format!(
                "{} is not a folder; create it for the ACME client, or remove acme_folder",
                folder.display()
            );
            add("acme_folder", text);
        }
        ill
    }

    /// Why the `state` folder cannot be used, if it cannot.
    pub fn state_trouble(&self) -> Option<String> {
        let folder = self.state.as_ref()?;
        if !folder.is_dir() {
            let name = folder.display();
            return Some(format!(
                "{name} is not a folder; create it, or remove state"
            ));
        }
        let error = try_to_write(folder).err()?;
        Some(cannot_write(folder, &error, "remove state"))
    }
}

/// Tests whether files can be created in a folder; permissions alone do not show that, for example
/// in `/proc`. Leaves no file behind.
fn try_to_write(folder: &Path) -> std::io::Result<()> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    if open(folder, flags, Mode::RUSR | Mode::WUSR).is_ok() {
        return Ok(());
    }
    // Not every file system supports unnamed files.
    let file = folder.join(format!(".headlong-check.{}", std::process::id()));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)?;
    fs::remove_file(file)
}

/// Whether a log could be written to `path`. Creates nothing.
fn check_log(path: &Path) -> Result<(), String> {
    let name = path.display();
    if path.is_dir() {
        return Err(format!("{name} is a folder; name a file in it"));
    }
    // Opening and closing a pipe would signal end of file to its reader.
    if is_pipe(path) {
        return access(path, Access::WRITE_OK).map_err(|error| {
            format!("{name} cannot be written: {error}; give the server's user write access")
        });
    }
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .append(true)
        .custom_flags(flags)
        .open(path);
    let remedy = "give the server's user write access, or name another file";
    match opened {
        Ok(_) => Ok(()),
        Err(_) if fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()) => {
            Err(format!("{name} is a socket; name a file or a pipe"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = folder_of(path);
            if !folder.is_dir() {
                let folder = folder.display();
                return Err(format!(
                    "the folder of {name} does not exist; create {folder}"
                ));
            }
            access(folder, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| format!("{name} cannot be created: {error}; {remedy}"))
        }
        Err(error) => Err(format!("{name} cannot be written: {error}; {remedy}")),
    }
}
