//! One message from one connection, with its descriptors.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use headlong_protocol::{MESSAGE_BYTES, Message};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, UCred, recvmsg, sockopt,
};

/// What came of looking for a message.
#[derive(Debug)]
pub(crate) enum Received {
    /// A message, with what came with it and who sent it, by the kernel.
    Message(Message, Passed, UCred),
    /// Nothing yet.
    Nothing,
    /// What is no message, or nobody; with what came with it.
    Wrong(Vec<OwnedFd>),
}

/// Descriptors that came with a message. To close one may take as long as its file system likes.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) all: Vec<OwnedFd>,
    /// Whether there were more than were taken: there was no room for them.
    pub(crate) is_cut: bool,
}

/// Takes the message that is there, and descriptors with it if there is room for them
/// (`takes_descriptors`). Others are not opened here at all.
pub(crate) fn receive(connection: &OwnedFd, takes_descriptors: bool) -> Received {
    // One byte more, to see a message that is too long.
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
        Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
        Err(_) => return Received::Wrong(Vec::new()),
    };
    let mut passed = Passed {
        all: Vec::new(),
        // Also where the process may have no more open.
        is_cut: received.flags.contains(ReturnFlags::CTRUNC),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.all.extend(descriptors);
        }
    }
    let message = bytes.get(..received.bytes).and_then(Message::decode);
    match (message, sockopt::socket_peercred(connection)) {
        (Some(message), Ok(credentials)) => Received::Message(message, passed, credentials),
        _ => Received::Wrong(passed.all),
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::os::fd::{AsFd as _, BorrowedFd};

    use headlong_protocol::Kind;
    use rustix::net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, sendmsg, socketpair,
    };

    use super::*;

    /// What is received of a message with so many descriptors.
    fn sent(bytes: &[u8], descriptors: usize, takes_descriptors: bool) -> Received {
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
    fn descriptors_without_room_are_known_to_be_missing() {
        let bytes = Message::new(Kind::Ask, Default::default(), 0, 1).encode();
        for (descriptors, takes, is_cut) in [
            (0, true, false),
            (1, true, false),
            (4, true, false),
            (9, true, true),
            (1, false, true),
            (0, false, false),
        ] {
            let Received::Message(_, passed, _) = sent(&bytes, descriptors, takes) else {
                panic!("no message");
            };
            let found = (passed.is_cut, passed.all.len() < descriptors);
            assert_eq!(found, (is_cut, is_cut), "{descriptors}, {takes}");
        }
    }

    #[test]
    fn what_comes_with_no_message_is_not_closed_here() {
        let Received::Wrong(passed) = sent(b"hello", 2, true) else {
            panic!("a message");
        };
        assert_eq!(passed.len(), 2);
    }
}
