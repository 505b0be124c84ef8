//! Encrypted connections. The cryptography is named here and never taken from the process, whose default may be
//! another's, or none.

use std::{io, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use rustls_platform_verifier::Verifier;
use tokio_postgres::{Config, Socket, config::SslMode, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{AddressError, encryption::Encryption};

// === types ===

/// What makes encrypted connections, with what it knows of authorities.
#[derive(Clone)]
pub(super) struct Connector(MakeRustlsConnect);

/// Takes every certificate, as `sslmode=prefer` does: against who listens, not against who pretends.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

// === impl Connector ===

impl Connector {
    /// `None`: nothing is to be encrypted.
    pub(super) fn new(config: &Config, encryption: &Encryption) -> Result<Option<Self>, AddressError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match (config.get_ssl_mode(), &encryption.authorities) {
            (SslMode::Disable, _) => return Ok(None),
            // The driver needs a name for it.
            (SslMode::Prefer, _) if config.get_hosts().is_empty() => return Ok(None),
            (SslMode::Prefer, None) => Arc::new(AnyCertificate(Arc::clone(&provider))),
            (_, Some(file)) => by_authorities(file, &provider)?,
            (_, None) => {
                let system = Verifier::new(Arc::clone(&provider));
                Arc::new(system.map_err(|error| AddressError::System(error.to_string()))?)
            }
        };
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has cipher suites for the default versions")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Some(Self(MakeRustlsConnect::new(client))))
    }
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, Self::Error> {
        let Self(connector) = self;
        MakeTlsConnect::<Socket>::make_tls_connect(connector, host)
    }
}

/// Judges by the certificates of a file alone.
fn by_authorities(file: &str, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, AddressError> {
    let useless = |why: String| AddressError::Authorities { file: file.to_owned(), why };
    let certificates =
        CertificateDer::pem_file_iter(file).and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>());
    let certificates = certificates.map_err(|error| useless(format!("cannot be read: {error}")))?;
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(certificates).0 == 0 {
        return Err(useless("holds no certificate of an authority".to_owned()));
    }
    let builder = rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    Ok(builder.build().map_err(|error| useless(error.to_string()))?)
}

// === impl AnyCertificate ===

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

// === errors ===

/// What whoever wrote the address can do about a handshake that failed, if it was one.
pub(in super::super) fn advice(error: &tokio_postgres::Error) -> Option<&'static str> {
    let source = std::error::Error::source(error)?;
    if source.to_string() == "server does not support TLS" {
        return Some("PostgreSQL offers no encryption: turn ssl on there, or write sslmode=disable");
    }
    let cause = source.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    match cause {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => Some(
            "PostgreSQL's certificate is by an unknown authority: name the file with the authority's certificate, sslrootcert=FILE",
        ),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("PostgreSQL's certificate is for another host: write the host as the certificate names it"),
        rustls::Error::InvalidCertificate(_) => Some("PostgreSQL's certificate is not accepted"),
        _ => Some("no encrypted connection to PostgreSQL could be made"),
    }
}
