//! Encrypted connections: to the server that was meant, or none.

use std::{fs, path::PathBuf};

use oncegate_core::{ErrorKind, Store};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::{
    fixture::{acquire, open, request},
    server::{ANOTHER_PORT, Server},
};

/// An authority of the test's own, and what it gave a server.
struct Authority {
    directory: TempDir,
}

impl Authority {
    /// Writes its own certificate, and a key and a certificate for a server named `localhost`.
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
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
        made
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A server that encrypts at another port, and listens in clear too, which the test needs.
    async fn server(&self) -> Server {
        let setting = |name: &str, file: &str| format!("--{name} {}", self.file(file).display());
        let settings = [
            format!("--tls-port {ANOTHER_PORT}"),
            setting("tls-cert-file", "server.pem"),
            setting("tls-key-file", "server.key"),
            setting("tls-ca-cert-file", "authority.pem"),
            "--tls-auth-clients no".to_owned(),
        ];
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        Server::start(&settings).await
    }

    fn option(&self) -> String {
        format!("?cacert={}", self.file("authority.pem").display())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_connection_is_to_the_server_that_was_meant() {
    let (authority, another) = (Authority::new(), Authority::new());
    let server = authority.server().await;
    let port = server.another_port();
    let store = open(&format!("rediss://localhost:{port}{}", authority.option()), |_| {});
    acquire(&store, &request("k")).await;
    for (address, why) in [
        (format!("rediss://localhost:{port}{}", another.option()), "another authority"),
        (format!("rediss://localhost:{port}"), "the system does not know the authority"),
        (format!("rediss://127.0.0.1:{port}{}", authority.option()), "the certificate is for another host"),
        (format!("rediss://localhost:{}{}", server.port(), authority.option()), "in clear"),
        (format!("redis://localhost:{port}"), "encrypted"),
    ] {
        let error = open(&address, |_| {}).claim(&request("l")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{why}: {error}");
    }
}
