//! Limits of this process: file descriptors and ports.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors other than viewers' connections: standard streams, epoll, result files.
pub(crate) const DESCRIPTORS_OTHER: u64 = 32;
/// Linux' default number of client ports per source address.
const PORTS_DEFAULT: u64 = 28_232;

/// Raises the limit of open files to its maximum, and returns it.
pub(crate) fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If this fails, the old limit applies.
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Number of connections from one source address to one server.
pub(crate) fn ports() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    text.ok()
        .and_then(|text| ports_of(&text))
        .unwrap_or(PORTS_DEFAULT)
}

fn ports_of(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(last.checked_sub(first)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_range_is_inclusive() {
        assert_eq!(ports_of("32768\t60999\n"), Some(28_232));
        assert_eq!(ports_of("60999 32768"), None);
        assert_eq!(ports_of(""), None);
    }
}
