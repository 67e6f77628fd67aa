//! Path tokens: `/t/EXPIRES.FOLDERS.TOKEN/films/a/index.m3u8`.
//!
//! Players resolve names in a playlist against its URL and drop the query, so a token in front of
//! the playlist's path is automatically sent with every segment. It is the token of a folder, like
//! that of the argument `prefix`; the number of the path's folders that it covers is part of it.
//!
//! A token is removed from the path before any other processing, so rules, look-ups and signatures
//! use the path after it. Only the unencoded spelling is recognised: none of its characters needs
//! encoding.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use percent_encoding::percent_decode_str;

/// Segment in front of a token.
const MARK: &str = "t";
/// Length of 32 bytes in base64 without padding.
const TOKEN_LETTERS: usize = 43;
/// Most digits of an expiry: seconds up to the year 5138.
const EXPIRES_DIGITS_MAX: usize = 11;
/// Most digits of the number of folders: real paths have fewer than a thousand.
const FOLDERS_DIGITS_MAX: usize = 3;
/// Names of at least this length after the mark are masked in logs: shorter than any token with its
/// expiry.
const HIDDEN_BYTES_MIN: usize = 40;

/// The token of a folder in a path, not verified yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathToken<'a> {
    /// Expiry: seconds since 1970, in digits.
    pub expires: &'a str,
    /// Number of the path's folders that are signed.
    pub folders: usize,
    /// HMAC in base64.
    pub token: &'a str,
}

impl<'a> PathToken<'a> {
    /// Splits the path of a request target into the token and the path after it. A path without a
    /// token is returned unchanged.
    pub fn split(target_path: &'a str) -> (Option<Self>, &'a str) {
        let behind = || {
            let inner = target_path.trim_start_matches('/').strip_prefix(MARK)?;
            let inner = inner.strip_prefix('/')?;
            let at = inner.find('/')?;
            Some((Self::parse(&inner[..at])?, &inner[at..]))
        };
        match behind() {
            Some((token, path)) => (Some(token), path),
            None => (None, target_path),
        }
    }

    fn parse(name: &'a str) -> Option<Self> {
        let (expires, rest) = name.split_once('.')?;
        let (folders, token) = rest.split_once('.')?;
        let is_number = |text: &str, digits_max| {
            (1..=digits_max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
        };
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let is_token = token.len() == TOKEN_LETTERS && token.bytes().all(is_letter);
        let is_one = is_number(expires, EXPIRES_DIGITS_MAX)
            && is_number(folders, FOLDERS_DIGITS_MAX)
            && is_token;
        let folders = folders.parse().ok().filter(|_| is_one)?;
        Some(Self {
            expires,
            folders,
            token,
        })
    }

    /// The folder that the token covers: the first `folders` folders of an absolute path, with a
    /// trailing slash.
    pub(crate) fn folder<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (at, _) = path.match_indices('/').nth(self.folders)?;
        Some(&path[..=at])
    }
}

/// Masks tokens, in any spelling, in a path or the URL of a page, for logs.
pub(crate) fn without_tokens(path: &str) -> Cow<'_, str> {
    let names: Vec<&str> = path.split('/').collect();
    let is_hidden = |at: usize| {
        let mark = at.checked_sub(1).and_then(|before| names.get(before));
        names[at].len() >= HIDDEN_BYTES_MIN && mark.is_some_and(|mark| is_mark(mark))
    };
    if !(0..names.len()).any(is_hidden) {
        return Cow::Borrowed(path);
    }
    let shown = |at: usize| if is_hidden(at) { "-" } else { names[at] };
    let shown: Vec<&str> = (0..names.len()).map(shown).collect();
    Cow::Owned(shown.join("/"))
}

/// Also recognises multiply encoded marks: such a path gives no access, but still contains a token.
fn is_mark(name: &str) -> bool {
    const TIMES_MAX: usize = 3;
    let mut name = String::from(name);
    for _ in 0..TIMES_MAX {
        name = percent_decode_str(&name).decode_utf8_lossy().into_owned();
    }
    name == MARK
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const TOKEN: &str = "hLvF2guY_7Sha_O1CJayqPjt8Mko2piMe_4unJTiBuk";

    #[test]
    fn splits_off_tokens_and_leaves_other_paths() {
        let path = format!("/t/2000000000.1.{TOKEN}/a/b%20c.ts");
        let (token, rest) = PathToken::split(&path);
        let expected = PathToken {
            expires: "2000000000",
            folders: 1,
            token: TOKEN,
        };
        assert_eq!((token, rest), (Some(expected), "/a/b%20c.ts"));
        for path in [
            format!("/t/2000000000.1.{TOKEN}"),
            format!("/t/2000000000.1.{TOKEN}x/a"),
            format!("/t/2000000000.{TOKEN}/a"),
            format!("/t/.1.{TOKEN}/a"),
            format!("/t/-1.1.{TOKEN}/a"),
            format!("/t/2000000000.1000.{TOKEN}/a"),
            format!("/x/t/2000000000.1.{TOKEN}/a"),
            format!("/%74/2000000000.1.{TOKEN}/a"),
            format!("/t/2000000000%2E1.{TOKEN}/a"),
            "/t/a.mp4".into(),
            "/t".into(),
            String::new(),
        ] {
            assert_eq!(PathToken::split(&path), (None, &*path));
        }
    }

    #[test]
    fn folder_has_depth_of_token() {
        let folder = |folders, path| {
            let token = PathToken {
                expires: "1",
                folders,
                token: TOKEN,
            };
            token.folder(path)
        };
        assert_eq!(folder(0, "/a/b/c.ts"), Some("/"));
        assert_eq!(folder(2, "/a/b/c.ts"), Some("/a/b/"));
        assert_eq!(folder(3, "/a/b/c.ts"), None);
    }

    #[test]
    fn masks_path_tokens_in_every_spelling() {
        let name = format!("2000000000.1.{TOKEN}");
        for (written, shown) in [
            (format!("/t/{name}/a/b.ts"), "/t/-/a/b.ts"),
            (format!("/%74/{name}/a"), "/%74/-/a"),
            (format!("/%2574/{name}"), "/%2574/-"),
            (format!("/t/{}/a", name.replace('.', "%2E")), "/t/-/a"),
            (
                format!("https://tv.example/t/{name}/a.m3u8"),
                "https://tv.example/t/-/a.m3u8",
            ),
            ("/t/a.mp4".into(), "/t/a.mp4"),
        ] {
            assert_eq!(without_tokens(&written), shown);
        }
    }
}
