//! Whether the slices of one path can be stored. While they cannot, fetched bytes are sent on
//! without being stored, `/healthz` names the path, and a task retries the store.

use std::path::Path;
use std::sync::Arc;

use headlong_pull::ResponseFault;
use tokio::sync::watch;

use headlong_telemetry::degraded_parts::{DegradedPartKind, DegradedParts};
use headlong_telemetry::{LimitedKind, LimitedLog};

/// State of the store of one path.
pub(super) struct StoreHealth {
    prefix: String,
    /// Why slices cannot be stored, if they cannot.
    failing: watch::Sender<Option<ResponseFault>>,
    degraded: Arc<DegradedParts>,
    log: LimitedLog,
}

impl StoreHealth {
    pub(super) fn new(prefix: &str, degraded: Arc<DegradedParts>) -> Self {
        Self {
            prefix: prefix.to_owned(),
            failing: watch::Sender::new(None),
            degraded,
            log: LimitedLog::default(),
        }
    }

    /// Why slices cannot be stored, if they cannot.
    pub(super) fn fault(&self) -> Option<ResponseFault> {
        *self.failing.borrow()
    }

    /// The store failed; `reason` names the folder and a remedy.
    pub(super) fn lose(&self, fault: ResponseFault, reason: &str) {
        self.degraded
            .lose(DegradedPartKind::Edge, &self.prefix, reason);
        self.failing.send_replace(Some(fault));
    }

    /// The store accepts slices again.
    pub(super) fn recover(&self) {
        self.failing.send_replace(None);
        self.degraded.recover(DegradedPartKind::Edge, &self.prefix);
    }

    /// Waits until the store fails.
    pub(super) async fn until_failing(&self) {
        // The sender outlives the wait.
        let _ = self.failing.subscribe().wait_for(Option::is_some).await;
    }

    /// A slice was not stored.
    pub(super) fn note_unstored(&self, fault: ResponseFault) {
        let kind = match fault {
            ResponseFault::NoSpace => LimitedKind::SliceNoSpace,
            _ => LimitedKind::SliceDisk,
        };
        self.log.write(kind, |left_out| {
            let (prefix, fault) = (self.prefix.as_str(), fault.name());
            tracing::warn!(
                prefix,
                fault,
                left_out,
                "slice sent on without being stored; /healthz names the reason"
            );
        });
    }

    /// The disk could not read a stored slice.
    pub(super) fn note_unreadable(&self, slice: &Path) {
        self.log.write(LimitedKind::SliceUnreadable, |left_out| {
            let slice = slice.display();
            tracing::warn!(
                %slice,
                left_out,
                "the disk cannot read a slice; it is deleted and fetched again. Check the disk"
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failing_store_is_degraded_until_it_recovers() {
        let degraded = Arc::new(DegradedParts::default());
        let health = StoreHealth::new("/vod/", Arc::clone(&degraded));
        assert_eq!(health.fault(), None);
        health.lose(ResponseFault::NoSpace, "/srv/edge is full");
        health.until_failing().await;
        assert_eq!(health.fault(), Some(ResponseFault::NoSpace));
        let list = degraded.list();
        let [part] = &list[..] else {
            panic!("{list:?}");
        };
        assert_eq!((part.kind, part.name.as_str()), ("edge", "/vod/"));
        health.recover();
        assert_eq!(health.fault(), None);
        assert!(degraded.list().is_empty());
    }
}
