//! TLS records that the kernel makes and reads (Documentation/networking/tls.rst, `linux/tls.h`): a
//! socket is given the keys of a session once, and from then on plain bytes go in and come out.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// `TLS_SET_RECORD_TYPE` and `TLS_GET_RECORD_TYPE` of `linux/tls.h`.
const SET_RECORD_TYPE: libc::c_int = 1;
const GET_RECORD_TYPE: libc::c_int = 2;

/// Which of both ways of a socket (`TLS_TX` and `TLS_RX` of `linux/tls.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Out = 1,
    In = 2,
}

/// Room for one control message with one byte, aligned for its head.
type Control = [u64; 4];

/// Makes a connected TCP socket ready to take keys. Until it has some it works as before.
pub(crate) fn attach_tls(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, (libc::IPPROTO_TCP, libc::TCP_ULP), b"tls")
}

/// Gives keys to a socket that is ready for them: `info` is what `linux/tls.h` calls the crypto info of
/// the cipher. The kernel refuses what it does not know.
pub(crate) fn give_keys(socket: impl AsFd, way: Way, info: &[u8]) -> io::Result<()> {
    set_option(socket, (libc::SOL_TLS, way as libc::c_int), info)
}

fn set_option(
    socket: impl AsFd,
    (level, name): (libc::c_int, libc::c_int),
    value: &[u8],
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel reads `length` bytes of `value`, which has as many, and keeps none.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            length,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads what is there of one kind of record: how many bytes, and of which kind they are, which is
/// `None` at the end of the connection.
pub(crate) fn receive_record(
    socket: impl AsFd,
    into: &mut [u8],
) -> io::Result<(usize, Option<u8>)> {
    let mut control = Control::default();
    let mut span = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let mut message = message(&mut span, &mut control);
    let count = loop {
        // SAFETY: `message` names one span, which is `into`, and `control`, with their lengths; all of
        // them live until the call returns, and nobody else looks at them.
        let count = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &raw mut message, 0) };
        match usize::try_from(count) {
            Ok(count) => break count,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    // SAFETY: `message` is as the kernel left it: what it names of `control` are whole control
    // messages, and a head among them is aligned as `Control` is.
    let kind = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        head.as_ref()
            .filter(|head| (head.cmsg_level, head.cmsg_type) == (libc::SOL_TLS, GET_RECORD_TYPE))
            .map(|_| libc::CMSG_DATA(head).read())
    };
    Ok((count, kind))
}

/// Sends bytes as a record of a kind that is not data.
pub(crate) fn send_record(socket: impl AsFd, kind: u8, bytes: &[u8]) -> io::Result<usize> {
    let mut control = Control::default();
    let mut span = libc::iovec {
        // The kernel does not write to what is sent.
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut message = message(&mut span, &mut control);
    // SAFETY: `CMSG_SPACE` and `CMSG_LEN` only count. `control` has room for a head and one byte, and is
    // aligned for the head; `CMSG_FIRSTHDR` gives its beginning, as the length covers a head.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(1) as _;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_TLS;
        (*head).cmsg_type = SET_RECORD_TYPE;
        (*head).cmsg_len = libc::CMSG_LEN(1) as _;
        libc::CMSG_DATA(head).write(kind);
    }
    // SAFETY: `message` names one span, which is `bytes`, and `control`, with their lengths; the kernel
    // only reads them, and they live until the call returns.
    let count = unsafe {
        libc::sendmsg(
            socket.as_fd().as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// A message with one span, and room for control messages.
fn message(span: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: a message of zeros is one without an address, spans, or control messages.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = span;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(control) as _;
    message
}

// miri has no sockets.
#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_without_keys_gives_bytes_of_no_kind_and_then_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).expect("connected");
        let (mut server, _) = listener.accept().expect("accepted");
        // Whether the kernel has it or not.
        let _ = attach_tls(&server);
        client.write_all(b"plain").expect("sent");
        let mut bytes = [0; 16];
        let read = receive_record(&server, &mut bytes).expect("there");
        assert_eq!((&bytes[..read.0], read.1), (&b"plain"[..], None));
        server.write_all(b"too").expect("sent");
        client.read_exact(&mut bytes[..3]).expect("there");
        assert_eq!(&bytes[..3], b"too");
        drop(client);
        let end = receive_record(&server, &mut bytes).expect("an end");
        assert_eq!(end, (0, None));
    }

    #[test]
    fn what_is_no_tcp_takes_no_keys() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert!(attach_tls(&one).is_err());
        assert!(give_keys(&one, Way::Out, &[0; 40]).is_err());
    }
}
