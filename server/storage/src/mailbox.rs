//! Mailboxes of a device thread and its waker.
//!
//! A wake-up costs a system call only while the thread sleeps. An earlier wake-up is remembered and
//! prevents the next sleep. The thread empties its mailboxes after that, so no message posted
//! before a wake-up is missed.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::sync::{AtomicU8, Mutex, MutexGuard, Ordering, WakeEvent};

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const WOKEN: u8 = 2;

/// Wakes one thread.
#[derive(Debug)]
pub(crate) struct Waker {
    state: AtomicU8,
    event: WakeEvent,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            state: AtomicU8::new(AWAKE),
            event: WakeEvent::new()?,
        }))
    }

    /// Signalled when the thread is woken while it sleeps.
    pub(super) fn event(&self) -> &WakeEvent {
        &self.event
    }

    /// Ends the current sleep of the thread, or prevents the next.
    pub(crate) fn wake(&self) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == SLEEPING {
            self.event.signal();
        }
    }

    /// Announces that the thread is about to wait on [`Waker::event`]. Returns `false` if it was
    /// woken meanwhile and must not sleep.
    pub(crate) fn begin_sleep(&self) -> bool {
        let slept =
            self.state
                .compare_exchange(AWAKE, SLEEPING, Ordering::SeqCst, Ordering::SeqCst);
        slept.is_ok()
    }

    /// Announces that the thread is awake and will check its mailboxes.
    pub(crate) fn end_sleep(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
    }

    /// Sleeps until woken or until the timeout expires (`None`: no timeout).
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> io::Result<()> {
        let woken = match self.begin_sleep() {
            true => self.event.wait(timeout),
            false => Ok(false),
        };
        self.end_sleep();
        if woken? {
            self.clear();
        }
        Ok(())
    }

    /// Resets the event.
    pub(crate) fn clear(&self) {
        self.event.clear();
    }
}

/// A queue with many senders and one receiver. After it is closed, posts are dropped.
pub(crate) struct Mailbox<T> {
    posts: Mutex<Option<Vec<T>>>,
    waker: Arc<Waker>,
}

impl<T> std::fmt::Debug for Mailbox<T> {
    /// Omits the posts, which need not implement `Debug`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

impl<T> Mailbox<T> {
    pub(crate) fn new(waker: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self {
            posts: Mutex::new(Some(Vec::new())),
            waker,
        })
    }

    /// Adds a post and wakes the thread.
    pub(crate) fn post(&self, post: T) {
        if self.add(post, usize::MAX) {
            self.waker.wake();
        }
    }

    /// Adds a post without waking the thread, for posts that the lock holder handles.
    pub(crate) fn post_quietly(&self, post: T) {
        self.add(post, usize::MAX);
    }

    /// As [`Mailbox::post_quietly`], but drops the post if `waiting_max` are waiting.
    pub(crate) fn post_if_fewer(&self, post: T, waiting_max: usize) {
        self.add(post, waiting_max);
    }

    /// Wakes the thread without a post.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Whether the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().as_ref().is_none_or(Vec::is_empty)
    }

    /// Returns whether the post was added.
    fn add(&self, post: T, waiting_max: usize) -> bool {
        // Drop a refused post after the lock is released, because its destructor may post again.
        let refused = match self.lock().as_mut() {
            Some(posts) if posts.len() < waiting_max => {
                posts.push(post);
                None
            }
            _ => Some(post),
        };
        refused.is_none()
    }

    /// Moves all posts, in order, into `taken`, which must be empty. The two vectors are swapped,
    /// so that neither allocates again.
    pub(crate) fn take(&self, taken: &mut Vec<T>) {
        debug_assert!(taken.is_empty());
        if let Some(posts) = self.lock().as_mut() {
            std::mem::swap(posts, taken);
        }
    }

    /// Drops all posts, including later ones.
    pub(crate) fn close(&self) {
        let posts = self.lock().take();
        drop(posts);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<T>>> {
        // Each change of the queue is a single call, so a panic leaves it consistent.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn thread_never_sleeps_while_posts_are_pending() {
        let waker = Waker::new().expect("eventfd");
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let posters: Vec<_> = (0..4)
            .map(|poster| {
                let mailbox = Arc::clone(&mailbox);
                std::thread::spawn(move || {
                    for post in 0..10_000 {
                        mailbox.post((poster, post));
                    }
                })
            })
            .collect();
        let mut next = [0; 4];
        let mut taken = Vec::new();
        // A lost wake-up would leave this thread waiting indefinitely on a non-empty queue.
        while next != [10_000; 4] {
            waker.sleep(None).expect("polls");
            mailbox.take(&mut taken);
            for (poster, post) in taken.drain(..) {
                assert_eq!(post, next[poster], "in order");
                next[poster] += 1;
            }
        }
        for poster in posters {
            poster.join().expect("posts");
        }
    }

    #[test]
    fn wake_up_writes_only_when_thread_sleeps() {
        let waker = Waker::new().expect("eventfd");
        waker.wake();
        let mut count = [0; 8];
        let event = waker.event().descriptor();
        let read = rustix::io::read(event, &mut count);
        assert_eq!(read, Err(Errno::AGAIN));
        assert!(!waker.begin_sleep(), "the thread was woken");
        waker.end_sleep();
        assert!(waker.begin_sleep());
        waker.wake();
        assert_eq!(rustix::io::read(event, &mut count), Ok(8));
    }

    #[test]
    fn bounded_post_is_dropped_when_queue_is_full() {
        let mailbox = Mailbox::new(Waker::new().expect("eventfd"));
        for post in 0..5 {
            mailbox.post_if_fewer(post, 3);
        }
        mailbox.post(9);
        let mut taken = Vec::new();
        mailbox.take(&mut taken);
        assert_eq!(taken, [0, 1, 2, 9]);
    }

    #[test]
    fn closed_mailbox_drops_pending_and_later_posts() {
        let mailbox = Mailbox::new(Waker::new().expect("eventfd"));
        let post = Arc::new(());
        mailbox.post(Arc::clone(&post));
        mailbox.close();
        mailbox.post(Arc::clone(&post));
        assert_eq!(Arc::strong_count(&post), 1);
    }
}
