//! Opening the door: binding an address, and the options of each socket.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const BACKLOG: u32 = 4096;

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; {}", remedy(.source, .address))]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What the kernel said.
    pub source: io::Error,
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

/// Listens on `address`. A port in TIME_WAIT is no obstacle, so that a restart works at once.
/// `[::]` also takes IPv4 connections where the system does so by default.
pub fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let listen = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().map_err(|source| BindError { address, source })
}

/// Listens on `address` with a socket that another process had open.
///
/// # Errors
/// What the kernel said.
pub fn adopt(
    address: SocketAddr,
    listener: std::net::TcpListener,
) -> Result<TcpListener, BindError> {
    listener
        .set_nonblocking(true)
        .and_then(|()| TcpListener::from_std(listener))
        .map_err(|source| BindError { address, source })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_with_the_remedy() {
        let first = bind("127.0.0.1:0".parse().expect("address")).expect("a free port");
        let address = first.local_addr().expect("bound");
        let error = bind(address).expect_err("taken").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(
            error.contains("ss -ltnp") && error.contains("choose another"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn an_address_of_another_machine_is_named_with_the_remedy() {
        let error = bind("192.0.2.1:0".parse().expect("address")).expect_err("not ours");
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
