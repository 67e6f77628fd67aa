//! Input: a size, a duration or a bit rate, as users write it.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use headlong_units::{BitRate, Bytes, Duration, ParseError};

/// A parsed value round-trips as text; an error quotes the input.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    try_as::<Bytes>(text);
    try_as::<Duration>(text);
    try_as::<BitRate>(text);
}

fn try_as<T: FromStr<Err = ParseError> + Display + Debug + PartialEq>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string().parse(), Ok(value)),
        Err(error) => assert!(error.to_string().contains(text)),
    }
}
