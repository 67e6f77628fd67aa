use super::*;
use rust_embed::Metadata;

fn file(content: &'static [u8]) -> EmbeddedFile {
    EmbeddedFile {
        data: content.into(),
        metadata: Metadata::__rust_embed_new([7; 32], None, None),
    }
}

#[test]
fn asset_is_immutable_and_front_page_is_revalidated() {
    let none = HeaderMap::new();
    let asset = file_answer("assets/index-a1.js", file(b"code"), &none);
    assert_eq!(
        asset.headers()["content-type"],
        "text/javascript; charset=utf-8"
    );
    assert!(
        asset.headers()["cache-control"]
            .to_str()
            .expect("text")
            .contains("immutable")
    );
    let front = file_answer("index.html", file(b"page"), &none);
    assert_eq!(front.headers()["cache-control"], "no-cache");
}

#[test]
fn matching_entity_tag_gets_304() {
    let mut headers = HeaderMap::new();
    let first = file_answer("index.html", file(b"page"), &headers);
    let tag = first.headers()["etag"].to_str().expect("text").to_owned();
    for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
        headers.insert(header::IF_NONE_MATCH, known.parse().expect("a value"));
        let again = file_answer("index.html", file(b"page"), &headers);
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{known}");
        assert_eq!(again.headers()["etag"], tag.as_str());
    }
    headers.insert(header::IF_NONE_MATCH, "\"other\"".parse().expect("a value"));
    assert_eq!(
        file_answer("index.html", file(b"page"), &headers).status(),
        StatusCode::OK
    );
}

#[test]
fn front_page_always_exists_and_other_paths_are_not_found() {
    let none = HeaderMap::new();
    let front = answer("/", &none).expect("always there");
    assert_eq!(front.headers()["content-type"], "text/html; charset=utf-8");
    for path in [
        "/nothing.js",
        "/../package.json",
        "//etc/passwd",
        "/assets",
        "/assets/",
    ] {
        assert!(answer(path, &none).is_none(), "{path}");
    }
}
