//! Input: the path of a request target.

use headlong_http::{RelativePath, Status, media_type};
use headlong_media::encode_path;

/// An accepted path stays below its root; a rejected path has a status.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    assert!(media_type(text).contains('/'));
    match RelativePath::parse(text) {
        Err(error) => assert!(matches!(
            error.status(),
            Status::BadRequest | Status::NotFound
        )),
        Ok(path) => {
            assert!(text.starts_with('/'));
            // Each byte that is no UTF-8 is a character of three bytes.
            assert!(path.as_str().len() <= 3 * 4096 && !path.as_str().contains('\0'));
            for segment in path.as_str().split('/') {
                assert!(!segment.is_empty() && segment.len() <= 3 * 255);
                assert!(!segment.starts_with('.'));
            }
            assert!(path.as_str().ends_with(path.file_name()));
            // The encoded result selects the same file.
            let encoded = encode_path(path.as_str());
            assert_eq!(RelativePath::parse(&encoded), Ok(path));
        }
    }
}
