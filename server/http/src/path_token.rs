//! A token within a path: `/t/EXPIRES.FOLDERS.TOKEN/films/a/index.m3u8`.
//!
//! The one idea: players resolve the names in a playlist against its address and drop its query, so
//! a token that stands before the path of the playlist goes to every segment by itself. It is the
//! token of a folder, as the argument `prefix` has it; how many folders of the path it opens stands
//! beside it, as the path is there already.
//!
//! What looks like one is taken off the path before anything else looks at the path, so that
//! rules, the file and what is signed are those of the path behind it. Only the plain spelling is
//! one: nothing in it needs to be encoded.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use percent_encoding::percent_decode_str;

/// What stands before a token.
const MARK: &str = "t";
/// Letters of 32 bytes in base64, without padding.
const TOKEN_LETTERS: usize = 43;
/// The most digits of an end: seconds until the year 5138.
const EXPIRES_DIGITS_MAX: usize = 11;
/// The most digits of a number of folders: no path has a thousand that matter.
const FOLDERS_DIGITS_MAX: usize = 3;
/// A name of so many bytes behind the mark is in no log: shorter than any token with its end.
const HIDDEN_BYTES_MIN: usize = 40;

/// The token of a folder as it stood in a path. Not looked at yet: it may be a wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathToken<'a> {
    /// Seconds since 1970, digits.
    pub expires: &'a str,
    /// Folders of the path that are in what was signed.
    pub folders: usize,
    /// The HMAC in base64.
    pub token: &'a str,
}

impl<'a> PathToken<'a> {
    /// Takes a token off the path of a request target: the token, and the path behind it. A path
    /// without one is left as it is.
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

    /// The folder that it is to open: that many of the path's, which begins with a slash, with
    /// the slash behind them.
    pub(crate) fn folder<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (at, _) = path.match_indices('/').nth(self.folders)?;
        Some(&path[..=at])
    }
}

/// A path, or an address of a page, without tokens, in whatever spelling: for logs.
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

/// Also if it is encoded more than once, which opens nothing and is still a token.
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
    fn what_looks_like_a_token_is_taken_off_and_anything_else_is_a_path() {
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
    fn a_folder_is_as_deep_as_the_token_says_or_there_is_none() {
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
    fn logs_are_spared_tokens_of_paths_however_they_are_spelt() {
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
