//! What a socket still holds, and what it has been seen to carry.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::ioctl::{Getter, ioctl};

/// Bytes that were given to a TCP socket and that the other end has not confirmed.
pub(crate) fn unconfirmed_bytes(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: `SIOCOUTQ` (tcp(7)), which has the number of `TIOCOUTQ`, writes one `int`.
    let count: i32 = unsafe { ioctl(socket, Getter::<{ libc::TIOCOUTQ as _ }, i32>::new())? };
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Bytes of `struct tcp_info` (`linux/tcp.h`) up to the end of `tcpi_delivery_rate`, and where in them
/// the state is, that rate, and what says whether it counts.
const INFO_BYTES: usize = 168;
const STATE_AT: usize = 0;
const DELIVERY_RATE_AT: usize = 160;
const APP_LIMITED_AT: usize = 7;
/// `TCP_CLOSE`, the state of a socket that is over both ways.
const STATE_CLOSED: u8 = 7;

/// What the kernel knows of a TCP socket, and how much of it this kernel has; `None` of any other.
fn info(socket: impl AsFd) -> Option<([u8; INFO_BYTES], usize)> {
    let mut info = [0_u8; INFO_BYTES];
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has as many, and into `length`
    // how many these are; both live until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some((info, length as usize))
}

/// Bytes a second that a TCP socket was last measured to deliver; `None` if that was bounded by what it
/// was given to send, or if nothing was measured.
pub(crate) fn delivery_rate(socket: impl AsFd) -> Option<u64> {
    let (info, length) = info(socket)?;
    // Older kernels have less of it.
    if length < INFO_BYTES || info[APP_LIMITED_AT] & 1 != 0 {
        return None;
    }
    let rate = info[DELIVERY_RATE_AT..].first_chunk();
    rate.map(|rate| u64::from_ne_bytes(*rate))
        .filter(|rate| *rate > 0)
}

/// Whether a TCP socket was reset. One that has heard the end of the other side does not say so when
/// it is read.
pub(crate) fn is_reset(socket: impl AsFd) -> bool {
    info(socket).is_some_and(|(info, length)| length > STATE_AT && info[STATE_AT] == STATE_CLOSED)
}

// miri has no sockets.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_that_has_always_more_to_send_has_a_rate_and_others_have_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("connected");
        let (server, _) = listener.accept().expect("accepted");
        assert_eq!(delivery_rate(&server), None, "nothing was sent");
        let mut sending = server.try_clone().expect("cloned");
        let piece = vec![0; 1 << 20];
        // Until the other end is closed.
        let writer = std::thread::spawn(move || while sending.write_all(&piece).is_ok() {});
        let mut bytes = vec![0; 64 << 10];
        let mut read = || client.read(&mut bytes).expect("bytes");
        let rate = (0..100_000).find_map(|_| {
            read();
            delivery_rate(&server)
        });
        assert!(rate.is_some_and(|rate| rate > 1000), "{rate:?}");
        drop(client);
        writer.join().expect("no panic");
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(delivery_rate(&one), None, "no TCP");
    }

    #[test]
    fn who_closed_is_told_from_who_only_says_no_more_by_a_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let meet = || {
            let client = TcpStream::connect(address).expect("connected");
            (client, listener.accept().expect("accepted").0)
        };
        let (half, mut with_half) = meet();
        let (gone, mut with_gone) = meet();
        half.shutdown(std::net::Shutdown::Write).expect("is open");
        drop(gone);
        for server in [&mut with_half, &mut with_gone] {
            assert_eq!(server.read(&mut [0]).expect("an end"), 0);
            assert!(!is_reset(&*server), "both look alike");
            server.write_all(b"H").expect("nobody knows better yet");
        }
        let seen = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            is_reset(&with_gone)
        });
        assert!(seen, "its system answers that nobody is there");
        assert!(!is_reset(&with_half));
        assert_eq!(with_gone.read(&mut [0]).expect("not even now"), 0);
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert!(!is_reset(&one), "no TCP");
    }
}
