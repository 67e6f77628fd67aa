//! Parses the path of a request target into the path of a file below a root.
//!
//! The path is decoded once, then each segment is checked. The result can be appended to a root: it
//! has no empty, `.`, `..` or hidden segment and no NUL. Names need not be UTF-8, as in Linux.
//! Symbolic links are checked by the caller, which has access to the file system.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use headlong_units::{path_bytes, path_text};
use percent_encoding::percent_decode_str;

use crate::status::Status;

/// Longest path in Linux, in bytes (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;
/// Longest file name in Linux, in bytes (`NAME_MAX`).
const SEGMENT_BYTES_MAX: usize = 255;

/// A path below a root: segments joined by `/`, without a leading slash. That of a folder ends in a
/// slash, or is empty for the root; any other has none at its end. It is the text of the path
/// ([`path_text()`]), which holds any bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelativePath(String);

impl RelativePath {
    /// Parses the path of a request target, percent-encoded and without its query.
    ///
    /// Empty segments are removed (`/a//b` is `/a/b`), a backslash is an ordinary character (as in
    /// Linux), and hidden names are treated as absent.
    ///
    /// # Errors
    /// See [`PathError`]; [`PathError::status`] is the status of the reply.
    pub fn parse(target_path: &str) -> Result<Self, PathError> {
        let path = Self::parse_any(target_path)?;
        match path.is_folder() {
            true => Err(PathError::Directory),
            false => Ok(path),
        }
    }

    /// As [`RelativePath::parse`], for the path of a file or of a folder, which ends in a slash.
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn parse_any(target_path: &str) -> Result<Self, PathError> {
        let path = target_path.strip_prefix('/').ok_or(PathError::NotRooted)?;
        // An encoded byte takes three bytes; anything longer cannot decode to a valid path.
        if path.len() > PATH_BYTES_MAX * 3 {
            return Err(PathError::TooLong);
        }
        // An encoded slash belongs to a name, and names cannot contain one. Accepting it as a
        // separator would give one file two spellings, which caches and rules treat differently.
        if path.contains("%2f") || path.contains("%2F") {
            return Err(PathError::EncodedSlash);
        }
        // The library accepts a stray percent sign as itself.
        if path.split('%').skip(1).any(|after| !begins_escape(after)) {
            return Err(PathError::BadEscape);
        }
        let bytes: Cow<'_, [u8]> = percent_decode_str(path).into();
        let decoded = path_text(&bytes);
        if decoded.contains('\0') {
            return Err(PathError::Nul);
        }
        let segments: Vec<&str> = decoded.split('/').filter(|s| !s.is_empty()).collect();
        if segments.iter().any(|s| matches!(*s, "." | "..")) {
            return Err(PathError::DotSegment);
        }
        if segments.iter().any(|s| s.starts_with('.')) {
            return Err(PathError::Hidden);
        }
        if segments
            .iter()
            .any(|s| path_bytes(s).len() > SEGMENT_BYTES_MAX)
        {
            return Err(PathError::TooLong);
        }
        let mut joined = segments.join("/");
        if decoded.ends_with('/') && !joined.is_empty() {
            joined.push('/');
        }
        if path_bytes(&joined).len() > PATH_BYTES_MAX {
            return Err(PathError::TooLong);
        }
        Ok(Self(joined))
    }

    /// The text of the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the path of a folder.
    pub fn is_folder(&self) -> bool {
        self.0.is_empty() || self.0.ends_with('/')
    }

    /// Name of the file: the last segment.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

/// Whether the text after a percent sign makes it an escape (RFC 3986 2.1).
fn begins_escape(after: &str) -> bool {
    let digits = after.bytes().take(2);
    digits.filter(u8::is_ascii_hexdigit).count() == 2
}

impl AsRef<str> for RelativePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a request target does not name a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// Does not begin with `/`.
    #[error("the path does not begin with a slash")]
    NotRooted,
    /// A `%` without two hexadecimal digits.
    #[error("the path has a percent sign without two hex digits; write it as %25")]
    BadEscape,
    /// `%2F`.
    #[error("the path has an encoded slash (%2F); write it as a plain slash")]
    EncodedSlash,
    /// A NUL byte.
    #[error("the path has a NUL byte, which no file name can contain")]
    Nul,
    /// A `.` or `..` segment in any spelling. Clients resolve these before sending the request.
    #[error("the path has a . or .. segment; resolve it first")]
    DotSegment,
    /// A segment that begins with a dot.
    #[error("names that begin with a dot are not served")]
    Hidden,
    /// Longer than a path or name can be.
    #[error("the path or one of its names is longer than the system allows")]
    TooLong,
    /// Ends in `/`: a directory, where only files are meant.
    #[error("the path names a directory; name a file")]
    Directory,
}

impl PathError {
    /// [`Status::BadRequest`] for a malformed path, [`Status::NotFound`] for a missing file.
    pub const fn status(self) -> Status {
        match self {
            Self::NotRooted
            | Self::BadEscape
            | Self::EncodedSlash
            | Self::Nul
            | Self::DotSegment => Status::BadRequest,
            Self::Hidden | Self::TooLong | Self::Directory => Status::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> Result<String, PathError> {
        RelativePath::parse(path).map(|p| p.0)
    }

    #[test]
    fn accepts_names_with_spaces_and_unicode() {
        assert_eq!(
            parsed("/My%20Film/%C3%A9t%C3%A9.mp4").as_deref(),
            Ok("My Film/été.mp4")
        );
        assert_eq!(parsed("/a/été.mp4").as_deref(), Ok("a/été.mp4"));
        assert_eq!(parsed("/a\\..\\b").as_deref(), Ok("a\\..\\b"));
        assert_eq!(parsed("/a+b%3Fc%23d").as_deref(), Ok("a+b?c#d"));
        assert_eq!(parsed("/..a..").unwrap_err(), PathError::Hidden);
        assert_eq!(parsed("/a..").as_deref(), Ok("a.."));
    }

    #[test]
    fn names_are_bytes_and_each_has_one_text() {
        let bytes = |path: &str| parsed(path).map(|text| path_bytes(&text).into_owned());
        assert_eq!(bytes("/caf%E9.mp4"), Ok(b"caf\xe9.mp4".to_vec()));
        assert_eq!(bytes("/%C3/a"), Ok(b"\xc3/a".to_vec()));
        // The character that stands for a byte is not that byte.
        assert_eq!(bytes("/%EE%BF%A9"), Ok("\u{efe9}".as_bytes().to_vec()));
        assert_ne!(parsed("/%EE%BF%A9"), parsed("/%E9"));
        let name = "%E9".repeat(255);
        assert!(parsed(&alloc::format!("/{name}")).is_ok());
        assert_eq!(parsed(&alloc::format!("/{name}x")), Err(PathError::TooLong));
    }

    #[test]
    fn removes_empty_segments_and_refuses_trailing_slash() {
        assert_eq!(parsed("//a///b.ts").as_deref(), Ok("a/b.ts"));
        for path in ["/", "//", "/a/", "/a//"] {
            assert_eq!(parsed(path), Err(PathError::Directory), "{path}");
        }
    }

    #[test]
    fn path_of_folder_keeps_one_slash_at_its_end() {
        let any = |path: &str| RelativePath::parse_any(path).map(|path| path.0);
        for (target, expected) in [("/", ""), ("//", ""), ("/a//b//", "a/b/"), ("/a", "a")] {
            assert_eq!(any(target).as_deref(), Ok(expected), "{target}");
        }
        assert_eq!(any("/.a/"), Err(PathError::Hidden));
        assert_eq!(any("/a/../"), Err(PathError::DotSegment));
    }

    #[test]
    fn refuses_dot_segments_in_every_spelling() {
        for path in [
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/b",
            "/.%2E/b",
            "/%2e./b",
            "/a/./b",
            "/a/%2e/b",
            "/a/..",
            "/a/../",
            "//../b",
        ] {
            assert_eq!(parsed(path), Err(PathError::DotSegment), "{path}");
        }
        assert_eq!(parsed("/..%2fetc"), Err(PathError::EncodedSlash));
        assert_eq!(parsed("/a%2Fb"), Err(PathError::EncodedSlash));
        // Decoded only once: a file whose name begins with a percent sign.
        assert_eq!(parsed("/%252e%252e/b").as_deref(), Ok("%2e%2e/b"));
        assert_eq!(parsed("/a%252fb").as_deref(), Ok("a%2fb"));
    }

    #[test]
    fn impossible_file_name_is_bad_request() {
        for (path, error) in [
            ("", PathError::NotRooted),
            ("*", PathError::NotRooted),
            ("a/b", PathError::NotRooted),
            ("/a%00b", PathError::Nul),
            ("/a\0b", PathError::Nul),
            ("/100%", PathError::BadEscape),
            ("/%u0041", PathError::BadEscape),
        ] {
            assert_eq!(parsed(path), Err(error), "{path:?}");
            assert_eq!(error.status(), Status::BadRequest);
        }
    }

    #[test]
    fn hidden_files_are_not_found() {
        for path in ["/.git/config", "/a/.htaccess", "/%2ehidden", "/..."] {
            assert_eq!(parsed(path), Err(PathError::Hidden), "{path}");
        }
        assert_eq!(PathError::Hidden.status(), Status::NotFound);
    }

    #[test]
    fn length_limits_are_those_of_linux() {
        let name = "x".repeat(255);
        assert!(parsed(&alloc::format!("/{name}")).is_ok());
        assert_eq!(parsed(&alloc::format!("/{name}x")), Err(PathError::TooLong));
        let encoded = "%78".repeat(255);
        assert_eq!(parsed(&alloc::format!("/{encoded}")), Ok(name.clone()));
        let path = alloc::format!("/{name}").repeat(16);
        assert_eq!(parsed(&path).map(|p| p.len()), Ok(4095));
        let path = alloc::format!("{path}/y");
        assert_eq!(parsed(&path), Err(PathError::TooLong));
    }

    #[test]
    fn file_name_is_last_segment() {
        let path = RelativePath::parse("/a/b.mp4").unwrap();
        assert_eq!((path.as_str(), path.file_name()), ("a/b.mp4", "b.mp4"));
    }
}
