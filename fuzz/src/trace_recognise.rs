//! Input: a log in an unknown format.

use headlong_trace::{ParsedLogError, understand};

/// A recognised format, given explicitly, parses the log the same way. Without one, the error lists
/// all formats that were tried.
pub fn run(data: &[u8]) {
    match understand(data, None) {
        Ok(understood) => {
            let format = understood.format.parse().expect("a printed format parses");
            assert_eq!(understand(data, Some(&format)), Ok(understood));
        }
        Err(ParsedLogError::Unknown(tried)) => assert!(tried.len() >= 6),
        Err(ParsedLogError::Empty) => assert!(data.iter().all(|byte| *byte == 0
            || byte.is_ascii_whitespace()
            || [0xef, 0xbb, 0xbf].contains(byte))),
        Err(ParsedLogError::Binary) => assert!(
            !data
                .iter()
                .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
        ),
        Err(ParsedLogError::Format(error)) => panic!("no format was given: {error}"),
    }
}
