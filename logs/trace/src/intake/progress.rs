//! Progress reports of intake.

/// Receiver of progress reports.
pub trait IntakeProgress: Sync {
    /// `bytes` of the logs have been read, as stored on disk, of a total (`None` if unknown).
    fn read(&self, bytes: u64, of: Option<u64>);
    /// A message to be shown at once.
    fn note(&self, note: &str);
}

/// Ignores all reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentProgress;

impl IntakeProgress for SilentProgress {
    fn read(&self, _: u64, _: Option<u64>) {}
    fn note(&self, _: &str) {}
}
