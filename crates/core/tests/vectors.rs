//! The byte forms of scope, record id and fingerprint: the test vectors hold for this crate and for
//! the reference in Python, and the two agree on requests that nobody wrote down.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    env,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use oncegate_core::{
    Fingerprint, IdempotencyKey, RecordId, Scope, ScopeBuilder,
    fingerprint::{JsonPointer, Mode, RequestHead, Rules, RulesOptions, Secret},
};
use serde::{Deserialize, Serialize};

// === the file ===

#[derive(Default, Deserialize, Serialize)]
struct Vectors {
    scope: Vec<ScopeVector>,
    record_id: Vec<RecordIdVector>,
    fingerprint: Vec<FingerprintVector>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ScopeVector {
    name: String,
    secret_key_hex: Option<String>,
    parts: Vec<Part>,
    text: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    value: Option<String>,
    value_hex: Option<String>,
    #[serde(default)]
    credential: bool,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RecordIdVector {
    name: String,
    scope: String,
    key: String,
    record_id: String,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FingerprintVector {
    name: String,
    #[serde(default)]
    rules: RulesInput,
    request: RequestInput,
    fingerprint: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct RulesInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    ignore: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<SecretInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decoded_bytes_max: Option<u64>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SecretInput {
    id: String,
    key_hex: String,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct RequestInput {
    method: String,
    path: String,
    query: Option<String>,
    content_type: Option<String>,
    content_encoding: Option<String>,
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_hex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_pieces: Option<Vec<(String, usize)>>,
}

impl RulesInput {
    fn rules(&self) -> Rules {
        let options = RulesOptions::default();
        let mode = match self.mode.as_deref() {
            None | Some("meaning") => Mode::Meaning,
            Some("bytes") => Mode::Bytes,
            Some(other) => panic!("no such mode: {other}"),
        };
        let secret = self.secret.as_ref().map(|secret| Secret::new(&secret.id, &octets(&secret.key_hex)).unwrap());
        let ignore = self.ignore.iter().map(|text| JsonPointer::parse(text).unwrap()).collect();
        let decoded_bytes_max = self.decoded_bytes_max.unwrap_or(options.decoded_bytes_max);
        Rules::new(&RulesOptions { mode, ignore, secret, decoded_bytes_max }).unwrap()
    }
}

impl RequestInput {
    fn body(&self) -> Vec<u8> {
        match (&self.body, &self.body_hex, &self.body_pieces) {
            (None, Some(hex), None) => octets(hex),
            (None, None, Some(pieces)) => {
                pieces.iter().flat_map(|(text, times)| text.repeat(*times).into_bytes()).collect()
            }
            (text, None, None) => text.clone().unwrap_or_default().into_bytes(),
            (_, _, _) => panic!("a body is given in one way"),
        }
    }

    fn fingerprint(&self, rules: &Rules) -> String {
        let head = RequestHead {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            content_type: self.content_type.as_deref().map(str::as_bytes),
            content_encoding: self.content_encoding.as_deref().map(str::as_bytes),
        };
        Fingerprint::of(rules, &head, &self.body()).map_or("refused".to_owned(), |found| hex(found.as_bytes()))
    }
}

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut hex, octet| {
        write!(hex, "{octet:02x}").unwrap();
        hex
    })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn vectors() -> Vectors {
    serde_json::from_str(&fs::read_to_string(repository().join("vectors.json")).unwrap()).unwrap()
}

// === this crate ===

#[test]
fn scopes_have_the_texts_of_the_vectors() {
    for vector in vectors().scope {
        let key = vector.secret_key_hex.as_deref().map(octets);
        let mut scope = ScopeBuilder::new(key.as_deref());
        for part in &vector.parts {
            let value = part.value_hex.as_deref().map_or_else(|| part.value.clone().unwrap().into_bytes(), octets);
            let (name, value) = (part.name.as_str(), value.as_slice());
            scope = if part.credential { scope.with_credential(name, value) } else { scope.with_value(name, value) };
        }
        assert_eq!(scope.build().unwrap().as_str(), vector.text, "{}", vector.name);
    }
}

#[test]
fn record_ids_are_those_of_the_vectors() {
    for vector in vectors().record_id {
        let (scope, key) = (Scope::from_text(&vector.scope).unwrap(), IdempotencyKey::new(&vector.key).unwrap());
        assert_eq!(RecordId::new(scope, key).digest().to_string(), vector.record_id, "{}", vector.name);
    }
}

#[test]
fn fingerprints_are_those_of_the_vectors() {
    for vector in vectors().fingerprint {
        assert_eq!(vector.request.fingerprint(&vector.rules.rules()), vector.fingerprint, "{}", vector.name);
    }
}

// === the reference ===

/// Runs the reference over a file of vectors and returns what it prints: a line per disagreement.
fn disagreements(vectors: &Path) -> String {
    let mut python = Command::new("python3");
    let output = python.arg("-B").arg(repository().join("docs/fingerprint_reference.py")).arg(vectors).output();
    let output = output.expect("python3 starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.trim_end().ends_with("disagreements"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_reference_agrees_with_the_vectors() {
    assert_eq!(disagreements(&repository().join("vectors.json")), "");
}

/// The vectors are those of which somebody thought; these are the others.
#[test]
fn the_reference_agrees_on_thousands_of_other_requests() {
    let mut dice = Dice(1);
    let mut vectors = Vectors::default();
    for number in 0..3000 {
        let (rules, request) = dice.request();
        let fingerprint = request.fingerprint(&rules.rules());
        vectors.fingerprint.push(FingerprintVector { name: format!("random {number}"), rules, request, fingerprint });
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("random-vectors.json");
    fs::write(&file, serde_json::to_vec(&vectors).unwrap()).unwrap();
    assert_eq!(disagreements(&file), "");
}

/// <https://github.com/nst/JSONTestSuite> is where parsers disagree.
#[test]
fn the_reference_agrees_on_the_json_test_suite() {
    let Some(suite) = env::var_os("ONCEGATE_CONFORMANCE") else {
        eprintln!("skipped: ONCEGATE_CONFORMANCE does not name a directory with JSONTestSuite");
        return;
    };
    let mut vectors = Vectors::default();
    for file in fs::read_dir(Path::new(&suite).join("JSONTestSuite/test_parsing")).unwrap() {
        let path = file.unwrap().path();
        let request = RequestInput {
            content_type: Some("application/json".to_owned()),
            body_hex: Some(hex(&fs::read(&path).unwrap())),
            ..RequestInput::default()
        };
        let fingerprint = request.fingerprint(&Rules::default());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        vectors.fingerprint.push(FingerprintVector { name, rules: RulesInput::default(), request, fingerprint });
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suite-vectors.json");
    fs::write(&file, serde_json::to_vec(&vectors).unwrap()).unwrap();
    assert_eq!(disagreements(&file), "");
}

/// A small source of choices that a seed repeats.
struct Dice(u64);

impl Dice {
    const JSON: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"a\":",
        "\"a\"",
        "\"b\":1",
        "\"c\":[1,{}]",
        "1",
        "-0.5e+7",
        "0",
        "true",
        "null",
        " ",
        "\n",
        "\"é\\u00e9\\/\\n\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\u{feff}",
        "x",
        "NaN",
        "\"long long long long long long long long long long long long l\"",
    ];
    const FORM: &[&str] = &[
        "--B\r\n",
        "A: b\r\n",
        "C-d:e \r\n",
        "\r\n",
        "\r\n\r\n",
        "content",
        "\r\n--B\r\n",
        "\r\n--B--",
        "\n--B",
        " ",
        "--B--\r\n",
        "--B\r\nA: b\r\n\r\ncontent",
    ];

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn pieces(&mut self, choices: &[&str], most: usize) -> String {
        (0..self.below(most)).map(|_| self.of(choices)).collect()
    }

    /// JSON that is well-formed but for rare duplicate members.
    fn json(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 2 } else { 4 }) {
            0 => self.of(&["1", "0.10", "1e400", "true", "false", "null", "-0"]).to_owned(),
            1 => self.text(),
            2 => {
                let elements: Vec<_> = (0..self.below(4)).map(|_| self.json(depth - 1)).collect();
                format!("[{}]", elements.join(", "))
            }
            _ => {
                let members: Vec<_> =
                    (0..self.below(5)).map(|_| format!("{}:{}", self.text(), self.json(depth - 1))).collect();
                format!("{{ {}}}", members.join(","))
            }
        }
    }

    fn text(&mut self) -> String {
        let choices =
            ["a", "b", "c", "", "é", "\\n", "\\u0001", "\\\"", "\\/", "😀", "\u{7f}", "some words to make it long "];
        format!("\"{}\"", self.pieces(&choices, 7))
    }

    fn form(&mut self) -> String {
        let part = |dice: &mut Self| {
            format!("--B\r\n{}\r\n{}\r\n", dice.pieces(&Self::FORM[1..3], 3), dice.pieces(&["x", "\r\n", "-", "\n"], 6))
        };
        let parts: String = (0..self.below(4)).map(|_| part(self)).collect();
        format!("{}{parts}--B--{}", self.of(&["", "", "preamble\r\n"]), self.of(&["", "\r\n", "\r\nepilogue"]))
    }

    fn body(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => self.pieces(Self::JSON, 12),
            1..4 => self.json(4),
            4 => self.pieces(Self::FORM, 9),
            _ => self.form(),
        }
        .into_bytes()
    }

    fn gzip(&mut self, text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::new(u32::try_from(self.below(10)).unwrap());
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Other gzip: broken, or with a second member.
    fn change(&mut self, coded: &mut Vec<u8>) {
        let at = self.below(coded.len());
        match self.below(4) {
            0 => coded[at] ^= 1 << self.below(8),
            1 => coded.truncate(at),
            2 => coded.extend_from_within(..at),
            _ => coded.extend_from_within(..),
        }
    }

    fn request(&mut self) -> (RulesInput, RequestInput) {
        let mut body = self.body();
        let coding = self.of(&["", "", "", "gzip", "X-gzip", "identity", "br"]);
        // Where a body both breaks and is too large, decoders need not agree on what they see first.
        let decoded_bytes_max = (self.below(4) == 0).then_some(40);
        if coding.ends_with("gzip") {
            body = self.gzip(&body);
            if decoded_bytes_max.is_none() && self.below(2) == 0 {
                self.change(&mut body);
            }
        }
        let query = self.pieces(&["a=1", "&", "b", "=", "%61", "&&"], 8);
        let types = ["application/json", "A/b+JSON ; c=d", "multipart/form-data; boundary=B", "text/plain;x", ""];
        let ignore = ["/a", "/b/0", "/0", "/a/a", "/", "/1/b", "/é"].iter().filter(|_| self.below(8) == 0);
        let rules = RulesInput {
            ignore: ignore.map(|&pointer| pointer.to_owned()).collect(),
            decoded_bytes_max,
            ..RulesInput::default()
        };
        let request = RequestInput {
            method: self.of(&["POST", "PUT"]).to_owned(),
            path: "/x".to_owned(),
            query: Some(query),
            content_type: Some(self.of(&types).to_owned()),
            content_encoding: Some(coding.to_owned()),
            body_hex: Some(hex(&body)),
            ..RequestInput::default()
        };
        (rules, request)
    }
}
