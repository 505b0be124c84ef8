//! What a fingerprint costs. The gate hashes every body it guards, so this is paid per request.

use std::{fmt::Write as _, hint::black_box, io::Write as _};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use oncegate_core::fingerprint::{Fingerprint, Fingerprinter, RequestHead, Rules, RulesOptions};
use sha2::{Digest, Sha256};

const MEBIBYTE: usize = 1024 * 1024;
/// As a proxy receives a large body.
const CHUNK_BYTES: usize = 64 * 1024;

fn head(content_type: &'static str) -> RequestHead<'static> {
    RequestHead {
        method: "POST",
        path: "/api/payments",
        query: Some("dry=0&account=acc_93"),
        content_type: Some(content_type.as_bytes()),
        content_encoding: None,
    }
}

/// 1.4 kB, as a client library writes an order: members in the order of its classes, spaces, a few
/// texts longer than what is held, some escapes.
fn order() -> String {
    let item = |number: u32| {
        format!(
            r#"{{"sku": "SKU-000{number}", "title": "Кружка \"Утро\", 350 ml", "quantity": {number}, "price": "1290.00", "tax": {{"rate": 0.2, "code": "VAT20"}}}}"#
        )
    };
    let items: Vec<_> = (1..=6).map(item).collect();
    format!(
        r#"{{"customer": {{"id": "cus_9s6XKzkNRiz8i3", "email": "anna.petrova@example.com", "phone": "+79161234567", "name": "Анна Петрова"}}, "amount": 645000, "currency": "RUB", "description": "Order 4711 from the spring catalogue\nplease call before delivery", "metadata": {{"order_id": "6735", "source": "mobile", "app_version": "5.12.3", "session": "8e03978e-40d5-43e8-bc93-6894a57f9324"}}, "shipping": {{"address": {{"line1": "ul. Lenina, 1", "city": "Tomsk", "postal_code": "634050", "country": "RU"}}, "express": false}}, "items": [{}], "capture": true, "statement_descriptor": null}}"#,
        items.join(", ")
    )
}

fn large_json(bytes: usize) -> String {
    let order = order();
    let mut text = String::with_capacity(bytes + order.len());
    text.push_str("{\"orders\": [");
    while text.len() < bytes {
        write!(text, "{order},\n ").expect("writing to a string cannot fail");
    }
    text + "null]}"
}

fn multipart(content: &[u8]) -> Vec<u8> {
    let mut body = b"--AaB03x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n".to_vec();
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--AaB03x--\r\n");
    body
}

fn in_chunks(rules: &Rules, head: &RequestHead<'_>, body: &[u8]) -> Fingerprint {
    let mut fingerprinter = Fingerprinter::new(rules, head);
    for chunk in body.chunks(CHUNK_BYTES) {
        fingerprinter.update(chunk).expect("within the limit");
    }
    fingerprinter.finish().expect("within the limit")
}

fn small_bodies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("small");
    let order = order();
    let ignoring = RulesOptions {
        ignore: vec!["/metadata/session".parse().expect("a pointer"), "/items/0/title".parse().expect("a pointer")],
        ..RulesOptions::default()
    };
    let rules = Rules::default();
    let ignoring = Rules::new(&ignoring).expect("valid rules");
    let json = head("application/json");
    group.throughput(Throughput::Bytes(order.len() as u64));
    group.bench_function("sha256 of the bytes alone", |bencher| bencher.iter(|| Sha256::digest(black_box(&order))));
    group.bench_function("json 1.4 kB", |bencher| {
        bencher.iter(|| Fingerprint::of(&rules, &json, black_box(order.as_bytes())));
    });
    group.bench_function("json 1.4 kB, two pointers ignored", |bencher| {
        bencher.iter(|| Fingerprint::of(&ignoring, &json, black_box(order.as_bytes())));
    });
    let text = head("text/plain");
    group.bench_function("bytes 1.4 kB", |bencher| {
        bencher.iter(|| Fingerprint::of(&rules, &text, black_box(order.as_bytes())));
    });
    group.finish();
}

fn large_bodies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("10 MiB");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(10 * MEBIBYTE as u64));
    let rules =
        Rules::new(&RulesOptions { decoded_bytes_max: u64::MAX, ..RulesOptions::default() }).expect("valid rules");
    let json = large_json(10 * MEBIBYTE);
    let noise: Vec<u8> =
        (0..10 * MEBIBYTE as u32 / 4).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let base64 = format!(r#"{{"file": "{}"}}"#, "QUJD".repeat(10 * MEBIBYTE / 4));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(json.as_bytes()).expect("writing to a vector cannot fail");
    let gzip = gzip.finish().expect("writing to a vector cannot fail");

    let form = head("multipart/form-data; boundary=AaB03x");
    let json_type = head("application/json");
    let gzip_type = RequestHead { content_encoding: Some(b"gzip"), ..json_type };
    for (name, head, body) in [
        ("json of orders", json_type, json.as_bytes()),
        ("json of one long string", json_type, base64.as_bytes()),
        ("json of orders, gzip", gzip_type, &gzip),
        ("multipart", form, &multipart(&noise)),
        ("bytes", head("application/octet-stream"), &noise),
    ] {
        let run = |bencher: &mut criterion::Bencher<'_>| {
            bencher.iter_batched(|| (), |()| in_chunks(&rules, &head, black_box(body)), BatchSize::PerIteration);
        };
        group.bench_function(name, run);
    }
    group.finish();
}

criterion_group!(benches, small_bodies, large_bodies);
criterion_main!(benches);
