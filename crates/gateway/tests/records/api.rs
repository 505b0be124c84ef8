//! `/api/…` of the admin listener.

use std::{io::Write as _, net::TcpStream};

use serde_json::{Value, json};

use crate::{
    http::{self, get},
    process::{Gate, PATIENCE},
    service::{Service, pay, pay_until},
};

const JSON: &str = "Content-Type: application/json\r\n";

/// Sends a body; the status and the answer's document.
fn post(gate: &Gate, path: &str, fields: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(&gate.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{fields}", gate.admin);
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let answer = http::read(&mut stream).unwrap();
    (answer.status(), serde_json::from_str(&answer.body).unwrap_or(Value::Null))
}

fn read(gate: &Gate, path: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(&gate.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", gate.admin).unwrap();
    let answer = http::read(&mut stream).unwrap();
    (answer.status(), serde_json::from_str(&answer.body).unwrap_or(Value::Null))
}

/// A gate with an unknown record, and the record.
fn unknown(service: &Service) -> (Gate, Value) {
    let gate = service.gate_with(&[], &[("ONCEGATE__ADMIN__SHOW_BODIES", "true")]);
    service.lose_answers(true);
    assert_eq!(pay(&gate, "acme", "K1").status(), 502);
    service.lose_answers(false);
    let (status, listed) = read(&gate, "/api/records?state=unknown&key=K1&scope=acme&limit=5");
    assert_eq!((status, listed["records"].as_array().unwrap().len()), (200, 1), "{listed}");
    let record = listed["records"][0].clone();
    (gate, record)
}

#[test]
fn a_program_resolves_what_is_unknown() {
    let service = Service::start();
    let (gate, record) = unknown(&service);
    let path = format!("/api/records/{}", record["record"].as_str().unwrap());
    let response = json!({ "status": 201, "headers": { "content-type": "text/plain" }, "body": "paid after all" });
    let order = json!({
        "fence": record["fence"], "state": "unknown", "reason": "found it", "operator": "bob", "response": response
    });
    let (status, answer) = post(&gate, &format!("{path}/resolve"), JSON, &order.to_string());
    assert_eq!((status, &answer["done"]), (200, &json!("resolve")), "{answer}");
    pay_until(&gate, ("acme", "K1"), "paid after all");

    let (_, shown) = read(&gate, &path);
    assert_eq!((&shown["state"], shown.get("response")), (&json!("completed"), None), "never the body by default");
    assert_eq!(read(&gate, &format!("{path}?body=true")).1["response"]["body"], "paid after all");
    let (_, audit) = read(&gate, "/api/audit");
    assert_eq!((&audit["audit"][0]["operator"], &audit["audit"][0]["verb"]), (&json!("bob"), &json!("resolve")));

    // Once more: the record is not what it was.
    let (status, problem) = post(&gate, &format!("{path}/resolve"), JSON, &order.to_string());
    assert_eq!((status, &problem["now"]["state"]), (409, &json!("completed")), "{problem}");
    let purge = json!({ "fence": record["fence"], "reason": "why" }).to_string();
    assert_eq!(post(&gate, &format!("{path}/purge"), JSON, &purge).0, 200);
    assert_eq!(read(&gate, &path).0, 404);
    assert_eq!(service.executions(), 1);
}

#[test]
fn a_wrong_request_is_told_which_field_is_wrong() {
    let service = Service::start();
    let (gate, record) = unknown(&service);
    let path = format!("/api/records/{}", record["record"].as_str().unwrap());
    for (verb, order, field) in [
        ("release", json!([]), ""),
        ("release", json!({ "reason": "why" }), "fence"),
        ("release", json!({ "fence": "1", "reason": "why" }), "fence"),
        ("release", json!({ "fence": 1 }), "reason"),
        ("release", json!({ "fence": 1, "reason": "w".repeat(501) }), "reason"),
        ("release", json!({ "fence": 1, "reason": "why", "state": "stuck" }), "state"),
        ("release", json!({ "fence": 1, "reason": "why", "force": "yes" }), "force"),
        ("release", json!({ "fence": 1, "reason": "why", "response": {} }), "response"),
        ("purge", json!({ "fence": 1, "reason": "why", "force": true }), "force"),
        ("resolve", json!({ "fence": 1, "reason": "why" }), "response"),
        ("resolve", json!({ "fence": 1, "reason": "why", "response": {} }), "response.status"),
        ("resolve", json!({ "fence": 1, "reason": "why", "response": { "status": 99 } }), "response.status"),
        ("resolve", json!({ "fence": 1, "reason": "why", "response": { "status": 201, "x": 1 } }), "response.x"),
    ] {
        let (status, problem) = post(&gate, &format!("{path}/{verb}"), JSON, &order.to_string());
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{order}: {problem}");
    }
    for (path, field) in [("?state=x", "state"), ("?limit=0", "limit"), ("?abandoned=1", "abandoned"), ("?k=1", "k")] {
        let (status, problem) = read(&gate, &format!("/api/records{path}"));
        assert_eq!((status, &problem["field"]), (400, &json!(field)), "{problem}");
    }
    assert_eq!(read(&gate, "/api/records/xyz").0, 400);
    assert_eq!(read(&gate, "/api/records/00000000").0, 404);
    assert_eq!(read(&gate, "/api/nothing").0, 404);
    assert_eq!(post(&gate, &format!("{path}/forget"), JSON, "{}").0, 404);
    let stale = json!({ "fence": 999, "reason": "why" }).to_string();
    let (status, problem) = post(&gate, &format!("{path}/release"), JSON, &stale);
    assert_eq!((status, &problem["now"]["fence"]), (409, &record["fence"]), "{problem}");
    assert_eq!(read(&gate, "/api/audit").1["audit"], json!([]), "nothing was changed");
}

#[test]
fn no_page_of_another_origin_can_forge_a_request() {
    let service = Service::start();
    let (gate, record) = unknown(&service);
    let path = format!("/api/records/{}/release", record["record"].as_str().unwrap());
    let order = json!({ "fence": record["fence"], "reason": "why" }).to_string();
    for form in ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"] {
        assert_eq!(post(&gate, &path, form, &order).0, 415, "{form}");
    }
    let evil = format!("{JSON}Origin: http://evil.example\r\n");
    assert_eq!(post(&gate, &path, &evil, &order).0, 403);
    assert_eq!(get(&gate.admin, "/api/records", "").status(), 403, "its Host is a name that anybody could own");
    assert_eq!(read(&gate, "/api/audit").1["audit"], json!([]), "nothing was changed");
    let own = format!("{JSON}Origin: http://{}\r\n", gate.admin);
    assert_eq!(post(&gate, &path, &own, &order).0, 200);
}
