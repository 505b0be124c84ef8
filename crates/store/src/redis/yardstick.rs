//! What the store is measured against: the very claim that it sends, as `redis-benchmark` sends it.
//!
//! Part of `oncegate bench store`, and here because the scripts end here. Nothing of it is used while serving.

use oncegate_core::ClaimRequest;

use super::{caller::Sent, claim, layout, options::Options};

/// What `redis-benchmark` puts twelve digits in place of, other ones in each call.
const RANDOM: &str = "__rand_int__";

/// The arguments of `redis-benchmark` for a claim like this one, each time of another record: `EVALSHA` and what follows.
/// The servers know the script once a [`RedisStore`](super::RedisStore) has claimed there.
///
/// `tag` is the hash tag of all keys, in braces; with `{tag}` the program takes tags of all nodes of a Cluster.
#[must_use]
pub fn claim(request: &ClaimRequest, options: &Options, tag: &str) -> Vec<Vec<u8>> {
    let sent = Sent { handle: "redis-benchmark", number: 1 };
    let record = layout::hexadecimal(request.id.digest().as_bytes());
    let its_tag = format!("{{{}}}", &record[..2]);
    let random = format!("{RANDOM}{}", &record[12..]);
    let replaced = |word: Vec<u8>| match String::from_utf8(word) {
        Ok(text) => text.replace(&its_tag, tag).replace(&record, &random).into_bytes(),
        Err(bytes) => bytes.into_bytes(),
    };
    claim::call(request, &sent, options).words().into_iter().map(replaced).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oncegate_core::{Backend, Fingerprint, IdempotencyKey, KeySpelling, Operation, Owner, Policy, RecordId, Scope};

    use super::*;

    #[test]
    fn it_is_the_claim_of_the_store_with_another_record_each_time() {
        let request = ClaimRequest {
            id: RecordId::new(Scope::from_text("shop").unwrap(), IdempotencyKey::new("k").unwrap()),
            fingerprint: Fingerprint::from_bytes(&[7; 41]).unwrap(),
            owner: Some(Owner::random()),
            operation: Operation::new("POST", "/"),
            spelling: KeySpelling::Bare,
            policy: Arc::new(Policy::gateway(Backend::Plain)),
        };
        let options = Options::default();
        let words = claim(&request, &options, "{x}");
        let sent = claim::call(&request, &Sent { handle: "redis-benchmark", number: 1 }, &options).words();
        assert_eq!(words.len(), sent.len());
        assert_eq!(words[0], b"EVALSHA");
        let key = String::from_utf8(words[3].clone()).unwrap();
        assert!(key.starts_with("oncegate:{x}:__rand_int__"), "{key}");
        assert_eq!(key.len(), "oncegate:{x}:".len() + 32, "the digest is found by its length");
        let differ = words.iter().zip(&sent).filter(|(one, other)| one != other).count();
        assert_eq!(differ, 8, "nothing but the keys");
    }
}
