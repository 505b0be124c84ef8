//! Lines, and the list that they wait in.

use std::{
    io,
    sync::{Condvar, PoisonError},
};

use http::HeaderMap;
use serde_json::Value;

use super::*;

/// What was written; while it is held, writing waits.
#[derive(Clone, Default)]
struct Paper(Arc<(Mutex<Vec<u8>>, Condvar, AtomicBool)>);

impl Paper {
    fn text(&self) -> String {
        String::from_utf8(self.0.0.lock().unwrap().clone()).unwrap()
    }

    fn hold(&self, is_held: bool) {
        let _text = self.0.0.lock().unwrap();
        self.0.2.store(is_held, Ordering::SeqCst);
        self.0.1.notify_all();
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (text, released, is_held) = &*self.0;
        let text = text.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = released.wait_while(text, |_| is_held.load(Ordering::SeqCst)).unwrap();
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn request(path: &str) -> Request<()> {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    Request::post(path).header("traceparent", trace).header("authorization", "Bearer secret").body(()).unwrap()
}

fn started(format: Format) -> (AccessLog, Writer, Paper, Counter) {
    let (paper, dropped) = (Paper::default(), Counter::default());
    let settings = Settings { format: Some(format), full_keys: false };
    let (log, writer) = AccessLog::start(settings, paper.clone(), dropped.clone()).unwrap();
    (log, writer, paper, dropped)
}

#[test]
fn a_line_tells_what_was_asked_and_answered_and_not_the_query() {
    for format in [Format::Json, Format::Text] {
        let (log, writer, paper, dropped) = started(format);
        let mut response = Response::builder().status(409).body(()).unwrap();
        response.extensions_mut().insert(Outcome::InFlight);
        log.enter(&mut request("/api/payments?token=secret")).answered(&response);
        drop(log.enter(&mut request("/api/orders")));
        drop(writer);
        let text = paper.text();
        assert!(!text.contains("secret"), "{text}");
        let lines: Vec<_> = text.lines().collect();
        let [answered, left] = lines[..] else { panic!("{text}") };
        match format {
            Format::Json => {
                let line: Value = serde_json::from_str(answered).unwrap();
                for (name, value) in [("method", "POST"), ("path", "/api/payments"), ("outcome", "in_flight")] {
                    assert_eq!(line[name], value, "{answered}");
                }
                assert_eq!((&line["status"], &line["record"]), (&409.into(), &Value::Null));
                assert_eq!(line["trace"], "4bf92f3577b34da6a3ce929d0e0e4736");
                assert!(line["seconds"].is_f64() && line["at"].as_str().unwrap().ends_with('Z'), "{answered}");
                assert_eq!(serde_json::from_str::<Value>(left).unwrap()["outcome"], "left");
            }
            Format::Text => {
                let shown = "Z POST /api/payments 409 in_flight seconds=";
                assert!(answered.contains(shown) && answered.ends_with(" trace=4bf92f3577b34da6a3ce929d0e0e4736"));
                assert!(left.contains("Z POST /api/orders - left seconds="), "{left}");
            }
        }
        assert_eq!(dropped.get(), 0);
    }
}

#[test]
fn whoever_does_not_read_the_log_holds_no_request_up_and_what_is_lost_is_counted() {
    let (log, writer, paper, dropped) = started(Format::Text);
    paper.hold(true);
    // The writer may have taken a list already, and then waits with it.
    (0..3 * LINES_MAX).for_each(|_| drop(log.enter(&mut request("/"))));
    let lost = dropped.get();
    assert!(lost >= u64::try_from(LINES_MAX).unwrap(), "{lost}");
    paper.hold(false);
    let deadline = Instant::now() + Duration::from_secs(60);
    while paper.text().lines().count() + usize::try_from(lost).unwrap() < 3 * LINES_MAX {
        assert!(Instant::now() < deadline, "what was taken is written");
        thread::sleep(Duration::from_millis(20));
    }
    drop(writer);
    assert_eq!((dropped.get(), paper.text().lines().count()), (lost, 3 * LINES_MAX - usize::try_from(lost).unwrap()));
}

#[test]
fn only_valid_traces_are_shown() {
    let trace = |value: &'static str| {
        TraceId::of(&HeaderMap::from_iter([("traceparent".parse().unwrap(), value.parse().unwrap())])).is_some()
    };
    assert!(trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"));
    assert!(trace("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-later"));
    for other in [
        "",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-00",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-00",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-00",
    ] {
        assert!(!trace(other), "{other}");
    }
}
