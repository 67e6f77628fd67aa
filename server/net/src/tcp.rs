//! TCP options of accepted connections.

use socket2::SockRef;
use tokio::net::TcpStream;

/// Unsent bytes that the kernel accepts beyond those in flight (TCP_NOTSENT_LOWAT). A slow reader
/// then holds this much kernel memory instead of megabytes, and the send timeout sees its progress
/// early; a fast reader is not slowed down.
pub(super) const UNSENT_BYTES_MAX: u32 = 256 * 1024;

/// Options of each accepted socket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Name of the congestion control (`bbr`); `None` for the system's default.
    pub congestion_control: Option<String>,
}

impl TcpOptions {
    /// Checks that the kernel supports the congestion control; call it before serving.
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
                "congestion control `{name}` is not available: {error}; \
                 `sysctl net.ipv4.tcp_available_congestion_control` lists those that are"
            )
        })
    }

    /// Sets the options. A failure is only logged: the socket works without them.
    pub(super) fn apply(&self, stream: &TcpStream) {
        let socket = SockRef::from(stream);
        let mut outcome = stream.set_nodelay(true);
        outcome = outcome.and(socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX));
        if let Some(name) = &self.congestion_control {
            outcome = outcome.and(socket.set_tcp_congestion(name.as_bytes()));
        }
        if let Err(error) = outcome {
            tracing::debug!(%error, "cannot set TCP option");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_congestion_control_error_names_sysctl() {
        let options = TcpOptions {
            congestion_control: Some("no-such-rule".to_owned()),
        };
        let error = options.check().expect_err("unknown");
        assert!(
            error.contains("no-such-rule") && error.contains("sysctl"),
            "{error}"
        );
        assert_eq!(TcpOptions::default().check(), Ok(()));
    }
}
