//! What a page takes for granted: a service on port 8000, records that are already there.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use crate::{
    command::Ready,
    http::{self, Message, send},
    page::{Kind, Page},
    place::Place,
    process::PATIENCE,
    servers::postgres::PostgresServer,
    terminal::Running,
};

/// What goes on behind a page.
#[derive(Default)]
pub(crate) struct Staged {
    pub(crate) running: Vec<Running>,
    /// Dropped last, since the page's service needs it to the end.
    #[allow(dead_code, reason = "held, not read")]
    pub(crate) database: Option<PostgresServer>,
}

/// A page that starts everything itself.
pub(crate) fn none(_: &mut Place) -> Staged {
    Staged::default()
}

/// A service, and the complete example of the page about configuration as the configuration.
pub(crate) fn service(place: &mut Place) -> Staged {
    let listener = TcpListener::bind("127.0.0.1:8000").unwrap();
    thread::spawn(move || listener.incoming().for_each(drop));
    let page = Page::read("docs/configuration.md");
    let example = page.blocks.iter().find(|block| block.kind == Kind::Configuration).unwrap();
    fs::write(place.file("/etc/oncegate/oncegate.toml"), place.words(&example.text)).unwrap();
    Staged::default()
}

/// A gate with four records: two of which nobody knows what became of them.
pub(crate) fn records(place: &mut Place) -> Staged {
    let listener = TcpListener::bind("127.0.0.1:8000").unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Some(request) = http::read(&mut stream) else { continue };
            let loses_its_answer = ["ord-1043", "ord-1044"].map(Some).contains(&request.field("idempotency-key"));
            if !loses_its_answer {
                respond(&mut stream, "201 Created", "", r#"{"id":"pay_1"}"#);
            }
        }
    });
    let serve = r#"ONCEGATE__DEFAULTS__SCOPE='["header:X-Org"]' oncegate serve --upstream http://127.0.0.1:8000"#;
    let gate = Running::start(place.command("bash"), serve, Ready::Says("listening on http://"));
    for (key, status) in [("ord-1041", 201), ("ord-1042", 201), ("ord-1043", 502), ("ord-1044", 502)] {
        let fields = format!("X-Org: acme\r\nIdempotency-Key: {key}\r\n");
        assert_eq!(send("127.0.0.1:8080", "POST", "/api/payments", &fields).answer().status(), status);
    }
    wait_for_suspicions(3);
    Staged { running: vec![gate], ..Staged::default() }
}

/// Waits until the gate has noted so many requests under two keys.
fn wait_for_suspicions(count: usize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut stream = TcpStream::connect("127.0.0.1:8081").unwrap();
        stream.write_all(b"GET /api/suspected HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
        let noted = http::read(&mut stream).unwrap().body.matches("\"earlier\"").count();
        if noted == count {
            return;
        }
        assert!(Instant::now() < deadline, "{noted} instead of {count}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A service with four workers that check for the key, work, and then record it.
pub(crate) fn racing_service(_: &mut Place) -> Staged {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:8000").unwrap());
    let payments = Arc::new(Mutex::new(HashMap::<String, usize>::new()));
    for _ in 0..4 {
        let (listener, payments) = (Arc::clone(&listener), Arc::clone(&payments));
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                if let Some(request) = http::read(&mut stream) {
                    race(&mut stream, &request, &payments);
                }
            }
        });
    }
    Staged::default()
}

/// How long it works between check and record.
const WORK: Duration = Duration::from_millis(50);

fn race(stream: &mut TcpStream, request: &Message, payments: &Mutex<HashMap<String, usize>>) {
    if let Some((_, reference)) = request.first_line.split(' ').nth(1).and_then(|path| path.split_once("?reference=")) {
        let count = payments.lock().unwrap().get(reference).copied().unwrap_or_default();
        return respond(stream, "200 OK", "", &format!("{{\"count\": {count}}}"));
    }
    let key = request.field("idempotency-key").unwrap();
    let body = format!("{{\"reference\": \"{key}\"}}");
    if payments.lock().unwrap().contains_key(key) {
        return respond(stream, "201 Created", "Idempotent-Replayed: true\r\n", &body);
    }
    thread::sleep(WORK);
    *payments.lock().unwrap().entry(key.to_owned()).or_default() += 1;
    respond(stream, "201 Created", "", &body);
}

fn respond(stream: &mut TcpStream, status: &str, fields: &str, body: &str) {
    let length = body.len();
    // An error means that the client has left.
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{fields}Connection: close\r\n\r\n{body}"
    );
}
