//! TLS: the listeners' certificate, which can be exchanged while they run, and whom clients trust.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::config::Tls;

/// The one library of cryptography, named wherever it is needed: a default of the process is anybody's to set.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// The certificate of the listeners.
#[derive(Debug)]
pub(crate) struct Certificate(RwLock<Arc<CertifiedKey>>);

impl Certificate {
    /// Reads it. The error names the file and says what is wrong with it.
    pub(crate) fn read(tls: &Tls) -> Result<Arc<Certificate>, String> {
        Ok(Arc::new(Certificate(RwLock::new(Arc::new(certified_key(tls)?)))))
    }

    /// Reads it again. Where that fails the old one stays.
    pub(crate) fn reload(&self, tls: &Tls) -> Result<(), String> {
        let new = Arc::new(certified_key(tls)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// What a listener needs.
pub(crate) fn server_config(certificate: Arc<Certificate>) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?;
    Ok(builder.with_no_client_auth().with_cert_resolver(certificate))
}

fn certified_key(tls: &Tls) -> Result<CertifiedKey, String> {
    let wrong_cert = |why: String| format!("tls.cert: {}: {why}", tls.cert.display());
    let wrong_key = |why: String| format!("tls.key: {}: {why}", tls.key.display());
    let chain = certificates(&tls.cert).map_err(wrong_cert)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| wrong_key(pem_problem(&error, "private key")))?;
    let key = provider()
        .key_provider
        .load_private_key(key)
        .map_err(|error| wrong_key(format!("its key cannot be used: {error}")))?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => wrong_key(format!("it is not the key of {}", tls.cert.display())),
        other => wrong_cert(format!("its certificate cannot be used: {other}")),
    })?;
    Ok(certified)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |error| pem_problem(&error, "certificate");
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .map_err(told)?
        .collect::<Result<_, _>>()
        .map_err(told)?;
    match found.is_empty() {
        true => Err("it has no certificate in PEM".into()),
        false => Ok(found),
    }
}

fn pem_problem(error: &rustls::pki_types::pem::Error, what: &str) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => format!("cannot be read: {error}"),
        rustls::pki_types::pem::Error::NoItemsFound => format!("it has no {what} in PEM"),
        other => format!("it is not PEM: {other}"),
    }
}

/// The certificates that this machine trusts.
fn system_roots() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found
            .errors
            .first()
            .map_or(String::new(), |error| format!(" ({error})"));
        return Err(format!(
            "this machine has no trusted certificates{why}: install ca-certificates, or set SSL_CERT_FILE"
        ));
    }
    Ok(found.certs)
}

/// Whom a client trusts: those of a file, or else those of the machine.
fn trusted_roots(trusted: Option<&Path>) -> Result<Vec<CertificateDer<'static>>, String> {
    match trusted {
        Some(file) => certificates(file).map_err(|why| format!("{}: {why}", file.display())),
        None => system_roots(),
    }
}

/// What a client over plain HTTP needs.
pub(crate) fn http_client_config(trusted: Option<&Path>) -> Result<ureq::tls::TlsConfig, String> {
    let certificates: Vec<_> = trusted_roots(trusted)?
        .iter()
        .map(|der| ureq::tls::Certificate::from_der(der).to_owned())
        .collect();
    let builder = ureq::tls::TlsConfig::builder()
        .root_certs(ureq::tls::RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(provider());
    Ok(builder.build())
}

/// What a client over WebSocket needs.
pub(crate) fn client_config(trusted: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let certificates = trusted_roots(trusted)?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err("no certificate to trust can be used".into());
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
