//! Whether this machine has what a configuration names.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use headlong_library::devices_of;
use headlong_settings::{Document, Place};
use headlong_units::{Bytes, KIB};
use rustix::fs::{Access, OFlags, access};

use super::settings::{Config, LogSink};
use crate::start;

impl Config {
    /// Notes what this machine lacks: folders, certificates, places for logs, devices, memory. Reads
    /// folders and files; binds no port, makes no file and reads no title.
    pub(super) fn check_machine(&self, document: &mut Document) {
        self.check_roots(document);
        self.check_logs(document);
        let tls = [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
        ];
        for (key, path) in tls {
            if let Some(path) = path
                && let Err(error) = File::open(path).and_then(|file| file.metadata())
            {
                let path = path.display();
                document.wrong(
                    key,
                    format!("{path} cannot be read: {error}; name a PEM file"),
                );
            }
        }
        if let Some(folder) = self.state.as_ref().filter(|folder| !folder.is_dir()) {
            let name = folder.display();
            let text = format!("{name} is not a folder; make it, or remove state");
            document.wrong("state", text);
        }
        let (memory, machine) = (self.engine.memory_bytes, memory_of_machine());
        if machine > 0 && memory > machine {
            let text = format!(
                "{} is more than this machine has ({}); lower memory",
                Bytes(memory),
                Bytes(machine - machine % (KIB * KIB))
            );
            document.wrong_too("memory", text);
        }
        self.check_devices(document);
    }

    fn check_roots(&self, document: &mut Document) {
        let mut seen: Vec<(PathBuf, &PathBuf)> = Vec::new();
        for root in &self.roots {
            if let Err(text) = check_root(root) {
                document.wrong("roots", text);
                continue;
            }
            let Ok(real) = fs::canonicalize(root) else {
                continue;
            };
            if let Some((_, other)) = seen.iter().find(|(there, _)| *there == real) {
                let (root, other) = (root.display(), other.display());
                let text = format!("{root} is the same folder as {other}; name it once");
                document.wrong("roots", text);
            }
            seen.push((real, root));
        }
    }

    fn check_logs(&self, document: &mut Document) {
        let mut other = None;
        for (key, sink) in [
            ("log.access", &self.log.access),
            ("log.sessions", &self.log.sessions),
        ] {
            let LogSink::File(path) = sink else {
                continue;
            };
            if let Err(text) = check_log(path) {
                document.wrong(key, text);
                continue;
            }
            let real = real_path(path);
            let mut roots = self.roots.iter();
            let around =
                |root: &&PathBuf| fs::canonicalize(root).is_ok_and(|root| real.starts_with(root));
            if let Some(root) = roots.find(around) {
                let text = format!(
                    "{} lies in {}, which is served: viewers could read it; write it elsewhere",
                    path.display(),
                    root.display()
                );
                document.wrong(key, text);
            }
            if other.as_ref() == Some(&real) {
                let text = format!(
                    "{} is the file of log.access too; give each log a file of its own",
                    path.display()
                );
                document.wrong(key, text);
            }
            other = Some(real);
        }
    }

    /// Whether the settings fit the devices that the roots lie on.
    fn check_devices(&self, document: &mut Document) {
        let Ok(devices) = devices_of(&self.roots) else {
            // What is wrong with the roots is said already.
            return;
        };
        if let Err(mistakes) = self.engines_for(&start::names(&devices)) {
            for mistake in mistakes.iter().filter(|_| !self.roots.is_empty()) {
                match document.is_written(&mistake.key) {
                    true => document.wrong_too(&mistake.key, &mistake.text),
                    false => document
                        .mistakes
                        .push(Place::Machine, &mistake.key, &mistake.text),
                }
            }
        }
    }
}

fn check_root(root: &Path) -> Result<(), String> {
    let name = root.display();
    let metadata = fs::metadata(root)
        .map_err(|error| format!("{name} cannot be found: {error}; name a folder that exists"))?;
    if !metadata.is_dir() {
        return Err(format!(
            "{name} is not a folder; name the folder that holds the titles"
        ));
    }
    fs::read_dir(root).map(drop).map_err(|error| {
        format!("{name} cannot be read: {error}; let the server's user read and enter it")
    })
}

/// Whether a log could be written there; nothing is made.
fn check_log(path: &Path) -> Result<(), String> {
    let name = path.display();
    if path.is_dir() {
        return Err(format!("{name} is a folder; name a file in it"));
    }
    // Without waiting for a reader, if it is a pipe.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .append(true)
        .custom_flags(flags)
        .open(path);
    let remedy = "let the server's user write it, or name another file";
    match opened {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = folder_of(path);
            if !folder.is_dir() {
                let folder = folder.display();
                return Err(format!("{name} has no folder to be in; make {folder}"));
            }
            access(folder, Access::WRITE_OK | Access::EXEC_OK)
                .map_err(|error| format!("{name} cannot be made: {error}; {remedy}"))
        }
        // A pipe that nobody reads yet.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            Ok(())
        }
        Err(error) => Err(format!("{name} cannot be written: {error}; {remedy}")),
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Without links, as far as it exists.
fn real_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let folder = folder_of(path);
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        folder.join(path.file_name().unwrap_or_default())
    })
}

/// Bytes of memory, zero if the kernel does not say.
fn memory_of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}
