//! HAProxy in front of servers.

use std::net::SocketAddr;

use headlong_testkit::{Scratch, server::free_address};

use crate::program::Program;

/// A running HAProxy; stopped when dropped.
pub struct HaProxy(Program);

impl HaProxy {
    /// Starts it with the configuration that `config` returns for the assigned address.
    pub fn start(config: impl FnOnce(SocketAddr) -> String) -> std::io::Result<Self> {
        let scratch = Scratch::new("haproxy")?;
        let address = free_address();
        let file = scratch.path().join("haproxy.cfg");
        std::fs::write(&file, config(address))?;
        let mut command = scratch.command("/usr/sbin/haproxy");
        command.args(["-db", "-f"]).arg(&file);
        Program::start(scratch, &mut command, address).map(Self)
    }

    /// Listening address.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}
