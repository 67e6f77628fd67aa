//! HAProxy in front of servers.

use std::net::SocketAddr;

use headlong_testkit::{Scratch, server::free_address};
use rustix::process::Signal;

use crate::program::Program;
use crate::runtime::eventually;

/// A running HAProxy; stopped when dropped.
pub struct HaProxy(Program);

impl HaProxy {
    /// Starts it with the configuration that `config` returns for the assigned address.
    pub fn start(config: impl FnOnce(SocketAddr) -> String) -> std::io::Result<Self> {
        Self::start_as(&["-db"], config)
    }

    fn start_as(mode: &[&str], config: impl FnOnce(SocketAddr) -> String) -> std::io::Result<Self> {
        let scratch = Scratch::new("haproxy")?;
        let address = free_address();
        let file = scratch.path().join("haproxy.cfg");
        std::fs::write(&file, config(address))?;
        let mut command = scratch.command("/usr/sbin/haproxy");
        command.args(mode).arg("-f").arg(&file);
        Program::start(scratch, &mut command, address).map(Self)
    }

    /// Starts it with a master process, which [`HaProxy::reload`] needs.
    pub fn start_with_master(config: impl FnOnce(SocketAddr) -> String) -> std::io::Result<Self> {
        Self::start_as(&["-W", "-db"], config)
    }

    /// Replaces the worker by a new one, as `systemctl reload` does. Returns when the new one runs.
    pub fn reload(&self) {
        let before = self.workers();
        self.0.signal(Signal::USR2);
        let has_new = |now: &Vec<u32>| now.iter().any(|worker| !before.contains(worker));
        eventually("a new worker", || self.workers(), has_new);
    }

    fn workers(&self) -> Vec<u32> {
        let master = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split(' ').filter_map(|id| id.trim().parse().ok());
        ids.collect()
    }

    /// Listening address.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}
