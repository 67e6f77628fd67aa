//! Valid tokens, and every kind of invalid one.

use std::net::{IpAddr, Ipv4Addr};

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};

use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";
const NOW: u64 = 1_900_000_000;
const CLAIMS: &str = r#"{"exp":1900000000,"cdniuc":"regex:.*/films/a/.*"}"#;

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A token with this header and these claims, signed by `sign`.
fn token(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let signed = format!("{}.{}", encoded(header), encoded(claims));
    let signature = encoded(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn by_secret(secret: &str) -> impl Fn(&[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    move |signed| ring::hmac::sign(&key, signed).as_ref().to_vec()
}

fn hs256(claims: &str) -> String {
    token(r#"{"alg":"HS256"}"#, claims, by_secret(SECRET))
}

fn trust() -> TokenVerifier {
    TokenVerifier {
        secrets: vec![
            SharedSecret::new("another secret of enough letters"),
            SharedSecret::new(SECRET),
        ],
        ..TokenVerifier::default()
    }
}

/// Requests a segment from 192.0.2.7 at [`NOW`].
fn verdict(trust: &TokenVerifier, token: &str) -> Result<(), AccessRefusal> {
    verdict_at(trust, token, NOW, 0)
}

fn verdict_at(
    trust: &TokenVerifier,
    token: &str,
    now: u64,
    skew: u64,
) -> Result<(), AccessRefusal> {
    let uri = Uri::new("tv.example", "/films/a/1.ts", "");
    let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
    trust.verify(
        token,
        &TokenRequest {
            uri: &uri,
            address: Some(address),
            now,
            skew,
        },
    )
}

/// A key in the format of its file.
fn pem(prefix: &[u8], key: &[u8]) -> Vec<u8> {
    use base64::engine::general_purpose::STANDARD;
    let text = STANDARD.encode([prefix, key].concat());
    format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n").into_bytes()
}

/// DER prefixes of Ed25519 and P-256 keys in a file (RFC 8410, RFC 5480).
const ED_25519_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const P_256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 3, 1, 7, 3, 0x42, 0,
];
/// The algorithm of RSA keys in a file (RFC 3279).
const RSA_ALGORITHM: [u8; 15] = [
    0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0,
];

/// An RSA key file; `key` is the DER of the key, in at most 100 bytes.
fn rsa_pem(key: &[u8]) -> Vec<u8> {
    let length = u8::try_from(key.len()).expect("a short key");
    let prefix = [
        &[0x30, 18 + length][..],
        &RSA_ALGORITHM,
        &[3, 1 + length, 0],
    ];
    pem(&prefix.concat(), key)
}

#[test]
fn token_is_valid_until_expiry_plus_skew() {
    assert_eq!(verdict(&trust(), &hs256(CLAIMS)), Ok(()));
    let late = |skew| verdict_at(&trust(), &hs256(CLAIMS), NOW + 5, skew);
    assert_eq!(late(5), Ok(()));
    assert_eq!(late(4), Err(AccessRefusal::Expired));
    let of_tomorrow = hs256(r#"{"nbf":1900086400,"cdniuc":"regex:.*"}"#);
    assert_eq!(
        verdict(&trust(), &of_tomorrow),
        Err(AccessRefusal::Forbidden)
    );
    assert_eq!(verdict_at(&trust(), &of_tomorrow, NOW + 86_395, 5), Ok(()));
}

#[test]
fn public_key_verifies_only_its_own_algorithm() {
    let random = SystemRandom::new();
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).expect("a key");
    let ed = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key");
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    let ec = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).expect("a key");
    let ed_pem = pem(&ED_25519_PREFIX, ed.public_key().as_ref());
    let ec_pem = pem(&P_256_PREFIX, ec.public_key().as_ref());
    let trust = TokenVerifier {
        public: [&ed_pem, &ec_pem]
            .map(|pem| PublicKey::from_pem(pem).expect("a key"))
            .to_vec(),
        ..TokenVerifier::default()
    };
    let by_ed = |signed: &[u8]| ed.sign(signed).as_ref().to_vec();
    let by_ec = |signed: &[u8]| ec.sign(&random, signed).expect("signed").as_ref().to_vec();
    let (eddsa, es256) = (r#"{"alg":"EdDSA"}"#, r#"{"alg":"ES256"}"#);
    assert_eq!(verdict(&trust, &token(eddsa, CLAIMS, by_ed)), Ok(()));
    assert_eq!(verdict(&trust, &token(es256, CLAIMS, by_ec)), Ok(()));
    let forbidden = Err(AccessRefusal::Forbidden);
    assert_eq!(verdict(&trust, &token(es256, CLAIMS, by_ed)), forbidden);
    assert_eq!(verdict(&trust, &token(eddsa, CLAIMS, by_ec)), forbidden);
    // A public key used as a secret, which everyone knows.
    for public in [&ed_pem, &ec_pem] {
        let public = String::from_utf8(public.clone()).expect("text");
        let confused = token(r#"{"alg":"HS256"}"#, CLAIMS, by_secret(&public));
        assert_eq!(verdict(&trust, &confused), forbidden);
    }
}

#[test]
fn unusable_key_file_error_names_problem() {
    let wrong = |text: &[u8]| PublicKey::from_pem(text).expect_err("no key");
    assert_eq!(wrong(b"x"), "contains no public key in PEM");
    assert_eq!(wrong(&pem(b"", b"x")), "contains a malformed key");
    let mut other_curve = P_256_PREFIX;
    other_curve[22] = 2;
    let other_curve = wrong(&pem(&other_curve, &[4; 65]));
    assert_eq!(
        other_curve,
        "contains a key that is not RSA, P-256 or Ed25519"
    );
    // 512 bits, and 65537.
    let short = [&[0x30, 72, 2, 65, 0][..], &[0xff; 64], &[2, 3, 1, 0, 1]].concat();
    let short = wrong(&rsa_pem(&short));
    assert_eq!(short, "contains an RSA key of fewer than 2048 bits");
    // No sequence, and a negative modulus.
    for malformed in [&b"x"[..], &[0x30, 8, 2, 1, 0x80, 2, 3, 1, 0, 1]] {
        assert_eq!(
            wrong(&rsa_pem(malformed)),
            "contains a malformed RSA key",
            "{malformed:?}"
        );
    }
    let missing = PublicKey::read(std::path::Path::new("/nonexistent/k.pem"));
    assert!(missing.expect_err("no file").contains("cannot be read"));
}

#[test]
fn other_algorithm_or_changed_bit_is_refused() {
    let forbidden = Err(AccessRefusal::Forbidden);
    for header in [
        r#"{"alg":"none"}"#,
        r#"{"alg":"None"}"#,
        r#"{"alg":"hs256"}"#,
        r#"{"alg":"HS512"}"#,
        r#"{"alg":"RS256"}"#,
        r#"{"alg":["HS256"]}"#,
        r#"{"alg":"HS256","alg":"HS256"}"#,
        r#"{"alg":"HS256","crit":["exp"]}"#,
        r#"{}"#,
        "",
    ] {
        let signed = token(header, CLAIMS, by_secret(SECRET));
        assert_eq!(verdict(&trust(), &signed), forbidden, "{header}");
        let unsigned = token(header, CLAIMS, |_| Vec::new());
        assert_eq!(verdict(&trust(), &unsigned), forbidden, "{header}");
    }
    let right = hs256(CLAIMS);
    for at in 0..right.len() {
        for bit in 0..7 {
            let mut changed = right.clone().into_bytes();
            changed[at] ^= 1 << bit;
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(verdict(&trust(), &changed), forbidden, "{at} {bit}");
        }
    }
    for text in ["", ".", "..", "a.b.c", &right[..right.len() - 1]] {
        assert_eq!(verdict(&trust(), text), forbidden, "{text}");
    }
    let long = format!(
        r#"{{"x":"{}","cdniuc":"regex:.*"}}"#,
        "x".repeat(TOKEN_BYTES_MAX)
    );
    assert_eq!(verdict(&trust(), &hs256(&long)), forbidden);
}

#[test]
fn foreign_or_unknown_claims_are_refused() {
    let trust = TokenVerifier {
        expected: ExpectedClaims {
            issuers: vec!["tv".into()],
            audience: Some("headlong".into()),
        },
        ..trust()
    };
    let said = |more: &str| {
        let claims = format!(r#"{{"iss":"tv","cdniuc":"regex:.*"{more}}}"#);
        verdict(&trust, &hs256(&claims))
    };
    for right in [
        "",
        r#","aud":"headlong""#,
        r#","aud":["x","headlong"]"#,
        r#","cdniip":"192.0.2.0/24""#,
        r#","cdniip":"192.0.2.7""#,
        r#","cdniv":1,"cdnicrit":"exp,cdniuc","cdnistt":0"#,
        r#","exp":1900000000.5"#,
    ] {
        assert_eq!(said(right), Ok(()), "{right}");
    }
    for wrong in [
        r#","aud":"other""#,
        r#","aud":[]"#,
        r#","cdniip":"192.0.2.8""#,
        r#","cdniip":"eyJhbGciOiJkaXIifQ..x.y.z""#,
        r#","cdniv":2"#,
        r#","cdnicrit":"cdniuc,jti""#,
        r#","cdnistt":1"#,
        r#","exp":"2000000000""#,
        r#","nbf":"1""#,
        r#","nbf":1,"nbf":2"#,
        r#","iss":"tv""#,
    ] {
        assert_eq!(said(wrong), Err(AccessRefusal::Forbidden), "{wrong}");
    }
    for claims in [
        r#"{"cdniuc":"regex:.*"}"#,
        r#"{"iss":"other","cdniuc":"regex:.*"}"#,
        r#"{"iss":"tv"}"#,
        r#"{"iss":"tv","cdniuc":"regex:.*/films/b/.*"}"#,
        "[]",
    ] {
        let verdict = verdict(&trust, &hs256(claims));
        assert_eq!(verdict, Err(AccessRefusal::Forbidden), "{claims}");
    }
    let for_others = hs256(r#"{"aud":"headlong","cdniuc":"regex:.*"}"#);
    let nameless = TokenVerifier {
        expected: ExpectedClaims::default(),
        ..trust.clone()
    };
    assert_eq!(
        verdict(&nameless, &for_others),
        Err(AccessRefusal::Forbidden)
    );
}
