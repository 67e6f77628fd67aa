//! TLS by rustls: a certificate chain and its key from PEM files, replaced without a restart.
//!
//! Invariant: the certificate and key in use always match. A reload that fails keeps the old pair.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

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
    /// The key does not match the certificate, or the certificate cannot be parsed.
    #[error(
        "the certificate in {certificate} and the key in {key} do not match: {reason}; \
         name the key that this certificate was issued for"
    )]
    Mismatch {
        /// The chain's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
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
            Self::NoKey { .. } | Self::BadKey { .. } | Self::Mismatch { .. } => true,
            Self::NoCertificate { .. } | Self::Version { .. } | Self::Protocol(_) => false,
        }
    }
}

/// Checks that these files contain a certificate and its key.
///
/// # Errors
/// Why they cannot be used.
pub fn check_pair(certificate: &Path, key: &Path) -> Result<(), TlsError> {
    read_pair(certificate, key).map(drop)
}

/// The pair in use, and its files.
#[derive(Debug)]
pub struct ReloadingCertificates {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<CertifiedKey>>,
}

impl ReloadingCertificates {
    /// Reads both files.
    pub fn load(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let pair = read_pair(&certificate, &key)?;
        Ok(Self {
            certificate,
            key,
            current: RwLock::new(Arc::new(pair)),
        })
    }

    /// Reads the files again, for new connections. On error the old pair stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let pair = read_pair(&self.certificate, &self.key)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
        Ok(())
    }

    fn current(&self) -> Arc<CertifiedKey> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}

impl ResolvesServerCert for ReloadingCertificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// TLS configuration of a listener.
#[derive(Clone)]
pub struct Encryption {
    pub(super) acceptor: TlsAcceptor,
}

impl Encryption {
    /// TLS 1.2 and 1.3 with these certificates, offering HTTP/2 and HTTP/1.1. Sessions are resumed
    /// by tickets (RFC 5077, RFC 8446 2.2), whose keys are rotated every six hours.
    ///
    /// # Errors
    /// The library refuses its own defaults.
    pub fn new(certificates: Arc<ReloadingCertificates>) -> Result<Self, TlsError> {
        let acceptor = tls_acceptor(certificates)?;
        Ok(Self { acceptor })
    }
}

fn tls_acceptor(certificates: Arc<ReloadingCertificates>) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Protocol)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    // Returning viewers, and players that open many connections, skip the full handshake.
    config.ticketer = ring::Ticketer::new().map_err(TlsError::Protocol)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

fn read_pair(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let not_pem = |path: &Path, reason| TlsError::NotPem {
        path: path.to_owned(),
        reason,
    };
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|reason| not_pem(certificate, reason))?;
    let Some(own) = chain.first() else {
        return Err(TlsError::NoCertificate {
            path: certificate.to_owned(),
        });
    };
    if let Some(warning) = expiry_warning(own, unix_seconds()) {
        tracing::warn!(certificate = %certificate.display(), "{warning}");
    }
    if let Some(version) = old_version(own) {
        return Err(TlsError::Version {
            path: certificate.to_owned(),
            version,
        });
    }
    let der = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|reason| match reason {
        pem::Error::NoItemsFound => TlsError::NoKey {
            path: key.to_owned(),
        },
        other => not_pem(key, other),
    })?;
    let signer = ring::sign::any_supported_type(&der).map_err(|reason| TlsError::BadKey {
        path: key.to_owned(),
        reason,
    })?;
    let pair = CertifiedKey::new(chain, signer);
    match pair.keys_match() {
        // Some keys cannot provide their public half; they are accepted unchecked.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(pair)
        }
        Err(reason) => Err(TlsError::Mismatch {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            reason,
        }),
    }
}

/// The version of a certificate below version 3. For such a certificate the library would report a
/// mismatch with any key.
fn old_version(certificate: &CertificateDer<'_>) -> Option<u32> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    // Version 3 is encoded as 2.
    Some(parsed.version().0.saturating_add(1)).filter(|version| *version < 3)
}

fn unix_seconds() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |time| i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

/// A warning about the certificate's validity dates. Players will refuse such a certificate, but
/// serving is still better than not starting.
fn expiry_warning(certificate: &CertificateDer<'_>, now_unix_seconds: i64) -> Option<String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let validity = parsed.validity();
    if validity.not_after.timestamp() <= now_unix_seconds {
        let since = validity.not_after;
        return Some(format!(
            "the certificate expired on {since}; renew it and reload"
        ));
    }
    if validity.not_before.timestamp() > now_unix_seconds {
        let from = validity.not_before;
        return Some(format!(
            "the certificate is valid from {from}; check the clock"
        ));
    }
    None
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
