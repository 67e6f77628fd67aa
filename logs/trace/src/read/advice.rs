//! What a log may lack, and the lines that make a server write it.
//!
//! Each of these lines makes a log that is recognised without any option; tests read one of each.

/// What a log may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// From which byte on a part of a file was sent.
    Offsets,
    /// How long requests took.
    Service,
}

impl Lack {
    /// What cannot be told without it.
    pub(crate) const fn untold(self) -> &'static str {
        match self {
            Self::Offsets => {
                "chains, phases and which parts of titles are watched need the Range header"
            }
            Self::Service => {
                "throughput in short times, parallel requests and durations of chains need the \
                 time of service"
            }
        }
    }
}

/// A server, and what to copy into its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Server {
    /// Its name.
    pub(crate) name: &'static str,
    /// What to copy; `¶` ends a line.
    pub(crate) lines: &'static str,
}

/// The servers that write logs of a format. Each line of the list is a server, the beginnings of the
/// names of formats that it writes, and its configuration, with tabs between them.
pub(crate) fn lines_to_copy(format: &str) -> impl Iterator<Item = Server> {
    let servers = include_str!("servers.tsv").lines();
    servers.filter_map(move |server| {
        let (name, rest) = server.split_once('\t')?;
        let (formats, lines) = rest.split_once('\t')?;
        let writes = formats.split(' ').any(|known| format.starts_with(known));
        writes.then_some(Server { name, lines })
    })
}
