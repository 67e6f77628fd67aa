//! What uses a TCP port of this machine, and whether it has an address family at all; for messages
//! about addresses that cannot be bound.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};

/// Sockets that use a TCP port as their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortUse {
    /// Sockets that listen there.
    pub listeners: usize,
    /// Connections, also closed ones that the kernel keeps for a while (TIME_WAIT).
    pub connections: usize,
}

impl PortUse {
    /// Reads the kernel's tables of this network namespace; `None` if they cannot be read.
    pub fn of(address: &SocketAddr) -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/net/{name}")).ok();
        let (v4, v6) = (read("tcp"), read("tcp6"));
        let mut all = Self::default();
        for text in [v4.as_ref()?, v6.as_ref().unwrap_or(&String::new())] {
            all.count(text, address);
        }
        Some(all)
    }

    /// Counts the sockets of a table (proc(5), `/proc/net/tcp`) that a listener on this address
    /// would meet.
    fn count(&mut self, table: &str, address: &SocketAddr) {
        for line in table.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(1);
            let local = fields.next().and_then(|local| local.split_once(':'));
            let (Some((ip, port)), Some(state)) = (local, fields.nth(1)) else {
                continue;
            };
            if u16::from_str_radix(port, 16) != Ok(address.port()) || !meets(ip, address.ip()) {
                continue;
            }
            match state {
                "0A" => self.listeners += 1,
                _ => self.connections += 1,
            }
        }
    }
}

/// Whether two addresses meet; all addresses of a family meet each of it, and `[::]` those of IPv4.
/// The written form has the bytes of each 32-bit word in the machine's order.
fn meets(written: &str, address: IpAddr) -> bool {
    let words = written.as_bytes().chunks(8);
    let words = words.map(|word| u32::from_str_radix(str::from_utf8(word).ok()?, 16).ok());
    let Some(words) = words.collect::<Option<Vec<u32>>>() else {
        return false;
    };
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let other = match (
        <[u8; 4]>::try_from(&bytes[..]),
        <[u8; 16]>::try_from(&bytes[..]),
    ) {
        (Ok(v4), _) => IpAddr::from(v4),
        (_, Ok(v6)) => IpAddr::from(v6).to_canonical(),
        _ => return false,
    };
    let address = address.to_canonical();
    let takes = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    other == address || takes(other, address) || takes(address, other)
}

/// Why no socket of this address's family can be made, if so: a machine may have IPv6 switched off.
pub fn family_trouble(address: &SocketAddr) -> Option<&'static str> {
    let (family, text) = match address {
        SocketAddr::V4(_) => (
            AddressFamily::INET,
            "IPv4 is switched off here; write an IPv6 address",
        ),
        SocketAddr::V6(_) => (AddressFamily::INET6, NO_IPV6),
    };
    match socket(family, SocketType::STREAM, None) {
        Err(Errno::AFNOSUPPORT | Errno::ACCESS | Errno::PERM) => Some(text),
        // Any other error is that of the moment.
        Ok(_) | Err(_) => None,
    }
}

const NO_IPV6: &str = "IPv6 is switched off here; write an IPv4 address, such as 0.0.0.0 for all \
                       (for a systemd unit, RestrictAddressFamilies= must have AF_INET6)";

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr\n\
        0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
        1: 0100007F:1F90 0100007F:D2F0 06 00000000:00000000 00:00000000\n\
        2: 0200007F:1F91 00000000:0000 01 00000000:00000000 00:00000000\n\
        torn line\n";
    const TABLE6: &str = "  sl  local_address\n\
        0: 00000000000000000000000000000000:1F92 00000000000000000000000000000000:0000 0A x\n\
        1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 01 x\n";

    #[test]
    fn sockets_are_counted_by_address_port_and_state() {
        for (address, listeners, connections) in [
            ("127.0.0.1:8080", 1, 2),
            ("0.0.0.0:8080", 1, 2),
            ("[::]:8080", 1, 2),
            ("[::1]:8080", 0, 0),
            ("192.0.2.1:8080", 0, 0),
            ("127.0.0.1:8081", 0, 0),
            ("0.0.0.0:8081", 0, 1),
            ("127.0.0.1:8082", 1, 0),
        ] {
            let mut found = PortUse::default();
            let address = address.parse().expect("an address");
            found.count(TABLE, &address);
            found.count(TABLE6, &address);
            assert_eq!(
                found,
                PortUse {
                    listeners,
                    connections
                },
                "{address}"
            );
        }
    }

    #[test]
    fn own_listener_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let found = PortUse::of(&address).expect("/proc");
        assert_eq!(found.listeners, 1);
        assert_eq!(family_trouble(&address), None);
    }
}
