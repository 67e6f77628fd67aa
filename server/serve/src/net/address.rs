//! Where connections are taken: an address of the network, or the path of a unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Bytes of a unix socket's path: `sun_path` of unix(7) with the NUL behind it.
const PATH_BYTES_MAX: usize = 107;
const UNIX: &str = "unix:";

/// Where connections are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// With its port.
    Ip(SocketAddr),
    /// Where the socket lies.
    Unix(PathBuf),
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix(UNIX) else {
            let form =
                "write it like 127.0.0.1:8080, [::]:8080 or unix:/run/headlong-serve/web.sock";
            let address = text.parse();
            return address
                .map(Self::Ip)
                .map_err(|_| format!("`{text}` is not an address and port; {form}"));
        };
        if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
            return Err(format!(
                "`{text}` is no path of a socket; write all of it, like unix:/run/headlong-serve/web.sock"
            ));
        }
        match path.len() {
            0..=PATH_BYTES_MAX => Ok(Self::Unix(path.into())),
            length => Err(format!(
                "the path of a unix socket has at most {PATH_BYTES_MAX} bytes, and this has {length}: \
                 `{path}`; choose a shorter one"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_read_as_they_are_shown() {
        for text in ["127.0.0.1:8080", "[::1]:80", "unix:/run/a b.sock"] {
            let read = ListenAddress::from_str(text).expect("right");
            assert_eq!(read.to_string(), text);
        }
        let longest = format!("unix:/{}", "a".repeat(PATH_BYTES_MAX - 1));
        assert!(longest.parse::<ListenAddress>().is_ok());
    }

    #[test]
    fn what_no_socket_can_be_called_is_refused_with_the_remedy() {
        let long = format!("unix:/{}", "a".repeat(PATH_BYTES_MAX));
        for (text, says) in [
            ("8080", "write it like"),
            ("/run/web.sock", "unix:/run"),
            ("unix:", "write all of it"),
            ("unix:web.sock", "write all of it"),
            ("unix:/run/", "write all of it"),
            ("unix:/run/\0", "write all of it"),
            (&long, "at most 107 bytes, and this has 108"),
        ] {
            let error = text.parse::<ListenAddress>().expect_err("wrong");
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
