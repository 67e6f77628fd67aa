//! State of a TCP socket: unacknowledged bytes, delivery rate, reset.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::ioctl::{Getter, ioctl};

/// Bytes written to a TCP socket that the peer has not acknowledged.
pub fn unconfirmed_bytes(socket: impl AsFd) -> io::Result<u64> {
    // SAFETY: `SIOCOUTQ` (tcp(7)), which has the number of `TIOCOUTQ`, writes one `int`.
    let count: i32 = unsafe { ioctl(socket, Getter::<{ libc::TIOCOUTQ as _ }, i32>::new())? };
    Ok(u64::try_from(count).unwrap_or(0))
}

/// Size of `struct tcp_info` (`linux/tcp.h`) up to `tcpi_delivery_rate`, and the offsets of the
/// state, the rate and the flag that limits its validity.
const INFO_BYTES: usize = 168;
const STATE_AT: usize = 0;
const DELIVERY_RATE_AT: usize = 160;
const APP_LIMITED_AT: usize = 7;
/// `TCP_CLOSE`, the state of a socket that is closed in both directions.
const STATE_CLOSED: u8 = 7;

/// `tcp_info` of a TCP socket, and how many bytes this kernel fills in; `None` for other sockets.
fn info(socket: impl AsFd) -> Option<([u8; INFO_BYTES], usize)> {
    let mut info = [0_u8; INFO_BYTES];
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which has that many, and their
    // number into `length`; both live until the call returns.
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

/// Last measured delivery rate of a TCP socket in bytes per second; `None` if it was limited by the
/// application or not measured.
pub fn delivery_rate(socket: impl AsFd) -> Option<u64> {
    let (info, length) = info(socket)?;
    // Older kernels return a shorter structure.
    if length < INFO_BYTES || info[APP_LIMITED_AT] & 1 != 0 {
        return None;
    }
    let rate = info[DELIVERY_RATE_AT..].first_chunk();
    rate.map(|rate| u64::from_ne_bytes(*rate))
        .filter(|rate| *rate > 0)
}

/// Whether a TCP socket was reset. A read does not report that if the peer had shut down its
/// direction before.
pub fn is_reset(socket: impl AsFd) -> bool {
    info(socket).is_some_and(|(info, length)| length > STATE_AT && info[STATE_AT] == STATE_CLOSED)
}

// Miri does not support sockets.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn delivery_rate_is_known_only_for_a_busy_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("connected");
        let (server, _) = listener.accept().expect("accepted");
        assert_eq!(delivery_rate(&server), None, "nothing sent yet");
        let mut sending = server.try_clone().expect("cloned");
        let piece = vec![0; 1 << 20];
        // Runs until the client closes.
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
        assert_eq!(delivery_rate(&one), None, "not a TCP socket");
    }

    #[test]
    fn write_distinguishes_closed_peer_from_half_closed_one() {
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
            assert!(!is_reset(&*server), "both look the same");
            server.write_all(b"H").expect("a reset is not known yet");
        }
        let seen = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            is_reset(&with_gone)
        });
        assert!(seen, "the peer's kernel answers with a reset");
        assert!(!is_reset(&with_half));
        assert_eq!(
            with_gone.read(&mut [0]).expect("end of file, not an error"),
            0
        );
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert!(!is_reset(&one), "not a TCP socket");
    }
}
