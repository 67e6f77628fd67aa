//! How other threads reach a device's thread: queues, and one way to wake it.
//!
//! Waking costs a system call only while the thread sleeps. A wake that comes earlier is
//! remembered, so the next sleep does not begin; the thread empties its queues after that, so
//! nothing that was posted before a wake is overlooked.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::sync::{AtomicU8, Event, Mutex, MutexGuard, Ordering};

const AWAKE: u8 = 0;
const SLEEPING: u8 = 1;
const WOKEN: u8 = 2;

/// Wakes one thread.
#[derive(Debug)]
pub(crate) struct Waker {
    state: AtomicU8,
    event: Event,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            state: AtomicU8::new(AWAKE),
            event: Event::new()?,
        }))
    }

    /// What is signalled when the thread sleeps and is woken.
    pub(super) fn event(&self) -> &Event {
        &self.event
    }

    /// Ends the thread's sleep, or prevents the next.
    pub(crate) fn wake(&self) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == SLEEPING {
            self.event.signal();
        }
    }

    /// The thread wants to sleep on [`Waker::event`] in a way of its own; `false` if it was woken meanwhile and must
    /// not.
    pub(crate) fn begin_sleep(&self) -> bool {
        let slept =
            self.state
                .compare_exchange(AWAKE, SLEEPING, Ordering::SeqCst, Ordering::SeqCst);
        slept.is_ok()
    }

    /// The thread is up, and looks into its queues next.
    pub(crate) fn end_sleep(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
    }

    /// Sleeps until woken, or until the time is over (`None`: it never is).
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

    /// Forgets that it was woken.
    pub(crate) fn clear(&self) {
        self.event.clear();
    }
}

/// A queue that many threads post to and one empties. It can be closed; then what is posted is
/// dropped.
pub(crate) struct Mailbox<T> {
    posts: Mutex<Option<Vec<T>>>,
    waker: Arc<Waker>,
}

impl<T> std::fmt::Debug for Mailbox<T> {
    /// Without the posts, which need not be printable.
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

    /// Adds a post that somebody other than the thread sees to.
    pub(crate) fn post_quietly(&self, post: T) {
        self.add(post, usize::MAX);
    }

    /// As [`Mailbox::post_quietly`], but drops the post if so many wait already.
    pub(crate) fn post_if_fewer(&self, post: T, waiting_max: usize) {
        self.add(post, waiting_max);
    }

    /// Wakes the thread without a post.
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().as_ref().is_none_or(Vec::is_empty)
    }

    /// Whether the post was taken.
    fn add(&self, post: T, waiting_max: usize) -> bool {
        // A refused post is dropped after the lock is, for its drop may post again.
        let refused = match self.lock().as_mut() {
            Some(posts) if posts.len() < waiting_max => {
                posts.push(post);
                None
            }
            _ => Some(post),
        };
        refused.is_none()
    }

    /// Takes all posts, in order, into `taken`, which must be empty: the two change places, so
    /// that neither allocates again.
    pub(crate) fn take(&self, taken: &mut Vec<T>) {
        debug_assert!(taken.is_empty());
        if let Some(posts) = self.lock().as_mut() {
            std::mem::swap(posts, taken);
        }
    }

    /// Drops all posts, and all to come.
    pub(crate) fn close(&self) {
        let posts = self.lock().take();
        drop(posts);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<T>>> {
        // Every change to the queue is one call, so a panicking poster leaves it whole.
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn no_post_is_slept_through() {
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
        // A lost wake would leave this waiting for ever on a queue that is not empty.
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
    fn only_a_sleeping_thread_costs_a_write() {
        let waker = Waker::new().expect("eventfd");
        waker.wake();
        let mut count = [0; 8];
        let event = waker.event().descriptor();
        let read = rustix::io::read(event, &mut count);
        assert_eq!(read, Err(Errno::AGAIN));
        assert!(!waker.begin_sleep(), "it was woken");
        waker.end_sleep();
        assert!(waker.begin_sleep());
        waker.wake();
        assert_eq!(rustix::io::read(event, &mut count), Ok(8));
    }

    #[test]
    fn a_post_that_may_be_refused_is_dropped_when_too_many_wait() {
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
    fn a_closed_mailbox_drops_what_it_holds_and_what_comes() {
        let mailbox = Mailbox::new(Waker::new().expect("eventfd"));
        let post = Arc::new(());
        mailbox.post(Arc::clone(&post));
        mailbox.close();
        mailbox.post(Arc::clone(&post));
        assert_eq!(Arc::strong_count(&post), 1);
    }
}
