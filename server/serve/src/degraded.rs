//! Parts of the server that are out of service while the rest serves. `/healthz`, `/status` and the
//! metrics list them; the log has a line when one is lost and one when it is back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

headlong_units::names! {
    /// What kind of part it is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum PartKind {
        /// A folder that is served.
        Root => "root",
        /// An SSD of the flash tier.
        Flash => "flash",
        /// The folder that keeps what was learned.
        State => "state",
        /// A log of requests.
        Log => "log",
        /// The folder of an edge.
        Edge => "edge"
    }
}

/// A part that is out of service.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DegradedPart {
    /// Its kind, by name.
    pub kind: &'static str,
    /// Its path.
    pub name: String,
    /// Why, with the remedy.
    pub reason: String,
}

/// The parts that are out of service now, each with the reason. Bounded by the configuration, which
/// names every part.
#[derive(Debug, Default)]
pub struct DegradedParts(Mutex<BTreeMap<(PartKind, String), String>>);

impl DegradedParts {
    /// This part cannot be used.
    pub fn lose(&self, kind: PartKind, name: impl ToString, reason: impl ToString) {
        let (name, reason) = (name.to_string(), reason.to_string());
        let before = self.parts().insert((kind, name.clone()), reason.clone());
        if before.is_none() {
            tracing::error!(
                part = kind.name(),
                name,
                reason,
                "a part is out of service; the rest is served, and it is tried again"
            );
        }
    }

    /// This part is used.
    pub fn recover(&self, kind: PartKind, name: impl ToString) {
        let name = name.to_string();
        if self.parts().remove(&(kind, name.clone())).is_some() {
            tracing::info!(part = kind.name(), name, "a part is in service again");
        }
    }

    /// All of them.
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

    /// How many there are of each kind.
    pub fn counts(&self) -> impl Iterator<Item = (PartKind, u64)> + use<> {
        let parts = self.parts();
        let count = |kind| parts.keys().filter(|(of, _)| *of == kind).count() as u64;
        let counts: Vec<_> = PartKind::ALL
            .iter()
            .map(|kind| (*kind, count(*kind)))
            .collect();
        counts.into_iter()
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<(PartKind, String), String>> {
        // Every change under the lock is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_each_part_once_until_it_recovers() {
        let parts = DegradedParts::default();
        parts.lose(PartKind::Flash, "/ssd", "empty");
        parts.lose(PartKind::Flash, "/ssd", "cannot be opened");
        parts.lose(PartKind::Root, "/srv", "no such directory");
        let names = |parts: &DegradedParts| -> Vec<_> {
            let list = parts.list().into_iter();
            list.map(|part| (part.kind, part.name, part.reason))
                .collect()
        };
        let flash = ("flash", "/ssd".to_owned(), "cannot be opened".to_owned());
        let root = ("root", "/srv".to_owned(), "no such directory".to_owned());
        assert_eq!(names(&parts), [root, flash.clone()]);
        parts.recover(PartKind::Root, "/srv");
        assert_eq!(names(&parts), [flash]);
        let counts: Vec<u64> = parts.counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [0, 1, 0, 0, 0]);
    }
}
