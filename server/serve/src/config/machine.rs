//! Whether this machine has what a configuration names.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use headlong_units::Bytes;

use super::error::{ConfigErrors, Place};
use super::settings::{Config, LogSink};

impl Config {
    /// Whether this machine has what the configuration names: folders, certificates, folders for
    /// logs, and the memory. Reads folders and files; binds no port and reads no title.
    pub fn check_machine(&self) -> Result<(), ConfigErrors> {
        let mut errors = ConfigErrors::default();
        let mut wrong = |key: &str, text: String| errors.push(Place::Machine, key, text);
        let mut seen = BTreeMap::new();
        for root in &self.roots {
            if let Err(text) = check_root(root) {
                wrong("roots", text);
            } else if let Ok(real) = fs::canonicalize(root)
                && let Some(other) = seen.insert(real, root)
            {
                let (root, other) = (root.display(), other.display());
                wrong(
                    "roots",
                    format!("{root} is the same folder as {other}; name it once"),
                );
            }
        }
        let tls = [
            ("tls.certificate", &self.tls.certificate),
            ("tls.key", &self.tls.key),
        ];
        for (key, path) in tls {
            if let Some(path) = path
                && let Err(error) = File::open(path).and_then(|file| file.metadata())
            {
                let path = path.display();
                wrong(
                    key,
                    format!("{path} cannot be read: {error}; name a PEM file"),
                );
            }
        }
        for (key, sink) in [
            ("log.access", &self.log.access),
            ("log.sessions", &self.log.sessions),
        ] {
            if let LogSink::File(path) = sink
                && let Err(text) = check_log(path)
            {
                wrong(key, text);
            }
        }
        if let Some(folder) = &self.state
            && !folder.is_dir()
        {
            let name = folder.display();
            let text = format!("{name} is not a folder; make it, or remove state");
            wrong("state", text);
        }
        let machine = Bytes(memory_of_machine());
        if machine.0 > 0 && self.memory > machine {
            let text = format!(
                "{} is more than this machine has ({} MiB); lower memory",
                self.memory,
                machine.0 >> 20
            );
            wrong("memory", text);
        }
        errors.or(())
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

fn check_log(path: &Path) -> Result<(), String> {
    let name = path.display();
    if path.is_dir() {
        return Err(format!("{name} is a folder; name a file in it"));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if folder.is_dir() {
        return Ok(());
    }
    Err(format!(
        "{name} has no folder to be in; make {}",
        folder.display()
    ))
}

/// Bytes of memory, zero if the kernel does not say.
fn memory_of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}
