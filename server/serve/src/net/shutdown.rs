//! One signal, seen by every task: take nothing new, finish what is begun.

use tokio::sync::watch;

/// Begins the shutdown when told to, or when dropped.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<bool>);

/// What tasks look at; cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// A trigger and the signal it gives.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

impl ShutdownTrigger {
    /// From now on the server drains.
    pub fn drain(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Whether the server drains. A trigger that is gone counts as one that was pulled.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Returns when the server begins to drain; at once if it already does.
    pub async fn draining(&mut self) {
        // The error says that the trigger is gone, which means the same.
        let _ = self.0.wait_for(|drains| *drains).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lost_trigger_drains_too() {
        let (trigger, mut signal) = shutdown();
        assert!(!signal.is_draining());
        drop(trigger);
        assert!(signal.is_draining());
        signal.draining().await;
    }
}
