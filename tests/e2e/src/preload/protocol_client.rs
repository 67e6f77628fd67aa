//! A client of the reception protocol, which sends the library's messages and also invalid ones.

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
/// Reports a read.
pub const NOTE: u16 = 2;
/// Reports counters.
pub const COUNT: u16 = 3;
/// Requests the status.
pub const STATUS: u16 = 4;
/// Reports that a read of a small file had to wait for the disk.
pub const WAITED: u16 = 5;

/// Answers.
pub const READY: u16 = 1;
/// See the protocol.
pub const GO_ON: u16 = 2;
/// See the protocol.
pub const LEAVE_ALONE: u16 = 3;

/// A connection before its first message.
///
/// # Panics
/// If the socket has no listener.
pub fn connected(path: &Path) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    connect(&socket, &SocketAddrUnix::new(path).expect("short")).expect("it listens");
    socket
}

/// Sends a message about the first 64 KiB of a file, with its descriptor.
///
/// # Panics
/// If the message cannot be sent.
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

/// The next message within half a minute; `None` if the connection is closed.
///
/// # Panics
/// If the timeout cannot be set.
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

/// The answer to an ask for the first bytes of a file.
pub fn asked(socket: &Path, file: impl AsFd) -> Option<u16> {
    let connection = connected(socket);
    say(&connection, ASK, file);
    answer(&connection)
}
