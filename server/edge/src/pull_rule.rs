//! Settings of one path that is filled from an origin, and their checks.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use headlong_fleet::Fleet;
use headlong_http::QueryKey;
use headlong_pull::Target;
use headlong_units::{Duration, GIB, MIB};

/// `[pull."PREFIX"]`: titles below it come from an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRule {
    /// URL that replaces the prefix.
    pub origin: String,
    /// Description of the fleet whose boxes have the same path, this one included.
    pub fleet: Option<PathBuf>,
    /// Addresses on which this server listens for viewers; no key of the table. The box of the
    /// fleet with one of them is this server.
    pub own_addresses: Vec<SocketAddr>,
    /// The region of an S3 bucket, if requests are signed.
    pub s3_region: Option<String>,
    /// The file with its keys; without it, the environment holds them.
    pub s3_keys: Option<PathBuf>,
    /// The part of a request's query that identifies a title.
    pub query: QueryKey,
    /// Folder whose disk keeps the slices.
    pub folder: PathBuf,
    /// Upper limit of the disk usage of all slices and their folders.
    pub bytes_max: u64,
    /// Bytes to leave free on the file system.
    pub free_bytes_min: u64,
    /// Size of a slice in bytes.
    pub slice_bytes: u64,
    /// Bytes prefetched for sequential readers.
    pub ahead_bytes: u64,
    /// How long a version is fresh if the origin does not specify it.
    pub fresh: Duration,
    /// How long a version is served stale while the origin fails.
    pub stale_max: Duration,
    /// How long a missing title is remembered.
    pub negative: Duration,
    /// Additional hosts that the origin may redirect to.
    pub redirect_hosts: Vec<String>,
    /// Whether those hosts may have private addresses.
    pub private_addresses: bool,
    /// Time limit between bytes.
    pub idle_timeout: Duration,
}

impl Default for PullRule {
    fn default() -> Self {
        Self {
            origin: String::new(),
            fleet: None,
            own_addresses: Vec::new(),
            s3_region: None,
            s3_keys: None,
            query: QueryKey::Ignored,
            folder: PathBuf::new(),
            bytes_max: 100 * GIB,
            free_bytes_min: GIB,
            slice_bytes: 2 * MIB,
            ahead_bytes: 8 * MIB,
            fresh: Duration::from_secs(60),
            stale_max: Duration::from_secs(24 * 3600),
            negative: Duration::from_secs(10),
            redirect_hosts: Vec::new(),
            private_addresses: false,
            idle_timeout: Duration::from_secs(10),
        }
    }
}

/// The host and port of an HTTP URL; `None` if it has none, or if it has a user, a query or a
/// fragment.
pub fn target_of(uri: &http::Uri) -> Option<Target> {
    let is_tls = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = uri.authority().filter(|of| !of.as_str().contains('@'))?;
    let host = authority
        .host()
        .trim_matches(['[', ']'])
        .to_ascii_lowercase();
    let port = authority
        .port_u16()
        .unwrap_or(if is_tls { 443 } else { 80 });
    (!host.is_empty()).then_some(Target { is_tls, host, port })
}

/// Reads the description of a fleet.
///
/// # Errors
/// If it cannot be read: all mistakes in it.
pub fn read_fleet(file: &Path) -> Result<Fleet, String> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{name}: {error}; name the description of the fleet"))?;
    Fleet::read(&name, &text).map_err(|mistakes| mistakes.to_string())
}

impl PullRule {
    /// The description of the fleet, if there is one.
    ///
    /// # Errors
    /// If it cannot be read: all mistakes in it.
    pub fn read_fleet(&self) -> Result<Option<Fleet>, String> {
        self.fleet.as_deref().map(read_fleet).transpose()
    }

    /// The origin's URL and its host and port.
    ///
    /// # Errors
    /// If the URL is invalid.
    pub fn target(&self) -> Result<(http::Uri, Target), &'static str> {
        Self::target_of_url(&self.origin)
    }

    /// The URL of an origin or a peer, and its host and port.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn target_of_url(url: &str) -> Result<(http::Uri, Target), &'static str> {
        let uri: http::Uri = url.parse().map_err(|_| WRONG_ORIGIN)?;
        let target = target_of(&uri).ok_or(WRONG_ORIGIN)?;
        let is_plain = uri.query().is_none() && uri.path().ends_with('/');
        is_plain.then_some((uri, target)).ok_or(WRONG_ORIGIN)
    }
}

const WRONG_ORIGIN: &str = "is not the URL of an origin's folder; write one like \
     \"https://origin.example/vod/\", with a slash at its end and without a user or a query";
