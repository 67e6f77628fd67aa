//! The word of an authority that a certificate is good (OCSP, RFC 6960), to be sent with it.
//!
//! It is read from a file and never asked for. What is wrong with it, of another certificate, not good
//! or too old is not sent: a client that gets such a word refuses the connection, and one that gets
//! none goes on. Its signature is left to the client, who has to look at it anyway.

use std::io;
use std::path::{Path, PathBuf};

use ring::digest;
use x509_parser::asn1_rs::{Any, Class, FromDer, Oid, Tag, oid};
use x509_parser::time::ASN1Time;

/// The kind of response that there is (RFC 6960 4.2.1).
const BASIC: Oid<'static> = oid!(1.3.6.1.5.5.7.48.1.1);
const SHA1: Oid<'static> = oid!(1.3.14.3.2.26);
const SHA256: Oid<'static> = oid!(2.16.840.1.101.3.4.2.1);

/// A response that may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Staple {
    /// As it was read.
    pub(super) der: Vec<u8>,
    /// The second since 1970 from which it is too old; `None` if it does not say.
    pub(super) until: Option<i64>,
}

/// Why a response is not sent.
#[derive(Debug, thiserror::Error)]
pub enum OcspError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}; check that it exists and that this user may read it")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is something else.
    #[error("{0} is no OCSP response in DER; write it by `openssl ocsp -respout`")]
    NotOcsp(PathBuf),
    /// The responder did not answer the question.
    #[error("{0} says that the responder could not answer; ask it again")]
    Unanswered(PathBuf),
    /// It is about other certificates.
    #[error("{0} is about another certificate; ask for the one of tls.certificate")]
    Another(PathBuf),
    /// The certificate is revoked, or the authority does not know it.
    #[error("{0} says that the certificate is revoked or unknown; get another from its authority")]
    NotGood(PathBuf),
    /// It is too old.
    #[error("{path} was good until {until} only; fetch a new one and reload")]
    Expired {
        /// The file.
        path: PathBuf,
        /// The end.
        until: ASN1Time,
    },
    /// It is of a time to come.
    #[error("{path} is good from {from} on only; check the clock")]
    TooEarly {
        /// The file.
        path: PathBuf,
        /// The beginning.
        from: ASN1Time,
    },
}

/// What one answer says.
struct Single<'a> {
    hash: Oid<'a>,
    issuer_hash: &'a [u8],
    serial: &'a [u8],
    is_good: bool,
    from: ASN1Time,
    until: Option<ASN1Time>,
}

/// The response in a file, if it may be sent with this certificate at this second since 1970.
///
/// # Errors
/// Why not.
pub(super) fn read_staple(path: &Path, certificate: &[u8], now: i64) -> Result<Staple, OcspError> {
    let der = std::fs::read(path).map_err(|source| OcspError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let not_ocsp = || OcspError::NotOcsp(path.to_owned());
    let answers = match response(&der).ok_or_else(not_ocsp)? {
        None => return Err(OcspError::Unanswered(path.to_owned())),
        Some(basic) => answers(basic).ok_or_else(not_ocsp)?,
    };
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|_| OcspError::Another(path.to_owned()))?;
    let issuer = certificate.issuer().as_raw();
    let is_of =
        |single: &&Single<'_>| single.serial == certificate.raw_serial() && is_hash(single, issuer);
    let single = answers.iter().find(is_of);
    let single = single.ok_or_else(|| OcspError::Another(path.to_owned()))?;
    if !single.is_good {
        return Err(OcspError::NotGood(path.to_owned()));
    }
    if let Some(until) = single.until.filter(|until| until.timestamp() <= now) {
        let path = path.to_owned();
        return Err(OcspError::Expired { path, until });
    }
    // Clocks differ by some minutes.
    if single.from.timestamp() > now + 300 {
        let (path, from) = (path.to_owned(), single.from);
        return Err(OcspError::TooEarly { path, from });
    }
    let until = single.until.map(|until| until.timestamp());
    Ok(Staple { der, until })
}

/// Whether the answer is about a certificate of this issuer. Of a hash that is not known the serial
/// number has to do.
fn is_hash(single: &Single<'_>, issuer: &[u8]) -> bool {
    let algorithm = if single.hash == SHA1 {
        &digest::SHA1_FOR_LEGACY_USE_ONLY
    } else if single.hash == SHA256 {
        &digest::SHA256
    } else {
        return true;
    };
    digest::digest(algorithm, issuer).as_ref() == single.issuer_hash
}

/// The next value, and what it holds.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Any<'a>> {
    let (left, any) = Any::from_der(rest).ok()?;
    *rest = left;
    Some(any)
}

/// What is in the next value, if that is of this kind.
fn within<'a>(rest: &mut &'a [u8], tag: Tag) -> Option<&'a [u8]> {
    let any = next(rest)?;
    let is_it = any.class() == Class::Universal && any.tag() == tag;
    is_it.then_some(any.data)
}

/// The same for one with a number of its context; nothing is taken if it is not there.
fn in_context<'a>(rest: &mut &'a [u8], number: u32) -> Option<&'a [u8]> {
    let mut ahead = *rest;
    let any = next(&mut ahead)?;
    if any.class() != Class::ContextSpecific || any.tag() != Tag(number) {
        return None;
    }
    *rest = ahead;
    Some(any.data)
}

/// The signed part; `Some(None)` if the responder did not answer.
fn response(der: &[u8]) -> Option<Option<&[u8]>> {
    let mut rest = der;
    let mut whole = within(&mut rest, Tag::Sequence).filter(|_| rest.is_empty())?;
    if within(&mut whole, Tag::Enumerated)? != [0] {
        return Some(None);
    }
    let mut bytes = within(&mut in_context(&mut whole, 0)?, Tag::Sequence)?;
    let (left, kind) = Oid::from_der(bytes).ok()?;
    bytes = left;
    let mut basic = within(&mut bytes, Tag::OctetString).filter(|_| kind == BASIC)?;
    Some(Some(within(&mut basic, Tag::Sequence)?))
}

/// What is said about each certificate.
fn answers(mut basic: &[u8]) -> Option<Vec<Single<'_>>> {
    let mut data = within(&mut basic, Tag::Sequence)?;
    in_context(&mut data, 0);
    // Who responds, and when.
    next(&mut data)?;
    within(&mut data, Tag::GeneralizedTime)?;
    let mut all = within(&mut data, Tag::Sequence)?;
    let mut singles = Vec::new();
    while !all.is_empty() {
        singles.push(single(within(&mut all, Tag::Sequence)?)?);
    }
    Some(singles)
}

fn single(mut rest: &[u8]) -> Option<Single<'_>> {
    let mut id = within(&mut rest, Tag::Sequence)?;
    let (_, hash) = Oid::from_der(within(&mut id, Tag::Sequence)?).ok()?;
    let issuer_hash = within(&mut id, Tag::OctetString)?;
    within(&mut id, Tag::OctetString)?;
    let serial = within(&mut id, Tag::Integer)?;
    let status = next(&mut rest)?;
    let (mut rest, from) = ASN1Time::from_der(rest).ok()?;
    let until = match in_context(&mut rest, 0) {
        Some(until) => Some(ASN1Time::from_der(until).ok()?.1),
        None => None,
    };
    Some(Single {
        hash,
        issuer_hash,
        serial,
        is_good: status.class() == Class::ContextSpecific && status.tag() == Tag(0),
        from,
        until,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Made by `openssl x509 -req` and `openssl ocsp -ndays 7 -resp_no_certs`, with an authority of their
    /// own (the steps are those of `tests/e2e/tests/tls.rs`).
    const SITE: &[u8] = include_bytes!("../../tests/ocsp/site.der");
    const RESPONSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ocsp/site.ocsp");
    const FROM: i64 = 1_795_659_238;
    const UNTIL: i64 = FROM + 7 * 24 * 3600;

    #[test]
    fn a_response_is_good_from_its_beginning_to_its_end() {
        let at = |now| read_staple(Path::new(RESPONSE), SITE, now);
        let staple = at(FROM).expect("it is good");
        assert_eq!(staple.until, Some(UNTIL));
        at(UNTIL - 1).expect("it is still good");
        let error = at(UNTIL).expect_err("it is too old").to_string();
        assert!(error.contains("was good until"), "{error}");
        let error = at(FROM - 301).expect_err("it is too early").to_string();
        assert!(error.contains("clock"), "{error}");
    }

    #[test]
    fn a_response_that_is_cut_off_anywhere_is_none() {
        let whole = std::fs::read(RESPONSE).expect("read");
        let file = tempfile::NamedTempFile::new().expect("a file");
        for length in 0..whole.len() {
            std::fs::write(file.path(), &whole[..length]).expect("written");
            let error = read_staple(file.path(), SITE, FROM).expect_err("cut off");
            assert!(matches!(error, OcspError::NotOcsp(_)), "{length}: {error}");
        }
    }

    #[test]
    fn a_responder_that_could_not_answer_is_told_from_what_is_no_response() {
        // OCSPResponse { responseStatus tryLater }
        assert_eq!(response(&[0x30, 3, 0x0a, 1, 3]), Some(None));
        assert_eq!(
            response(&[0x30, 3, 0x0a, 1, 0]),
            None,
            "an answer without one"
        );
        assert_eq!(response(b"-----BEGIN"), None);
        assert_eq!(response(&[]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes: Vec<u8>) {
            let _ = response(&bytes);
            let _ = answers(&bytes);
            let _ = single(&bytes);
        }
    }
}
