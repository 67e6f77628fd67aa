//! Listen addresses: an IP address with its port, or the path of a unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest path of a unix socket: `sun_path` of unix(7) without its NUL.
const PATH_BYTES_MAX: usize = 107;
const UNIX: &str = "unix:";

/// Address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// IP address and port.
    Ip(SocketAddr),
    /// Path of the socket file.
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
                "`{text}` is not an absolute socket path; write it in full, like \
                unix:/run/headlong-serve/web.sock"
            ));
        }
        match path.len() {
            0..=PATH_BYTES_MAX => Ok(Self::Unix(path.into())),
            length => Err(format!(
                "the path of a unix socket has at most {PATH_BYTES_MAX} bytes, this one has \
                {length}: `{path}`; choose a shorter one"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_path_round_trip_through_display() {
        for text in ["127.0.0.1:8080", "[::1]:80", "unix:/run/a b.sock"] {
            let read = ListenAddress::from_str(text).expect("right");
            assert_eq!(read.to_string(), text);
        }
        let longest = format!("unix:/{}", "a".repeat(PATH_BYTES_MAX - 1));
        assert!(longest.parse::<ListenAddress>().is_ok());
    }

    #[test]
    fn invalid_address_error_names_remedy() {
        let long = format!("unix:/{}", "a".repeat(PATH_BYTES_MAX));
        for (text, says) in [
            ("8080", "write it like"),
            ("/run/web.sock", "unix:/run"),
            ("unix:", "write it in full"),
            ("unix:web.sock", "write it in full"),
            ("unix:/run/", "write it in full"),
            ("unix:/run/\0", "write it in full"),
            (&long, "at most 107 bytes, this one has 108"),
        ] {
            let error = text.parse::<ListenAddress>().expect_err("wrong");
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
