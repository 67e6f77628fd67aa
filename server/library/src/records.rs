//! Records of a library's knowledge about versions of files, for the next process.

use headlong_media::HeaderFacts;

use crate::library::Library;
use crate::places::FilePlace;
use crate::stream::LibraryContext;
use crate::version_table::{RecordsLoaded, StoredValue, VersionTable};

/// A kind of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Durations from headers of media files.
    Facts,
    /// Where files lie on their file systems.
    Places,
}

impl RecordKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Facts, Self::Places];

    /// Most bytes of all records.
    pub fn bytes_max(self) -> usize {
        match self {
            Self::Facts => HeaderFacts::BYTES_MAX,
            Self::Places => FilePlace::BYTES_MAX,
        }
    }
}

/// The operations of a table, whatever it holds.
trait Records {
    fn load(&self, bytes: &[u8]) -> RecordsLoaded;
    fn take(&self) -> Vec<u8>;
    fn list(&self) -> Vec<u8>;
}

impl<V: StoredValue> Records for VersionTable<V> {
    fn load(&self, bytes: &[u8]) -> RecordsLoaded {
        self.recall_all(bytes)
    }

    fn take(&self) -> Vec<u8> {
        self.take_new()
    }

    fn list(&self) -> Vec<u8> {
        self.all()
    }
}

impl Library {
    /// Loads records of [`Library::take_new_records`] and [`Library::all_records`]; to be called
    /// before the first scan, otherwise files already looked up do not use them.
    pub fn recall_records(&self, kind: RecordKind, bytes: &[u8]) -> RecordsLoaded {
        table(self.context(), kind).load(bytes)
    }

    /// Records of what became known since the last call, to be appended to the others.
    pub fn take_new_records(&self, kind: RecordKind) -> Vec<u8> {
        table(self.context(), kind).take()
    }

    /// All records.
    pub fn all_records(&self, kind: RecordKind) -> Vec<u8> {
        table(self.context(), kind).list()
    }
}

fn table(context: &LibraryContext, kind: RecordKind) -> &dyn Records {
    match kind {
        RecordKind::Facts => &context.facts,
        RecordKind::Places => &context.places.stored,
    }
}
