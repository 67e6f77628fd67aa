//! Client of the read-ahead daemon.
//!
//! One connection for each message, closed before the call returns: no descriptor stays open in the
//! program between its calls, whatever it closes or forks.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use headlong_protocol::{Answer, FileKey, Message, MessageKind};

use crate::raw::{self, sys};
use crate::settings;

/// Most calls of one process that talk to the daemon at a time; further calls proceed without it.
const SPEAKING_MAX: usize = 256;

const FREE: i32 = -1;
const CLAIMED: i32 = -2;
/// The program has closed the socket, or replaced its descriptor.
const LOST: i32 = -3;

/// Sockets of in-flight calls, so that a fork can close them.
static SPEAKING: [AtomicI32; SPEAKING_MAX] = [const { AtomicI32::new(FREE) }; SPEAKING_MAX];
/// High-water mark of the slots ever used: scans stop there.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Process that owns the sockets.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Claim on one slot; closes its socket when dropped.
struct SlotClaim(&'static AtomicI32);

impl SlotClaim {
    fn claim() -> Option<Self> {
        let free = SPEAKING.iter().enumerate().find(|(_, place)| {
            let claimed =
                place.compare_exchange(FREE, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
            claimed.is_ok()
        });
        free.map(|(index, place)| {
            TAKEN.fetch_max(index + 1, Ordering::Relaxed);
            Self(place)
        })
    }

    fn connect(&self) -> Option<i32> {
        let socket = sys::socket()?;
        PROCESS.store(sys::process(), Ordering::Relaxed);
        self.0.store(socket, Ordering::Release);
        Some(socket)
    }

    /// Whether the socket still belongs to this call. Otherwise its number may belong to a
    /// descriptor of the program.
    fn has(&self, socket: i32) -> bool {
        self.0.load(Ordering::Acquire) == socket
    }
}

impl Drop for SlotClaim {
    fn drop(&mut self) {
        // A lost socket is not closed here: its number may be in use by the program.
        let socket = self.0.swap(FREE, Ordering::AcqRel);
        if socket >= 0 {
            sys::close(socket);
        }
    }
}

/// The program is about to close or replace these descriptors. Marks the sockets of in-flight calls
/// among them as lost. Returns whether there were any.
pub(crate) fn lose(first: u32, last: u32) -> bool {
    let taken = TAKEN.load(Ordering::Relaxed);
    let mut is_lost = false;
    for place in SPEAKING.iter().take(taken) {
        let socket = place.load(Ordering::Relaxed);
        // A child of `vfork` shares this memory but has its own descriptors.
        if u32::try_from(socket).is_ok_and(|number| (first..=last).contains(&number))
            && PROCESS.load(Ordering::Relaxed) == sys::process()
        {
            let lost = place.compare_exchange(socket, LOST, Ordering::AcqRel, Ordering::Relaxed);
            is_lost |= lost.is_ok();
        }
    }
    is_lost
}

/// In the child of a fork: closes the sockets of calls in flight in other threads of the parent.
pub(crate) fn after_fork() {
    for place in &SPEAKING {
        let socket = place.swap(FREE, Ordering::Relaxed);
        if socket >= 0 {
            sys::close(socket);
        }
    }
}

/// Reports a range that the program is about to read, or has waited for, and waits until the bytes
/// are in memory, up to the configured limit. `None` if no answer arrives in time.
pub(crate) fn request(
    kind: MessageKind,
    fd: i32,
    file: FileKey,
    offset: u64,
    length: u64,
) -> Option<Answer> {
    let place = SlotClaim::claim()?;
    let message = Message::new(kind, file, offset, length);
    let socket = send(&place, message, Some(fd))?;
    let begun = sys::now_ms();
    let limit = settings::wait_ms();
    while place.has(socket) {
        let now = sys::now_ms();
        let waited = now.saturating_sub(begun);
        if waited >= limit {
            raw::memory().give_up(begun, now);
            return None;
        }
        match sys::wait_readable(socket, limit - waited) {
            // A signal handler of the program ran; the disk continues as with a plain read.
            sys::WaitResult::Interrupted | sys::WaitResult::TimedOut => {}
            sys::WaitResult::Readable if place.has(socket) => {
                let answer = sys::receive(socket)?;
                raw::memory().answered(sys::now_ms());
                return Some(answer);
            }
            sys::WaitResult::Readable | sys::WaitResult::Failed => return None,
        }
    }
    None
}

/// Sends a message that needs no answer.
pub(crate) fn notify(kind: MessageKind, file: FileKey, offset: u64, length: u64) {
    if let Some(place) = SlotClaim::claim() {
        let _ = send(&place, Message::new(kind, file, offset, length), None);
    }
}

/// Connects and sends the message with the counters. Returns the socket if the message was
/// accepted.
fn send(place: &SlotClaim, mut message: Message, fd: Option<i32>) -> Option<i32> {
    let memory = raw::memory();
    let socket = place.connect()?;
    match sys::connect(socket) {
        sys::ConnectResult::Yes => {}
        sys::ConnectResult::Busy => return None,
        sys::ConnectResult::No => {
            memory.pause(sys::now_ms());
            return None;
        }
    }
    if !place.has(socket) {
        return None;
    }
    memory.take_counters(&mut message);
    if sys::send(socket, &message.encode(), fd) {
        return Some(socket);
    }
    memory.put_back(&message);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slots are shared by all tests of this process, so these tests run one at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    fn speaking() -> (SlotClaim, i32) {
        let place = SlotClaim::claim().expect("a free slot");
        let socket = place.connect().expect("a socket");
        (place, socket)
    }

    fn number(socket: i32) -> u32 {
        socket.try_into().expect("a descriptor")
    }

    #[test]
    fn socket_closed_by_program_is_not_closed_again() {
        let _alone = ALONE.lock();
        let (place, socket) = speaking();
        assert!(place.has(socket));
        assert!(lose(number(socket), u32::MAX));
        assert!(!place.has(socket));
        assert!(!lose(number(socket), u32::MAX), "reported once");
        let link = || std::fs::read_link(format!("/proc/self/fd/{socket}")).ok();
        let before = link();
        drop(place);
        assert!(
            before.is_some() && link() == before,
            "the descriptor of the program stays open"
        );
        sys::close(socket);
    }

    #[test]
    fn open_socket_is_closed_when_its_slot_is_dropped() {
        let _alone = ALONE.lock();
        let (place, socket) = speaking();
        assert!(!lose(number(socket) + 1, u32::MAX) && !lose(0, number(socket) - 1));
        assert!(place.has(socket));
        PROCESS.fetch_add(1, Ordering::Relaxed);
        assert!(!lose(number(socket), number(socket)), "a child of vfork");
        assert!(place.has(socket));
        let path = format!("/proc/self/fd/{socket}");
        let link = std::fs::read_link(&path).expect("open");
        drop(place);
        // Another test may have reused the number.
        assert_ne!(std::fs::read_link(&path).ok(), Some(link));
    }
}
