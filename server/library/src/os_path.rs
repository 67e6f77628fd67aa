//! The path of a text ([`headlong_units::path_text`]), for the file system and for logs.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use headlong_units::path_bytes;

/// The path of a text. Its `Debug` form, for logs, quotes it and escapes bytes that are no UTF-8.
pub fn os_path(text: &str) -> Cow<'_, Path> {
    match path_bytes(text) {
        Cow::Borrowed(path) => Cow::Borrowed(Path::new(OsStr::from_bytes(path))),
        Cow::Owned(path) => Cow::Owned(PathBuf::from(OsString::from_vec(path))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_units::path_text;

    #[test]
    fn log_shows_bytes_that_are_no_utf8() {
        let shown = format!("{:?}", os_path(&path_text(b"\xc3\xbc/caf\xe9\n.mp4")));
        assert_eq!(shown, r#""ü/caf\xE9\n.mp4""#);
    }
}
