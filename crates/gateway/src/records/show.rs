//! `oncegate records show`.

use std::process::ExitCode;

use oncegate_core::StoredResponse;

use super::{
    desk::{self, Desk},
    json, name, table,
};

/// Show one record; never its response, unless asked for
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The record's UUID or its first 8 or more digits, or the client's key
    #[arg(value_name = "RECORD_OR_KEY")]
    name: String,

    /// Only in scopes that contain this text, such as the name of a tenant
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,

    /// Show the stored response too, which may hold what only its caller should see
    #[arg(long)]
    body: bool,

    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(desk: &Desk, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let record = name::by_digits_or_key(desk, &arguments.name, arguments.scope.as_deref()).await?;
    // Read once more together with its response, so that the two belong together.
    let Some((record, response)) = desk.get(record.id.digest()).await? else {
        anyhow::bail!("record {} has just gone: see oncegate records audit", record.id.digest());
    };
    let (now, response) = (desk::now(), response.filter(|_| arguments.body));
    if arguments.json {
        let mut object = json::of_record(&record, now);
        if let Some(response) = &response {
            object["response"] = json::of_response(response);
        }
        crate::print(&format!("{object:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let response = response.map(|response| format!("\n{}", text_of(&response)));
    crate::print(&format!("{}{}", table::of_record(&record, now), response.unwrap_or_default()))?;
    Ok(ExitCode::SUCCESS)
}

/// As on the wire, more or less: what is not text is shown as replacement characters.
fn text_of(response: &StoredResponse) -> String {
    let mut text = String::new();
    for (name, value) in &response.headers {
        text += &format!("{name}: {}\n", String::from_utf8_lossy(value));
    }
    match &response.body {
        Some(body) => text + "\n" + &String::from_utf8_lossy(body) + "\n",
        None => text + "\n(the body was not kept)\n",
    }
}
