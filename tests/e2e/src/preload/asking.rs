//! Words to a reception as the library says them, and also as it does not.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with,
};

/// Kinds of messages.
pub const ASK: u16 = 1;
/// Tells what was read.
pub const NOTE: u16 = 2;
/// Tells counters.
pub const COUNT: u16 = 3;
/// Wants to know how it is.
pub const STATUS: u16 = 4;
/// Waited for the disk at a small file.
pub const WAITED: u16 = 5;

/// Answers.
pub const READY: u16 = 1;
/// See the protocol.
pub const GO_ON: u16 = 2;
/// See the protocol.
pub const LEAVE_ALONE: u16 = 3;

/// A connection on which nothing was said yet.
///
/// # Panics
/// If nobody listens.
pub fn connected(path: &Path) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    connect(&socket, &SocketAddrUnix::new(path).expect("short")).expect("it listens");
    socket
}

/// Says something of the first 64 KiB of a file, which comes with it.
///
/// # Panics
/// If it cannot be said.
pub fn say(connection: &OwnedFd, kind: u16, file: impl AsFd) {
    let mut message = Vec::from(*b"HLRC");
    message.extend(1u16.to_le_bytes());
    message.extend(kind.to_le_bytes());
    for number in [0, 0, 0, 65_536u64] {
        message.extend(number.to_le_bytes());
    }
    message.resize(184, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let passed = [file.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&passed));
    let flags = SendFlags::NOSIGNAL;
    sendmsg(connection, &[IoSlice::new(&message)], &mut control, flags).expect("sent");
}

/// What comes within half a minute; nothing if the connection is closed.
///
/// # Panics
/// If the time cannot be limited.
pub fn heard(connection: &OwnedFd) -> Option<Vec<u8>> {
    let patience = Some(Duration::from_secs(30));
    set_socket_timeout(connection, Timeout::Recv, patience).expect("set");
    let mut bytes = vec![0; 128 << 10];
    let (received, _) = recv(connection, &mut bytes[..], RecvFlags::empty()).ok()?;
    bytes.truncate(received);
    (received > 0).then_some(bytes)
}

/// The answer to an ask, if there is one.
pub fn answer(connection: &OwnedFd) -> Option<u16> {
    let bytes: [u8; 8] = heard(connection)?.try_into().ok()?;
    Some(u16::from_le_bytes([bytes[6], bytes[7]]))
}

/// The answer to one who asks for the first bytes of a file.
pub fn asked(socket: &Path, file: impl AsFd) -> Option<u16> {
    let connection = connected(socket);
    say(&connection, ASK, file);
    answer(&connection)
}
