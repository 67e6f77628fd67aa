//! The line in which connections with further requests wait for their turn to begin them.
//!
//! A connection that woke itself for its next requests would stand in its thread's queue together with
//! all others that do so, and a viewer's event behind them: hundreds of connections full of requests
//! made each viewer wait for all of their turns. In this line they stand by themselves: few at a time
//! are in the queue of their thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Turns at once on a thread: the next connection is woken while one has its turn.
const TURNS_AT_ONCE: usize = 2;

thread_local! {
    /// Of the connections of this thread: those of another one may stand still.
    static TURNS: Arc<Semaphore> = Arc::new(Semaphore::new(TURNS_AT_ONCE));
}

/// A connection's place in the line, if it has further requests.
#[derive(Default)]
pub(super) struct RequestTurn {
    waiting: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    granted: Option<OwnedSemaphorePermit>,
}

impl RequestTurn {
    /// Lines up behind all others that wait. The task is woken when its turn comes.
    pub(super) fn line_up(&mut self, cx: &mut Context<'_>) {
        let turns = TURNS.with(Arc::clone);
        // Never closed.
        let turn = async move { turns.acquire_owned().await.ok() };
        self.waiting = Some(Box::pin(turn));
        if self.poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Ready if requests may be begun: at once for a connection that does not wait in the line.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(waiting) = &mut self.waiting {
            self.granted = std::task::ready!(waiting.as_mut().poll(cx));
            self.waiting = None;
        }
        Poll::Ready(())
    }

    /// The next in the line has its turn.
    pub(super) fn end(&mut self) {
        self.granted = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::task::{Wake, Waker};

    use super::*;

    /// Notes which connection was woken.
    struct Woken(usize, Arc<Mutex<VecDeque<usize>>>);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("no panic").push_back(self.0);
        }
    }

    #[test]
    fn few_connections_have_their_turn_at_once_and_each_in_its_order() {
        let mut connections: Vec<RequestTurn> = (0..5).map(|_| RequestTurn::default()).collect();
        let woken = Arc::<Mutex<VecDeque<usize>>>::default();
        let waker = |number| Waker::from(Arc::new(Woken(number, Arc::clone(&woken))));
        let wakers: Vec<Waker> = (0..5).map(waker).collect();
        for (connection, waker) in connections.iter_mut().zip(&wakers) {
            let mut cx = Context::from_waker(waker);
            assert!(connection.poll(&mut cx).is_ready(), "not in the line yet");
            connection.line_up(&mut cx);
        }
        let mut order = Vec::new();
        loop {
            let mut runnable = woken.lock().expect("no panic");
            assert!(runnable.len() <= TURNS_AT_ONCE, "{runnable:?}");
            let Some(next) = runnable.pop_front() else {
                break;
            };
            drop(runnable);
            let mut cx = Context::from_waker(&wakers[next]);
            assert!(connections[next].poll(&mut cx).is_ready());
            order.push(next);
            connections[next].end();
            if order.len() <= 5 {
                connections[next].line_up(&mut cx);
            }
        }
        assert_eq!(order, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        let free = TURNS.with(|turns| turns.available_permits());
        assert_eq!(free, TURNS_AT_ONCE);
    }
}
