//! Keys of tokens, each bound to one algorithm.

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

/// Largest size of a key file; an RSA key of 8192 bits has 1.4 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Least size of an RSA key, in bits.
const RSA_BITS_MIN: usize = 2048;

const RSA: &str = "1.2.840.113549.1.1.1";
const ELLIPTIC: &str = "1.2.840.10045.2.1";
const P_256: &str = "1.2.840.10045.3.1.7";
const ED_25519: &str = "1.3.101.112";

/// A shared secret.
#[derive(Clone)]
pub struct SharedSecret(hmac::Key);

impl SharedSecret {
    /// Name of its algorithm in tokens.
    pub(crate) const ALGORITHM: &'static str = "HS256";

    /// A key of these bytes.
    pub fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    /// Verifies a signature in constant time.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.0, signed, signature).is_ok()
    }
}

/// Omits the secret.
impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    name: &'static str,
    algorithm: &'static dyn VerificationAlgorithm,
    bytes: Vec<u8>,
}

impl PublicKey {
    /// Reads a PEM file (`BEGIN PUBLIC KEY`).
    ///
    /// # Errors
    /// The problem and a remedy.
    pub fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| {
            file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
            Ok(())
        });
        read.map_err(|error| {
            format!("{name} cannot be read: {error}; name a readable public key in PEM")
        })?;
        Self::from_pem(&text).map_err(|wrong| {
            format!(
                "{name} {wrong}; name a public key of RSA, P-256 or Ed25519, as written by \
                `openssl pkey -pubout`"
            )
        })
    }

    pub(super) fn from_pem(text: &[u8]) -> Result<Self, &'static str> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(text)
            .map_err(|_| "contains no public key in PEM")?;
        let (_, info) =
            SubjectPublicKeyInfo::from_der(&der).map_err(|_| "contains a malformed key")?;
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
                // The size of a negative or empty modulus is zero.
                Ok(Parsed::RSA(key)) if key.key_size() > 0 => {
                    Err("contains an RSA key of fewer than 2048 bits")
                }
                _ => Err("contains a malformed RSA key"),
            },
            ELLIPTIC if curve().is_some_and(|curve| curve.to_id_string() == P_256) => {
                Ok(of("ES256", &ECDSA_P256_SHA256_FIXED))
            }
            ED_25519 => Ok(of("EdDSA", &ED25519)),
            _ => Err("contains a key that is not RSA, P-256 or Ed25519"),
        }
    }

    /// Name of its algorithm in tokens.
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
