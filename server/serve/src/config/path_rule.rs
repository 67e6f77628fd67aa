//! One rule of a path, as it is written, and the door that it makes.

use std::path::PathBuf;

use headlong_http::{Gate, SecureLink, SignedUrl, is_same_argument};
use headlong_units::Duration;

use crate::ask_server::ServerUrl;

headlong_units::names! {
    /// Who may watch.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Access {
        /// Everybody.
        Open => "open",
        /// Nobody.
        Closed => "closed",
        /// Who has a link signed as for nginx.
        SecureLink => "secure-link",
        /// Who has a token by HMAC-SHA256.
        Signed => "signed",
        /// Who has a JSON Web Token for the URI.
        Jwt => "jwt",
        /// Whom another server lets in.
        AuthRequest => "auth-request",
    }
}

headlong_units::names! {
    /// What an answer of a server that is asked may depend on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AuthBy {
        /// What is asked for.
        Uri => "uri",
        /// Who asks.
        Address => "address",
    }
}

/// What a rule is, once it is found right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// What opens is in the request, and is judged by itself.
    Gate(Gate),
    /// A token opens that one of the rule's keys signed.
    Jwt,
    /// This server is asked.
    Server(ServerUrl),
}

/// `[path."PREFIX"]`: what is different below it.
#[derive(Clone, PartialEq, Eq)]
pub struct PathRule {
    /// Who may watch.
    pub access: Access,
    /// The expression of nginx's `secure_link_md5`, with its secret.
    pub secure_link_md5: Option<String>,
    /// The argument with the MD5.
    pub md5_argument: String,
    /// The argument with the end.
    pub expires_argument: String,
    /// Keys of HMAC tokens, and of HS256.
    pub keys: Vec<String>,
    /// Files with public keys of JSON Web Tokens.
    pub jwt_public_keys: Vec<PathBuf>,
    /// Issuers of which a token must name one; empty for any.
    pub jwt_issuers: Vec<String>,
    /// What a token's audience must name, if it has one.
    pub jwt_audience: Option<String>,
    /// The argument with the token.
    pub jwt_query: String,
    /// The header with the token.
    pub jwt_header: Option<String>,
    /// The cookie with the token.
    pub jwt_cookie: Option<String>,
    /// Where the server is that is asked.
    pub auth_url: Option<String>,
    /// Fields of a request that are sent to it.
    pub auth_headers: Vec<String>,
    /// What its answers depend on, besides those fields.
    pub auth_by: Vec<AuthBy>,
    /// How long its answers are believed.
    pub auth_cache: Duration,
    /// How long they are waited for.
    pub auth_timeout: Duration,
    /// Arguments that are in no log.
    pub secret_arguments: Vec<String>,
    /// Whether HMAC tokens are good from one address only.
    pub bind_address: bool,
    /// How much longer a token is good than it says.
    pub clock_skew: Duration,
    /// `Cache-Control` instead of that of all files.
    pub cache_control: Option<String>,
    /// Further fields of replies with files, each `Name: value`.
    pub headers: Vec<String>,
    /// How long caches may keep files.
    pub expires: Option<Duration>,
    /// Sites whose pages may use files; empty for all.
    pub referers: Vec<String>,
    /// Origins whose pages may read files, instead of `cors.origins`; empty for those.
    pub cors_origins: Vec<String>,
    /// `pace_percent` instead of that of all files.
    pub pace_percent: Option<u32>,
    /// `pace_burst` instead of that of all files.
    pub pace_burst: Option<Duration>,
    /// `bytes_per_second_max` instead of that of all files.
    pub bytes_per_second_max: Option<u64>,
}

impl Default for PathRule {
    fn default() -> Self {
        Self {
            access: Access::Open,
            secure_link_md5: None,
            md5_argument: "md5".to_owned(),
            expires_argument: "expires".to_owned(),
            keys: Vec::new(),
            jwt_public_keys: Vec::new(),
            jwt_issuers: Vec::new(),
            jwt_audience: None,
            jwt_query: "URISigningPackage".to_owned(),
            jwt_header: None,
            jwt_cookie: None,
            auth_url: None,
            auth_headers: vec!["Authorization".to_owned(), "Cookie".to_owned()],
            auth_by: vec![AuthBy::Uri, AuthBy::Address],
            auth_cache: Duration::from_secs(5),
            auth_timeout: Duration::from_secs(5),
            secret_arguments: Vec::new(),
            bind_address: false,
            clock_skew: Duration::ZERO,
            cache_control: None,
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

/// Without secrets.
impl std::fmt::Debug for PathRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PathRule")
            .field("access", &self.access)
            .field("cache_control", &self.cache_control)
            .finish_non_exhaustive()
    }
}

/// The shortest key: as many bytes as are safe from guessing, in letters and digits.
const KEY_BYTES_MIN: usize = 16;
/// The shortest key of HS256 (RFC 7518 3.2).
const HS256_KEY_BYTES_MIN: usize = 32;
/// Most keys of tokens: each is tried.
const KEYS_MAX: usize = 4;

impl PathRule {
    /// What the rule is.
    ///
    /// # Errors
    /// The setting that is wrong, and how.
    pub fn door(&self) -> Result<Door, (&'static str, String)> {
        self.check_kind()?;
        match self.access {
            Access::Jwt => self.check_jwt().map(|()| Door::Jwt),
            Access::AuthRequest => self.auth_server().map(Door::Server),
            _ => self.gate().map(Door::Gate),
        }
    }

    /// Who writes down a secret means it to be asked for: one line that was forgotten must not open
    /// a path to everybody.
    fn check_kind(&self) -> Result<(), (&'static str, String)> {
        use Access as A;
        let said: [(&str, bool, &[Access]); 5] = [
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
                let text = format!(
                    "is not looked at with access = \"{now}\"; write {kinds}, or leave it out"
                );
                return Err((setting, text));
            }
        }
        Ok(())
    }

    /// Arguments whose values must be in no log.
    pub fn all_secret_arguments(&self) -> Vec<String> {
        let of_door = match self.door() {
            Ok(Door::Gate(gate)) => gate.secret_argument().map(str::to_owned),
            Ok(Door::Jwt) => Some(self.jwt_query.clone()),
            Ok(Door::Server(_)) | Err(_) => None,
        };
        let all = self.secret_arguments.iter().cloned().chain(of_door);
        all.collect()
    }

    /// Arguments that are of a token: secrets, and what stands beside them.
    pub fn token_arguments(&self) -> Vec<String> {
        let beside: &[&str] = match self.access {
            Access::Signed => &["expires", "prefix"],
            Access::SecureLink => &[&self.expires_argument],
            _ => &[],
        };
        let beside = beside.iter().map(|name| (*name).to_owned());
        self.all_secret_arguments()
            .into_iter()
            .chain(beside)
            .collect()
    }

    /// Whether an argument is one of these.
    pub fn is_secret(&self, argument: &str) -> bool {
        let secrets = self.all_secret_arguments();
        secrets.iter().any(|name| is_same_argument(argument, name))
    }

    fn auth_server(&self) -> Result<ServerUrl, (&'static str, String)> {
        let missing =
            "must be set with access = \"auth-request\", like \"http://127.0.0.1:9000/auth\"";
        let url = self.auth_url.as_ref();
        let url = url.ok_or_else(|| ("auth_url", missing.to_owned()))?;
        ServerUrl::parse(url)
            .map_err(|form| ("auth_url", format!("`{url}` cannot be asked; {form}")))
    }

    fn check_jwt(&self) -> Result<(), (&'static str, String)> {
        let wrong = |setting, text: &str| Err((setting, text.to_owned()));
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

    fn gate(&self) -> Result<Gate, (&'static str, String)> {
        match self.access {
            Access::Open => Ok(Gate::Open),
            Access::Closed | Access::Jwt | Access::AuthRequest => Ok(Gate::Closed),
            Access::SecureLink => {
                let missing = || {
                    let text = "must be set with access = \"secure-link\"; copy nginx's expression";
                    ("secure_link_md5", text.to_owned())
                };
                let expression = self.secure_link_md5.as_ref().ok_or_else(missing)?;
                SecureLink::parse(expression, &self.md5_argument, &self.expires_argument)
                    .map(Gate::SecureLink)
                    .map_err(|error| ("secure_link_md5", error.to_string()))
            }
            Access::Signed => match self.keys.as_slice() {
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
                keys => Ok(Gate::SignedUrl(SignedUrl {
                    keys: keys.to_vec(),
                    bind_address: self.bind_address,
                })),
            },
        }
    }
}
