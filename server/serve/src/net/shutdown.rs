//! One signal, seen by every task: how far the end of this server is.

use tokio::sync::watch;

/// Where it stands; each comes after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    /// Another process accepts connections: those there are end after their next reply.
    Retiring,
    /// Nothing new is taken, what is begun may end, in a bounded time.
    Draining,
}

/// Begins the end when told to, or when dropped.
#[derive(Debug)]
pub struct ShutdownTrigger(watch::Sender<Phase>);

/// What tasks look at; cheap to clone.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<Phase>);

/// A trigger and the signal it gives.
pub fn shutdown() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(Phase::Serving);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

impl ShutdownTrigger {
    /// From now on another process accepts connections. Those of this one are not cut: each is asked
    /// to close with its next reply, so that no request comes to nobody.
    pub fn retire(&self) {
        self.raise(Phase::Retiring);
    }

    /// From now on the server drains.
    pub fn drain(&self) {
        self.raise(Phase::Draining);
    }

    fn raise(&self, to: Phase) {
        self.0.send_modify(|phase| *phase = to.max(*phase));
    }
}

impl Shutdown {
    /// Whether the server drains. A trigger that is gone counts as one that was pulled.
    pub fn is_draining(&self) -> bool {
        *self.0.borrow() == Phase::Draining || self.0.has_changed().is_err()
    }

    /// Whether another process accepts connections, or the server drains.
    pub(super) fn is_retiring(&self) -> bool {
        *self.0.borrow() >= Phase::Retiring || self.0.has_changed().is_err()
    }

    /// Whether anything was signalled since the last call, by this one, that answered so.
    pub(super) fn take_news(&mut self) -> bool {
        let is_news = self.0.has_changed().unwrap_or(true);
        if is_news {
            self.0.mark_unchanged();
        }
        is_news
    }

    /// Returns when the server begins to retire or to drain; at once if it already does.
    pub async fn retiring(&mut self) {
        self.at_least(Phase::Retiring).await;
    }

    /// Returns when the server begins to drain; at once if it already does.
    pub async fn draining(&mut self) {
        self.at_least(Phase::Draining).await;
    }

    async fn at_least(&mut self, wanted: Phase) {
        // The error says that the trigger is gone, which means the last of them.
        let _ = self.0.wait_for(|phase| *phase >= wanted).await;
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

    #[tokio::test]
    async fn what_drains_does_not_only_retire_again() {
        let (trigger, mut signal) = shutdown();
        trigger.retire();
        signal.retiring().await;
        assert!(!signal.is_draining());
        trigger.drain();
        trigger.retire();
        assert!(signal.is_draining());
    }
}
