//! Nodes of which the kernel may have pages of an older version, and the thread that tells it.
//!
//! Telling waits until pages that are being read are there, so it has a thread of its own: whoever
//! answers reads must not wait for it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fuser::{INodeNo, Notifier};

/// Nodes to tell of, each once.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeSet<u64>,
    is_over: bool,
}

impl Stale {
    /// A node's file is another version than before.
    pub(crate) fn add(&self, node: u64) {
        self.lock().nodes.insert(node);
        self.came.notify_one();
    }

    /// The kernel need not be told any more.
    pub(crate) fn end(&self) {
        self.lock().is_over = true;
        self.came.notify_one();
    }

    /// Tells the kernel, on a thread of its own, until the end.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn tell(self: &Arc<Self>, kernel: Notifier) -> std::io::Result<()> {
        let stale = Arc::clone(self);
        let thread = std::thread::Builder::new().name("stale".to_owned());
        thread.spawn(move || {
            while let Some(node) = stale.next() {
                // What it has forgotten is not stale.
                if let Err(error) = kernel.inval_inode(INodeNo(node), 0, 0) {
                    tracing::debug!(node, %error, "the kernel was not told of a new version");
                }
            }
        })?;
        Ok(())
    }

    fn next(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(node) = state.nodes.pop_first() {
                return Some(node);
            }
            state = self
                .came
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_told_of_once_however_often_it_changed_and_nothing_after_the_end() {
        let stale = Stale::default();
        for node in [5, 3, 5] {
            stale.add(node);
        }
        assert_eq!((stale.next(), stale.next()), (Some(3), Some(5)));
        stale.add(5);
        stale.end();
        assert_eq!(stale.next(), None);
    }
}
