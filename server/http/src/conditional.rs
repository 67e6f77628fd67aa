//! Preconditions, in the order of RFC 9110 13.2.2.
//!
//! A validator is only used where it is exact. An entity tag identifies one version. A modification
//! date identifies a second, in which a file can change twice, so it is not sent before that second
//! is over ([`Validators::settled`]). A client that has a date thus received it when no further
//! change could fall into that second; it may then be compared strongly (8.8.2.2), as resuming a
//! download by date requires.

use crate::date::HttpDate;
use crate::entity_tag::{EntityTag, TagList};
use crate::status::Method;

/// Preconditions of a request, as raw field values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Preconditions<'a> {
    /// `if-match`
    pub if_match: Option<&'a str>,
    /// `if-none-match`
    pub if_none_match: Option<&'a str>,
    /// `if-modified-since`
    pub if_modified_since: Option<&'a str>,
    /// `if-unmodified-since`
    pub if_unmodified_since: Option<&'a str>,
    /// `if-range`
    pub if_range: Option<&'a str>,
}

/// Validators of the current version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Entity tag, with its quotes ([`crate::entity_tag()`]).
    pub entity_tag: &'a str,
    /// Modification time; `None` if it is missing or not representable in HTTP.
    pub modified: Option<HttpDate>,
}

impl Validators<'_> {
    /// The modification time, if its second is over at `now`.
    ///
    /// A time in the future, which a file can have, is not used (8.8.2.1 forbids sending one); the
    /// entity tag still is.
    pub fn settled(&self, now: HttpDate) -> Option<HttpDate> {
        self.modified.filter(|modified| *modified < now)
    }
}

/// Result of the preconditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreconditionResult {
    /// Execute the method.
    Proceed {
        /// Whether a `range` field applies: the method is GET, and `if-range`, if present, matches.
        range_applies: bool,
    },
    /// 304: the client has this version.
    NotModified,
    /// 412: the client expects another version.
    PreconditionFailed,
}

/// Evaluates the preconditions of a request for an existing file.
pub fn evaluate(
    method: Method,
    preconditions: &Preconditions<'_>,
    validators: &Validators<'_>,
    now: HttpDate,
) -> PreconditionResult {
    let tag = validators.entity_tag;
    let modified = validators.settled(now);
    // An invalid date is ignored (13.1.3, 13.1.4), and so is any date if the file has no
    // modification time.
    let dates = |value: Option<&str>| Some((HttpDate::parse(value?, now)?, modified?));

    // Steps 1 and 2: is it still the version that the client expects?
    if let Some(value) = preconditions.if_match {
        if !TagList::parse(value).any(|t| t.expects(tag)) {
            return PreconditionResult::PreconditionFailed;
        }
    } else if let Some((since, modified)) = dates(preconditions.if_unmodified_since)
        && modified > since
    {
        return PreconditionResult::PreconditionFailed;
    }

    // Steps 3 and 4: does the client have it already? The date only counts without a tag list.
    if let Some(value) = preconditions.if_none_match {
        if TagList::parse(value).any(|t| t.matches_weakly(tag)) {
            return if method.is_read() {
                PreconditionResult::NotModified
            } else {
                PreconditionResult::PreconditionFailed
            };
        }
    } else if method.is_read()
        && let Some((since, modified)) = dates(preconditions.if_modified_since)
        && modified <= since
    {
        return PreconditionResult::NotModified;
    }

    // Step 5: can the client use a range of this version? Ranges are defined for GET only (14.2),
    // and `if-range` has no meaning without a `range` field.
    let same_version = match preconditions.if_range {
        None => true,
        Some(_) if mutated!(IfRangeIgnored) => true,
        Some(value) => if_range_holds(value, tag, modified, now),
    };
    PreconditionResult::Proceed {
        range_applies: method == Method::Get && same_version,
    }
}

/// A tag that matches strongly, or exactly the date that was sent (13.1.5).
fn if_range_holds(value: &str, tag: &str, modified: Option<HttpDate>, now: HttpDate) -> bool {
    match EntityTag::parse(value) {
        Some(theirs) => theirs.matches_strongly(tag),
        None => modified.is_some_and(|m| HttpDate::parse(value, now) == Some(m)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCEED: PreconditionResult = PreconditionResult::Proceed {
        range_applies: true,
    };

    fn date(seconds: i64) -> HttpDate {
        HttpDate::from_unix_seconds(seconds).unwrap()
    }

    fn at(now: i64, preconditions: &Preconditions<'_>) -> PreconditionResult {
        let validators = Validators {
            entity_tag: "\"v1\"",
            modified: Some(date(784_111_777)),
        };
        evaluate(Method::Get, preconditions, &validators, date(now))
    }

    #[test]
    fn date_is_used_only_after_its_second_is_over() {
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
        let if_range = Preconditions {
            if_range: Some(modified),
            ..Preconditions::default()
        };
        let whole = PreconditionResult::Proceed {
            range_applies: false,
        };
        assert_eq!(at(784_111_777, &if_range), whole);
        assert_eq!(at(784_111_778, &if_range), PROCEED);
        let since = Preconditions {
            if_modified_since: Some(modified),
            ..Preconditions::default()
        };
        assert_eq!(at(784_111_777, &since), PROCEED);
        assert_eq!(at(784_111_778, &since), PreconditionResult::NotModified);
    }

    #[test]
    fn matching_if_none_match_fails_other_methods_with_412() {
        let validators = Validators {
            entity_tag: "\"v1\"",
            modified: None,
        };
        let preconditions = Preconditions {
            if_none_match: Some("*"),
            ..Preconditions::default()
        };
        let verdict = |method| evaluate(method, &preconditions, &validators, HttpDate::EPOCH);
        assert_eq!(verdict(Method::Get), PreconditionResult::NotModified);
        assert_eq!(verdict(Method::Head), PreconditionResult::NotModified);
        assert_eq!(
            verdict(Method::Other),
            PreconditionResult::PreconditionFailed
        );
    }
}
