//! Opens the store of a path, and retries it while slices cannot be stored.

use std::io;
use std::sync::Arc;

use headlong_pull::ResponseFault;
use headlong_telemetry::degraded_parts::cannot_write;
use headlong_units::Duration;

use super::store::OpenError;
use super::titles::Pull;

/// Interval between retries of a failing store. It doubles if the store fails again soon.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(80);
/// A store that works for this long has recovered.
const STEADY: Duration = Duration::from_secs(120);

impl Pull {
    /// Opens the store and takes over its versions. Blocks. On an I/O error, the path is degraded.
    pub(super) fn open_store(&self) -> Result<(), OpenError> {
        let opened = self.store.open(self.rule.slice_bytes, self.is_heir);
        if let Err(OpenError::Io(error)) = &opened {
            self.lose_store(error);
        }
        for version in opened? {
            self.take_over(version);
        }
        Ok(())
    }

    /// A slice could not be written. Returns the kind of the failure.
    pub(super) fn lose_store(&self, error: &io::Error) -> ResponseFault {
        let fault = match is_no_space(error) {
            true => ResponseFault::NoSpace,
            false => ResponseFault::Disk,
        };
        let reason = cannot_write(&self.rule.folder, error, "name another folder");
        self.health.lose(fault, &reason);
        fault
    }

    /// Retries the store whenever it fails.
    pub(super) async fn tend_store(self: Arc<Self>) {
        let (mut pause, mut recovered) = (RETRY, None);
        loop {
            self.health.until_failing().await;
            let is_soon = recovered.is_some_and(|at| self.now().since(at) < STEADY);
            pause = match is_soon {
                true => RETRY_MAX.min(pause.times(2)),
                false => RETRY,
            };
            loop {
                tokio::time::sleep(self.scale.wall(pause)).await;
                if self.retry_store().await {
                    break;
                }
            }
            // They are fetched again, and stored then.
            self.state().forget_unstored(|_| true);
            self.health.recover();
            recovered = Some(self.now());
        }
    }

    /// Whether slices can be stored again.
    async fn retry_store(self: &Arc<Self>) -> bool {
        let pull = Arc::clone(self);
        let tried = self.store.run(move || {
            if !pull.store.is_open() {
                pull.open_store()?;
            }
            pull.store.probe(pull.rule.slice_bytes)?;
            Ok::<(), OpenError>(())
        });
        match tried.await {
            Some(Ok(())) => true,
            Some(Err(OpenError::Io(error))) => {
                if self.lose_store(&error) == ResponseFault::NoSpace {
                    self.free_more().await;
                }
                false
            }
            Some(Err(error @ OpenError::InUse)) => {
                self.health.lose(ResponseFault::Disk, &error.to_string());
                false
            }
            // Too many jobs wait for the disk.
            None => false,
        }
    }
}

pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}
