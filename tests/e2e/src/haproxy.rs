//! HAProxy in front of servers.

use std::net::SocketAddr;

use headlong_testkit::{Scratch, server::free_address};

use crate::program::Program;

/// A running HAProxy; ended when dropped.
pub struct HaProxy(Program);

impl HaProxy {
    /// Does what `config` says for the address it is given.
    pub fn start(config: impl FnOnce(SocketAddr) -> String) -> std::io::Result<Self> {
        let scratch = Scratch::new("haproxy")?;
        let address = free_address();
        let file = scratch.path().join("haproxy.cfg");
        std::fs::write(&file, config(address))?;
        let mut command = scratch.command("/usr/sbin/haproxy");
        command.args(["-db", "-f"]).arg(&file);
        Program::start(scratch, &mut command, address).map(Self)
    }

    /// Where it takes requests.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}
