//! What is done before a call that reads a file, and after it.

use headlong_protocol::{ANSWERED_MS, ASK_BYTES_MAX, Answer, Kind};

use crate::client;
use crate::raw::{self, sys};
use crate::resident::{is_resident, is_untold};
use crate::settings::{self, Mode};
use crate::table::{self, Class, Entry};

/// Calls for fewer bytes that go on from nowhere are left alone: a look would cost as much as they
/// do, and nothing read ahead would serve them (pages of databases).
const SCATTERED_BYTES_MIN: u64 = 8 << 10;
/// What was in memory is believed to be there for so long.
const RESIDENT_MS: u64 = 500;
/// A socket that has any room takes a whole packet more than fits, before it is cut for the network.
const PACKET_BYTES: u64 = 64 << 10;
/// A reader that goes on is told of again after so many bytes.
const NOTE_BYTES: u64 = 512 << 10;
/// Larger mappings are left alone: who maps so much at once does not read it from its start on.
/// Apache maps 4 MiB at a time.
const MAPPING_BYTES_MAX: u64 = 16 << 20;

/// Where a call reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum At {
    /// Where the descriptor is.
    Position,
    /// At this byte.
    Offset(u64),
    /// At the byte whose number is at this address, if it is one.
    Pointed(usize),
}

/// A call that took so long waited for a disk, nanoseconds: what is in memory is there in less.
const DISK_NS: u64 = 100_000;
/// A reception that had nothing to read ahead is told of small files again after this time.
const WALK_PAUSE_MS: u64 = 100;

/// A call that is timed: since when, nanoseconds.
#[derive(Debug)]
pub(crate) enum Timed {
    /// It was not for bytes in memory.
    Waited(u64),
    /// The first of a small file, perhaps, by its descriptor: nobody has looked.
    Small(u64, i32),
}

/// Before a call that reads `length` bytes; at most so many, if nobody knows.
#[inline]
pub(crate) fn before(fd: i32, at: At, length: u64) -> Option<Timed> {
    before_call(fd, None, at, length)
}

/// Before a call that sends `length` bytes to `out`. A socket takes what it has room for, and the rest
/// is another call's: what is not sent for a while need not be in memory now.
#[inline]
pub(crate) fn before_sending(fd: i32, out: i32, at: At, length: u64) -> Option<Timed> {
    before_call(fd, Some(out), at, length)
}

#[inline]
fn before_call(fd: i32, out: Option<i32>, at: At, length: u64) -> Option<Timed> {
    if settings::mode() == Mode::Off || length == 0 {
        return None;
    }
    let entry = table::entry(fd)?;
    if entry.class() == Class::LeftAlone {
        return None;
    }
    let _errno = sys::SavedErrno::save();
    look(fd, entry, (at, length), out)
}

/// After it.
#[inline]
pub(crate) fn after(timed: Option<Timed>) {
    let Some(timed) = timed else {
        return;
    };
    let _errno = sys::SavedErrno::save();
    let now = sys::now_ns();
    match timed {
        Timed::Waited(since) => raw::memory().record(now.saturating_sub(since)),
        Timed::Small(since, fd) => small(fd, now.saturating_sub(since)),
    }
}

/// The first call of what may be a small file took so long. Time tells what a question would cost
/// more than the call to find out: whether it was in memory.
fn small(fd: i32, took_ns: u64) {
    let memory = raw::memory();
    if took_ns < DISK_NS {
        return memory.find_small();
    }
    let now = sys::now_ms();
    if memory.is_paused(now) || memory.is_walk_paused(now) {
        return;
    }
    let file = sys::regular_file(fd).filter(|(_, size)| *size < settings::file_bytes_min());
    let Some((file, _)) = file.filter(|_| sys::is_only_read(fd)) else {
        return;
    };
    let found = memory.take_found_small();
    if client::ask(Kind::Waited, fd, file, (0, found)) != Some(Answer::Ready) {
        // Of what was found meanwhile, as much is worth telling as before.
        memory.pause_walk(now.saturating_add(WALK_PAUSE_MS));
    }
}

/// Before a call that maps `length` bytes of a file.
pub(crate) fn before_mapping(fd: i32, offset: u64, length: u64) -> Option<Timed> {
    if length > MAPPING_BYTES_MAX {
        return None;
    }
    // How long it takes to map says nothing.
    let timed = before(fd, At::Offset(offset), length);
    timed.filter(|timed| matches!(timed, Timed::Waited(_)))
}

/// The descriptor is closed, or becomes another. Whether that takes a call its socket.
pub(crate) fn before_close(fd: i32) -> bool {
    if settings::mode() == Mode::Off {
        return false;
    }
    forget(fd);
    u32::try_from(fd).is_ok_and(|number| client::lose(number, number))
}

/// A copy of one descriptor takes the number of another, which is closed. Whether that takes a call
/// its socket.
pub(crate) fn before_replacing(from: i32, to: i32) -> bool {
    from != to && before_close(to)
}

/// It was not closed, because there is nothing to copy: the call whose socket it was is past closing
/// it.
pub(crate) fn not_replaced(socket: i32) {
    let _errno = sys::SavedErrno::save();
    sys::close(socket);
}

/// The descriptors from `first` to `last` are closed.
pub(crate) fn before_closing_all(first: u32, last: u32) {
    table::forget_range(first, last);
    if settings::mode() != Mode::Off {
        client::lose(first, last);
    }
}

fn forget(fd: i32) {
    let Some(entry) = table::entry(fd) else {
        return;
    };
    if entry.class() == Class::LookedAt {
        let _errno = sys::SavedErrno::save();
        let end = entry.last_end();
        if let Some(told) = entry
            .told_end()
            .filter(|told| *told < end && end != u64::MAX)
        {
            note(entry, told, end);
        }
    }
    entry.forget();
}

/// The program limits the system calls that it may make: from now on, none are made for it.
pub(crate) fn turn_off() {
    settings::turn_off();
}

/// The process ends: what was counted is told.
pub(crate) fn at_exit() {
    let memory = raw::memory();
    if settings::mode() == Mode::Daemon && memory.has_counters() && !memory.is_paused(sys::now_ms())
    {
        client::tell(Kind::Count, Default::default(), (0, 0));
    }
}

fn look(fd: i32, entry: &Entry, (at, length): (At, u64), out: Option<i32>) -> Option<Timed> {
    match entry.class() {
        // The first call goes on from nowhere; most small files are read by one.
        Class::Unknown if length < SCATTERED_BYTES_MIN => {
            entry.pass_once();
            return first_of_small(fd);
        }
        Class::Unknown if !classify(fd, entry) => return first_of_small(fd),
        Class::PassedOnce if !classify(fd, entry) => return None,
        _ => {}
    }
    let start = match at {
        At::Offset(offset) => offset,
        // What is no offset's address is for the kernel to refuse, and so is a negative one.
        At::Pointed(address) => u64::try_from(sys::pointed_at(address)?).ok()?,
        At::Position => match sys::position(fd) {
            Some(position) => position,
            None => {
                entry.forget();
                return None;
            }
        },
    };
    let mut end = start
        .saturating_add(length.min(ASK_BYTES_MAX))
        .min(entry.size());
    if start >= end {
        return None;
    }
    let goes_on = entry.goes_on(start, end);
    if !goes_on && length < SCATTERED_BYTES_MIN {
        return None;
    }
    let now = sys::now_ms();
    let memory = raw::memory();
    let by_daemon = settings::mode() == Mode::Daemon;
    if by_daemon && memory.is_paused(now) {
        return None;
    }
    let mut is_there = is_known(entry, (start, end), now);
    if !is_there && let Some(room) = out.and_then(sys::room) {
        // It takes nothing, and the program comes again.
        if room == 0 {
            return None;
        }
        end = end.min(start.saturating_add(room).saturating_add(PACKET_BYTES));
        is_there = is_known(entry, (start, end), now);
    }
    let is_there = is_there || finds(fd, entry, (start, end), goes_on, now)?;
    memory.count(is_there);
    if is_there {
        if by_daemon {
            progress(entry, start, end);
        }
        return None;
    }
    let since = sys::now_ns();
    match by_daemon {
        true => {
            // What lies between was in memory, and the reception was not told yet.
            if let Some(told) = entry.told_end()
                && told < start
                && start - told <= NOTE_BYTES
            {
                note(entry, told, start);
            }
            // A call that was done in part is made again for the rest and more: of what is known to
            // be there nothing is asked twice.
            let known = entry.resident_to(start, now).filter(|known| *known < end);
            let from = known.filter(|_| is_untold()).unwrap_or(start);
            match client::ask(Kind::Ask, fd, entry.file(), (from, end - from)) {
                Some(Answer::Ready) => {
                    memory.remember_file(entry.file(), now);
                    let answered = sys::now_ms();
                    let until = answered.saturating_add(match is_untold() {
                        true => ANSWERED_MS,
                        false => RESIDENT_MS,
                    });
                    entry.remember_resident(start, end, until);
                    if is_untold() {
                        memory.remember_resident(entry.file(), (start, end), (answered, until));
                    }
                    memory.remember_told(entry.file(), (start, end), answered);
                    entry.tell(end);
                }
                Some(Answer::LeaveAlone) => entry.leave_alone(),
                Some(Answer::GoOn) | None => {}
            }
        }
        false => {
            let length = settings::prefetch_bytes().max(end - start);
            sys::read_ahead(fd, start, length.min(entry.size() - start));
        }
    }
    Some(Timed::Waited(since))
}

fn first_of_small(fd: i32) -> Option<Timed> {
    let is_told = settings::mode() == Mode::Daemon;
    is_told.then(|| Timed::Small(sys::now_ns(), fd))
}

/// Whether the bytes were in memory a moment ago, as this descriptor's calls or another's found.
fn is_known(entry: &Entry, (start, end): (u64, u64), now: u64) -> bool {
    if entry.is_resident(start, end, now) {
        return true;
    }
    let until = raw::memory().resident_until(entry.file(), (start, end), now);
    until
        .inspect(|until| entry.remember_resident(start, end, *until))
        .is_some()
}

/// Whether the bytes are in memory, asked of the kernel. Of a reader that goes on, as many again
/// are asked about, so that its next calls need not ask.
fn finds(
    fd: i32,
    entry: &Entry,
    (start, end): (u64, u64),
    goes_on: bool,
    now: u64,
) -> Option<bool> {
    let is_helped = settings::mode() == Mode::Daemon;
    let Some(is_there) = is_resident(fd, start, end, is_helped) else {
        // No file, or none that can be asked about.
        entry.leave_alone();
        return None;
    };
    if is_there {
        let wide_end = end.saturating_add(NOTE_BYTES).min(entry.size());
        let is_wide =
            goes_on && end < wide_end && is_resident(fd, end, wide_end, is_helped) == Some(true);
        let known_end = if is_wide { wide_end } else { end };
        let until = now.saturating_add(RESIDENT_MS);
        entry.remember_resident(start, known_end, until);
        raw::memory().remember_resident(entry.file(), (start, known_end), (now, until));
    }
    Some(is_there)
}

/// Tells the reception how far a reader is of a file that it reads for the program.
fn progress(entry: &Entry, start: u64, end: u64) {
    let from = match entry.told_end() {
        Some(told) if told >= end && told - end <= ASK_BYTES_MAX => return,
        // It goes on, and not yet by much.
        Some(told) if told < end && end - told < NOTE_BYTES => return,
        Some(told) if told < end && start.saturating_sub(told) <= NOTE_BYTES => told,
        _ => start,
    };
    note(entry, from, end);
    // Asked once for each descriptor and stretch, whatever the answer.
    entry.tell(end);
}

fn note(entry: &Entry, from: u64, end: u64) {
    let now = sys::now_ms();
    let (memory, file) = (raw::memory(), entry.file());
    let length = end.saturating_sub(from).min(ASK_BYTES_MAX);
    let start = end - length;
    if memory.is_paused(now)
        || !memory.knows_file(file, now)
        || memory.is_told(file, (start, end), now)
    {
        return;
    }
    client::tell(Kind::Note, file, (start, length));
    memory.remember_told(file, (start, end), now);
    memory.remember_file(file, now);
}

/// Finds out what a descriptor is. Whether it is looked at.
fn classify(fd: i32, entry: &Entry) -> bool {
    let file = sys::regular_file(fd).filter(|(_, size)| *size >= settings::file_bytes_min());
    match file.filter(|_| sys::is_only_read(fd)) {
        Some((file, size)) => {
            entry.look_at(file, size);
            true
        }
        None => {
            entry.leave_alone();
            false
        }
    }
}
