//! Which sessions of TLS the kernel can go on with, and their keys as it wants them.
//!
//! The one idea: a handshake is made by the TLS library, and records after it by whoever is better at it.
//! Replies over HTTP/1.1 then go from the file of copies to the socket as without TLS, and are encrypted
//! on the way.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use rustls::{
    CipherSuite, ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion, ServerConnection,
};

use crate::raw::{Way, attach_tls, give_keys};

headlong_units::names! {
    /// Who makes the records of TLS.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub enum TlsKernel {
        /// The kernel where it can, over HTTP/1.1.
        Auto => "auto",
        /// This process.
        #[default]
        Off => "off",
    }
}

/// A cipher of the kernel: its number, and how many bytes of what it wants (`linux/tls.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cipher {
    number: u16,
    iv_bytes: usize,
    key_bytes: usize,
    /// Those of the nonce that come before `iv`.
    salt_bytes: usize,
}

const CIPHERS: [Cipher; 3] = [AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305];
const AES_128_GCM: Cipher = Cipher {
    number: 51,
    iv_bytes: 8,
    key_bytes: 16,
    salt_bytes: 4,
};
const AES_256_GCM: Cipher = Cipher {
    number: 52,
    iv_bytes: 8,
    key_bytes: 32,
    salt_bytes: 4,
};
const CHACHA20_POLY1305: Cipher = Cipher {
    number: 54,
    iv_bytes: 12,
    key_bytes: 32,
    salt_bytes: 0,
};

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::TLSv1_2, ProtocolVersion::TLSv1_3];

/// How far the nonces of the kernel are from those that were used in a handshake.
const NONCES_APART: u64 = 1 << 32;

/// What a kernel was seen to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelTls {
    takes: [[bool; CIPHERS.len()]; VERSIONS.len()],
}

/// Keys for the kernel.
pub struct KernelKeys {
    pub(super) send: Vec<u8>,
    pub(super) receive: Vec<u8>,
}

impl fmt::Debug for KernelKeys {
    /// Keys are in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelKeys").finish_non_exhaustive()
    }
}

impl KernelTls {
    /// One that takes everything.
    #[cfg(test)]
    pub(super) fn of_all() -> Self {
        Self {
            takes: [[true; CIPHERS.len()]; VERSIONS.len()],
        }
    }

    /// Tries all of it out on connections of this machine to itself.
    ///
    /// # Errors
    /// Why nothing of it can be used.
    pub fn detect() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let mut known = Self::default();
        for (version, takes) in VERSIONS.into_iter().zip(&mut known.takes) {
            for (cipher, takes) in CIPHERS.into_iter().zip(takes) {
                let client = TcpStream::connect(address)?;
                let (server, _) = listener.accept()?;
                attach_tls(&server)?;
                let (key, iv) = ([1; 32], [1; 12]);
                let info = info(version, cipher, 0, (&key[..cipher.key_bytes], &iv));
                let outcome = give_keys(&server, Way::Out, &info);
                *takes = outcome
                    .and_then(|()| give_keys(&server, Way::In, &info))
                    .is_ok();
                drop(client);
            }
        }
        match known.takes.as_flattened().contains(&true) {
            true => Ok(known),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether the kernel can go on with this session.
    pub(super) fn takes(self, session: &ServerConnection) -> bool {
        let suite = session.negotiated_cipher_suite().map(|suite| suite.suite());
        let cipher = suite.and_then(cipher_of);
        let version = session.protocol_version();
        let version = VERSIONS
            .iter()
            .position(|known| version.as_ref() == Some(known));
        match (version, cipher) {
            (Some(version), Some(cipher)) => self.takes[version][cipher],
            _ => false,
        }
    }
}

impl KernelKeys {
    /// The keys of a session; `None` of one that no kernel takes.
    pub(super) fn of(version: ProtocolVersion, secrets: &ExtractedSecrets) -> Option<Self> {
        let info = |(sequence, secrets): &(u64, ConnectionTrafficSecrets)| {
            let (cipher, key, iv) = match secrets {
                ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (AES_128_GCM, key, iv),
                ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (AES_256_GCM, key, iv),
                ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                    (CHACHA20_POLY1305, key, iv)
                }
                _ => return None,
            };
            let iv = first_nonce(version, cipher, iv.as_ref().try_into().ok()?);
            let is_right = key.as_ref().len() == cipher.key_bytes;
            is_right.then(|| info(version, cipher, *sequence, (key.as_ref(), &iv)))
        };
        Some(Self {
            send: info(&secrets.tx)?,
            receive: info(&secrets.rx)?,
        })
    }
}

/// Which of [`CIPHERS`] a suite has.
fn cipher_of(suite: CipherSuite) -> Option<usize> {
    use CipherSuite as C;
    let cipher = match suite {
        C::TLS13_AES_128_GCM_SHA256
        | C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => AES_128_GCM,
        C::TLS13_AES_256_GCM_SHA384
        | C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => AES_256_GCM,
        C::TLS13_CHACHA20_POLY1305_SHA256
        | C::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | C::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => CHACHA20_POLY1305,
        _ => return None,
    };
    CIPHERS.iter().position(|known| *known == cipher)
}

/// What nonces begin with in the kernel. By AES-GCM in TLS 1.2 a sender makes its nonces as it likes, as
/// long as none comes twice: the TLS library mixes this one with the number of the record, and the
/// kernel counts on from it, which would begin with the nonce of the first record again.
fn first_nonce(version: ProtocolVersion, cipher: Cipher, mut iv: [u8; 12]) -> [u8; 12] {
    if version == ProtocolVersion::TLSv1_2
        && let Some((_, counted)) = iv.split_last_chunk_mut::<8>()
        && cipher.salt_bytes > 0
    {
        *counted = u64::from_be_bytes(*counted)
            .wrapping_add(NONCES_APART)
            .to_be_bytes();
    }
    iv
}

/// The crypto info of `linux/tls.h`: version, cipher, iv, key, salt, number of the next record.
fn info(
    version: ProtocolVersion,
    cipher: Cipher,
    sequence: u64,
    (key, iv): (&[u8], &[u8; 12]),
) -> Vec<u8> {
    let (salt, iv) = iv.split_at(cipher.salt_bytes);
    debug_assert_eq!((iv.len(), key.len()), (cipher.iv_bytes, cipher.key_bytes));
    let mut info = Vec::with_capacity(4 + 12 + 32 + 8);
    info.extend(u16::from(version).to_ne_bytes());
    info.extend(cipher.number.to_ne_bytes());
    info.extend(iv);
    info.extend(key);
    info.extend(salt);
    info.extend(sequence.to_be_bytes());
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lie_as_the_kernels_header_has_them() {
        let sizes = CIPHERS.map(|cipher| {
            let key = vec![2; cipher.key_bytes];
            info(ProtocolVersion::TLSv1_3, cipher, 5, (&key, &[3; 12])).len()
        });
        // `sizeof` of tls12_crypto_info_aes_gcm_128, _256 and _chacha20_poly1305.
        assert_eq!(sizes, [40, 56, 56]);
        let iv = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let made = info(ProtocolVersion::TLSv1_2, AES_128_GCM, 1, (&[9; 16], &iv));
        assert_eq!(made[..2], 0x0303_u16.to_ne_bytes());
        assert_eq!(made[2..4], 51_u16.to_ne_bytes());
        assert_eq!(made[4..12], iv[4..]);
        assert_eq!(made[12..28], [9; 16]);
        assert_eq!(made[28..32], iv[..4]);
        assert_eq!(made[32..], [0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn no_nonce_of_a_handshake_comes_again_in_the_kernel() {
        for last in [0, 1, 0xff] {
            let mut iv = [0xff; 12];
            iv[11] = last;
            let explicit = |iv: &[u8; 12]| u64::from_be_bytes(*iv.last_chunk().expect("eight"));
            // Of records 0 to 99, by the library: the number mixed in.
            let used: Vec<u64> = (0..100).map(|number| explicit(&iv) ^ number).collect();
            let first = first_nonce(ProtocolVersion::TLSv1_2, AES_256_GCM, iv);
            assert_eq!(first[..4], iv[..4]);
            // By the kernel: counted on, for as many records as there can be.
            let is_again = |used: u64| used.wrapping_sub(explicit(&first)) < 1 << 40;
            assert!(!used.into_iter().any(is_again));
            for (version, cipher) in [
                (ProtocolVersion::TLSv1_3, AES_128_GCM),
                (ProtocolVersion::TLSv1_2, CHACHA20_POLY1305),
            ] {
                assert_eq!(first_nonce(version, cipher, iv), iv);
            }
        }
    }

    #[test]
    fn a_kernel_is_asked_without_harm() {
        if let Err(error) = KernelTls::detect() {
            assert_ne!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
    }
}
