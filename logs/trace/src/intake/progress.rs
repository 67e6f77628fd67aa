//! How far intake is, for whoever wants to know.

/// Someone who wants to know how far it is.
pub trait Progress: Sync {
    /// So many bytes of the logs have been read, as they lie there, of so many in all (`None` if
    /// that cannot be known).
    fn read(&self, bytes: u64, of: Option<u64>);
    /// Something worth saying at once.
    fn note(&self, note: &str);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn read(&self, _: u64, _: Option<u64>) {}
    fn note(&self, _: &str) {}
}
