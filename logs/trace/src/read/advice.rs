//! Missing information in a log, and server configurations that add it.
//!
//! Each of these configurations writes a log that is recognised without options; tests read a
//! sample of each.

/// Information that a log may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingField {
    /// The offsets of partial requests.
    Offsets,
    /// The duration of requests.
    Service,
}

impl MissingField {
    /// Results that need it.
    pub(crate) const fn untold(self) -> &'static str {
        match self {
            Self::Offsets => "chains, phases and portions of titles need the Range header",
            Self::Service => {
                "throughput over short times, parallel requests and durations of chains need the \
                 service time"
            }
        }
    }
}

/// A server and its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerFormat {
    /// Its name.
    pub(crate) name: &'static str,
    /// The configuration; `
    ///
    /// ` ends a line.
    pub(crate) lines: &'static str,
}

/// The servers that write logs of a format. Each line of the list has a server, the prefixes of the
/// names of formats that it writes, and its configuration, separated by tabs.
pub(crate) fn lines_to_copy(format: &str) -> impl Iterator<Item = ServerFormat> {
    let servers = include_str!("servers.tsv").lines();
    servers.filter_map(move |server| {
        let (name, rest) = server.split_once('\t')?;
        let (formats, lines) = rest.split_once('\t')?;
        let writes = formats.split(' ').any(|known| format.starts_with(known));
        writes.then_some(ServerFormat { name, lines })
    })
}
