//! Binding of listen addresses.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_ipv6_v6only;
use tokio::net::TcpSocket;

use super::address::ListenAddress;
use super::port_use::{PortUse, family_trouble};
use super::socket::Listener;
use super::socket_file::{SocketFile, SocketFileError, listen_at};

const BACKLOG: u32 = 4096;

/// Error of binding an address.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An IP address.
    #[error("cannot listen on {address}: {source}; {}", remedy(.source, .address))]
    Ip {
        /// The address.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// A unix socket.
    #[error("cannot listen on {address}: {source}")]
    Unix {
        /// The address.
        address: ListenAddress,
        /// Reason.
        source: SocketFileError,
    },
}

impl BindError {
    /// The error of the kernel for this address.
    pub fn new(address: &ListenAddress, source: io::Error) -> Self {
        match address {
            ListenAddress::Ip(address) => Self::Ip {
                address: *address,
                source,
            },
            ListenAddress::Unix(_) => Self::Unix {
                address: address.clone(),
                source: source.into(),
            },
        }
    }
}

fn remedy(error: &io::Error, address: &SocketAddr) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => port_in_use(port, PortUse::of(address)),
        io::ErrorKind::PermissionDenied => format!(
            "port {port} needs the capability CAP_NET_BIND_SERVICE: \
             grant it or choose a port above 1023"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{} is not an address of this machine: choose one that `ip addr` lists",
            address.ip()
        ),
        _ => match family_trouble(address) {
            Some(text) => text.to_owned(),
            None => "choose another address".to_owned(),
        },
    }
}

/// The remedy for a port in use.
fn port_in_use(port: u16, found: Option<PortUse>) -> String {
    let is_free = found.is_some_and(|found| found.listeners == 0);
    if is_free && found != Some(PortUse::default()) {
        return format!(
            "no program listens there, but an outgoing connection has this port as its own \
             (`ss -tanp 'sport = :{port}'` shows it): try again in a minute, choose a port below \
             those of `sysctl net.ipv4.ip_local_port_range`, or reserve it in \
             net.ipv4.ip_local_reserved_ports"
        );
    }
    // Another process may have closed its socket in the meantime.
    let which = if is_free {
        "another program used it just now"
    } else {
        "another program listens there"
    };
    format!("{which} (`ss -ltnp 'sport = :{port}'` shows it): stop it or choose another address")
}

/// Listens on `address`. For a unix socket, also returns its file, which gets the mode `unix_mode`.
///
/// # Errors
/// Why the address cannot be bound, with a remedy.
pub fn bind(
    address: &ListenAddress,
    unix_mode: u32,
) -> Result<(Listener, Option<SocketFile>), BindError> {
    match address {
        ListenAddress::Ip(address) => Ok((bind_ip(*address)?, None)),
        ListenAddress::Unix(path) => {
            let (socket, file) =
                listen_at(path, unix_mode, BACKLOG).map_err(|source| BindError::Unix {
                    address: address.clone(),
                    source,
                })?;
            Ok((adopt(address, socket)?, Some(file)))
        }
    }
}

/// A port in TIME_WAIT does not prevent the bind, so a restart works immediately. `[::]` also
/// accepts IPv4 connections, whatever `net.ipv6.bindv6only` says.
fn bind_ip(address: SocketAddr) -> Result<Listener, BindError> {
    let listen = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            let socket = TcpSocket::new_v6()?;
            set_ipv6_v6only(&socket, false)?;
            socket
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG).map(Listener::Tcp)
    };
    listen().map_err(|source| BindError::Ip { address, source })
}

/// Takes over a listening socket that another process opened.
///
/// # Errors
/// The error of the kernel.
pub fn adopt(address: &ListenAddress, listener: OwnedFd) -> Result<Listener, BindError> {
    Listener::of(listener).map_err(|source| BindError::new(address, source))
}

/// Binds a free port on the loopback address.
#[cfg(test)]
pub(crate) fn bind_local() -> (Listener, SocketAddr) {
    let listener = bind_ip(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    match listener.address() {
        Ok(ListenAddress::Ip(address)) => (listener, address),
        other => panic!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn taken_port_error_names_address_and_remedy() {
        let first = bind_ip("127.0.0.1:0".parse().expect("address")).expect("a free port");
        let address = first.address().expect("bound");
        let error = bind(&address, 0).expect_err("taken").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(
            error.contains("ss -ltnp") && error.contains("choose another"),
            "{error}"
        );
    }

    #[test]
    fn remedy_tells_listener_from_connection() {
        let of = |listeners, connections| {
            port_in_use(
                80,
                Some(PortUse {
                    listeners,
                    connections,
                }),
            )
        };
        assert!(of(1, 3).starts_with("another program listens there"));
        assert!(of(0, 1).contains("outgoing connection"));
        assert!(of(0, 0).starts_with("another program used it just now"));
        assert!(port_in_use(80, None).starts_with("another program listens there"));
    }

    #[tokio::test]
    async fn foreign_address_error_names_remedy() {
        let error = bind_ip("192.0.2.1:0".parse().expect("address")).expect_err("foreign");
        assert!(error.to_string().contains("ip addr"), "{error}");
    }
}
