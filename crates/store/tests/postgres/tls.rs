//! Encrypted connections: to the server that was meant, or none.

use std::{fs, os::unix::fs::chown, path::PathBuf};

use oncegate_core::{ErrorKind, Store};
use oncegate_store::postgres::{Address, AddressError, Migrator, PostgresStore};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::{
    fixture::{Place, acquire, request},
    server,
};

/// An authority of the test's own, and what it gave a server.
struct Authority {
    directory: TempDir,
}

impl Authority {
    /// Writes its own certificate, and a key and a certificate for a server named `localhost`.
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        // Not every authority's, or a signature would be tried before the authority is found to be unknown.
        params.distinguished_name.push(DnType::CommonName, uuid::Uuid::new_v4().to_string());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let made = Self { directory: tempfile::Builder::new().prefix("oncegate-tls-").tempdir().unwrap() };
        fs::write(made.file("authority.pem"), authority.pem()).unwrap();
        fs::write(made.file("server.pem"), certificate.pem()).unwrap();
        fs::write(made.file("server.key"), key.serialize_pem()).unwrap();
        // PostgreSQL takes a key only from whom nobody else can read it.
        rustix::fs::chmod(made.file("server.key"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        if let Some((user, group)) = server::owner() {
            for file in [made.directory.path().to_owned(), made.file("server.pem"), made.file("server.key")] {
                chown(file, Some(user), Some(group)).unwrap();
            }
        }
        made
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A database on a server that encrypts.
    async fn place(&self) -> Place {
        let setting = |name: &str, file: &str| format!("{name}={}", self.file(file).display());
        let (certificate, key) = (setting("ssl_cert_file", "server.pem"), setting("ssl_key_file", "server.key"));
        Place::start(&["ssl=on", &certificate, &key]).await
    }

    /// The option by which it judges.
    fn option(&self) -> String {
        format!("sslrootcert={}", self.file("authority.pem").display())
    }
}

fn address(host: &str, place: &Place, option: &str) -> Address {
    format!("postgres://postgres@{host}:{}/postgres?{option}", place.port()).parse().unwrap()
}

/// Why there is no connection.
async fn refusal(address: &Address) -> String {
    let store = PostgresStore::open(address, oncegate_store::postgres::Options::default());
    let error = store.claim(&request("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let said = Migrator::connect(address).await.unwrap_err().to_string();
    assert!(error.to_string().contains(&said), "{error} is not {said}");
    said
}

/// Of the store's connections, how many are encrypted and how many are not.
async fn encrypted(place: &Place) -> (i64, i64) {
    let sql = "SELECT count(*) FILTER (WHERE s.ssl), count(*) FILTER (WHERE NOT s.ssl) FROM pg_stat_ssl s \
               JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'oncegate'";
    let row = place.connect().await.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_connection_is_to_the_server_that_was_meant() {
    let (authority, another) = (Authority::new(), Authority::new());
    let place = authority.place().await;
    for option in [authority.option(), format!("sslmode=verify-full&{}", authority.option())] {
        let store = place.through_address(address("localhost", &place, &option)).open();
        acquire(&store, &request(&option)).await;
        let (encrypted, clear) = encrypted(&place).await;
        assert!(encrypted >= 1 && clear == 0, "{option}: {encrypted} encrypted, {clear} in clear");
    }
    let said = refusal(&address("localhost", &place, &another.option())).await;
    assert!(said.contains("unknown authority") && said.contains("sslrootcert=FILE"), "{said}");
    let said = refusal(&address("127.0.0.1", &place, &authority.option())).await;
    assert!(said.contains("for another host"), "{said}");
    // The system does not know the test's authority, if it knows any.
    let system = format!("postgres://postgres@localhost:{}/postgres?sslmode=require", place.port()).parse::<Address>();
    match system {
        Ok(address) => assert!(refusal(&address).await.contains("unknown authority")),
        Err(error) => assert!(matches!(error, AddressError::System(_)), "{error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_word_about_it_a_server_that_encrypts_is_taken_at_its_word() {
    let place = Authority::new().place().await;
    let said_nothing = place.open();
    acquire(&said_nothing, &request("k1")).await;
    assert_eq!(encrypted(&place).await.1, 0);
    drop(said_nothing);
    let disabled = place.through_address(address("127.0.0.1", &place, "sslmode=disable")).open();
    acquire(&disabled, &request("k2")).await;
    assert_eq!(encrypted(&place).await.1, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_offers_no_encryption_is_refused_where_it_is_required() {
    let (authority, place) = (Authority::new(), Place::start(&[]).await);
    let said = refusal(&address("localhost", &place, &authority.option())).await;
    assert!(said.contains("offers no encryption") && said.contains("sslmode=disable"), "{said}");
    acquire(&place.through_address(address("127.0.0.1", &place, "sslmode=prefer")).open(), &request("k")).await;
}

#[test]
fn authorities_that_cannot_be_read_are_named_and_nothing_else_is() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let empty = empty.path().to_str().unwrap();
    for (file, why) in [("/does/not/exist.pem", "cannot be read"), (empty, "no certificate of an authority")] {
        let error = format!("postgres://ada:hunter2@h/d?sslrootcert={file}").parse::<Address>().unwrap_err();
        let said = error.to_string();
        assert!(said.contains(file) && said.contains(why) && !said.contains("hunter2"), "{said}");
    }
}
