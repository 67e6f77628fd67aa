//! Percent-decoding (RFC 3986 2.1), done once: what comes out is never decoded again.

use alloc::vec::Vec;

/// What a `%` that is not followed by two hexadecimal digits becomes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The whole text is refused.
    Refuse,
    /// The `%` stands for itself, as browsers treat it in queries.
    Keep,
}

/// The bytes that `text` stands for; `None` only with [`Malformed::Refuse`].
pub(crate) fn decode(text: &str, malformed: Malformed) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            decoded.push(byte);
            at += 1;
            continue;
        }
        match (digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                at += 3;
            }
            _ if malformed == Malformed::Refuse => return None,
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    Some(decoded)
}

fn digit(byte: Option<&u8>) -> Option<u8> {
    let value = char::from(*byte?).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_happens_once() {
        let decoded = decode("%252e%20%C3%a9", Malformed::Refuse);
        assert_eq!(decoded.as_deref(), Some("%2e é".as_bytes()));
    }

    #[test]
    fn a_stray_percent_sign_is_refused_or_kept_as_asked() {
        for text in ["%", "%4", "%zz", "a%+1"] {
            assert_eq!(decode(text, Malformed::Refuse), None, "{text}");
            let kept = decode(text, Malformed::Keep);
            assert_eq!(kept.as_deref(), Some(text.as_bytes()), "{text}");
        }
    }
}
