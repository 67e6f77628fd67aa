//! Options of TCP connections.

use socket2::SockRef;
use tokio::net::TcpStream;

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
