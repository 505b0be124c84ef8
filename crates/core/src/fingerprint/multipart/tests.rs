//! The reader against a plain model of the definition, and against bodies that parsers disagree about.

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::*;

/// The digest by the definition, for a body that is cut as a whole.
fn model(boundary: &str, body: &[u8]) -> Option<[u8; 32]> {
    let body = [b"\r\n", body].concat();
    let sections = split(&body, format!("\r\n--{boundary}").as_bytes());
    let dashed = format!("--{boundary}");
    if sections.iter().any(|section| memchr::memmem::find(section, dashed.as_bytes()).is_some()) {
        return None;
    }
    let mut fields = vec![Sha256::digest(sections[0]).to_vec()];
    let (last, parts) = sections.get(1..)?.split_last()?;
    for part in parts {
        let part = trim_start(part);
        let [header, content @ ..] = &split(part, b"\r\n\r\n")[..] else { return None };
        let content = content.join(&b"\r\n\r\n"[..]);
        if !part.starts_with(b"\r\n") || memchr::memmem::find(part, b"\r\n\r\n").is_none() {
            return None;
        }
        fields.push(normal_header(header)?);
        fields.push(Sha256::digest(content).to_vec());
    }
    let epilogue = trim_start(last.strip_prefix(b"--")?);
    if !epilogue.is_empty() && !epilogue.starts_with(b"\r\n") {
        return None;
    }
    fields.push(Sha256::digest(epilogue.get(2..).unwrap_or_default()).to_vec());
    let mut hasher = Sha256::new();
    for field in fields {
        hasher.update(u32::try_from(field.len()).unwrap().to_be_bytes());
        hasher.update(field);
    }
    Some(hasher.finalize().into())
}

fn normal_header(header: &[u8]) -> Option<Vec<u8>> {
    let mut normal = Vec::new();
    for line in split(header, b"\r\n").into_iter().skip(1) {
        let line = std::str::from_utf8(line).ok()?;
        let (name, value) = line.split_once(':')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || value.contains(['\r', '\n']) {
            return None;
        }
        normal.extend(format!("{}:{}\r\n", name.to_lowercase(), value.trim_matches([' ', '\t'])).bytes());
    }
    (header.len() <= 16 * 1024).then_some(normal)
}

fn split<'t>(text: &'t [u8], separator: &[u8]) -> Vec<&'t [u8]> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(found) = memchr::memmem::find(rest, separator) {
        pieces.push(&rest[..found]);
        rest = &rest[found + separator.len()..];
    }
    pieces.push(rest);
    pieces
}

fn trim_start(text: &[u8]) -> &[u8] {
    let space = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[space..]
}

fn digest_in(boundary: &str, body: &[u8], sizes: impl IntoIterator<Item = usize>) -> Option<[u8; 32]> {
    let mut reader = Reader::new(boundary.as_bytes());
    let mut rest = body;
    let mut sizes = sizes.into_iter();
    while !rest.is_empty() {
        let (chunk, behind) = rest.split_at(sizes.next().unwrap_or(rest.len()).min(rest.len()));
        reader.update(chunk).ok()?;
        rest = behind;
    }
    reader.finish().ok()
}

/// The digest, which must not depend on how the body is cut and must be that of the model.
fn digest(boundary: &str, body: impl AsRef<[u8]>) -> Option<[u8; 32]> {
    let body = body.as_ref();
    let digest = digest_in(boundary, body, []);
    for size in [1, 2, 3, 5, 64] {
        assert_eq!(digest_in(boundary, body, std::iter::repeat(size)), digest, "in chunks of {size}");
    }
    assert_eq!(digest, model(boundary, body), "{:?}", String::from_utf8_lossy(body));
    digest
}

const FORM: &str = "--B\r\nContent-Disposition: form-data; name=\"meta\"\r\n\r\n{\"n\":1}\r\n\
    --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n\
    line 1\r\nline 2\r\n\r\n--B--\r\n";

fn form_with(from: &str, to: &str) -> Option<[u8; 32]> {
    let changed = FORM.replacen(from, to, 1);
    assert_ne!(changed, FORM, "{from}");
    digest("B", changed)
}

#[test]
fn the_boundary_does_not_count() {
    let form = digest("B", FORM);
    assert!(form.is_some());
    let boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW";
    assert_eq!(digest(boundary, FORM.replace("--B", &format!("--{boundary}"))), form);
    assert_eq!(digest("-", FORM.replace("--B", "---")), form);
}

#[test]
fn space_behind_delimiters_and_the_spelling_of_header_fields_do_not_count() {
    let form = digest("B", FORM);
    assert_eq!(form_with("--B\r\n", "--B \t\r\n"), form);
    assert_eq!(form_with("--B--\r\n", "--B-- \r\n"), form);
    assert_eq!(form_with("--B--\r\n", "--B--"), form);
    assert_eq!(form_with("Content-Type: text/plain", "content-TYPE:text/plain \t"), form);
}

#[test]
fn everything_else_counts() {
    let form = digest("B", FORM);
    for (from, to) in [
        ("n\":1", "n\":2"),
        ("line 2", "line 3"),
        ("line 2\r\n", "line 2"),
        ("line 1\r\nline 2", "line 1\nline 2"),
        ("name=\"file\"", "name=\"File\""),
        ("a.txt", "b.txt"),
        ("text/plain", "text/html"),
        ("Content-Type: text/plain\r\n", ""),
        ("Content-Type: text/plain", "Content-Transfer-Encoding: base64"),
        ("\r\n\r\n{", "\r\nContent-ID: 1\r\n\r\n{"),
        ("--B\r\n", "preamble\r\n--B\r\n"),
        ("--B--\r\n", "--B--\r\nepilogue"),
    ] {
        let changed = form_with(from, to);
        assert!(changed.is_some(), "{from}");
        assert_ne!(changed, form, "{from}");
    }
}

#[test]
fn the_order_of_parts_counts() {
    let (one, two) = ("--B\r\nA: 1\r\n\r\none\r\n", "--B\r\nA: 1\r\n\r\ntwo\r\n");
    assert_ne!(digest("B", format!("{one}{two}--B--")), digest("B", format!("{two}{one}--B--")));
}

#[test]
fn no_content_imitates_a_part() {
    let two = digest("B", "--B\r\n\r\none\r\n--B\r\n\r\ntwo\r\n--B--");
    let one = digest("C", "--C\r\n\r\none\r\n--B\r\n\r\ntwo\r\n--C--");
    assert!(two.is_some() && one.is_some());
    assert_ne!(one, two);
    assert_ne!(digest("B", "--B\r\nA:b\r\n\r\n\r\n--B--"), digest("B", "--B\r\n\r\nA:b\r\n\r\n\r\n--B--"));
}

#[test]
fn empty_forms_parts_and_headers_are_well_formed() {
    let bodies = ["--B--", "--B\r\n\r\n\r\n--B--", "--B\r\nA:\r\n\r\n\r\n--B--", "--B\r\n\r\n\r\n--B\r\n\r\n\r\n--B--"];
    let digests = bodies.map(|body| digest("B", body));
    for (position, digest) in digests.iter().enumerate() {
        assert!(digest.is_some(), "{position}");
        assert!(!digests[..position].contains(digest), "{position}");
    }
    assert_eq!(digest("B", "--B--"), digest("B", "--B--\r\n"));
}

#[test]
fn what_parsers_could_cut_in_other_ways_is_malformed() {
    for body in [
        "",
        "text",
        "--B",
        "--B-",
        "--B\r",
        "--B\r\n",
        "--B--\r",
        "--B--x",
        "--B-x",
        "--Bx\r\n\r\n\r\n--B--",
        "--B x\r\n\r\n\r\n--B--",
        "--B\n\r\n\r\n--B--",
        "--B\n\n\r\n\r\n--B--",
        "--B\r\n\r\ncut short",
        "--B\r\n\r\ncut short\r\n--B",
        "--B\r\n\r\ncut short\r\n--B\r\n\r\n",
        "--B\r\n--B--",
        "--B\r\n\r\n--B--",
        "--B\r\nA: no empty line\r\n--B--",
        "--B\r\nA: no content\r\n\r\n--B--",
        "--B\r\nno colon\r\n\r\n\r\n--B--",
        "--B\r\n: no name\r\n\r\n\r\n--B--",
        "--B\r\nA : space\r\n\r\n\r\n--B--",
        "--B\r\nA: folded\r\n b\r\n\r\n\r\n--B--",
        "--B\r\nA: bare\nB: line feed\r\n\r\n\r\n--B--",
        "--B\r\nA: bare\rreturn\r\n\r\n\r\n--B--",
        "--B\r\n\r\nin a line --B\r\n--B--",
        "--B\r\n\r\nbehind a line feed\n--B\r\n\r\n\r\n--B--",
        "x--B\r\n\r\n\r\n--B--",
        "--B--\r\n--B--",
        "--B--\r\nepilogue\r\n--B--",
        "--B--\r\n\r\n--B\r\n\r\n\r\n--B--",
        "--B--B",
    ] {
        assert_eq!(digest("B", body), None, "{body:?}");
    }
}

#[test]
fn a_parts_header_is_limited() {
    let body = |length: usize| format!("--B\r\nA:{}\r\n\r\nc\r\n--B--", "v".repeat(length));
    assert!(digest("B", body(16 * 1024 - 4)).is_some());
    assert_eq!(digest("B", body(16 * 1024 - 3)), None);
    assert_eq!(digest("B", body(64 * 1024)), None);
}

#[test]
fn an_upload_is_read_in_bounded_memory() {
    let mut reader = Reader::new(b"B");
    let chunk = b"\r\n-- nearly a delimiter \r\n--".repeat(40_000);
    reader.update(b"--B\r\nContent-Type: image/png\r\n\r\n").unwrap();
    for _ in 0..10 {
        reader.update(&chunk).unwrap();
        assert!(reader.held_bytes() <= 64 * 1024, "{} bytes held", reader.held_bytes());
    }
    reader.update(b"\r\n--B--").unwrap();
    assert!(reader.finish().is_ok());
}

/// Something between multipart and noise.
fn near_multipart() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "--B",
        "--B\r\n",
        "--B--",
        "\r\n",
        "\r\n--B\r\n",
        "\r\n--B--",
        "\r",
        "\n",
        "-",
        "B",
        " ",
        "A: b\r\n",
        "\r\n\r\n",
        "x",
        "Content-Type: a/b",
        ":",
        "\r\n--B\r\nA:b\r\n\r\ncontent",
        "\r\n--B--\r\n",
    ]);
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_body_is_cut_as_the_model_cuts_it(body in near_multipart(), sizes in prop::collection::vec(1..9_usize, 0..60)) {
        let expected = model("B", &body);
        prop_assert_eq!(digest_in("B", &body, []), expected);
        prop_assert_eq!(digest_in("B", &body, sizes), expected);
    }

    #[test]
    fn any_content_survives_a_new_boundary(contents in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
        let body = |boundary: &str| {
            let mut body = Vec::new();
            for content in &contents {
                body.extend_from_slice(format!("--{boundary}\r\nA: b\r\n\r\n").as_bytes());
                body.extend_from_slice(content);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(format!("--{boundary}--").as_bytes());
            body
        };
        let (one, other) = ("b67ab1f0c3d94e45", "'()+_,-./:=? x");
        let digest = digest_in(one, &body(one), []);
        prop_assert!(digest.is_some());
        prop_assert_eq!(digest_in(other, &body(other), std::iter::repeat(3)), digest);
    }
}
