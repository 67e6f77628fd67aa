//! Input: the path of a request target.

use headlong_http::{RelativePath, Status, media_type};

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
            assert!(path.as_str().len() <= 4096 && !path.as_str().contains('\0'));
            for segment in path.as_str().split('/') {
                assert!(!segment.is_empty() && segment.len() <= 255);
                assert!(!segment.starts_with('.'));
            }
            assert!(path.as_str().ends_with(path.file_name()));
            // Percent-encoding every byte of the result selects the same file.
            let encode = |byte: u8| match byte {
                b'/' => "/".to_string(),
                byte => format!("%{byte:02x}"),
            };
            let encoded: String = path.as_str().bytes().map(encode).collect();
            assert_eq!(RelativePath::parse(&format!("/{encoded}")), Ok(path));
        }
    }
}
