//! Parts that are out of service while the server runs. `/healthz`, `/status` and the metrics list
//! them; the log reports each loss and recovery.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

headlong_units::names! {
    /// Kind of a part.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum DegradedPartKind {
        /// A served folder.
        Root => "root",
        /// An SSD of the flash tier.
        Flash => "flash",
        /// The state folder.
        State => "state",
        /// A request log.
        Log => "log",
        /// The folder of an edge.
        Edge => "edge"
    }
}

/// A part out of service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DegradedPart {
    /// Name of its kind.
    pub kind: &'static str,
    /// Its path.
    pub name: String,
    /// Reason, with a remedy.
    pub reason: String,
}

/// The parts out of service, each with its reason. Bounded by the configuration, which names every
/// part.
#[derive(Debug, Default)]
pub struct DegradedParts(Mutex<BTreeMap<(DegradedPartKind, String), String>>);

impl DegradedParts {
    /// Marks a part as out of service.
    pub fn lose(&self, kind: DegradedPartKind, name: impl ToString, reason: impl ToString) {
        let (name, reason) = (name.to_string(), reason.to_string());
        let before = self.parts().insert((kind, name.clone()), reason.clone());
        if before.is_none() {
            tracing::error!(
                part = kind.name(),
                name,
                reason,
                "part out of service: the rest is served, and the part is retried"
            );
        }
    }

    /// Marks a part as in service.
    pub fn recover(&self, kind: DegradedPartKind, name: impl ToString) {
        let name = name.to_string();
        if self.parts().remove(&(kind, name.clone())).is_some() {
            tracing::info!(part = kind.name(), name, "part back in service");
        }
    }

    /// All parts out of service.
    pub fn list(&self) -> Vec<DegradedPart> {
        let parts = self.parts();
        let parts = parts.iter();
        parts
            .map(|((kind, name), reason)| DegradedPart {
                kind: kind.name(),
                name: name.clone(),
                reason: reason.clone(),
            })
            .collect()
    }

    /// Number of parts out of service per kind.
    pub fn counts(&self) -> impl Iterator<Item = (DegradedPartKind, u64)> + use<> {
        let parts = self.parts();
        let count = |kind| parts.keys().filter(|(of, _)| *of == kind).count() as u64;
        let counts: Vec<_> = DegradedPartKind::ALL
            .iter()
            .map(|kind| (*kind, count(*kind)))
            .collect();
        counts.into_iter()
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<(DegradedPartKind, String), String>> {
        // Each change under the lock is a single call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes why a folder is not writable, with a remedy.
pub fn cannot_write(folder: &Path, error: &std::io::Error, or: &str) -> String {
    let name = folder.display();
    let remedy = match error.kind() {
        ErrorKind::ReadOnlyFilesystem => "make it writable for the systemd unit by ReadWritePaths=",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space for it",
        ErrorKind::NotFound => "create it",
        _ => "give the server's user write access",
    };
    format!("{name} cannot be written to: {error}; {remedy}, or {or}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_each_part_once_until_it_recovers() {
        let parts = DegradedParts::default();
        parts.lose(DegradedPartKind::Flash, "/ssd", "empty");
        parts.lose(DegradedPartKind::Flash, "/ssd", "cannot be opened");
        parts.lose(DegradedPartKind::Root, "/srv", "no such directory");
        let names = |parts: &DegradedParts| -> Vec<_> {
            let list = parts.list().into_iter();
            list.map(|part| (part.kind, part.name, part.reason))
                .collect()
        };
        let flash = ("flash", "/ssd".to_owned(), "cannot be opened".to_owned());
        let root = ("root", "/srv".to_owned(), "no such directory".to_owned());
        assert_eq!(names(&parts), [root, flash.clone()]);
        parts.recover(DegradedPartKind::Root, "/srv");
        assert_eq!(names(&parts), [flash]);
        let counts: Vec<u64> = parts.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [0, 1, 0, 0, 0]);
    }
}
