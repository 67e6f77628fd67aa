//! One rule of a path, as it is written, and the gate that it makes.

use headlong_http::{Gate, SecureLink, SignedUrl};
use headlong_units::Duration;

/// Who may watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Open,
    /// Nobody.
    Closed,
    /// Who has a link signed as for nginx.
    SecureLink,
    /// Who has a token by HMAC-SHA256.
    Signed,
}

impl Access {
    /// Every value, in the order of the manual.
    pub const ALL: &[Self] = &[Self::Open, Self::Closed, Self::SecureLink, Self::Signed];

    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::SecureLink => "secure-link",
            Self::Signed => "signed",
        }
    }
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
    /// Keys of HMAC tokens.
    pub keys: Vec<String>,
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

impl PathRule {
    /// The rule as it is asked.
    ///
    /// # Errors
    /// The setting that is wrong, and how.
    pub fn gate(&self) -> Result<Gate, (&'static str, String)> {
        match self.access {
            Access::Open => Ok(Gate::Open),
            Access::Closed => Ok(Gate::Closed),
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
