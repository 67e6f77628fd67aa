//! Tests of HMAC tokens and of masking in logs.

use alloc::string::ToString;

use proptest::prelude::*;

use super::*;

// printf '2000000000\n-\npath /a/b.mp4' | openssl dgst -sha256 -hmac k1 -binary |
//     openssl base64 | tr +/ -_ | tr -d =
const OF_FILE: &str = "expires=2000000000&token=1GNlyy9aZndjaJmKjGKWTCWkQhrdnDv7fvgTmQJC1CM";
// The same of '2000000000\n-\nprefix /a/'.
const OF_FOLDER: &str =
    "expires=2000000000&prefix=/a/&token=hLvF2guY_7Sha_O1CJayqPjt8Mko2piMe_4unJTiBuk";
// The same of '2000000000\n192.0.2.7\npath /a/b.mp4'.
const OF_ADDRESS: &str = "expires=2000000000&token=1EgJ5RP-eyNe2dnZi4Knm4qlLVXeQp5xdGAqB6r1f5s";

fn signed(keys: &[&str], bind_address: bool) -> SignedUrl {
    let keys = keys.iter().map(ToString::to_string).collect();
    SignedUrl { keys, bind_address }
}

fn credentials<'a>(path: &'a str, query: &'a str) -> Credentials<'a> {
    Credentials {
        path,
        query,
        path_token: None,
        address: "192.0.2.7",
        now: 1_900_000_000,
        skew: 0,
    }
}

#[test]
fn accepts_tokens_of_openssl_with_either_key() {
    let old_and_new = signed(&["k2", "k1"], false);
    assert_eq!(
        old_and_new.verify(&credentials("/a/b.mp4", OF_FILE)),
        Ok(())
    );
    assert_eq!(
        old_and_new.verify(&credentials("/a/c/d.ts", OF_FOLDER)),
        Ok(())
    );
    let encoded = OF_FOLDER.replace("/a/", "%2Fa%2f");
    assert_eq!(old_and_new.verify(&credentials("/a/x", &encoded)), Ok(()));
    let bound = signed(&["k1"], true);
    assert_eq!(bound.verify(&credentials("/a/b.mp4", OF_ADDRESS)), Ok(()));
    let elsewhere = Credentials {
        address: "192.0.2.8",
        ..credentials("/a/b.mp4", OF_ADDRESS)
    };
    assert_eq!(bound.verify(&elsewhere), Err(AccessRefusal::Forbidden));
}

#[test]
fn expired_token_is_distinguished_from_invalid_one() {
    let gate = signed(&["k1"], false);
    let late = Credentials {
        now: 2_000_000_005,
        ..credentials("/a/b.mp4", OF_FILE)
    };
    assert_eq!(gate.verify(&late), Err(AccessRefusal::Expired));
    assert_eq!(gate.verify(&Credentials { skew: 5, ..late }), Ok(()));
    assert_eq!(
        gate.verify(&Credentials {
            path: "/a/c.mp4",
            ..late
        }),
        Err(AccessRefusal::Forbidden)
    );
}

#[test]
fn anything_else_is_forbidden() {
    let gate = signed(&["k1"], false);
    let refused = |path: &str, query: &str| {
        let verdict = gate.verify(&credentials(path, query));
        assert_eq!(verdict, Err(AccessRefusal::Forbidden), "{path}?{query}");
    };
    refused("/a/b.mp4", "");
    refused("/a/c.mp4", OF_FILE);
    refused("/ab/c.mp4", OF_FOLDER);
    refused("/b/c.mp4", OF_FOLDER);
    refused("/a/b.mp4", &OF_FILE.replace("1GN", "1GO"));
    refused("/a/b.mp4", &OF_FILE.replace("2000000000", "2000000001"));
    refused("/a/b.mp4", &OF_FILE.replace("token=1", "token=%31"));
    refused("/a/b.mp4", &std::format!("{OF_FILE}&tok%65n=x"));
    refused("/a/b.mp4", &std::format!("{OF_FILE}&prefix=/a/b.mp4"));
    refused("/b/c.mp4", &OF_FOLDER.replace("/a/", "/"));
    refused("/a/b.mp4", &OF_FOLDER.replace("/a/", "%252Fa%252F"));
    let by_other = signed(&["k3"], false).verify(&credentials("/a/b.mp4", OF_FILE));
    assert_eq!(by_other, Err(AccessRefusal::Forbidden));
}

#[test]
fn masks_token_arguments_in_every_spelling() {
    let gate = UrlVerifier::SignedUrl(signed(&["k1"], false));
    let secret = gate.secret_argument().unwrap();
    let is_secret = |name: &str| is_same_argument(name, secret);
    let masked = |target: &'static str| mask(target, is_secret).into_owned();
    assert_eq!(masked("/a?x=1&token=abc&e=2"), "/a?x=1&token=-&e=2");
    assert_eq!(masked("/a?T%6Fken=abc"), "/a?T%6Fken=-");
    assert_eq!(masked("/token=abc"), "/token=abc");
    assert!(!std::format!("{gate:?}").contains("k1"));
}

/// A request for `path` with the path token of `/a/`, at `now`.
fn in_path<'a>(path: &'a str, token: &'a str, now: u64) -> Credentials<'a> {
    let (path_token, _) = PathToken::split(token);
    let path_token = Some(path_token.expect("it looks like one"));
    Credentials {
        path_token,
        now,
        ..credentials(path, "")
    }
}

#[test]
fn path_token_covers_its_folder_until_expiry() {
    let token = "/t/2000000000.1.hLvF2guY_7Sha_O1CJayqPjt8Mko2piMe_4unJTiBuk/";
    let gate = signed(&["k2", "k1"], false);
    let verdict = |path, token: &str, now| gate.verify(&in_path(path, token, now));
    assert_eq!(verdict("/a/c/d.ts", token, 2_000_000_000), Ok(()));
    assert_eq!(
        verdict("/a/d.ts", token, 2_000_000_001),
        Err(AccessRefusal::Expired)
    );
    let changed = token.replace("hLv", "hLw");
    let later = token.replace("2000000000", "2000000001");
    let higher = token.replace(".1.", ".0.");
    let deeper = token.replace(".1.", ".2.");
    for (path, token) in [
        ("/b/c/d.ts", token),
        ("/ab/d.ts", token),
        ("/d.ts", token),
        ("/a/d.ts", &changed),
        ("/a/d.ts", &later),
        ("/a/d.ts", &higher),
        ("/a/c/d.ts", &deeper),
    ] {
        let verdict = verdict(path, token, 1_900_000_000);
        assert_eq!(verdict, Err(AccessRefusal::Forbidden), "{token}{path}");
    }
    // A valid token in the query does not replace an invalid one in the path.
    let both = Credentials {
        query: OF_FOLDER,
        ..in_path("/a/d.ts", &changed, 1)
    };
    assert_eq!(gate.verify(&both), Err(AccessRefusal::Forbidden));
    let elsewhere = signed(&["k1"], true).verify(&in_path("/a/d.ts", token, 1));
    assert_eq!(elsewhere, Err(AccessRefusal::Forbidden));
}

/// Signs like an operator.
fn sign(key: &str, text: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    URL_SAFE_NO_PAD.encode(mac.chain_update(text).finalize().into_bytes())
}

proptest! {
    /// Whatever is changed in the request, a token of one path is not valid for another.
    #[test]
    fn token_is_not_valid_for_another_path(
        path in "/[a-c/\n]{1,6}", other in "/[a-c/\n]{1,6}", prefix in "(&prefix=/([a-c]{0,2}/)?)?",
    ) {
        let gate = signed(&["k"], false);
        let token = sign("k", &format!("2000000000\n-\npath {path}"));
        let query = format!("expires=2000000000&token={token}");
        prop_assert_eq!(gate.verify(&credentials(&path, &query)), Ok(()));
        if path != other || !prefix.is_empty() {
            let query = format!("{query}{prefix}");
            let verdict = gate.verify(&credentials(&other, &query));
            prop_assert_eq!(verdict, Err(AccessRefusal::Forbidden));
        }
    }

    /// A token of a folder is valid only for files in that folder.
    #[test]
    fn folder_token_is_not_valid_outside_folder(
        folder in "/([a-b]{1,2}/){0,2}", path in "/([a-b]{1,2}/){0,2}[a-b]",
    ) {
        let gate = signed(&["k"], false);
        let token = sign("k", &format!("2000000000\n-\nprefix {folder}"));
        let query = format!("expires=2000000000&prefix={folder}&token={token}");
        let verdict = gate.verify(&credentials(&path, &query));
        prop_assert_eq!(verdict.is_ok(), path.starts_with(&folder));
    }

    /// Every bit of a token matters.
    #[test]
    fn token_with_one_changed_bit_is_forbidden(bit in 0_usize..256) {
        let gate = signed(&["k"], false);
        let mut token = URL_SAFE_NO_PAD.decode(sign("k", "2000000000\n-\npath /a")).unwrap();
        token[bit / 8] ^= 1 << (bit % 8);
        let query = format!("expires=2000000000&token={}", URL_SAFE_NO_PAD.encode(&token));
        prop_assert_eq!(gate.verify(&credentials("/a", &query)), Err(AccessRefusal::Forbidden));
    }
}
