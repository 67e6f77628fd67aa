//! One path that is filled from an origin, as it is written, and what is wrong with it.

use std::path::PathBuf;

use headlong_http::QueryKey;
use headlong_pull::Target;
use headlong_units::{Duration, GIB, MIB};

/// `[pull."PREFIX"]`: titles below it come from an origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRule {
    /// URL that takes the place of the prefix.
    pub origin: String,
    /// The region of a bucket of S3, if requests are to be signed.
    pub s3_region: Option<String>,
    /// The file with its keys; without one, they are in the environment.
    pub s3_keys: Option<PathBuf>,
    /// What of a request's query is a part of a title's name.
    pub query: QueryKey,
    /// Folder on whose disk slices are kept.
    pub folder: PathBuf,
    /// Most bytes of slices.
    pub bytes_max: u64,
    /// Bytes that are left free on the file system.
    pub free_bytes_min: u64,
    /// Bytes of a slice.
    pub slice_bytes: u64,
    /// Bytes fetched ahead for who reads on.
    pub ahead_bytes: u64,
    /// Fetches at a time.
    pub fetches_max: u32,
    /// How long a version is believed where the origin says nothing.
    pub fresh: Duration,
    /// How long a version is served while the origin fails.
    pub stale_max: Duration,
    /// How long it is remembered that a title is not there.
    pub negative: Duration,
    /// Further hosts that the origin may redirect to.
    pub redirect_hosts: Vec<String>,
    /// Whether those may have private addresses.
    pub private_addresses: bool,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// Longest time without a byte.
    pub idle_timeout: Duration,
}

impl Default for PullRule {
    fn default() -> Self {
        Self {
            origin: String::new(),
            s3_region: None,
            s3_keys: None,
            query: QueryKey::Ignored,
            folder: PathBuf::new(),
            bytes_max: 100 * GIB,
            free_bytes_min: GIB,
            slice_bytes: 2 * MIB,
            ahead_bytes: 8 * MIB,
            fetches_max: 16,
            fresh: Duration::from_secs(60),
            stale_max: Duration::from_secs(24 * 3600),
            negative: Duration::from_secs(10),
            redirect_hosts: Vec::new(),
            private_addresses: false,
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(10),
        }
    }
}

/// Whom a URL of HTTP names; `None` if it names nobody, or also a user, a query or a fragment.
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

impl PullRule {
    /// The origin's URL and whom it names.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn target(&self) -> Result<(http::Uri, Target), &'static str> {
        let uri: http::Uri = self.origin.parse().map_err(|_| WRONG_ORIGIN)?;
        let target = target_of(&uri).ok_or(WRONG_ORIGIN)?;
        let is_plain = uri.query().is_none() && uri.path().ends_with('/');
        is_plain.then_some((uri, target)).ok_or(WRONG_ORIGIN)
    }
}

const WRONG_ORIGIN: &str = "is not the URL of an origin's folder; write one like \
     \"https://origin.example/vod/\", with a slash at its end and without a user or a query";
