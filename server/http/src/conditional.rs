//! Preconditions, in the order of RFC 9110 13.2.2.
//!
//! The one idea: a validator may only vouch for what it can tell apart. Entity tags name one
//! version exactly. A modification date names a second, in which a file can change twice, so it
//! is not spoken of at all before that second is over ([`Validators::settled`]): a client that
//! holds one got it when no further change could fall into it, and it may then be compared
//! strongly (8.8.2.2), which resuming a download by date needs.

use crate::date::HttpDate;
use crate::entity_tag::{Tag, TagList};
use crate::status::Method;

/// The preconditions of a request, as their values stand in the fields.
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

/// What is known of the current version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// Strong entity tag, with its quotes ([`crate::entity_tag()`]).
    pub entity_tag: &'a str,
    /// Modification time; `None` if the file system gave none that HTTP can spell.
    pub modified: Option<HttpDate>,
}

impl Validators<'_> {
    /// The modification time, if the second it names is over at `now`.
    ///
    /// A time in the future, which a file can have, thereby counts as none (8.8.2.1 forbids to
    /// send one); the entity tag still works.
    pub fn settled(&self, now: HttpDate) -> Option<HttpDate> {
        self.modified.filter(|modified| *modified < now)
    }
}

/// What the preconditions say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Do what the method says.
    Proceed {
        /// Whether a `range` field counts: the method is GET, and `if-range`, if any, holds.
        range_applies: bool,
    },
    /// 304: the client has this version.
    NotModified,
    /// 412: the client meant another version.
    PreconditionFailed,
}

/// Evaluates the preconditions of a request for a file that exists and would be sent otherwise.
pub fn evaluate(
    method: Method,
    preconditions: &Preconditions<'_>,
    validators: &Validators<'_>,
    now: HttpDate,
) -> Verdict {
    let tag = validators.entity_tag;
    let modified = validators.settled(now);
    // A date that is none is as if it had not been sent (13.1.3, 13.1.4), and so is any date if
    // the file has no modification time.
    let dates = |value: Option<&str>| Some((HttpDate::parse(value?, now)?, modified?));

    // Steps 1 and 2: is it still the version the client means?
    if let Some(value) = preconditions.if_match {
        if !TagList::parse(value).any(|t| t.matches_strongly(tag)) {
            return Verdict::PreconditionFailed;
        }
    } else if let Some((since, modified)) = dates(preconditions.if_unmodified_since)
        && modified > since
    {
        return Verdict::PreconditionFailed;
    }

    // Steps 3 and 4: has the client got it already? The date only counts without a tag list.
    if let Some(value) = preconditions.if_none_match {
        if TagList::parse(value).any(|t| t.matches_weakly(tag)) {
            return if method.is_read() {
                Verdict::NotModified
            } else {
                Verdict::PreconditionFailed
            };
        }
    } else if method.is_read()
        && let Some((since, modified)) = dates(preconditions.if_modified_since)
        && modified <= since
    {
        return Verdict::NotModified;
    }

    // Step 5: is a range of this version what the client can use? Ranges are defined for GET only
    // (14.2), and without a `range` field an `if-range` means nothing.
    let same_version = match preconditions.if_range {
        None => true,
        Some(_) if mutated!(IfRangeIgnored) => true,
        Some(value) => if_range_holds(value, tag, modified, now),
    };
    Verdict::Proceed {
        range_applies: method == Method::Get && same_version,
    }
}

/// A tag that matches strongly, or a date that is exactly the one that was sent (13.1.5).
fn if_range_holds(value: &str, tag: &str, modified: Option<HttpDate>, now: HttpDate) -> bool {
    match Tag::parse(value) {
        Some(theirs) => theirs.matches_strongly(tag),
        None => modified.is_some_and(|m| HttpDate::parse(value, now) == Some(m)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCEED: Verdict = Verdict::Proceed {
        range_applies: true,
    };

    fn date(seconds: i64) -> HttpDate {
        HttpDate::from_unix_seconds(seconds).unwrap()
    }

    fn at(now: i64, preconditions: &Preconditions<'_>) -> Verdict {
        let validators = Validators {
            entity_tag: "\"v1\"",
            modified: Some(date(784_111_777)),
        };
        evaluate(Method::Get, preconditions, &validators, date(now))
    }

    #[test]
    fn a_date_counts_only_after_its_second_is_over() {
        let modified = "Sun, 06 Nov 1994 08:49:37 GMT";
        let if_range = Preconditions {
            if_range: Some(modified),
            ..Preconditions::default()
        };
        let whole = Verdict::Proceed {
            range_applies: false,
        };
        assert_eq!(at(784_111_777, &if_range), whole);
        assert_eq!(at(784_111_778, &if_range), PROCEED);
        let since = Preconditions {
            if_modified_since: Some(modified),
            ..Preconditions::default()
        };
        assert_eq!(at(784_111_777, &since), PROCEED);
        assert_eq!(at(784_111_778, &since), Verdict::NotModified);
    }

    #[test]
    fn a_method_that_is_no_read_fails_where_a_read_is_not_modified() {
        let validators = Validators {
            entity_tag: "\"v1\"",
            modified: None,
        };
        let preconditions = Preconditions {
            if_none_match: Some("*"),
            ..Preconditions::default()
        };
        let verdict = |method| evaluate(method, &preconditions, &validators, HttpDate::EPOCH);
        assert_eq!(verdict(Method::Get), Verdict::NotModified);
        assert_eq!(verdict(Method::Head), Verdict::NotModified);
        assert_eq!(verdict(Method::Other), Verdict::PreconditionFailed);
    }
}
