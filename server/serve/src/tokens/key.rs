//! Keys of tokens: each of one algorithm.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

/// The largest file of a key, in bytes; one of RSA with 8192 bits has 1.4 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// The shortest key of RSA, in bits.
const RSA_BITS_MIN: usize = 2048;

const RSA: &str = "1.2.840.113549.1.1.1";
const ELLIPTIC: &str = "1.2.840.10045.2.1";
const P_256: &str = "1.2.840.10045.3.1.7";
const ED_25519: &str = "1.3.101.112";

/// A secret that both sides have.
#[derive(Clone)]
pub(crate) struct Secret(hmac::Key);

impl Secret {
    /// As tokens name it.
    pub(crate) const ALGORITHM: &'static str = "HS256";

    pub(crate) fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// In constant time.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.0, signed, signature).is_ok()
    }
}

/// Without the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The half of a key that verifies.
#[derive(Clone)]
pub(crate) struct PublicKey {
    name: &'static str,
    algorithm: &'static dyn VerificationAlgorithm,
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a file in PEM (`BEGIN PUBLIC KEY`).
    ///
    /// # Errors
    /// What is wrong with it, and the remedy.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| {
            file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
            Ok(())
        });
        read.map_err(|error| {
            format!("{name} cannot be read: {error}; name a public key in PEM, readable")
        })?;
        Self::from_pem(&text).map_err(|wrong| {
            format!(
                "{name} {wrong}; name a public key of RSA, P-256 or Ed25519, as `openssl pkey -pubout` \
                 writes it"
            )
        })
    }

    pub(super) fn from_pem(text: &[u8]) -> Result<Self, &'static str> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(text)
            .map_err(|_| "holds no public key in PEM")?;
        let (_, info) =
            SubjectPublicKeyInfo::from_der(&der).map_err(|_| "holds no key that can be read")?;
        let of = |name, algorithm: &'static dyn VerificationAlgorithm| Self {
            name,
            algorithm,
            bytes: info.subject_public_key.data.to_vec(),
        };
        let curve = || info.algorithm.parameters.as_ref()?.as_oid().ok();
        match info.algorithm.algorithm.to_id_string().as_str() {
            RSA => match info.parsed() {
                Ok(Parsed::RSA(key)) if key.key_size() >= RSA_BITS_MIN => {
                    Ok(of("RS256", &RSA_PKCS1_2048_8192_SHA256))
                }
                _ => Err("holds a key of RSA of fewer than 2048 bits"),
            },
            ELLIPTIC if curve().is_some_and(|curve| curve.to_id_string() == P_256) => {
                Ok(of("ES256", &ECDSA_P256_SHA256_FIXED))
            }
            ED_25519 => Ok(of("EdDSA", &ED25519)),
            _ => Err("holds a key that is not of RSA, P-256 or Ed25519"),
        }
    }

    /// As tokens name it.
    pub(super) fn algorithm(&self) -> &'static str {
        self.name
    }

    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.algorithm, &self.bytes);
        key.verify(signed, signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.name).finish()
    }
}
