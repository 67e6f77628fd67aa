//! Speaks to the reception.
//!
//! One connection for each message, closed before the call returns: nothing is open in the
//! program between its calls, whatever it closes or forks.

use std::sync::atomic::{AtomicI32, Ordering};

use headlong_protocol::{Answer, FileKey, Kind, Message};

use crate::raw::{self, sys};
use crate::settings;

/// Most calls of one process that speak to the reception at a time; further ones go on.
const SPEAKING_MAX: usize = 256;

const FREE: i32 = -1;
const CLAIMED: i32 = -2;

/// Sockets of calls that are speaking now, so that a fork can close them.
static SPEAKING: [AtomicI32; SPEAKING_MAX] = [const { AtomicI32::new(FREE) }; SPEAKING_MAX];

/// A claim of one of those places; its socket is closed with it.
struct Place(&'static AtomicI32);

impl Place {
    fn claim() -> Option<Self> {
        let free = SPEAKING.iter().find(|place| {
            let claimed =
                place.compare_exchange(FREE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
            claimed.is_ok()
        });
        free.map(Self)
    }

    fn connect(&self) -> Option<i32> {
        let socket = sys::socket()?;
        self.0.store(socket, Ordering::Relaxed);
        Some(socket)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let socket = self.0.swap(FREE, Ordering::Relaxed);
        if socket >= 0 {
            sys::close(socket);
        }
    }
}

/// In the child of a fork: what other threads of the parent were speaking through is closed.
pub(crate) fn after_fork() {
    for place in &SPEAKING {
        let socket = place.swap(FREE, Ordering::Relaxed);
        if socket >= 0 {
            sys::close(socket);
        }
    }
}

/// Says what the program is about to read, or has waited for, and waits until the bytes are in
/// memory, for as long as it may. `None` if nobody answers in time.
pub(crate) fn ask(
    kind: Kind,
    fd: i32,
    file: FileKey,
    (offset, length): (u64, u64),
) -> Option<Answer> {
    let place = Place::claim()?;
    let message = Message::new(kind, file, offset, length);
    let socket = send(&place, message, Some(fd))?;
    let begun = sys::now_ms();
    let limit = settings::wait_ms();
    loop {
        let waited = sys::now_ms().saturating_sub(begun);
        if waited >= limit {
            raw::memory().count_given_up();
            return None;
        }
        match sys::wait_readable(socket, limit - waited) {
            // The program's handler ran; the disk goes on, as it would with a plain read.
            sys::Wait::Interrupted | sys::Wait::TimedOut => {}
            sys::Wait::Readable => return sys::receive(socket),
            sys::Wait::Failed => return None,
        }
    }
}

/// Says something that nobody waits for.
pub(crate) fn tell(kind: Kind, file: FileKey, (offset, length): (u64, u64)) {
    if let Some(place) = Place::claim() {
        let _ = send(&place, Message::new(kind, file, offset, length), None);
    }
}

/// Connects and sends, with the counters. The socket, if somebody took it.
fn send(place: &Place, mut message: Message, fd: Option<i32>) -> Option<i32> {
    let memory = raw::memory();
    let socket = place.connect()?;
    match sys::connect(socket) {
        sys::Connected::Yes => {}
        sys::Connected::Busy => return None,
        sys::Connected::No => {
            memory.pause(sys::now_ms());
            return None;
        }
    }
    memory.take_counters(&mut message);
    if sys::send(socket, &message.encode(), fd) {
        return Some(socket);
    }
    memory.put_back(&message);
    None
}
