//! Opening the door: binding an address, and the options of each socket.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};

use super::address::ListenAddress;
use super::socket::Listener;
use super::socket_file::{SocketFile, SocketFileError, listen_at};

const BACKLOG: u32 = 4096;

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// One of the network.
    #[error("cannot listen on {address}: {source}; {}", remedy(.source, .address))]
    Ip {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The path of a unix socket.
    #[error("cannot listen on {address}: {source}")]
    Unix {
        /// The address.
        address: ListenAddress,
        /// What is in the way.
        source: SocketFileError,
    },
}

impl BindError {
    /// Of an address that the kernel says this of.
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
        io::ErrorKind::AddrInUse => format!(
            "another program listens there (`ss -ltnp 'sport = :{port}'` names it): \
             stop it or choose another address"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "port {port} needs the right CAP_NET_BIND_SERVICE: \
             grant it or choose a port above 1023"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{} is not an address of this machine (`ip addr` lists them): choose one that is",
            address.ip()
        ),
        _ => "choose another address".to_owned(),
    }
}

/// Listens on `address`; with the file of a unix socket, which has this mode.
///
/// # Errors
/// What is in the way.
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

/// A port in TIME_WAIT is no obstacle, so that a restart works at once. `[::]` also takes IPv4
/// connections where the system does so by default.
fn bind_ip(address: SocketAddr) -> Result<Listener, BindError> {
    let listen = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG).map(Listener::Tcp)
    };
    listen().map_err(|source| BindError::Ip { address, source })
}

/// Listens on `address` with a socket that another process had open.
///
/// # Errors
/// What the kernel said.
pub fn adopt(address: &ListenAddress, listener: OwnedFd) -> Result<Listener, BindError> {
    Listener::of(listener).map_err(|source| BindError::new(address, source))
}

/// Options of each accepted socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpOptions {
    /// Congestion control by name (`bbr`); the system's default if `None`.
    pub congestion_control: Option<String>,
    /// Unsent bytes that the kernel takes beyond what is on its way (TCP_NOTSENT_LOWAT). A slow
    /// reader then holds this much of the kernel's memory instead of megabytes, and the send
    /// timeout sees its progress early; a fast one is not held back. Zero leaves the default.
    pub unsent_bytes_max: u32,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            congestion_control: None,
            unsent_bytes_max: 256 * 1024,
        }
    }
}

impl TcpOptions {
    /// Whether the kernel knows the congestion control; to be asked before anything is served.
    pub fn check(&self) -> Result<(), String> {
        let Some(name) = &self.congestion_control else {
            return Ok(());
        };
        let attempt = || {
            use socket2::{Domain, Socket, Type};
            Socket::new(Domain::IPV4, Type::STREAM, None)?.set_tcp_congestion(name.as_bytes())
        };
        attempt().map_err(|error| {
            format!(
                "congestion control `{name}` cannot be used: {error}; \
                 `sysctl net.ipv4.tcp_available_congestion_control` lists those that can"
            )
        })
    }

    /// Sets them. A failure is not worth the connection: the socket works without.
    pub(super) fn apply(&self, stream: &TcpStream) {
        let socket = SockRef::from(stream);
        let mut outcome = stream.set_nodelay(true);
        if let Some(name) = &self.congestion_control {
            outcome = outcome.and(socket.set_tcp_congestion(name.as_bytes()));
        }
        if self.unsent_bytes_max > 0 {
            outcome = outcome.and(socket.set_tcp_notsent_lowat(self.unsent_bytes_max));
        }
        if let Err(error) = outcome {
            tracing::debug!(%error, "a TCP option was refused");
        }
    }
}

/// At any free port of this machine.
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
    async fn a_taken_port_is_named_with_the_remedy() {
        let first = bind_ip("127.0.0.1:0".parse().expect("address")).expect("a free port");
        let address = first.address().expect("bound");
        let error = bind(&address, 0).expect_err("taken").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(
            error.contains("ss -ltnp") && error.contains("choose another"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_named_with_the_remedy() {
        let error = bind_ip("192.0.2.1:0".parse().expect("address")).expect_err("not ours");
        assert!(error.to_string().contains("ip addr"), "{error}");
    }

    #[test]
    fn an_unknown_congestion_control_is_an_error_with_the_list() {
        let options = TcpOptions {
            congestion_control: Some("no-such-rule".to_owned()),
            ..TcpOptions::default()
        };
        let error = options.check().expect_err("unknown");
        assert!(
            error.contains("no-such-rule") && error.contains("sysctl"),
            "{error}"
        );
        assert_eq!(TcpOptions::default().check(), Ok(()));
    }
}
