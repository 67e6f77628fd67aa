//! Setting what is advised, and setting it back.
//!
//! Before the first value is written, all that may change is kept in a file, whole or not at all.
//! Some settings bring others with them (another scheduler has its own number of requests; another
//! limit gives read-ahead its default), so values are written in a fixed order and read back at the
//! end.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::advice::{Remedy, advise};
use super::error::TuneError;
use super::facts::{Facts, System, chosen};

/// All files that are written, in an order in which none undoes the one before it.
const FILES: [&str; 4] = [
    "queue/scheduler",
    "queue/max_sectors_kb",
    "queue/nr_requests",
    "queue/read_ahead_kb",
];

/// One value that became another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The device.
    pub device: String,
    /// The file below its folder.
    pub file: String,
    /// What it was.
    pub from: String,
    /// What it is.
    pub to: String,
}

/// The values of one device, by file.
type Values = BTreeMap<String, String>;

/// What is kept until it is undone.
#[derive(Debug, Serialize, Deserialize)]
struct Former {
    /// The run of the kernel; with it end all values.
    boot: String,
    devices: Vec<FormerDevice>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FormerDevice {
    name: String,
    /// A number that no other device has in this run of the kernel.
    diskseq: Option<String>,
    values: Values,
}

/// Changes of one device and what it is made of, with the file of former values.
#[derive(Debug)]
pub struct Change<'a> {
    system: &'a System,
    device: String,
    path: PathBuf,
}

impl<'a> Change<'a> {
    /// Of the device of this name; former values are kept in this folder.
    pub fn new(system: &'a System, device: &str, state: &Path) -> Self {
        Self {
            system,
            device: device.to_owned(),
            path: state.join(format!("tune-{device}.json")),
        }
    }

    /// The file of former values.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets all that is off and is this device's own. Applied again, former values stay the first.
    ///
    /// # Errors
    /// If former values cannot be kept, or a value is refused; then nothing is changed.
    pub fn apply(&self, facts: &[Facts]) -> Result<Vec<Changed>, TuneError> {
        let wanted: Vec<(&str, Values)> = facts
            .iter()
            .map(|facts| (facts.name.as_str(), wanted(facts)))
            .filter(|(_, wanted)| !wanted.is_empty())
            .collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        for (name, wanted) in &wanted {
            self.check_writable(name, wanted)?;
        }
        let now = wanted.iter().map(|(name, _)| self.look(name));
        let now: Vec<FormerDevice> = now.collect();
        let kept = self.read()?;
        let is_first = kept.is_none();
        let mut devices = kept.map_or_else(Vec::new, |kept| kept.devices);
        for device in &now {
            if !devices.iter().any(|kept| kept.name == device.name) {
                devices.push(device.clone());
            }
        }
        let boot = self.system.boot();
        self.write(&Former { boot, devices })?;
        let mut changed = Vec::new();
        for ((name, mut wanted), before) in wanted.into_iter().zip(&now) {
            // Another limit of the queue sets read-ahead to its default.
            let read_ahead = before.values.get_key_value("queue/read_ahead_kb");
            wanted.extend(read_ahead.map(|(file, value)| (file.clone(), value.clone())));
            match self.set(name, &wanted) {
                Ok(mut these) => changed.append(&mut these),
                Err(refusal) => return Err(refusal.told(&self.set_back(&now, is_first))),
            }
        }
        Ok(changed)
    }

    /// Sets these devices back after a refusal, and says what came of it.
    fn set_back(&self, before: &[FormerDevice], is_first: bool) -> String {
        let set = |device: &FormerDevice| self.set(&device.name, &device.values).map(|_| ());
        let refused = before.iter().filter_map(|device| set(device).err());
        let refused: Vec<String> = refused
            .map(|refusal| format!("{} = {}", refusal.file.display(), refusal.value))
            .collect();
        if refused.is_empty() {
            if is_first {
                // A file that stays is of no harm: what it says is in force.
                let _ = fs::remove_file(&self.path);
            }
            return "everything is as it was".to_owned();
        }
        let refused = refused.join(", ");
        format!(
            "not set back: {refused}; former values are in {}",
            self.path.display()
        )
    }

    fn check_writable(&self, name: &str, wanted: &Values) -> Result<(), TuneError> {
        let folder = self.system.folder(name);
        for (file, value) in wanted {
            let path = folder.join(file);
            if let Err(error) = OpenOptions::new().write(true).open(&path) {
                return Err(Refusal::of(&path, value, error).told("nothing was changed"));
            }
        }
        Ok(())
    }

    /// Sets everything back to what it was before the first [`Self::apply`], and forgets it.
    ///
    /// # Errors
    /// If there is nothing to undo, or a value is refused.
    pub fn undo(&self) -> Result<Vec<Changed>, TuneError> {
        let Some(former) = self.read()? else {
            return Err(TuneError::NothingToUndo {
                device: self.device.clone(),
                path: self.path.clone(),
                hint: "settings end with the next boot by themselves, if no udev rule makes them"
                    .to_owned(),
            });
        };
        let mut changed = Vec::new();
        for device in &former.devices {
            let set = self.set(&device.name, &device.values);
            let path = self.path.display();
            let told = |refusal: Refusal| refusal.told(&format!("former values stay in {path}"));
            changed.append(&mut set.map_err(told)?);
        }
        fs::remove_file(&self.path).map_err(|source| self.state_error(source))?;
        Ok(changed)
    }

    /// What is in force now.
    fn look(&self, name: &str) -> FormerDevice {
        let folder = self.system.folder(name);
        let values = FILES
            .iter()
            .filter_map(|file| Some(((*file).to_owned(), read(&folder.join(file)).ok()?)));
        FormerDevice {
            name: name.to_owned(),
            diskseq: read(&folder.join("diskseq")).ok(),
            values: values.collect(),
        }
    }

    /// Writes what differs, in order, and looks at the end whether all is in force.
    fn set(&self, name: &str, wanted: &Values) -> Result<Vec<Changed>, Refusal> {
        let folder = self.system.folder(name);
        let in_order = || {
            let files = FILES.iter().filter_map(|file| wanted.get_key_value(*file));
            files.map(|(file, value)| (file, value, folder.join(file)))
        };
        let before: Values = in_order()
            .filter_map(|(file, _, path)| Some((file.clone(), read(&path).ok()?)))
            .collect();
        for (_, value, path) in in_order() {
            if read(&path).ok().as_ref() != Some(value) {
                write(&path, value).map_err(|error| Refusal::of(&path, value, error))?;
            }
        }
        for (_, value, path) in in_order() {
            let found = read(&path).map_err(|error| Refusal::of(&path, value, error))?;
            if found != *value {
                let error = io::Error::other(format!("it stays `{found}`"));
                return Err(Refusal::of(&path, value, error));
            }
        }
        let changed = in_order().filter_map(|(file, value, _)| {
            let from = before.get(file).filter(|from| *from != value)?;
            Some(Changed {
                device: name.to_owned(),
                file: file.clone(),
                from: from.clone(),
                to: value.clone(),
            })
        });
        Ok(changed.collect())
    }

    /// What is kept of devices that are still the same, if any is.
    fn read(&self) -> Result<Option<Former>, TuneError> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|source| self.state_error(source))?,
        };
        let mut former: Former =
            serde_json::from_slice(&text).map_err(|error| self.state_error(error.into()))?;
        let is_same = |device: &FormerDevice| self.look(&device.name).diskseq == device.diskseq;
        former.devices.retain(is_same);
        let is_current = former.boot == self.system.boot() && !former.devices.is_empty();
        Ok(Some(former).filter(|_| is_current))
    }

    /// A new file takes the old one's name once all of it is on the disk.
    fn write(&self, former: &Former) -> Result<(), TuneError> {
        let new = self.path.with_extension("json.new");
        let written = || -> io::Result<()> {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            let mut file = fs::File::create(&new)?;
            file.write_all(&serde_json::to_vec_pretty(former)?)?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        written().map_err(|source| self.state_error(source))
    }

    fn state_error(&self, source: io::Error) -> TuneError {
        let path = self.path.clone();
        TuneError::State { path, source }
    }
}

/// What the advice comes to in files.
fn wanted(facts: &Facts) -> Values {
    let rows = advise(facts).into_iter().filter(|row| row.is_off());
    let values = rows.filter_map(|row| match row.remedy? {
        Remedy::Write { file, value } => Some((file.to_owned(), value)),
        Remedy::ByHand(_) => None,
    });
    values.collect()
}

/// A value that was not taken.
struct Refusal {
    file: PathBuf,
    value: String,
    error: io::Error,
}

impl Refusal {
    fn of(path: &Path, value: &str, error: io::Error) -> Self {
        Self {
            file: path.to_path_buf(),
            value: value.to_owned(),
            error,
        }
    }

    /// As an error that says what became of everything else.
    fn told(self, rest: &str) -> TuneError {
        match self.error.kind() {
            io::ErrorKind::PermissionDenied => TuneError::NotRoot(self.file),
            io::ErrorKind::ReadOnlyFilesystem => TuneError::ReadOnly(self.file),
            _ => TuneError::Refused {
                file: self.file,
                value: self.value,
                reason: self.error.to_string(),
                rest: rest.to_owned(),
            },
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    Ok(chosen(&text).unwrap_or_default())
}

/// Into a file that is there: the kernel makes them.
fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(value.as_bytes())
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
