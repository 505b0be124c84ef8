//! Traffic without a key, straight and through the gate: what arrives differs only in the gate's own header fields.
//!
//! Each sample is a request and a response, both as bytes. It is exchanged twice with the same backend, and what the
//! backend got and what the client got are compared with each other.

mod backend;
mod client;
mod gate;
mod message;
mod samples;

use self::{
    backend::{Backend, Seen},
    client::Got,
    gate::Gate,
    samples::Sample,
};

/// What the gate adds to a request, or says again in its own words about its own connections.
const OWN_IN_REQUESTS: [&str; 8] = [
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "te",
];

/// The same for responses. `Date` is added only where it is missing, which the samples show.
const OWN_IN_RESPONSES: [&str; 3] = ["connection", "keep-alive", "transfer-encoding"];

#[tokio::test(flavor = "multi_thread")]
async fn unguarded_traffic_passes_byte_for_byte() {
    let samples = samples::all();
    assert!(samples.len() >= 200, "{} samples", samples.len());
    let mut backend = Backend::start(samples.clone()).await;
    let gate = Gate::start(backend.address).await;
    for (number, sample) in samples.iter().enumerate() {
        let mut exchanges = Vec::new();
        for address in [backend.address, gate.address] {
            let got = client::exchange(address, number, sample).await;
            exchanges.push((got, backend.seen().await));
        }
        let [(straight, sent), (through, arrived)] = &exchanges[..] else { unreachable!("both ways were taken") };
        compare(sample, straight, through);
        compare_arrived(sample, sent, arrived);
    }
    gate.stop().await;
}

fn compare(sample: &Sample, straight: &Got, through: &Got) {
    assert_eq!(straight.head.first_line, through.head.first_line, "{sample:?}");
    let (mut straight_fields, mut through_fields) =
        (straight.head.grouped(&OWN_IN_RESPONSES), through.head.grouped(&OWN_IN_RESPONSES));
    if !straight_fields.contains_key("date") {
        assert!(through_fields.remove("date").is_some(), "{sample:?}: no date was added");
    }
    if sample.loses_length {
        assert!(straight_fields.remove("content-length").is_some());
    }
    assert_eq!(straight_fields, through_fields, "{sample:?}");
    assert_eq!(text(&straight.body), text(&through.body), "{sample:?}");
    assert_eq!(straight.trailers, through.trailers, "{sample:?}");
}

fn compare_arrived(sample: &Sample, sent: &Seen, arrived: &Seen) {
    assert_eq!(sent.head.first_line, arrived.head.first_line, "{sample:?}");
    assert_eq!(sent.head.grouped(&OWN_IN_REQUESTS), arrived.head.grouped(&OWN_IN_REQUESTS), "{sample:?}");
    assert_eq!(text(&sent.body), text(&arrived.body), "{sample:?}");
    assert_eq!(sent.trailers, arrived.trailers, "{sample:?}");
}

/// Readable where it can be; every byte counts all the same.
fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
