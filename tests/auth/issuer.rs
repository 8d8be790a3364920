//! Somebody who signs tokens, with keys made for the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256};
use rustls::{ServerConfig, ServerConnection, Stream};
use serde_json::{Value, json};

/// The shared secret of all tests with HS256.
pub const SECRET: &str = "a-secret-of-at-least-thirty-two-bytes";

/// Seconds from now, as claims have them.
pub fn seconds(from_now: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    i64::try_from(now).unwrap() + from_now
}

/// One private key and what it signs with.
pub struct Signer {
    pub kid: Option<String>,
    algorithm: Algorithm,
    key: EncodingKey,
    public_pem: String,
}

impl Signer {
    pub fn secret(secret: &str) -> Signer {
        Signer {
            kid: None,
            algorithm: Algorithm::HS256,
            key: EncodingKey::from_secret(secret.as_bytes()),
            public_pem: String::new(),
        }
    }

    pub fn new(algorithm: Algorithm, kid: Option<&str>) -> Signer {
        let kind = match algorithm {
            Algorithm::RS256 => &PKCS_RSA_SHA256,
            Algorithm::ES256 => &PKCS_ECDSA_P256_SHA256,
            Algorithm::EdDSA => &PKCS_ED25519,
            other => panic!("no key for {other:?}"),
        };
        let pair = KeyPair::generate_for(kind).unwrap();
        let pem = pair.serialize_pem();
        let key = match algorithm {
            Algorithm::RS256 => EncodingKey::from_rsa_pem(pem.as_bytes()),
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem.as_bytes()),
            _ => EncodingKey::from_ed_pem(pem.as_bytes()),
        };
        Signer {
            kid: kid.map(str::to_owned),
            algorithm,
            key: key.unwrap(),
            public_pem: pair.public_key_pem(),
        }
    }

    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// The public half as a JWK.
    pub fn jwk(&self) -> Value {
        if self.algorithm == Algorithm::EdDSA {
            // The key is what follows 12 bytes of DER: the text behind 16 letters of base64.
            let text: String = self.public_pem.lines().filter(|line| !line.starts_with('-')).collect();
            let x = text[16..].trim_end_matches('=').replace('+', "-").replace('/', "_");
            return json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": self.kid, "x": x});
        }
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = self.kid.clone();
        serde_json::to_value(jwk).unwrap()
    }

    /// The header of its tokens, with more in it.
    pub fn header(&self, more: &Value) -> Header {
        let mut header = json!({"alg": self.algorithm, "kid": self.kid});
        header
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(header).unwrap()
    }

    /// A token with exactly this header and these claims.
    pub fn sign_with(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key).unwrap()
    }

    /// A token with exactly these claims.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_with(&self.header(&json!({})), claims)
    }

    /// A token that is good for a minute, with these scopes.
    pub fn scopes(&self, scopes: &[&str]) -> String {
        self.sign(&json!({"exp": seconds(60), "scopes": scopes}))
    }
}

/// A set of the signers' public keys.
pub fn jwks(signers: &[&Signer]) -> String {
    let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({"keys": keys}).to_string()
}

/// Serves a key set over HTTP until it is dropped.
pub struct KeyServer {
    pub address: SocketAddr,
    /// None: answers 500.
    body: Arc<Mutex<Option<String>>>,
    hits: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl KeyServer {
    pub fn start(body: Option<String>) -> KeyServer {
        KeyServer::start_with(body, None)
    }

    /// With TLS, where there is a configuration for it.
    pub fn start_with(body: Option<String>, tls: Option<Arc<ServerConfig>>) -> KeyServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (body, hits, stop) = (
            Arc::new(Mutex::new(body)),
            Arc::<AtomicUsize>::default(),
            Arc::<AtomicBool>::default(),
        );
        let shared = (body.clone(), hits.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.2.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                shared.1.fetch_add(1, Ordering::SeqCst);
                let body = shared.0.lock().unwrap().clone();
                match &tls {
                    Some(tls) => {
                        let mut connection = ServerConnection::new(tls.clone()).unwrap();
                        answer(&mut Stream::new(&mut connection, &mut stream), body);
                    }
                    None => answer(&mut stream, body),
                }
            }
        });
        KeyServer {
            address,
            body,
            hits,
            stop,
            thread: Some(thread),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    pub fn serve(&self, body: Option<String>) {
        *self.body.lock().unwrap() = body;
    }

    pub fn hits(&self) -> usize {
        self.hits.load(Ordering::SeqCst)
    }
}

/// Answers one request; a client that goes away before is its own affair.
fn answer(stream: &mut (impl Read + Write), body: Option<String>) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut byte).is_err() {
            return;
        }
        head.push(byte[0]);
    }
    let (status, text) = body.map_or(("500 Broken", String::new()), |text| ("200 OK", text));
    let length = text.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    );
    let _ = stream.flush();
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
