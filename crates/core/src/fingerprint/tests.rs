//! Whole fingerprints: the protocol's cases, codings, limits, and how a body is cut.

use std::io::Write as _;

use flate2::{Compression, GzBuilder, write::GzEncoder};
use proptest::prelude::*;

use super::*;

const JSON: &str = "application/json";

/// A request in a form that is short to write down.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    target: &'a str,
    content_type: Option<&'a str>,
    coding: Option<&'a str>,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn new(target: &'a str, content_type: &'a str, body: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { target, content_type: Some(content_type), coding: None, body: body.as_ref() }
    }

    fn json(body: &'a str) -> Self {
        Self::new("/x", JSON, body)
    }

    fn coded(self, coding: &'a str, body: &'a [u8]) -> Self {
        Self { coding: Some(coding), body, ..self }
    }

    fn head(&self) -> RequestHead<'a> {
        let (path, query) = match self.target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.target, None),
        };
        RequestHead {
            method: "POST",
            path,
            query,
            content_type: self.content_type.map(str::as_bytes),
            content_encoding: self.coding.map(str::as_bytes),
        }
    }

    fn under(&self, rules: &Rules) -> Fingerprint {
        Fingerprint::of(rules, &self.head(), self.body).unwrap()
    }

    fn in_chunks(&self, rules: &Rules, sizes: impl IntoIterator<Item = usize>) -> Result<Fingerprint, DecodedTooLarge> {
        let mut fingerprinter = Fingerprinter::new(rules, &self.head());
        let (mut rest, mut sizes) = (self.body, sizes.into_iter());
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at(sizes.next().unwrap_or(rest.len()).min(rest.len()));
            fingerprinter.update(chunk)?;
            rest = behind;
        }
        fingerprinter.finish()
    }
}

#[track_caller]
fn assert_same(one: Request<'_>, other: Request<'_>) {
    let rules = Rules::default();
    assert_eq!(one.under(&rules).compare(&other.under(&rules)), Comparison::Same, "{one:?} {other:?}");
}

#[track_caller]
fn assert_different(one: Request<'_>, other: Request<'_>) {
    let rules = Rules::default();
    assert_eq!(one.under(&rules).compare(&other.under(&rules)), Comparison::Different, "{one:?} {other:?}");
}

fn gzip(level: u32, text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn rules(options: RulesOptions) -> Rules {
    Rules::new(&options).unwrap()
}

fn limited(decoded_bytes_max: u64) -> Rules {
    rules(RulesOptions { decoded_bytes_max, ..RulesOptions::default() })
}

// === the cases ===

#[test]
fn another_body_is_another_request() {
    assert_different(Request::json(r#"{"qty":1}"#), Request::json(r#"{"qty":2}"#));
}

#[test]
fn order_of_members_and_spaces_do_not_matter_but_order_of_elements_does() {
    let first = Request::json(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#);
    assert_same(first, Request::json(r#" { "b" : { "d":null, "c":[1,2] }, "a":1 }"#));
    assert_different(first, Request::json(r#"{"a":1,"b":{"c":[2,1],"d":null}}"#));
}

#[test]
fn numbers_beyond_doubles_stay_apart() {
    for (one, other) in [
        (r#"{"minor":9007199254740992}"#, r#"{"minor":9007199254740993}"#),
        (r#"{"9007199254740992":1,"9007199254740993":2}"#, r#"{"9007199254740992":1}"#),
        ("[0.1]", "[0.10000000000000001]"),
        ("[-0]", "[0]"),
        ("[1e400]", "[1e401]"),
    ] {
        assert_different(Request::json(one), Request::json(other));
    }
}

#[test]
fn a_multipart_retry_with_a_new_boundary_is_the_same_request() {
    let file = vec![0x5a; 1024 * 1024];
    let form = |boundary: &str, name: &str, file: &[u8]| {
        let start = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"meta\"\r\n\r\n{{\"n\":1}}\r\n--{boundary}\r\n"
        );
        let header = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n");
        [start.as_bytes(), header.as_bytes(), file, format!("\r\n--{boundary}--\r\n").as_bytes()].concat()
    };
    let (aaa, bbb) = ("multipart/form-data; boundary=AAA", "multipart/form-data; boundary=BBB");
    let body = form("AAA", "a.png", &file);
    let first = Request::new("/files", aaa, &body);
    assert_same(first, Request::new("/files", bbb, &form("BBB", "a.png", &file)));
    assert_different(first, Request::new("/files", bbb, &form("BBB", "b.png", &file)));
    let mut changed = file.clone();
    changed[500_000] ^= 1;
    assert_different(first, Request::new("/files", bbb, &form("BBB", "a.png", &changed)));
    assert_different(first, Request::new("/files", bbb, &body));
    let malformed = Request::new("/files", aaa, "no parts");
    assert_different(malformed, Request::new("/files", bbb, "no parts"));
}

#[test]
fn gzip_does_not_matter_whatever_its_level() {
    let text = br#"{"a":1}"#;
    let (fast, best) = (gzip(1, text), gzip(9, br#" {"a" : 1} "#));
    let plain = Request::json(r#"{"a":1}"#);
    assert_same(plain, plain.coded("gzip", &fast));
    assert_same(plain, plain.coded("X-GZIP", &best));
    assert_same(plain, plain.coded("identity", text));
    assert_same(plain, plain.coded("", text));
    let text = Request::new("/x", "text/plain", "some text");
    assert_same(text, text.coded("gzip", &gzip(9, b"some text")));
}

#[test]
fn the_media_type_matters_but_the_charset_of_json_does_not() {
    let body = r#"{"a":1}"#;
    let first = Request::json(body);
    assert_different(first, Request::new("/x", "text/plain", body));
    assert_different(first, Request { content_type: None, ..first });
    assert_same(first, Request::new("/x", "Application/JSON; charset=utf-8", body));
    let unreadable = "{a:1}";
    assert_different(Request::json(unreadable), Request::new("/x", "application/json; charset=utf-16", unreadable));
    let text = Request::new("/x", "text/plain; charset=utf-8", "a");
    assert_different(text, Request::new("/x", "text/plain; charset=latin1", "a"));
    assert_same(text, Request::new("/x", " TEXT/plain; charset=utf-8", "a"));
}

#[test]
fn the_query_matters_but_the_order_of_its_parameters_does_not() {
    let request = |target| Request::new(target, JSON, "{}");
    assert_different(request("/x?dry=1"), request("/x"));
    assert_same(request("/x?b=2&a=1"), request("/x?a=1&b=2"));
    assert_different(request("/x?a=1&a=2"), request("/x?a=2&a=1"));
    assert_same(request("/x?"), request("/x"));
}

#[test]
fn a_fingerprint_of_another_version_is_incomparable() {
    let now = Request::json("{}").under(&Rules::default());
    let mut bytes = now.as_bytes().to_vec();
    assert_eq!((bytes[0], bytes.len()), (1, Fingerprint::STRUCTURED_LENGTH));
    bytes[0] = 0;
    let old = Fingerprint::from_bytes(&bytes).unwrap();
    assert_eq!(old.compare(&now), Comparison::Incomparable);
}

#[test]
fn a_member_added_on_the_retry_is_another_request() {
    let first = Request::json(r#"{"amount":1212,"customer":"c1"}"#);
    assert_different(first, Request::json(r#"{"amount":1212,"customer":"c1","metadata":{"try":"2"}}"#));
    assert_same(first, Request::json(r#"{"amount":1212,"customer":"c1"}"#));
}

#[test]
fn a_changed_batch_is_another_request() {
    assert_different(Request::json(r#"[{"id":1},{"id":2}]"#), Request::json(r#"[{"id":1},{"id":3}]"#));
}

#[test]
fn a_retry_without_its_body_is_another_request() {
    assert_different(Request::json(r#"{"amount":5}"#), Request::json(""));
}

#[test]
fn no_body_is_one_request_however_it_is_said() {
    let rules = Rules::default();
    let request = Request { content_type: None, ..Request::json("") };
    let nothing = Fingerprinter::new(&rules, &request.head()).finish().unwrap();
    assert_eq!(request.under(&rules), nothing, "an empty body");
    let mut chunks = Fingerprinter::new(&rules, &request.head());
    chunks.update(b"").unwrap();
    chunks.update(b"").unwrap();
    assert_eq!(chunks.finish().unwrap(), nothing, "empty chunks");
    assert_same(request, Request { content_type: Some(""), ..request });
    assert_different(request, Request { body: b"{}", ..request });
    assert_different(request, Request::json("{}"));
}

// === comparing ===

#[test]
fn only_fingerprints_of_one_kind_are_compared() {
    let compare = |one: &[u8], other: &[u8]| {
        Fingerprint::from_bytes(one).unwrap().compare(&Fingerprint::from_bytes(other).unwrap())
    };
    assert_eq!(compare(b"opaque", b"opaque"), Comparison::Same);
    assert_eq!(compare(b"opaque", b"other"), Comparison::Different);
    assert_eq!(compare(b"opaque", &[1; 41]), Comparison::Incomparable);
    assert_eq!(compare(&[1; 41], b"opaque"), Comparison::Incomparable);
    let mut other_hash = [1; 41];
    other_hash[40] = 2;
    assert_eq!(compare(&[1; 41], &other_hash), Comparison::Different);
    let mut other_rules = [1; 41];
    other_rules[8] = 2;
    assert_eq!(compare(&[1; 41], &other_rules), Comparison::Incomparable);
    assert!(Fingerprint::from_bytes(&[]).is_err() && Fingerprint::from_bytes(&[0; 65]).is_err());
}

// === the head ===

#[test]
fn method_and_path_matter_and_cannot_run_into_each_other() {
    let rules = Rules::default();
    let of = |method, path, query| {
        Fingerprint::of(&rules, &RequestHead { method, path, query, ..RequestHead::default() }, b"").unwrap()
    };
    let heads = [
        of("POST", "/ab", None),
        of("PATCH", "/ab", None),
        of("post", "/ab", None),
        of("POST", "/ab/", None),
        of("POST", "/a", Some("b")),
        of("POST/", "ab", None),
        of("POST", "", Some("/ab")),
    ];
    for (position, head) in heads.iter().enumerate() {
        assert!(!heads[..position].contains(head), "{position}");
    }
}

// === the rules ===

#[test]
fn fingerprints_under_other_rules_are_incomparable() {
    let request = Request::json(r#"{"a":1}"#);
    let default = request.under(&Rules::default());
    let secret = |id| Some(Secret::new(id, b"0123456789abcdef").unwrap());
    for options in [
        RulesOptions { mode: Mode::Bytes, ..RulesOptions::default() },
        RulesOptions { ignore: vec!["/at".parse().unwrap()], ..RulesOptions::default() },
        RulesOptions { secret: secret("1"), ..RulesOptions::default() },
    ] {
        let rules = rules(options);
        let fingerprint = request.under(&rules);
        assert_eq!(fingerprint.compare(&default), Comparison::Incomparable, "{rules:?}");
        assert_eq!(fingerprint.rules().unwrap()[1..], rules.digest());
    }
    assert_eq!(request.under(&limited(1)), default, "the limit is not a rule");
}

#[test]
fn a_secrets_key_changes_the_hash() {
    let request = Request::json("{}");
    let keyed = |key: &[u8]| RulesOptions { secret: Some(Secret::new("id", key).unwrap()), ..RulesOptions::default() };
    let (one, other) = (rules(keyed(&[1; 16])), rules(keyed(&[2; 16])));
    assert_eq!(request.under(&one).compare(&request.under(&other)), Comparison::Different);
}

#[test]
fn ignored_places_of_json_do_not_matter() {
    let rules = rules(RulesOptions { ignore: vec!["/sent_at".parse().unwrap()], ..RulesOptions::default() });
    let of = |body| Request::json(body).under(&rules);
    let first = of(r#"{"amount":5,"sent_at":"2026-11-29T10:00:00Z"}"#);
    assert_eq!(of(r#"{"sent_at":"2026-11-29T10:00:07Z","amount":5}"#), first);
    assert_ne!(of(r#"{"sent_at":"2026-11-29T10:00:00Z","amount":6}"#), first);
}

#[test]
fn in_bytes_mode_the_bytes_count_as_they_were_sent() {
    let rules = rules(RulesOptions { mode: Mode::Bytes, ..RulesOptions::default() });
    let first = Request::json(r#"{"a":1}"#);
    let of = |request: Request<'_>| request.under(&rules);
    assert_ne!(of(first), of(Request::json(r#"{"a": 1}"#)));
    let (fast, best) = (gzip(1, &[b'a'; 500]), gzip(9, &[b'a'; 500]));
    assert_ne!(of(first.coded("gzip", &fast)), of(first.coded("gzip", &best)));
    assert_ne!(of(first), of(first.coded("gzip", first.body)), "a coding says what the bytes mean");
}

// === codings ===

#[test]
fn unreadable_json_is_compared_byte_by_byte() {
    for body in ["{a:1}", r#"{"a":1,"a":2}"#, r#"["\ud800"]"#, "\u{feff}{}", "{} {}", " "] {
        let spaced = format!("{body} ");
        assert_same(Request::json(body), Request::json(body));
        assert_different(Request::json(body), Request::json(&spaced));
        assert_different(Request::json(body), Request::new("/x", "application/other+json", body));
    }
}

#[test]
fn a_broken_or_unknown_coding_is_compared_byte_by_byte() {
    let whole = gzip(6, br#"{"a":1}"#);
    let request = Request::json("");
    let mut wrong_checksum = whole.clone();
    let checksum = whole.len() - 8;
    wrong_checksum[checksum] ^= 1;
    let mut wrong_length = whole.clone();
    *wrong_length.last_mut().unwrap() ^= 1;
    let trailing = |more: &[u8]| [&whole, more].concat();
    for broken in [
        whole[..whole.len() - 1].to_vec(),
        whole[..12].to_vec(),
        whole[..5].to_vec(),
        Vec::new(),
        wrong_checksum,
        wrong_length,
        trailing(b"x"),
        trailing(b"\0"),
        trailing(&whole[..9]),
        br#"{"a":1}"#.to_vec(),
    ] {
        let coded = request.coded("gzip", &broken);
        assert_different(coded, request.coded("gzip", &whole));
        assert_different(coded, Request { coding: None, ..coded });
        assert_different(coded, request.coded("br", &broken));
        assert_eq!(coded.in_chunks(&Rules::default(), std::iter::repeat(1)), Ok(coded.under(&Rules::default())));
    }
    let body = br#"{"a":1}"#;
    assert_different(request.coded("br", body), request.coded("br", br#"{"a": 1}"#));
    assert_different(request.coded("gzip, gzip", &whole), request.coded("gzip", &whole));
}

#[test]
fn gzip_may_have_many_members_and_header_fields() {
    let request = Request::json(r#"{"a":1}"#);
    let two = [gzip(1, br#"{"a""#), gzip(9, b":1}")].concat();
    assert_same(request, request.coded("gzip", &two));
    let named = GzBuilder::new().filename("a.json").comment("c").extra("x").mtime(7);
    let mut named = named.write(Vec::new(), Compression::best());
    named.write_all(request.body).unwrap();
    assert_same(request, request.coded("gzip", &named.finish().unwrap()));
    let empty = gzip(1, b"");
    let members = |count: usize| [empty.repeat(count - 1), gzip(1, request.body)].concat();
    assert_same(request, request.coded("gzip", &members(1024)));
    assert_different(request, request.coded("gzip", &members(1025)));
}

#[test]
fn the_limit_counts_decoded_bytes() {
    let text = vec![b' '; 100_000];
    let coded = gzip(9, &text);
    let request = Request::json("").coded("gzip", &coded);
    assert!(request.in_chunks(&limited(100_000), []).is_ok());
    let error = request.in_chunks(&limited(99_999), []).unwrap_err();
    assert_eq!(error.to_string(), "the body decodes to more than 99999 bytes, which is the limit");
    let two = coded.repeat(2);
    assert!(request.coded("gzip", &two).in_chunks(&limited(199_999), []).is_err(), "members add up");
    let plain = Request::new("/x", JSON, &text);
    assert!(plain.in_chunks(&limited(1), []).is_ok(), "nothing is decoded");
}

#[test]
fn a_bomb_is_refused_before_it_is_decoded() {
    let bomb = gzip(9, &vec![0; 64 * 1024 * 1024]);
    let request = Request::json("").coded("gzip", &bomb);
    let rules = Rules::default();
    let mut fingerprinter = Fingerprinter::new(&rules, &request.head());
    let refused_at = bomb.chunks(256).position(|chunk| fingerprinter.update(chunk).is_err()).unwrap();
    let (limit, decoded_per_chunk) = (Rules::DECODED_BYTES_MAX, 64 * 1024 * 1024 / (bomb.len() as u64 / 256));
    assert!(refused_at as u64 <= limit / decoded_per_chunk + 2, "chunk {refused_at}");
    assert!(fingerprinter.held_bytes() < 256 * 1024);
    assert!(fingerprinter.update(b"").is_err(), "it stays refused");
    assert!(fingerprinter.finish().is_err(), "it stays refused");
}

#[test]
fn an_upload_of_10_mib_is_hashed_in_bounded_memory() {
    let megabyte = 1024 * 1024;
    let json =
        format!(r#"{{"file":"{}","rows":[{}0]}}"#, "QUJD".repeat(megabyte), r#"{"b":[1,2],"a":"x"},"#.repeat(300_000));
    let form = [&b"--B\r\nA: b\r\n\r\n"[..], &vec![7; 10 * megabyte], b"\r\n--B--"].concat();
    let coded = gzip(1, json.as_bytes());
    let multipart = "multipart/form-data; boundary=B";
    for request in [
        Request::new("/x", JSON, &json),
        Request::new("/x", multipart, &form),
        Request::new("/x", "image/png", &form),
        Request::json("").coded("gzip", &coded),
    ] {
        let rules = Rules::default();
        let mut fingerprinter = Fingerprinter::new(&rules, &request.head());
        for chunk in request.body.chunks(64 * 1024) {
            fingerprinter.update(chunk).unwrap();
            assert!(fingerprinter.held_bytes() < 128 * 1024, "{}", fingerprinter.held_bytes());
        }
        fingerprinter.finish().unwrap();
    }
}

// === properties ===

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let json = "\\{\"a\": ?(1|\"[a-z]{0,80}\"|\\[[0-9]{1,3}\\]|x)\\}";
    let form = "--B\r\nA: b\r\n\r\n[a-z\r\n]{0,9}\r\n--B--(\r\n)?";
    let text = prop_oneof![json, form].prop_map(String::into_bytes);
    let plain = prop_oneof![4 => text, 1 => any::<Vec<u8>>()];
    let coded = (plain.clone(), 0..10_u32).prop_map(|(text, level)| gzip(level, &text));
    let broken = (coded.clone(), any::<prop::sample::Index>(), any::<u8>()).prop_map(|(mut coded, at, byte)| {
        let at = at.index(coded.len());
        coded[at] = byte;
        coded
    });
    let joined = (coded.clone(), broken.clone()).prop_map(|(one, other)| [one, other].concat());
    prop_oneof![2 => plain, 2 => coded, 1 => broken, 1 => joined]
}

fn types() -> impl Strategy<Value = Option<&'static str>> {
    let types = [None, Some(JSON), Some("multipart/mixed; boundary=B"), Some("text/plain"), Some("a/b+json; x=\"")];
    prop::sample::select(types.to_vec())
}

proptest! {
    #[test]
    fn how_a_body_is_cut_never_matters(
        body in bodies(),
        content_type in types(),
        coding in prop::sample::select(vec![None, Some("gzip"), Some("x-gzip"), Some("br")]),
        limit in prop::sample::select(vec![5, 20, 1000]),
        sizes in prop::collection::vec(1..20_usize, 0..40),
    ) {
        let request = Request { target: "/x?a&b", content_type, coding, body: &body };
        let rules = limited(limit);
        let whole = request.in_chunks(&rules, []);
        prop_assert_eq!(request.in_chunks(&rules, sizes), whole);
        prop_assert_eq!(request.in_chunks(&rules, std::iter::repeat(1)), whole);
    }

    #[test]
    fn no_head_panics(method: String, path: String, query: Option<String>, content_type: Vec<u8>, coding: Vec<u8>) {
        let head = RequestHead {
            method: &method,
            path: &path,
            query: query.as_deref(),
            content_type: Some(&content_type),
            content_encoding: Some(&coding),
        };
        let fingerprint = Fingerprint::of(&Rules::default(), &head, b"1");
        prop_assert!(fingerprint.is_ok());
    }

    #[test]
    fn the_limit_decides_the_same_however_a_corrupt_body_is_cut(
        seed: u32,
        length in 1..5_000_usize,
        at in any::<prop::sample::Index>(),
        byte: u8,
        slack in -3..3_i64,
        sizes in prop::collection::vec(1..400_usize, 0..40),
    ) {
        let noise = |n: usize| (seed.wrapping_mul(n as u32 | 1) >> 29) as u8;
        let text: Vec<u8> = (0..length).map(noise).collect();
        let mut body = gzip(6, &text);
        let at = at.index(body.len());
        body[at] = byte;
        let request = Request::json("").coded("gzip", &body);
        // Near the length that the body decoded to before it broke, which is at most all of it.
        let near = (length * at / body.len()) as i64 + slack;
        for limit in [near.max(0) as u64, (length as i64 + slack).max(0) as u64] {
            let rules = limited(limit);
            let whole = request.in_chunks(&rules, []);
            prop_assert_eq!(request.in_chunks(&rules, sizes.clone()), whole);
            prop_assert_eq!(request.in_chunks(&rules, std::iter::repeat(1)), whole);
        }
    }
}
