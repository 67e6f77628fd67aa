//! Receives one message from a connection, with its descriptors.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use headlong_protocol::{MESSAGE_BYTES, Message};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, UCred, recvmsg, sockopt,
};

/// Result of receiving.
#[derive(Debug)]
pub(crate) enum ReceiveResult {
    /// A message with its descriptors, and the sender's credentials from the kernel.
    Message(Message, PassedDescriptors, UCred),
    /// No message yet.
    Nothing,
    /// An invalid message or a closed connection, with the descriptors received.
    Wrong(Vec<OwnedFd>),
}

/// Descriptors received with a message. Closing one may block on its file system.
#[derive(Debug, Default)]
pub(crate) struct PassedDescriptors {
    pub(crate) all: Vec<OwnedFd>,
    /// Whether further descriptors were dropped for lack of room.
    pub(crate) is_cut: bool,
}

/// Receives a pending message, with descriptors if there is room for them (`takes_descriptors`).
/// Otherwise the kernel does not install them in this process.
pub(crate) fn receive(connection: &OwnedFd, takes_descriptors: bool) -> ReceiveResult {
    // One more byte, to detect a message that is too long.
    let mut bytes = [0; MESSAGE_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = match takes_descriptors {
        true => RecvAncillaryBuffer::new(&mut space),
        false => RecvAncillaryBuffer::default(),
    };
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut vector = [IoSliceMut::new(&mut bytes)];
    let received = match recvmsg(connection, &mut vector, &mut control, flags) {
        Ok(received) => received,
        Err(Errno::AGAIN | Errno::INTR) => return ReceiveResult::Nothing,
        Err(_) => return ReceiveResult::Wrong(Vec::new()),
    };
    let mut passed = PassedDescriptors {
        all: Vec::new(),
        // Also set if the process has reached its descriptor limit.
        is_cut: received.flags.contains(ReturnFlags::CTRUNC),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.all.extend(descriptors);
        }
    }
    let message = bytes.get(..received.bytes).and_then(Message::decode);
    match (message, sockopt::socket_peercred(connection)) {
        (Some(message), Ok(credentials)) => ReceiveResult::Message(message, passed, credentials),
        _ => ReceiveResult::Wrong(passed.all),
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::{AsFd as _, BorrowedFd};

    use headlong_protocol::MessageKind;
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    };

    use super::*;

    /// Sends a message with that many descriptors, and receives it.
    fn sent(bytes: &[u8], descriptors: usize, takes_descriptors: bool) -> ReceiveResult {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (here, there) = pair.expect("sockets");
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let passed: Vec<BorrowedFd<'_>> = vec![reader.as_fd(); descriptors];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(9))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if descriptors > 0 {
            assert!(control.push(SendAncillaryMessage::ScmRights(&passed)));
        }
        let vector = [IoSlice::new(bytes)];
        sendmsg(&there, &vector, &mut control, SendFlags::NOSIGNAL).expect("sent");
        receive(&here, takes_descriptors)
    }

    #[test]
    fn dropped_descriptors_are_detected() {
        let bytes = Message::new(MessageKind::Ask, Default::default(), 0, 1).encode();
        for (descriptors, takes, is_cut) in [
            (0, true, false),
            (1, true, false),
            (4, true, false),
            (9, true, true),
            (1, false, true),
            (0, false, false),
        ] {
            let ReceiveResult::Message(_, passed, _) = sent(&bytes, descriptors, takes) else {
                panic!("no message");
            };
            let found = (passed.is_cut, passed.all.len() < descriptors);
            assert_eq!(found, (is_cut, is_cut), "{descriptors}, {takes}");
        }
    }

    #[test]
    fn descriptors_of_an_invalid_message_are_returned() {
        let ReceiveResult::Wrong(passed) = sent(b"hello", 2, true) else {
            panic!("a message");
        };
        assert_eq!(passed.len(), 2);
    }
}
