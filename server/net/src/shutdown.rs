//! Shutdown signal of the server, observed by every task: serving, retiring or draining.

use tokio::sync::watch;

/// Phases, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ShutdownPhase {
    Serving,
    /// A new process accepts connections; the existing connections end after their next reply.
    Retiring,
    /// No new requests; those in progress may finish within a deadline.
    Draining,
}

/// Starts the shutdown, when asked to or on drop.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<ShutdownPhase>);

/// Observes the phase; cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<ShutdownPhase>);

/// Creates a trigger and its signal.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(ShutdownPhase::Serving);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

impl ShutdownTrigger {
    /// A new process accepts connections from now on. Connections of this process are not cut: each
    /// is asked to close with its next reply, so that no request is lost.
    pub fn retire(&self) {
        self.raise(ShutdownPhase::Retiring);
    }

    /// The server drains from now on.
    pub fn drain(&self) {
        self.raise(ShutdownPhase::Draining);
    }

    fn raise(&self, to: ShutdownPhase) {
        self.0.send_modify(|phase| *phase = to.max(*phase));
    }
}

impl Shutdown {
    /// Whether the server drains. A dropped trigger counts as a drain.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow() == ShutdownPhase::Draining || self.0.has_changed().is_err()
    }

    /// Whether a new process accepts connections, or the server drains.
    pub(super) fn is_retiring(&self) -> bool {
        *self.0.borrow() >= ShutdownPhase::Retiring || self.0.has_changed().is_err()
    }

    /// Whether the phase changed since the last call that returned true.
    pub(super) fn take_news(&mut self) -> bool {
        let is_news = self.0.has_changed().unwrap_or(true);
        if is_news {
            self.0.mark_unchanged();
        }
        is_news
    }

    /// Returns when the server retires or drains; immediately if it already does.
    pub async fn retiring(&mut self) {
        self.at_least(ShutdownPhase::Retiring).await;
    }

    /// Returns when the server drains; immediately if it already does.
    pub async fn draining(&mut self) {
        self.at_least(ShutdownPhase::Draining).await;
    }

    async fn at_least(&mut self, wanted: ShutdownPhase) {
        // An error means that the trigger was dropped, which counts as a drain.
        let _ = self.0.wait_for(|phase| *phase >= wanted).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_trigger_drains() {
        let (trigger, mut signal) = shutdown();
        assert!(!signal.is_draining());
        drop(trigger);
        assert!(signal.is_draining());
        signal.draining().await;
    }

    #[tokio::test]
    async fn retire_after_drain_stays_draining() {
        let (trigger, mut signal) = shutdown();
        trigger.retire();
        signal.retiring().await;
        assert!(!signal.is_draining());
        trigger.drain();
        trigger.retire();
        assert!(signal.is_draining());
    }
}
