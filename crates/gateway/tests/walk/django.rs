//! What the Django example takes for granted: packages to install, and the reader's own PostgreSQL.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{
    machine,
    page::repository,
    place::Place,
    servers::{postgres::PostgresServer, program, python::VirtualEnvironment},
    stage::Staged,
};

/// Where Debian's PostgreSQL has its socket.
pub(crate) const SOCKETS: &str = "/var/run/postgresql";

/// What pip builds our own package with.
const BUILDER: &str = "hatchling==1.33.0";

/// Where pip finds the packages, since a machine of its own has no way out.
fn packages() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("walk-packages")
}

/// Downloads what pip will install, unless that was done before.
pub(crate) fn download() {
    if machine::is_inside() {
        return;
    }
    let requirements = repository().join("examples/drf-payments/requirements.txt");
    // Made once for all tests; it has a pip.
    let environment = VirtualEnvironment::with(&requirements).unwrap();
    let download = |options: &[&str]| {
        let mut pip = environment.program("python");
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]);
        pip.args(options).arg("--find-links").arg(packages()).arg("--dest").arg(packages());
        pip.arg("--requirement").arg(&requirements).arg(BUILDER);
        program::run(pip)
    };
    // What is complete needs no network.
    if download(&["--no-index"]).is_err() {
        download(&[]).unwrap();
    }
}

/// A PostgreSQL at the usual place, whose superuser is the reader.
pub(crate) fn stage(place: &mut Place) -> Staged {
    let database = PostgresServer::start().unwrap();
    let directory = database.execute("postgres", "SHOW unix_socket_directories").unwrap();
    let socket = Path::new(&directory).join(format!(".s.PGSQL.{}", database.port()));
    symlink(socket, place.file(SOCKETS).join(".s.PGSQL.5432")).unwrap();
    let sockets = place.file(SOCKETS);
    for (name, value) in [
        ("USER", database.user()),
        ("PGUSER", database.user()),
        ("PGPASSWORD", database.password()),
        ("PGHOST", sockets.to_str().unwrap()),
        ("PIP_NO_INDEX", "1"),
        ("PIP_FIND_LINKS", packages().to_str().unwrap()),
    ] {
        place.set(name, value);
    }
    Staged { database: Some(database), ..Staged::default() }
}
