//! A headless Chromium of the test's own, driven over the DevTools protocol.
//!
//! Through a pipe, not a port: nobody else can reach it, and it ends when the test does, however that ends.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use rustix::process::geteuid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for anything: a loaded machine starts slowly.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at a page.
const LOOK: Duration = Duration::from_millis(50);

/// One page of one browser. Dropping it ends the browser.
pub(crate) struct Chromium {
    child: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// What it said beside answers.
    events: Vec<Value>,
    session: Value,
    calls: u64,
    _profile: TempDir,
}

impl Chromium {
    /// Starts it with an empty profile.
    ///
    /// # Errors
    ///
    /// It is not installed (the text says what to install), or does not answer.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let profile = tempfile::Builder::new().prefix("oncegate-chromium-").tempdir()?;
        let mut child = command(profile.path()).spawn().context("sh cannot be started")?;
        let output = child.stdout.take().expect("standard output was piped");
        let (sender, messages) = mpsc::channel();
        // Ends with the browser. Each message ends with a zero byte.
        thread::spawn(move || {
            let texts = BufReader::new(output).split(0).map_while(Result::ok);
            texts.filter_map(|text| serde_json::from_slice(&text).ok()).for_each(|message| drop(sender.send(message)));
        });
        let commands = child.stdin.take();
        let mut browser =
            Self { child, commands, messages, events: Vec::new(), session: Value::Null, calls: 0, _profile: profile };
        let target = browser
            .call("Target.createTarget", &json!({ "url": "about:blank" }))
            .context("Chromium does not start: apt-get install chromium")?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", &attach)?["sessionId"].take();
        for domain in ["Page", "Network", "Log", "Runtime"] {
            browser.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(browser)
    }

    /// Loads a page and waits until it is there with all that belongs to it.
    pub(crate) fn open(&mut self, url: &str) -> anyhow::Result<()> {
        self.loading(|browser| {
            let answer = browser.call("Page.navigate", &json!({ "url": url }))?;
            ensure!(answer.get("errorText").is_none(), "{url}: {answer}");
            Ok(())
        })
    }

    /// Does what leads to another page, and waits until that is there.
    pub(crate) fn loading(&mut self, act: impl FnOnce(&mut Self) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.events.retain(|event| event["method"] != "Page.loadEventFired");
        act(self)?;
        let deadline = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next(deadline).context("the page does not load")?;
            self.events.push(event);
        }
        Ok(())
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> anyhow::Result<Value> {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &parameters)?;
        ensure!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        Ok(answer["result"]["value"].take())
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn wait_until(&mut self, expression: &str) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // An error is a page that is just being replaced.
        while !self.evaluate(expression).is_ok_and(|value| value == true) {
            ensure!(Instant::now() < deadline, "never {expression}: {}", self.text()?);
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// All text of the page that can be seen.
    pub(crate) fn text(&mut self) -> anyhow::Result<String> {
        Ok(self.evaluate("document.body.innerText")?.as_str().unwrap_or_default().to_owned())
    }

    /// Types into a field, in place of what stands there.
    pub(crate) fn fill(&mut self, selector: &str, text: &str) -> anyhow::Result<()> {
        let chosen = format!(
            "const e = document.querySelector({}); e.value = ''; e.focus(); document.activeElement === e",
            json!(selector)
        );
        ensure!(self.evaluate(&format!("{{ {chosen} }}"))? == true, "{selector} cannot be typed into");
        self.call("Input.insertText", &json!({ "text": text })).map(drop)
    }

    /// Clicks on what a selector finds.
    pub(crate) fn click(&mut self, selector: &str) -> anyhow::Result<()> {
        let place = format!(
            "{{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'center' }}); \
             const r = e.getBoundingClientRect(); [r.x + r.width / 2, r.y + r.height / 2] }}",
            json!(selector)
        );
        let place = self.evaluate(&place)?;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event)?;
        }
        Ok(())
    }

    /// Presses a key: `Tab` or `Enter`.
    pub(crate) fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => bail!("{key} is not a key that tests press"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Shows pages on a screen of this width, to somebody who prefers light or dark.
    pub(crate) fn look(&mut self, (width, is_phone): (u32, bool), scheme: &str) -> anyhow::Result<()> {
        let scale = if is_phone { 2 } else { 1 };
        let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": scale, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", &screen)?;
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features })).map(drop)
    }

    /// Writes the whole page as PNG.
    pub(crate) fn screenshot(&mut self, file: &Path) -> anyhow::Result<()> {
        let picture = self.call("Page.captureScreenshot", &json!({ "captureBeyondViewport": true }))?;
        let picture = picture["data"].as_str().context("no picture")?;
        Ok(fs::write(file, base64_decoded(picture))?)
    }

    /// Every address that was asked for.
    pub(crate) fn requested(&self) -> Vec<String> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// What pages complained about: scripts that failed, and what their policy forbade.
    pub(crate) fn complaints(&self) -> Vec<&Value> {
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                // An answer with an error status is one for people.
                entry["level"] == "error" && entry["source"] != "network"
            }
            _ => false,
        };
        self.events.iter().filter(is_complaint).collect()
    }

    fn call(&mut self, method: &str, parameters: &Value) -> anyhow::Result<Value> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let commands = self.commands.as_mut().expect("open until it is dropped");
        commands.write_all(format!("{message}\0").as_bytes()).with_context(|| method.to_owned())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut message = self.next(deadline).with_context(|| format!("no answer to {method}"))?;
            if message["id"] != id {
                self.events.push(message);
            } else if let Some(error) = message.get("error") {
                bail!("{method}: {error}");
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    fn next(&self, deadline: Instant) -> anyhow::Result<Value> {
        Ok(self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now()))?)
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It ends with its pipe, and takes its children along.
        self.commands = None;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(LOOK);
        }
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The browser reads commands at 3 and writes messages at 4; a shell puts our pipes there and becomes the browser.
fn command(profile: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", "chromium"]);
    command.args([
        "--headless=new",
        "--remote-debugging-pipe",
        "--no-first-run",
        "--disable-gpu",
        "--disable-extensions",
    ]);
    // Machines of tests have little shared memory.
    command.args(["--disable-dev-shm-usage", "--disable-background-networking", "--hide-scrollbars"]);
    if geteuid().is_root() {
        // Its sandbox refuses to be root's.
        command.arg("--no-sandbox");
    }
    command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
    command.env("HOME", profile).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// Of text that is known to be base64.
fn base64_decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        (bits, count) = (bits << 6 | u32::try_from(digit).expect("one of 64"), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}
