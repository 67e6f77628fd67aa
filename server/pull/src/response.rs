//! Validation of an origin's response.
//!
//! A version is identified by its length and validators. A response counts only if it states that
//! version, range and length; otherwise the origin is at fault and the body is discarded.

use alloc::string::{String, ToString};

use headlong_units::ByteRange;

/// Validators of a version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// Entity tag, strong or weak, as sent by the origin.
    pub entity_tag: Option<String>,
    /// Modification time, as sent by the origin.
    pub last_modified: Option<String>,
}

impl Validators {
    /// The entity tag with its quotes, if it is strong: only those may be used in range requests
    /// (RFC 9110, 13.1.5).
    pub fn strong_tag(&self) -> Option<&str> {
        let is_strong = |tag: &&str| tag.starts_with('"');
        self.entity_tag.as_deref().filter(is_strong)
    }

    /// Whether there are validators. Without any, equal length does not imply the same version.
    pub fn are_any(&self) -> bool {
        self.entity_tag.is_some() || self.last_modified.is_some()
    }
}

/// One version of a title at its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginVersion {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Its validators.
    pub validators: Validators,
}

/// The relevant fields of a response head.
#[derive(Debug, Clone, Copy, Default)]
pub struct ResponseHead<'a> {
    /// Status code.
    pub status: u16,
    /// `content-length`
    pub content_length: Option<&'a str>,
    /// `content-range`
    pub content_range: Option<&'a str>,
    /// `content-encoding`
    pub content_encoding: Option<&'a str>,
    /// `etag`
    pub entity_tag: Option<&'a str>,
    /// `last-modified`
    pub last_modified: Option<&'a str>,
}

headlong_units::names! {
    /// Reason why a response is unusable.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ResponseFault {
        /// The title does not exist: 404 or 410.
        Absent => "absent",
        /// The origin has another version now.
        Changed => "origin-changed",
        /// The length of the title is missing.
        NoLength => "no-length",
        /// Another range than requested, or another length than before.
        WrongLength => "wrong-length",
        /// The whole title instead of a range.
        NoRange => "no-range",
        /// The body is encoded, so it is not the bytes of the title.
        Encoded => "encoded",
        /// Access refused: 401, 403 or 407.
        Refused => "origin-refused",
        /// Another status.
        Status => "origin-status",
        /// Too many redirects, or a redirect to a forbidden target.
        Redirect => "redirect",
        /// The origin is unreachable, or not an HTTP server.
        Unreachable => "origin-unreachable",
        /// No response in time, or a stalled body.
        TimedOut => "origin-timed-out",
        /// The connection was closed in the middle of the body.
        Short => "origin-short",
        /// The request came from this server, through others.
        Loop => "origin-loop",
        /// A peer asked for a slice that is not stored here.
        NotStored => "not-stored",
        /// The disk is full.
        NoSpace => "no-space",
        /// The disk failed.
        Disk => "disk",
        /// The title has too many slices.
        TooLarge => "too-large",
    }
}

impl ResponseFault {
    /// Whether a retry may succeed soon: the request is then retried at once.
    pub const fn is_passing(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Short)
    }
}

impl ResponseHead<'_> {
    /// The version described by a response to HEAD.
    ///
    /// # Errors
    /// If the response is unusable.
    pub fn version(&self) -> Result<OriginVersion, ResponseFault> {
        self.check_status(200)?;
        let size_bytes = number(self.content_length).ok_or(ResponseFault::NoLength)?;
        Ok(OriginVersion {
            size_bytes,
            validators: self.validators(),
        })
    }

    /// Checks that the body of a response is this range of this version.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_range(
        &self,
        version: &OriginVersion,
        range: ByteRange,
    ) -> Result<(), ResponseFault> {
        let is_whole = range == ByteRange::new(0, version.size_bytes);
        match self.status {
            200 => {
                self.check_status(200)?;
                self.check_validators(version)?;
                if number(self.content_length) != Some(version.size_bytes) {
                    return Err(ResponseFault::WrongLength);
                }
                // A server without range support may still send a title that is a single slice.
                if is_whole {
                    Ok(())
                } else {
                    Err(ResponseFault::NoRange)
                }
            }
            412 => Err(ResponseFault::Changed),
            416 => Err(ResponseFault::WrongLength),
            _ => {
                self.check_status(206)?;
                self.check_validators(version)?;
                let (sent, size) = self
                    .content_range
                    .and_then(content_range)
                    .ok_or(ResponseFault::WrongLength)?;
                let length = self.content_length.map(|text| number(Some(text)));
                let is_long = length.is_some_and(|length| length != Some(range.len()));
                match size == version.size_bytes && sent == range && !is_long {
                    true => Ok(()),
                    false => Err(ResponseFault::WrongLength),
                }
            }
        }
    }

    fn check_status(&self, expected: u16) -> Result<(), ResponseFault> {
        match self.status {
            404 | 410 => return Err(ResponseFault::Absent),
            401 | 403 | 407 => return Err(ResponseFault::Refused),
            504 | 408 => return Err(ResponseFault::TimedOut),
            502 | 503 => return Err(ResponseFault::Unreachable),
            status if status != expected => return Err(ResponseFault::Status),
            _ => {}
        }
        let encoding = self.content_encoding.map(str::trim);
        match encoding.is_none_or(|coding| coding.is_empty() || coding == "identity") {
            true => Ok(()),
            false => Err(ResponseFault::Encoded),
        }
    }

    fn validators(&self) -> Validators {
        let is_tag = |tag: &&str| {
            let quoted = tag.strip_prefix("W/").unwrap_or(tag);
            quoted.len() >= 2 && quoted.starts_with('"') && quoted.ends_with('"')
        };
        Validators {
            entity_tag: self.entity_tag.filter(is_tag).map(ToString::to_string),
            last_modified: self.last_modified.map(ToString::to_string),
        }
    }

    /// The validators must be the same as before.
    fn check_validators(&self, version: &OriginVersion) -> Result<(), ResponseFault> {
        match self.validators() == version.validators {
            true => Ok(()),
            false => Err(ResponseFault::Changed),
        }
    }
}

fn number(text: Option<&str>) -> Option<u64> {
    let text = text?.trim();
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Parses `bytes 0-9/100`: the range, and the size of the whole.
fn content_range(text: &str) -> Option<(ByteRange, u64)> {
    let (unit, rest) = text.trim().split_once(' ')?;
    let (range, size) = rest.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last) = (number(Some(first))?, number(Some(last))?);
    let end = last.checked_add(1).filter(|end| first < *end)?;
    let is_bytes = unit.eq_ignore_ascii_case("bytes");
    is_bytes.then_some((ByteRange::new(first, end), number(Some(size))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: ResponseHead<'_> = ResponseHead {
        status: 206,
        content_length: Some("10"),
        content_range: Some("bytes 10-19/100"),
        content_encoding: None,
        entity_tag: Some("\"a\""),
        last_modified: Some("Sun, 06 Nov 1994 08:49:37 GMT"),
    };

    fn version() -> OriginVersion {
        let whole = ResponseHead {
            status: 200,
            content_length: Some("100"),
            content_range: None,
            ..HEAD
        };
        whole.version().expect("right")
    }

    #[test]
    fn accepts_only_requested_range_of_requested_version() {
        let range = ByteRange::new(10, 20);
        assert_eq!(HEAD.check_range(&version(), range), Ok(()));
        let cases = [
            (
                ResponseFault::Changed,
                ResponseHead {
                    entity_tag: Some("\"b\""),
                    ..HEAD
                },
            ),
            (
                ResponseFault::Changed,
                ResponseHead {
                    entity_tag: None,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Changed,
                ResponseHead {
                    entity_tag: Some("W/\"a\""),
                    ..HEAD
                },
            ),
            (
                ResponseFault::Changed,
                ResponseHead {
                    last_modified: None,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Changed,
                ResponseHead {
                    status: 412,
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    content_range: Some("bytes 10-19/101"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    content_range: Some("bytes 10-18/100"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    content_range: Some("bytes 11-20/100"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    content_range: Some("bytes 10-19/*"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    content_range: None,
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    content_length: Some("11"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    status: 416,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Encoded,
                ResponseHead {
                    content_encoding: Some("gzip"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::Absent,
                ResponseHead {
                    status: 404,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Absent,
                ResponseHead {
                    status: 410,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Refused,
                ResponseHead {
                    status: 403,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Unreachable,
                ResponseHead {
                    status: 503,
                    ..HEAD
                },
            ),
            (
                ResponseFault::Status,
                ResponseHead {
                    status: 500,
                    ..HEAD
                },
            ),
            (
                ResponseFault::NoRange,
                ResponseHead {
                    status: 200,
                    content_length: Some("100"),
                    ..HEAD
                },
            ),
            (
                ResponseFault::WrongLength,
                ResponseHead {
                    status: 200,
                    ..HEAD
                },
            ),
        ];
        for (fault, head) in cases {
            assert_eq!(head.check_range(&version(), range), Err(fault), "{head:?}");
        }
        // An explicit identity encoding is accepted.
        let plain = ResponseHead {
            content_encoding: Some("identity"),
            ..HEAD
        };
        assert_eq!(plain.check_range(&version(), range), Ok(()));
    }

    #[test]
    fn whole_reply_is_accepted_for_title_of_one_slice() {
        let whole = ResponseHead {
            status: 200,
            content_length: Some("100"),
            ..HEAD
        };
        assert_eq!(
            whole.check_range(&version(), ByteRange::new(0, 100)),
            Ok(())
        );
    }

    #[test]
    fn version_needs_length_and_ranges_need_strong_tag() {
        let head = ResponseHead {
            status: 200,
            content_range: None,
            ..HEAD
        };
        let weak = ResponseHead {
            entity_tag: Some("W/\"a\""),
            ..head
        };
        let of = |head: ResponseHead<'_>| head.version().expect("a version");
        let other = ResponseHead {
            entity_tag: Some("W/\"b\""),
            ..head
        };
        assert_ne!(of(weak), of(other), "weak tags distinguish versions");
        assert_eq!(of(weak).validators.strong_tag(), None);
        assert_eq!(of(head).validators.strong_tag(), Some("\"a\""));
        let none = ResponseHead {
            entity_tag: Some("a"),
            last_modified: None,
            ..head
        };
        assert!(of(weak).validators.are_any() && !of(none).validators.are_any());
        for wrong in [
            None,
            Some(""),
            Some("-1"),
            Some("+1"),
            Some("1, 1"),
            Some("99999999999999999999"),
        ] {
            let head = ResponseHead {
                content_length: wrong,
                ..head
            };
            assert_eq!(head.version(), Err(ResponseFault::NoLength), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_on_text(status in 0_u16..1000, a in ".*", b in "(bytes )?[0-9*/ -]{0,50}") {
            let head = ResponseHead {
                status,
                content_length: Some(&a),
                content_range: Some(&b),
                content_encoding: None,
                entity_tag: Some(&a),
                last_modified: Some(&b),
            };
            let _ = head.version();
            let _ = head.check_range(&version(), ByteRange::new(10, 20));
        }
    }
}
