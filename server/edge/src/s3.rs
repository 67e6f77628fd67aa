//! Signed requests to an S3 bucket (AWS Signature Version 4 in the query).
//!
//! The configured URL is signed as a whole, whether it has the bucket in its host or its path, so
//! only the region must be configured in addition. The library `rusty-s3` signs; it opens no
//! connection.
//!
//! Invariants: secrets and signatures never appear in logs or in displayed settings; a key file
//! that others may read is refused.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use headlong_http::HttpDate;
use headlong_units::path_bytes;
use http::{HeaderMap, StatusCode, Uri, header};
use percent_encoding::percent_decode_str;
use rusty_s3::actions::{GetObject, HeadObject};
use rusty_s3::{Bucket, Credentials, Map, S3Action, UrlStyle};

use super::title;
use crate::pull_rule::PullRule;

/// Validity of a signed request. It is sent at once, but clocks may differ.
const GOOD_FOR: Duration = Duration::from_secs(900);
/// A larger clock difference is reported as the cause of a refusal (S3 allows 15 minutes).
const SKEW_MAX_S: u64 = 300;
/// Limit of a key file, which has only a few lines.
const KEYS_BYTES_MAX: u64 = 64 << 10;
/// Minimum interval between reloads of the keys, and between warnings, when a bucket refuses.
const REFUSAL_INTERVAL: Duration = Duration::from_secs(10);
/// Permission bits of others.
const OF_OTHERS: u32 = 0o007;

/// Signs the requests to one bucket.
pub(super) struct Signer {
    bucket: Bucket,
    /// Folder of the titles in the bucket, decoded.
    folder: String,
    rule: PullRule,
    keys: Mutex<Credentials>,
    refused: Mutex<Option<Instant>>,
}

impl Signer {
    /// Creates the signer of a rule; `None` if it needs none.
    ///
    /// # Errors
    /// The name of the invalid setting, with a message.
    pub(super) fn open(rule: &PullRule) -> Result<Option<Self>, (&'static str, String)> {
        let Some(region) = &rule.s3_region else {
            return Ok(None);
        };
        let (bucket, folder) = place(&rule.origin, region).ok_or_else(|| {
            let text = "names no bucket; write it in the path, like \
                        \"https://s3.eu-west-1.amazonaws.com/BUCKET/\", or before the host";
            ("origin", text.to_owned())
        })?;
        let keys = read_keys(rule.s3_keys.as_deref()).map_err(|text| ("s3_keys", text))?;
        Ok(Some(Self {
            bucket,
            folder,
            rule: rule.clone(),
            keys: Mutex::new(keys),
            refused: Mutex::new(None),
        }))
    }

    /// The signed URL of a title; `None` if no object can have its name.
    pub(super) fn sign(&self, is_head: bool, name: &str) -> Option<Uri> {
        let (path, query) = title::split(name);
        // Keys of a bucket are UTF-8.
        let path = path_bytes(path);
        let object = format!("{}{}", self.folder, std::str::from_utf8(&path).ok()?);
        let keys = self
            .keys
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let url = if is_head {
            let mut action = HeadObject::new(&self.bucket, Some(&keys), &object);
            add_query(action.query_mut(), query);
            action.sign(GOOD_FOR)
        } else {
            let mut action = GetObject::new(&self.bucket, Some(&keys), &object);
            add_query(action.query_mut(), query);
            action.sign(GOOD_FOR)
        };
        url.as_str().parse().ok()
    }

    /// Handles a refusal by the bucket: reloads the keys, which may have been rotated, and warns
    /// the operator. A HEAD response has no body with the reason, but its date shows a clock
    /// difference.
    pub(super) fn refused(&self, status: StatusCode, headers: &HeaderMap) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.is_some_and(|at| at.elapsed() < REFUSAL_INTERVAL) {
            return;
        }
        *refused = Some(Instant::now());
        drop(refused);
        let (origin, status) = (&self.rule.origin, status.as_u16());
        match skew_of(headers) {
            Some(skew_s) if skew_s.unsigned_abs() > SKEW_MAX_S => tracing::warn!(
                origin,
                status,
                skew_s,
                "bucket refuses signed requests: its clock differs from this machine's; \
                 set the clock"
            ),
            _ => tracing::warn!(
                origin,
                status,
                "bucket refuses signed requests: check the keys, s3_region, and the permissions of \
                 the keys (without permission to list a bucket, missing objects are refused, too)"
            ),
        }
        match read_keys(self.rule.s3_keys.as_deref()) {
            Ok(keys) => *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys,
            Err(error) => tracing::warn!(origin, error, "cannot reload the keys"),
        }
    }
}

/// Checks the S3 settings of a rule. The error names the setting.
pub fn check(rule: &PullRule) -> Result<(), (&'static str, String)> {
    if rule.s3_region.is_none() && rule.s3_keys.is_some() {
        let text = "has no effect without s3_region; set that, like \"eu-west-1\"";
        return Err(("s3_keys", text.to_owned()));
    }
    Signer::open(rule).map(drop)
}

/// Whether a status may be the response to an invalid signature.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 401 | 403)
}

fn skew_of(headers: &HeaderMap) -> Option<i64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let now = i64::try_from(now.as_secs()).ok()?;
    let received = HttpDate::from_unix_seconds(now)?;
    let date = headers.get(header::DATE)?.to_str().ok()?;
    Some(HttpDate::parse(date, received)?.unix_seconds() - now)
}

/// The bucket of an origin, and the folder in it. Only the whole URL is signed, so it does not
/// matter which part is taken as the bucket's name.
fn place(origin: &str, region: &str) -> Option<(Bucket, String)> {
    let uri: Uri = origin.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?.as_str());
    let path = percent_decode_str(uri.path().trim_start_matches('/'));
    let path = path.decode_utf8().ok()?.into_owned();
    let (endpoint, style, name, folder) = match path.split_once('/') {
        Some((name, folder)) if !name.is_empty() => {
            let endpoint = format!("{scheme}://{authority}");
            (endpoint, UrlStyle::Path, name.to_owned(), folder.to_owned())
        }
        _ => {
            let (name, host) = authority.split_once('.')?;
            let endpoint = format!("{scheme}://{host}");
            let style = UrlStyle::VirtualHost;
            (endpoint, style, name.to_owned(), String::new())
        }
    };
    let endpoint = endpoint.parse().ok()?;
    let bucket = Bucket::new(endpoint, style, name, region.to_owned()).ok()?;
    // The URL built by the library must equal the configured one.
    let made = bucket.base_url().as_str();
    let written = format!("{scheme}://{authority}/");
    made.starts_with(&written.to_ascii_lowercase())
        .then_some((bucket, folder))
}

fn add_query(map: &mut Map<'_>, query: Option<&str>) {
    for pair in query.unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        if !name.is_empty() {
            map.insert(decoded(name), decoded(value));
        }
    }
}

/// Reads the keys from a file, or from the environment.
///
/// # Errors
/// A message that contains no key.
fn read_keys(path: Option<&Path>) -> Result<Credentials, String> {
    let Some(path) = path else {
        return Credentials::from_env().ok_or_else(|| {
            "is missing, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; name a file \
             with aws_access_key_id and aws_secret_access_key"
                .to_owned()
        });
    };
    let shown = path.display();
    let unreadable =
        |error| format!("{shown} cannot be read: {error}; give the server's user read access");
    let file = File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.mode();
    if mode & OF_OTHERS != 0 {
        return Err(format!(
            "{shown} is accessible by all users (mode {:o}); chmod 640 it",
            mode & 0o777
        ));
    }
    let mut text = String::new();
    file.take(KEYS_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    keys_of(&text).ok_or_else(|| {
        format!("{shown} lacks aws_access_key_id or aws_secret_access_key; write a line for each")
    })
}

/// Parses the first profile of a file in the format of AWS tools.
fn keys_of(text: &str) -> Option<Credentials> {
    let lines = text.lines().map(str::trim);
    let lines = lines.skip_while(|line| line.starts_with('[') || line.is_empty());
    let first: Vec<&str> = lines.take_while(|line| !line.starts_with('[')).collect();
    let value = |name: &str| {
        let of_name = |line: &&str| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        };
        let mut values = first.iter().filter_map(of_name);
        values.next().filter(|value| !value.is_empty())
    };
    let (id, secret) = (value("aws_access_key_id")?, value("aws_secret_access_key")?);
    Some(match value("aws_session_token") {
        Some(token) => Credentials::new_with_token(id, secret, token),
        None => Credentials::new(id, secret),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEYS: &str = "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\n\
        aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n[other]\n\
        aws_session_token = x\n";

    /// The example in "Authenticating Requests: Using Query Parameters" of the S3 reference.
    #[test]
    fn signature_matches_the_s3_reference() {
        let keys = keys_of(KEYS).expect("keys");
        let origin = "https://examplebucket.s3.amazonaws.com/";
        let (bucket, folder) = place(origin, "us-east-1").expect("a bucket");
        assert_eq!(folder, "");
        let action = GetObject::new(&bucket, Some(&keys), "test.txt");
        let time = "2013-05-24T00:00:00Z".parse().expect("a time");
        let url = action.sign_with_time(Duration::from_secs(86_400), &time);
        let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        assert!(
            url.as_str().starts_with(&format!("{origin}test.txt?")),
            "{url}"
        );
        assert!(url.as_str().ends_with(signature), "{url}");
    }

    #[test]
    fn bucket_is_found_in_host_or_path() {
        for (origin, object) in [
            (
                "http://127.0.0.1:9000/b/",
                "http://127.0.0.1:9000/b/x%20y.mp4",
            ),
            (
                "http://minio:9000/b/a%20c/",
                "http://minio:9000/b/a%20c/x%20y.mp4",
            ),
            ("https://b.s3.example/", "https://b.s3.example/x%20y.mp4"),
            (
                "https://b.s3.example/films/",
                "https://b.s3.example/films/x%20y.mp4",
            ),
        ] {
            let (bucket, folder) = place(origin, "r").expect(origin);
            let url = bucket.object_url(&format!("{folder}x y.mp4"));
            assert_eq!(url.as_str(), object);
        }
        for origin in [
            "http://minio:9000/",
            "http://127.0.0.1:9000/",
            "http://[::1]/",
        ] {
            assert!(place(origin, "r").is_none(), "{origin}");
        }
    }

    #[test]
    fn missing_or_exposed_keys_are_refused_and_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        std::fs::write(&path, KEYS).expect("written");
        let allow = |mode| {
            let rights = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, rights).expect("set");
            read_keys(Some(&path))
        };
        let keys = allow(0o640).expect("keys");
        assert_eq!((keys.key(), keys.token()), ("AKIAIOSFODNN7EXAMPLE", None));
        assert!(!format!("{keys:?}").contains("wJalr"));
        let error = allow(0o644).expect_err("open");
        assert!(
            error.contains("mode 644") && !error.contains("wJalr"),
            "{error}"
        );
        std::fs::write(&path, "aws_secret_access_key = wJalr\n").expect("written");
        let error = allow(0o600).expect_err("no id");
        assert!(
            error.contains("lacks") && !error.contains("wJalr"),
            "{error}"
        );
    }
}
