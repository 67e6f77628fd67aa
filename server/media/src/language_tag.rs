//! Language tags in names of files: `film.pt-BR.vtt`.

/// Whether a text has the form of a language tag (BCP 47), with hyphens or underscores: `en`,
/// `pt-BR`, `zh_Hant`.
pub fn is_language_tag(text: &str) -> bool {
    let mut parts = text.split(['-', '_']);
    let first = parts.next().unwrap_or_default();
    let is_of = |part: &str, least, most| {
        (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    is_of(first, 2, 3)
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && parts.all(|part| is_of(part, 2, 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_are_no_language_tags() {
        for tag in ["en", "deu", "pt-BR", "pt_BR", "zh-Hant-TW", "es-419"] {
            assert!(is_language_tag(tag), "{tag}");
        }
        for text in [
            "", "e", "12", "chapters", "en-", "en-x", "en.de", "e\"n", "en/de",
        ] {
            assert!(!is_language_tag(text), "{text}");
        }
    }
}
