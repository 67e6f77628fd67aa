//! One message from one connection, with its descriptor.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use headlong_protocol::{MESSAGE_BYTES, Message};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, UCred, recvmsg, sockopt};

/// What came of looking for a message.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message, with the descriptor that came with it and who sent it, by the kernel.
    Message(Message, Option<OwnedFd>, UCred),
    /// Nothing yet.
    Nothing,
    /// What is no message, or nobody.
    Wrong,
}

/// Takes the message that is there.
pub(crate) fn receive(connection: &OwnedFd) -> Received {
    // One byte more, to see a message that is too long.
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut vector = [IoSliceMut::new(&mut bytes)];
    let received = match recvmsg(connection, &mut vector, &mut control, flags) {
        Ok(received) => received.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        Err(_) => return Received::Wrong,
    };
    let mut passed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    let message = bytes.get(..received).and_then(Message::decode);
    let (Some(message), Ok(credentials)) = (message, sockopt::socket_peercred(connection)) else {
        return Received::Wrong;
    };
    // Of several, all are closed.
    let only = (passed.len() == 1).then(|| passed.remove(0));
    Received::Message(message, only, credentials)
}
