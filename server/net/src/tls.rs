//! TLS by rustls: certificates chosen by the name that a client asks for, replaced without a restart.
//!
//! Invariant: a certificate and its key in use always match. A certificate that cannot be read again
//! keeps its old pair.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert, ServerConfig,
};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use super::certificate::{CertificateFiles, CertificateValidity, CertifiedPair, TlsError};

/// The certificates in use, and their files.
#[derive(Debug)]
pub struct ReloadingCertificates {
    files: Vec<CertificateFiles>,
    /// One for each of `files`.
    current: RwLock<Arc<[CertifiedPair]>>,
}

/// What a reload of the certificates did.
#[derive(Debug, Default)]
pub struct CertificateReload {
    /// Certificates that differ from those before.
    pub renewed: Vec<CertificateValidity>,
    /// Why others keep the old pair.
    pub failed: Vec<TlsError>,
}

impl ReloadingCertificates {
    /// Reads all files. Clients that ask for a name of none of the certificates, or for no name,
    /// get the first.
    ///
    /// # Errors
    /// Why one of them cannot be used.
    pub fn load(files: Vec<CertificateFiles>) -> Result<Self, TlsError> {
        let pairs: Result<Arc<[_]>, _> = files.iter().map(CertifiedPair::read).collect();
        Ok(Self {
            current: RwLock::new(pairs?),
            files,
        })
    }

    /// Reads the files again, for new connections. A pair with an error is not replaced.
    pub fn reload(&self) -> CertificateReload {
        let mut reload = CertificateReload::default();
        let old = self.current();
        let pairs = self.files.iter().zip(&*old).map(|(files, old)| {
            let read = CertifiedPair::read(files);
            let new = read.unwrap_or_else(|error| {
                reload.failed.push(error);
                old.clone()
            });
            if new.key.cert != old.key.cert {
                reload.renewed.push(new.validity.clone());
            }
            new
        });
        let pairs: Arc<[_]> = pairs.collect();
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = pairs;
        reload
    }

    /// How long each certificate is valid.
    pub fn validities(&self) -> Vec<CertificateValidity> {
        let current = self.current();
        current.iter().map(|pair| pair.validity.clone()).collect()
    }

    fn current(&self) -> Arc<[CertifiedPair]> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}

impl CertifiedPair {
    /// Whether it is a certificate of this name, wildcards included.
    fn is_of(&self, name: &ServerName<'_>) -> bool {
        let own = self.key.cert.first();
        let parsed = own.and_then(|own| ParsedCertificate::try_from(own).ok());
        parsed.is_some_and(|parsed| verify_server_name(&parsed, name).is_ok())
    }
}

impl ResolvesServerCert for ReloadingCertificates {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current();
        let name = client.server_name();
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        // The same name may have certificates of RSA and of ECDSA.
        let schemes = client.signature_schemes();
        let usable = || {
            let all = current.iter();
            all.filter(|pair| pair.key.key.choose_scheme(schemes).is_some())
        };
        let named = name.and_then(|name| usable().find(|pair| pair.is_of(&name)));
        let chosen = named.or_else(|| usable().next()).or(current.first());
        chosen.map(|pair| Arc::clone(&pair.key))
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

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
