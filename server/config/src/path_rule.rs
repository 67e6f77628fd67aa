//! A path rule as configured, and the access check it defines; a site with its rules.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headlong_http::{SecureLink, SignedUrl, UrlVerifier, is_same_argument};
use headlong_units::Duration;

use headlong_access::auth_subrequest::ServerUrl;

headlong_units::names! {
    /// Access policy for the files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AccessPolicy {
        /// Everyone.
        Open => "open",
        /// No client.
        Closed => "closed",
        /// Clients with a link signed as for nginx.
        SecureLink => "secure-link",
        /// Clients with an HMAC-SHA256 token.
        Signed => "signed",
        /// Clients with a JSON Web Token for the URI.
        Jwt => "jwt",
        /// Clients that another server authorises.
        AuthRequest => "auth-request",
    }
}

headlong_units::names! {
    /// Properties of a request that the answer of an auth server may depend on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AuthBy {
        /// The requested URI.
        Uri => "uri",
        /// The client's address.
        Address => "address",
    }
}

headlong_units::names! {
    /// Form of the listing of a folder.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ListingFormat {
        /// Folders are not listed.
        Off => "off",
        /// A page for people and for programs that follow links.
        Html => "html",
        /// The array of nginx's `autoindex_format json`.
        Json => "json"
    }
}

headlong_units::names! {
    /// Whether playlists and segments are made from MP4 files.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Packaging {
        /// Files are served unchanged only.
        Off => "off",
        /// Below the path of each MP4 file there are playlists of HLS and DASH.
        On => "on",
    }
}

/// A place of a request that may hold a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenLocation {
    /// A query argument.
    Query(String),
    /// A header field, with or without the prefix `Bearer`.
    Header(String),
    /// A cookie.
    Cookie(String),
}

impl TokenLocation {
    /// The query argument, if it is one.
    pub fn argument(&self) -> Option<&str> {
        match self {
            Self::Query(name) => Some(name),
            Self::Header(_) | Self::Cookie(_) => None,
        }
    }
}

/// Written as `query:NAME`, `header:NAME` or `cookie:NAME`.
impl std::fmt::Display for TokenLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
        }
    }
}

/// The names of the arguments of MD5 and expiry time in an expression of `secure_link`.
pub(crate) fn secure_link_arguments(expression: &str) -> Option<(&str, &str)> {
    let (md5, expires) = expression.split_once(',')?;
    Some((argument_of(md5)?, argument_of(expires)?))
}

/// `NAME` of `$arg_NAME`.
fn argument_of(variable: &str) -> Option<&str> {
    let name = variable.trim().strip_prefix("$arg_")?;
    let is_fit = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (!name.is_empty() && name.bytes().all(is_fit)).then_some(name)
}

/// The access check of a valid rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessCheckRule {
    /// Decided by the request alone.
    Gate(UrlVerifier),
    /// Requires a JSON Web Token signed by one of the rule's keys.
    Jwt,
    /// Decided by this server.
    Server(ServerUrl),
}

/// `[path."PREFIX"]`: overrides for files below it.
#[derive(Clone, PartialEq, Eq)]
pub struct PathRule {
    /// Folders that are served at this path.
    pub alias: Vec<PathBuf>,
    /// Access policy for the files.
    pub access: AccessPolicy,
    /// The expression of nginx's `secure_link_md5`, with its secret.
    pub secure_link_md5: Option<String>,
    /// The expression of nginx's `secure_link`: `$arg_NAME` of the MD5 and of the expiry time.
    pub secure_link: String,
    /// Keys of HMAC tokens and of HS256.
    pub keys: Vec<String>,
    /// Files with public keys for JSON Web Tokens.
    pub jwt_public_keys: Vec<PathBuf>,
    /// Accepted issuers of a token; empty for any.
    pub jwt_issuers: Vec<String>,
    /// Required audience of a token, if it has one.
    pub jwt_audience: Option<String>,
    /// Where a request may carry the token; the first one present is used.
    pub jwt_from: Vec<TokenLocation>,
    /// URL of the auth server.
    pub auth_url: Option<String>,
    /// Request fields that are forwarded to it.
    pub auth_headers: Vec<String>,
    /// Properties its answers depend on, besides those fields.
    pub auth_by: Vec<AuthBy>,
    /// How long its answers are cached.
    pub auth_cache: Duration,
    /// Time limit for its answers.
    pub auth_timeout: Duration,
    /// Query arguments that are masked in logs.
    pub secret_arguments: Vec<String>,
    /// Whether HMAC tokens are bound to one address.
    pub bind_address: bool,
    /// Tolerance for the expiry time of a token.
    pub clock_skew: Duration,
    /// `Cache-Control` for these files, overriding the global one.
    pub cache_control: Option<String>,
    /// Overrides the global `listing`.
    pub listing: Option<ListingFormat>,
    /// Overrides the global `package`.
    pub package: Option<Packaging>,
    /// Additional fields of replies with files, each `Name: value`.
    pub headers: Vec<String>,
    /// How long caches may keep files.
    pub expires: Option<Duration>,
    /// Sites whose pages may use the files; empty for all.
    pub referers: Vec<String>,
    /// Origins whose pages may read the files, overriding `cors.origins` unless empty.
    pub cors_origins: Vec<String>,
    /// Overrides the global `pace_percent`.
    pub pace_percent: Option<u32>,
    /// Overrides the global `pace_burst`.
    pub pace_burst: Option<Duration>,
    /// Overrides the global `bytes_per_second_max`.
    pub bytes_per_second_max: Option<u64>,
}

impl Default for PathRule {
    fn default() -> Self {
        Self {
            alias: Vec::new(),
            access: AccessPolicy::Open,
            secure_link_md5: None,
            secure_link: "$arg_md5,$arg_expires".to_owned(),
            keys: Vec::new(),
            jwt_public_keys: Vec::new(),
            jwt_issuers: Vec::new(),
            jwt_audience: None,
            // Of RFC 9246.
            jwt_from: vec![TokenLocation::Query("URISigningPackage".to_owned())],
            auth_url: None,
            auth_headers: vec!["Authorization".to_owned(), "Cookie".to_owned()],
            auth_by: vec![AuthBy::Uri, AuthBy::Address],
            auth_cache: Duration::from_secs(5),
            auth_timeout: Duration::from_secs(5),
            secret_arguments: Vec::new(),
            bind_address: false,
            clock_skew: Duration::ZERO,
            cache_control: None,
            listing: None,
            package: None,
            headers: Vec::new(),
            expires: None,
            referers: Vec::new(),
            cors_origins: Vec::new(),
            pace_percent: None,
            pace_burst: None,
            bytes_per_second_max: None,
        }
    }
}

/// `[site."NAME"]`: the files and rules of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// Further host names.
    pub names: Vec<String>,
    /// Its folders.
    pub roots: Vec<PathBuf>,
    /// Its rules, by prefix of the path.
    pub path: BTreeMap<String, PathRule>,
}

/// What the paths of a site's files begin with in the tree of all files.
pub fn site_prefix(name: &str) -> String {
    format!("/{}/", name.to_ascii_lowercase())
}

/// Omits secrets.
impl std::fmt::Debug for PathRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathRule")
            .field("access", &self.access)
            .field("cache_control", &self.cache_control)
            .finish_non_exhaustive()
    }
}

/// Minimum length of a key: 16 letters and digits resist guessing.
const KEY_BYTES_MIN: usize = 16;
/// Minimum length of an HS256 key (RFC 7518 3.2).
const HS256_KEY_BYTES_MIN: usize = 32;
/// Upper limit of token keys, because each is tried.
const KEYS_MAX: usize = 4;

impl PathRule {
    /// The access check of this rule.
    ///
    /// # Errors
    /// The name of the invalid setting, with a message.
    pub fn door(&self) -> Result<AccessCheckRule, (&'static str, String)> {
        match self.unused_secrets().into_iter().next() {
            Some(mistake) => Err(mistake),
            None => self.check_of_access(),
        }
    }

    /// Everything that is wrong about the access check: names of settings with messages.
    pub fn mistakes(&self) -> Vec<(&'static str, String)> {
        let mut all = self.unused_secrets();
        all.extend(self.check_of_access().err());
        all
    }

    fn check_of_access(&self) -> Result<AccessCheckRule, (&'static str, String)> {
        match self.access {
            AccessPolicy::Jwt => self.check_jwt().map(|()| AccessCheckRule::Jwt),
            AccessPolicy::AuthRequest => self.auth_server().map(AccessCheckRule::Server),
            _ => self.gate().map(AccessCheckRule::Gate),
        }
    }

    /// A configured secret shows that access control is intended: a forgotten `access` line must
    /// not make the path public.
    fn unused_secrets(&self) -> Vec<(&'static str, String)> {
        use AccessPolicy as A;
        let mut all = Vec::new();
        let said: [(&str, bool, &[AccessPolicy]); 7] = [
            (
                "secure_link_md5",
                self.secure_link_md5.is_some(),
                &[A::SecureLink],
            ),
            ("keys", !self.keys.is_empty(), &[A::Signed, A::Jwt]),
            (
                "jwt_public_keys",
                !self.jwt_public_keys.is_empty(),
                &[A::Jwt],
            ),
            ("jwt_issuers", !self.jwt_issuers.is_empty(), &[A::Jwt]),
            ("jwt_audience", self.jwt_audience.is_some(), &[A::Jwt]),
            ("auth_url", self.auth_url.is_some(), &[A::AuthRequest]),
            ("bind_address", self.bind_address, &[A::Signed]),
        ];
        for (setting, is_said, kinds) in said {
            if is_said && self.access != A::Closed && !kinds.contains(&self.access) {
                let kinds = kinds
                    .iter()
                    .map(|kind| format!("access = \"{}\"", kind.name()));
                let kinds = kinds.collect::<Vec<_>>().join(" or ");
                let now = self.access.name();
                let text =
                    format!("is not used with access = \"{now}\"; write {kinds}, or remove it");
                all.push((setting, text));
            }
        }
        all
    }

    /// Query arguments whose values must be masked in logs.
    pub fn all_secret_arguments(&self) -> Vec<String> {
        let mut all = self.secret_arguments.clone();
        match self.door() {
            Ok(AccessCheckRule::Gate(gate)) => {
                all.extend(gate.secret_argument().map(str::to_owned))
            }
            Ok(AccessCheckRule::Jwt) => {
                let arguments = self.jwt_from.iter().filter_map(TokenLocation::argument);
                all.extend(arguments.map(str::to_owned));
            }
            Ok(AccessCheckRule::Server(_)) | Err(_) => {}
        }
        all
    }

    /// Query arguments that belong to a token: secrets, and arguments that accompany them.
    pub fn token_arguments(&self) -> Vec<String> {
        let beside: &[&str] = match self.access {
            AccessPolicy::Signed => &["expires", "prefix"],
            AccessPolicy::SecureLink => &[self.secure_link_arguments().1],
            _ => &[],
        };
        let beside = beside.iter().map(|name| (*name).to_owned());
        self.all_secret_arguments()
            .into_iter()
            .chain(beside)
            .collect()
    }

    /// Whether an argument is secret.
    pub fn is_secret(&self, argument: &str) -> bool {
        let secrets = self.all_secret_arguments();
        secrets.iter().any(|name| is_same_argument(argument, name))
    }

    fn auth_server(&self) -> Result<ServerUrl, (&'static str, String)> {
        let missing =
            "must be set with access = \"auth-request\", like \"http://127.0.0.1:9000/auth\"";
        let url = self.auth_url.as_ref();
        let url = url.ok_or_else(|| ("auth_url", missing.to_owned()))?;
        ServerUrl::parse(url).map_err(|form| ("auth_url", format!("`{url}` is not usable; {form}")))
    }

    /// The names of the arguments that hold the MD5 and the expiry time.
    fn secure_link_arguments(&self) -> (&str, &str) {
        secure_link_arguments(&self.secure_link).unwrap_or_default()
    }

    fn check_jwt(&self) -> Result<(), (&'static str, String)> {
        let wrong = |setting, text: &str| Err((setting, text.to_owned()));
        if self.jwt_from.is_empty() {
            let text = "is empty, so no request could carry a token; name a place, like \
                        \"header:Authorization\"";
            return wrong("jwt_from", text);
        }
        if self.keys.is_empty() && self.jwt_public_keys.is_empty() {
            let text = "must name a key with access = \"jwt\", or keys must hold one; write the file \
                        of the issuer's public key";
            return wrong("jwt_public_keys", text);
        }
        if self.keys.len() + self.jwt_public_keys.len() > KEYS_MAX {
            let text = "makes more than four keys; keep the new ones and the old";
            return wrong("jwt_public_keys", text);
        }
        if self.keys.iter().any(|key| key.len() < HS256_KEY_BYTES_MIN) {
            let text = "holds a key of fewer than 32 characters, too short for HS256; make one with \
                        `openssl rand -hex 32`";
            return wrong("keys", text);
        }
        Ok(())
    }

    fn gate(&self) -> Result<UrlVerifier, (&'static str, String)> {
        match self.access {
            AccessPolicy::Open => Ok(UrlVerifier::Open),
            AccessPolicy::Closed | AccessPolicy::Jwt | AccessPolicy::AuthRequest => {
                Ok(UrlVerifier::Closed)
            }
            AccessPolicy::SecureLink => {
                let missing = || {
                    let text = "must be set with access = \"secure-link\"; copy nginx's expression";
                    ("secure_link_md5", text.to_owned())
                };
                let expression = self.secure_link_md5.as_ref().ok_or_else(missing)?;
                let (md5, expires) = self.secure_link_arguments();
                SecureLink::parse(expression, md5, expires)
                    .map(UrlVerifier::SecureLink)
                    .map_err(|error| ("secure_link_md5", error.to_string()))
            }
            AccessPolicy::Signed => match self.keys.as_slice() {
                [] => {
                    let text = "must hold a key with access = \"signed\"; make one with \
                         `openssl rand -hex 32`";
                    Err(("keys", text.to_owned()))
                }
                [_, _, _, ..] => {
                    let text = "holds more than two keys; keep the new one and the old";
                    Err(("keys", text.to_owned()))
                }
                keys if keys.iter().any(|key| key.len() < KEY_BYTES_MIN) => {
                    let text = format!(
                        "holds a key of fewer than {KEY_BYTES_MIN} characters; make one with \
                         `openssl rand -hex 32`"
                    );
                    Err(("keys", text))
                }
                keys => Ok(UrlVerifier::SignedUrl(SignedUrl {
                    keys: keys.to_vec(),
                    bind_address: self.bind_address,
                })),
            },
        }
    }
}
