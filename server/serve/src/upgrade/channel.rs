//! Messages between the old and the new process during an upgrade: short words, some with sockets.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use headlong_net::ListenAddress;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::error::UpgradeError;

/// Upper limit of the length of a message.
const WORD_BYTES_MAX: usize = 256;
/// Upper limit of descriptors in a message.
const PASSED_MAX: usize = 2;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UpgradeMessage {
    /// A listening socket with its configured address. For a unix socket that this process created,
    /// the socket file precedes it; the new process takes over the file.
    Listener(ListenAddress),
    /// The same for a unix socket whose file belongs to the service manager.
    Managed(ListenAddress),
    /// There are no more listening sockets.
    NoMoreListeners,
    /// The configuration and the resources it names are valid.
    Checked,
    /// The new process may start its devices.
    Go,
    /// The new process is ready to serve; its process id.
    Ready(u32),
    /// The new process serves from now on. Comes with the socket for the transfer of memory.
    Yours,
    /// The new process must end.
    GiveUp,
    /// The service is being stopped.
    Stop,
}

impl fmt::Display for UpgradeMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listener(address) => write!(f, "listener {address}"),
            Self::Managed(address) => write!(f, "managed {address}"),
            Self::NoMoreListeners => f.write_str("no more listeners"),
            Self::Checked => f.write_str("checked"),
            Self::Go => f.write_str("go"),
            Self::Ready(process) => write!(f, "ready {process}"),
            Self::Yours => f.write_str("yours"),
            Self::GiveUp => f.write_str("give up"),
            Self::Stop => f.write_str("stop"),
        }
    }
}

impl UpgradeMessage {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "no more listeners" => Self::NoMoreListeners,
            "checked" => Self::Checked,
            "go" => Self::Go,
            "yours" => Self::Yours,
            "give up" => Self::GiveUp,
            "stop" => Self::Stop,
            _ => match text.split_once(' ')? {
                ("listener", address) => Self::Listener(address.parse().ok()?),
                ("managed", address) => Self::Managed(address.parse().ok()?),
                ("ready", process) => Self::Ready(process.parse().ok()?),
                _ => return None,
            },
        })
    }

    /// The error for an unexpected message.
    pub(super) fn unexpected(&self) -> UpgradeError {
        UpgradeError::Unexpected(self.to_string())
    }
}

/// One end of the connection between the two processes. The socket preserves message boundaries
/// (SOCK_SEQPACKET); the stream type is used only to wait for it.
#[derive(Debug)]
pub(super) struct UpgradeChannel(UnixStream);

impl UpgradeChannel {
    /// Creates a connection: this process's end, and the other's.
    pub(super) fn pair() -> Result<(Self, OwnedFd), UpgradeError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let (own, other) =
            socketpair(AddressFamily::UNIX, kind, flags, None).map_err(std::io::Error::from)?;
        Ok((Self::of(own)?, other))
    }

    /// Wraps the end that this process was started with.
    pub(super) fn of(end: OwnedFd) -> Result<Self, UpgradeError> {
        let end = std::os::unix::net::UnixStream::from(end);
        end.set_nonblocking(true)?;
        Ok(Self(UnixStream::from_std(end)?))
    }

    /// Sends a message with its sockets.
    pub(super) async fn send(
        &self,
        word: &UpgradeMessage,
        with: &[BorrowedFd<'_>],
    ) -> Result<(), UpgradeError> {
        loop {
            self.0.writable().await?;
            let end = || Ok(send_message(self.0.as_fd(), word, with)?);
            match self.0.try_io(Interest::WRITABLE, end) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) if is_disconnected(&error) => return Err(UpgradeError::Ended),
                said => return Ok(said?),
            }
        }
    }

    /// Sends a message without waiting.
    pub(super) fn try_send(&self, word: &UpgradeMessage) {
        // The other process may have ended, which is fine.
        let _ = send_message(self.0.as_fd(), word, &[]);
    }

    /// Receives a message.
    pub(super) async fn receive(&self) -> Result<(UpgradeMessage, Vec<OwnedFd>), UpgradeError> {
        loop {
            self.0.readable().await?;
            let heard = self
                .0
                .try_io(Interest::READABLE, || Ok(receive_message(self.0.as_fd())?));
            match heard {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) if is_disconnected(&error) => return Err(UpgradeError::Ended),
                Err(error) => return Err(error.into()),
                Ok((text, _)) if text.is_empty() => return Err(UpgradeError::Ended),
                Ok((text, with)) => {
                    let word =
                        UpgradeMessage::parse(&text).ok_or(UpgradeError::Unexpected(text))?;
                    return Ok((word, with));
                }
            }
        }
    }
}

fn is_disconnected(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

fn send_message(
    end: BorrowedFd<'_>,
    word: &UpgradeMessage,
    with: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let text = word.to_string();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(with));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(end, &[IoSlice::new(text.as_bytes())], &mut control, flags).map(|_| ())
}

/// Receives the text of a message, empty if the other end is closed, and its descriptors.
fn receive_message(end: BorrowedFd<'_>) -> Result<(String, Vec<OwnedFd>), Errno> {
    let mut bytes = [0; WORD_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut vector = [IoSliceMut::new(&mut bytes)];
    let length = recvmsg(end, &mut vector, &mut control, flags)?.bytes;
    let mut passed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    let text = bytes.get(..length).unwrap_or_default();
    Ok((String::from_utf8_lossy(text).into_owned(), passed))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv6Addr, SocketAddr, TcpListener};

    use super::*;

    #[tokio::test]
    async fn messages_and_sockets_arrive_unchanged_and_close_is_seen() {
        let (one, other) = UpgradeChannel::pair().expect("a pair");
        let other = UpgradeChannel::of(other).expect("an end");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let named = ListenAddress::Ip(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)));
        let file = std::fs::File::open("/dev/null").expect("opened");
        let both = [file.as_fd(), listener.as_fd()];
        one.send(&UpgradeMessage::Listener(named.clone()), &both)
            .await
            .expect("said");
        let longest = format!("unix:/{}", "a".repeat(106));
        let words = [
            UpgradeMessage::NoMoreListeners,
            UpgradeMessage::Checked,
            UpgradeMessage::Go,
            UpgradeMessage::Ready(7),
            UpgradeMessage::Yours,
            UpgradeMessage::GiveUp,
            UpgradeMessage::Stop,
            UpgradeMessage::Managed(longest.parse().expect("right")),
        ];
        for word in &words {
            one.send(word, &[]).await.expect("said");
        }
        let (word, with) = other.receive().await.expect("heard");
        assert_eq!(word, UpgradeMessage::Listener(named));
        let [_file, socket] = <[OwnedFd; 2]>::try_from(with).expect("both");
        let passed = TcpListener::from(socket);
        assert_eq!(passed.local_addr().expect("bound"), address);
        for word in &words {
            let (heard, with) = other.receive().await.expect("heard");
            assert_eq!((&heard, with.len()), (word, 0));
        }
        drop(one);
        let ended = other.receive().await;
        assert!(matches!(ended, Err(UpgradeError::Ended)), "{ended:?}");
        let ended = other.send(&UpgradeMessage::Checked, &[]).await;
        assert!(matches!(ended, Err(UpgradeError::Ended)), "{ended:?}");
    }

    #[tokio::test]
    async fn unknown_message_is_an_error() {
        let (one, other) = UpgradeChannel::pair().expect("a pair");
        for said in [
            "hello",
            "ready ",
            "ready -1",
            "listener 1.2.3.4",
            "managed unix:a",
        ] {
            rustix::net::send(&other, said.as_bytes(), SendFlags::NOSIGNAL).expect("sent");
            let heard = one.receive().await;
            assert!(
                matches!(&heard, Err(UpgradeError::Unexpected(text)) if text == said),
                "{heard:?}"
            );
        }
    }
}
