//! A certificate and its key, read from PEM files, and how long it is valid.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

/// A certificate that expires within this time is reported. Renewal programs renew 30 days ahead.
const SOON_SECONDS: i64 = 14 * 24 * 3600;

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}; check that it exists and that this user may read it")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file contains no certificate.
    #[error("no certificate in {path}; it must contain the chain in PEM, server first")]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A file contains no private key.
    #[error("no private key in {path}; it must contain the key in PEM (PKCS#8, PKCS#1 or SEC1)")]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A file is not PEM.
    #[error("{path} is not valid PEM: {reason}; write it again from its source")]
    NotPem {
        /// The file.
        path: PathBuf,
        /// Parser error.
        reason: pem::Error,
    },
    /// The key is encrypted. A server cannot ask for its password.
    #[error(
        "the key in {path} is encrypted; write it without a password, readable by the server's \
         user only: openssl pkey -in {path} -out KEY.pem"
    )]
    EncryptedKey {
        /// The file.
        path: PathBuf,
    },
    /// The key's type is not supported.
    #[error("the key in {path} cannot be used: {reason}; use RSA, ECDSA (P-256, P-384) or Ed25519")]
    BadKey {
        /// The file.
        path: PathBuf,
        /// Error of the library.
        reason: rustls::Error,
    },
    /// An X.509 certificate of a version below 3, which players refuse too.
    #[error(
        "the certificate in {path} has X.509 version {version}, and TLS requires version 3; have \
         it reissued (with a subjectAltName it is of version 3)"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The key belongs to another certificate.
    #[error(
        "the key in {key} is not the key of the certificate in {certificate}; name the key that \
         this certificate was issued for"
    )]
    Mismatch {
        /// The chain's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The certificate cannot be parsed.
    #[error("the certificate in {path} cannot be used: {reason}; have it reissued")]
    BadCertificate {
        /// The file.
        path: PathBuf,
        /// Error of the library.
        reason: rustls::Error,
    },
    /// The library refuses its own defaults.
    #[error("cannot set up TLS: {0}; this build supports no protocol version")]
    Protocol(rustls::Error),
}

impl TlsError {
    /// Whether the error concerns the key file.
    pub fn is_about_key(&self, key: &Path) -> bool {
        match self {
            Self::Unreadable { path, .. } | Self::NotPem { path, .. } => path == key,
            Self::NoKey { .. }
            | Self::EncryptedKey { .. }
            | Self::BadKey { .. }
            | Self::Mismatch { .. } => true,
            Self::NoCertificate { .. }
            | Self::Version { .. }
            | Self::BadCertificate { .. }
            | Self::Protocol(_) => false,
        }
    }
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The chain, in PEM, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
}

/// How long a certificate is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateValidity {
    /// Its file.
    pub file: PathBuf,
    /// Its first name that is no wildcard, if it has one.
    pub name: Option<String>,
    /// Since when, in seconds since 1970.
    pub begins_unix_s: i64,
    /// Until when, in seconds since 1970.
    pub expires_unix_s: i64,
}

/// What is wrong with the validity of a certificate at some time, with its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidityProblem {
    /// It has expired: players refuse it.
    Expired(String),
    /// It expires soon, or is not valid yet.
    Warning(String),
}

impl fmt::Display for ValidityProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Expired(text) | Self::Warning(text)) = self;
        f.write_str(text)
    }
}

impl CertificateValidity {
    /// The problem at `now_unix_s`, in seconds since 1970. It does not prevent serving, which is
    /// better than not starting.
    pub fn problem(&self, now_unix_s: i64) -> Option<ValidityProblem> {
        let file = self.file.display();
        let until = self.expires();
        if self.expires_unix_s <= now_unix_s {
            return Some(ValidityProblem::Expired(format!(
                "the certificate in {file} expired on {until}; renew it and reload"
            )));
        }
        if self.begins_unix_s > now_unix_s {
            let from = date(self.begins_unix_s);
            return Some(ValidityProblem::Warning(format!(
                "the certificate in {file} is valid from {from}; check the clock"
            )));
        }
        let is_soon = self.expires_unix_s - now_unix_s <= SOON_SECONDS;
        is_soon.then(|| {
            ValidityProblem::Warning(format!(
                "the certificate in {file} expires on {until}; renew it and reload, and check \
                 the program that should have renewed it"
            ))
        })
    }

    /// When it expires, as a text.
    pub fn expires(&self) -> String {
        date(self.expires_unix_s)
    }
}

fn date(unix_s: i64) -> String {
    let date = ASN1Time::from_timestamp(unix_s);
    date.map_or_else(|_| format!("second {unix_s}"), |date| date.to_string())
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub(super) struct CertifiedPair {
    pub(super) key: std::sync::Arc<CertifiedKey>,
    pub(super) validity: CertificateValidity,
}

/// Checks that these files contain a certificate and its key; returns its validity.
///
/// # Errors
/// Why they cannot be used.
pub fn check_pair(files: &CertificateFiles) -> Result<CertificateValidity, TlsError> {
    CertifiedPair::read(files).map(|pair| pair.validity)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn not_pem(path: &Path, reason: pem::Error) -> TlsError {
    TlsError::NotPem {
        path: path.to_owned(),
        reason,
    }
}

impl CertifiedPair {
    /// Reads both files.
    ///
    /// # Errors
    /// Why they cannot be used.
    pub(super) fn read(files: &CertificateFiles) -> Result<Self, TlsError> {
        let (certificate, key) = (&files.certificate, &files.key);
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|reason| not_pem(certificate, reason))?;
        let Some(own) = chain.first() else {
            return Err(TlsError::NoCertificate {
                path: certificate.to_owned(),
            });
        };
        let validity = validity_of(certificate, own)?;
        let der = read_key(key)?;
        let signer = ring::sign::any_supported_type(&der).map_err(|reason| TlsError::BadKey {
            path: key.to_owned(),
            reason,
        })?;
        let pair = CertifiedKey::new(chain, signer);
        match pair.keys_match() {
            // Some keys cannot provide their public half; they are accepted unchecked.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(Self {
                    key: pair.into(),
                    validity,
                })
            }
            Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::Mismatch {
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            }),
            Err(reason) => Err(TlsError::BadCertificate {
                path: certificate.to_owned(),
                reason,
            }),
        }
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|reason| match reason {
        _ if is_encrypted(&text) => TlsError::EncryptedKey {
            path: path.to_owned(),
        },
        pem::Error::NoItemsFound => TlsError::NoKey {
            path: path.to_owned(),
        },
        other => not_pem(path, other),
    })
}

/// Whether a PEM text holds an encrypted key, in the form of PKCS#8 or in that of older programs.
fn is_encrypted(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let marks = ["BEGIN ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED"];
    marks.iter().any(|mark| text.contains(mark))
}

fn validity_of(
    file: &Path,
    certificate: &CertificateDer<'_>,
) -> Result<CertificateValidity, TlsError> {
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(certificate) else {
        return Err(TlsError::BadCertificate {
            path: file.to_owned(),
            reason: rustls::CertificateError::BadEncoding.into(),
        });
    };
    // Version 3 is encoded as 2. For an older certificate the library would report a mismatch with
    // any key.
    let version = parsed.version().0.saturating_add(1);
    if version < 3 {
        return Err(TlsError::Version {
            path: file.to_owned(),
            version,
        });
    }
    let validity = parsed.validity();
    Ok(CertificateValidity {
        file: file.to_owned(),
        name: first_name(&parsed),
        begins_unix_s: validity.not_before.timestamp(),
        expires_unix_s: validity.not_after.timestamp(),
    })
}

fn first_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let names = certificate.subject_alternative_name().ok()??;
    let names = &names.value.general_names;
    names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) if !name.contains('*') => Some((*name).to_owned()),
        _ => None,
    })
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
pub(crate) mod tests;
