//! Names of records, as other languages compute them.

use std::fs;

use serde_json::Value;

use crate::server::{Server, repository};

#[tokio::test]
async fn record_ids_are_those_of_the_vectors() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    let vectors: Value = serde_json::from_slice(&fs::read(repository().join("vectors.json")).unwrap()).unwrap();
    let cases = vectors["record_id"].as_array().unwrap();
    assert!(cases.len() > 4);
    for case in cases {
        let word = |name: &str| text_of(case, name);
        let row = client.query_one("SELECT oncegate.record_id($1, $2)::text", &[&word("scope"), &word("key")]).await;
        assert_eq!(row.unwrap().get::<_, String>(0), case["record_id"].as_str().unwrap(), "{}", case["name"]);
    }
}

/// A text, written out or in pieces.
fn text_of(case: &Value, name: &str) -> String {
    if let Some(text) = case[name].as_str() {
        return text.to_owned();
    }
    let pieces = case[format!("{name}_pieces")].as_array().unwrap();
    let piece = |piece: &Value| {
        let times = usize::try_from(piece[1].as_u64().unwrap()).unwrap();
        piece[0].as_str().unwrap().repeat(times)
    };
    pieces.iter().map(piece).collect()
}

#[tokio::test]
async fn the_lock_is_the_first_64_bits_of_the_record() {
    let server = Server::migrated().await;
    let client = server.connect().await;
    for record in ["ee4a2fb9-66b4-e09e-1aea-ccfdef750557", "42d9f8b6-3022-a2b1-a4f0-869d68680ebb"] {
        let row = client.query_one(&format!("SELECT oncegate.lock_id('{record}')"), &[]).await.unwrap();
        let digits: String = record.chars().filter(|letter| *letter != '-').take(16).collect();
        assert_eq!(row.get::<_, i64>(0), u64::from_str_radix(&digits, 16).unwrap().cast_signed());
    }
}
