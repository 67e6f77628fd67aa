//! A log in an unknown format.

use headlong_trace::{NotUnderstood, understand};

/// A format is found that understands something, or all that was tried is told. A format that was
/// found understands the same when it is given.
pub fn run(data: &[u8]) {
    match understand(data, None) {
        Ok(understood) => {
            let format = understood
                .format
                .parse()
                .expect("formats are told as they are given");
            assert_eq!(understand(data, Some(&format)), Ok(understood));
        }
        Err(NotUnderstood::Unknown(tried)) => assert!(tried.len() >= 6),
        Err(NotUnderstood::Empty) => assert!(data.iter().all(|byte| *byte == 0
            || byte.is_ascii_whitespace()
            || [0xef, 0xbb, 0xbf].contains(byte))),
        Err(NotUnderstood::Binary) => assert!(
            !data
                .iter()
                .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
        ),
        Err(NotUnderstood::Format(error)) => panic!("no format was given: {error}"),
    }
}
