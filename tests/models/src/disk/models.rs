//! The models. Each runs in every order of its threads' steps, and panics on a failure.

use std::sync::Arc;

use loom::thread;

use super::delegation_lock::{DelegationLock, MessageHandler};
use super::mailbox::{Mailbox, Waker};

/// Preemptions in one order, unless `LOOM_MAX_PREEMPTIONS` is set: two expose each injected
/// mistake, and each further one takes ten times as long.
const PREEMPTIONS_MAX: usize = 2;

/// Message to the counter: this many reads must be started.
struct Reads(u32);

/// Stands for the engine: counts the reported reads, and those that its owner still has to start.
#[derive(Default)]
struct Counter {
    told: u32,
    to_start: u32,
}

impl Counter {
    fn tell(&mut self, reads: &Reads) {
        self.told += 1;
        self.to_start += reads.0;
    }
}

impl MessageHandler for Counter {
    type Message = Reads;

    fn take_in(&mut self, mailbox: &Mailbox<Reads>) -> bool {
        if !mailbox.is_empty() {
            let mut messages = Vec::new();
            mailbox.take(&mut messages);
            for message in &messages {
                self.tell(message);
            }
        }
        self.to_start > 0
    }
}

/// A lock over a counter.
fn lock() -> Arc<DelegationLock<Counter>> {
    let lock = DelegationLock::new(Mailbox::new(Waker::new().expect("made")));
    lock.open(Counter::default());
    Arc::new(lock)
}

/// A caller, like the server's connections.
fn call(lock: &DelegationLock<Counter>, reads: Reads) {
    match lock.try_lock() {
        Some(mut held) => {
            if let Some(counter) = held.as_mut() {
                counter.tell(&reads);
            }
            lock.leave(held);
        }
        None => {
            lock.mailbox().post_quietly(reads);
            lock.hand_over();
        }
    }
}

/// The owner, like the device thread, until it has started this many reads.
fn own(lock: &DelegationLock<Counter>, waker: &Waker, reads: u32) {
    let mut started = 0;
    let mut messages = Vec::new();
    while started < reads {
        let turn = lock.before_sleep(|counter| std::mem::take(&mut counter.to_start));
        let (submits, may_sleep) = turn.expect("sound");
        started += submits;
        if started == reads {
            return;
        }
        if may_sleep {
            waker.sleep(None).expect("sleeps");
        }
        lock.mailbox().take(&mut messages);
        let turn = lock.locked(|counter| {
            for message in messages.drain(..) {
                counter.tell(&message);
            }
        });
        turn.expect("sound");
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS_MAX);
    builder.check(model);
}

/// Two threads post to one that sleeps when there is nothing: it gets both, whatever the order.
pub fn thread_never_sleeps_while_posts_are_pending() {
    check(|| {
        let waker = Waker::new().expect("made");
        let mailbox = Mailbox::new(Arc::clone(&waker));
        let posters = [1, 2].map(|post| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.post(post))
        });
        let (mut sum, mut taken) = (0, Vec::new());
        while sum < 3 {
            waker.sleep(None).expect("sleeps");
            mailbox.take(&mut taken);
            sum += taken.drain(..).sum::<u32>();
        }
        for poster in posters {
            poster.join().expect("posts");
        }
    });
}

/// Work that two callers request is done by an owner that may sleep.
pub fn owner_does_the_work_that_callers_request() {
    check(|| {
        let waker = Waker::new().expect("made");
        let lock = DelegationLock::new(Mailbox::new(Arc::clone(&waker)));
        lock.open(Counter::default());
        let lock = Arc::new(lock);
        let callers = [1, 1].map(|reads| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || call(&lock, Reads(reads)))
        });
        own(&lock, &waker, 2);
        for caller in callers {
            caller.join().expect("calls");
        }
    });
}

/// Without an owner: after all callers have finished, the mailbox is empty.
pub fn no_message_remains_when_the_lock_is_free() {
    check(|| {
        let lock = lock();
        let callers = [0, 0].map(|reads| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || call(&lock, Reads(reads)))
        });
        call(&lock, Reads(0));
        for caller in callers {
            caller.join().expect("calls");
        }
        assert!(lock.mailbox().is_empty(), "all messages were handled");
        let told = lock.locked(|counter| counter.told).expect("sound");
        assert_eq!(told, 3);
    });
}

/// A lock that is closed during calls keeps no message of its callers.
pub fn closed_lock_keeps_no_message() {
    check(|| {
        let lock = lock();
        let caller = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || call(&lock, Reads(1)))
        };
        let counter = lock.close().expect("the lock was open");
        assert!(counter.told <= 1);
        caller.join().expect("calls");
        assert!(lock.mailbox().is_empty(), "dropped");
        assert!(lock.close().is_none());
    });
}
