//! TLS: the listener's certificate, exchanged while it runs, and clients that check it.

use std::path::{Path, PathBuf};

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};

use crate::program::{Program, run, said};

/// Makes a certificate for `localhost` and writes it and its key.
fn write_certificate(cert: &Path, key: &Path) {
    let CertifiedKey {
        cert: made,
        signing_key,
    } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(cert, made.pem()).unwrap();
    std::fs::write(key, signing_key.serialize_pem()).unwrap();
}

fn set(cert: &Path, key: &Path) -> [String; 2] {
    [
        format!("tls.cert={}", cert.display()),
        format!("tls.key={}", key.display()),
    ]
}

fn publish(program: &Program, trusted: Option<&Path>) -> std::process::Output {
    let url = format!("wss://localhost:{}/ws", program.address.port());
    let trusted: Option<PathBuf> = trusted.map(Path::to_owned);
    let mut args = vec!["publish", "orders", "1", "--url", &url];
    if let Some(file) = &trusted {
        args.extend(["--cacert", file.to_str().unwrap()]);
    }
    run(&args)
}

#[test]
fn a_certificate_is_checked_and_can_be_exchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (cert, key, old) = (path("cert.pem"), path("key.pem"), path("old.pem"));
    write_certificate(&cert, &key);
    std::fs::copy(&cert, &old).unwrap();
    let [cert_set, key_set] = set(&cert, &key);
    let mut program = Program::serve(&[&cert_set, &key_set]);

    let output = publish(&program, Some(&old));
    assert!(output.status.success(), "{}", said(&output));
    let output = publish(&program, None);
    assert!(!output.status.success());
    // A client without TLS gets nowhere.
    let plain = format!("ws://localhost:{}/ws", program.address.port());
    assert!(!run(&["publish", "orders", "1", "--url", &plain]).status.success());

    // A certificate that cannot be used is not taken over.
    std::fs::write(&cert, "nonsense").unwrap();
    program.signal("-HUP");
    let line = program.wait_for("not taken over");
    assert!(line.contains("tls.cert") && line.contains("cert.pem"), "{line}");
    assert!(publish(&program, Some(&old)).status.success());

    write_certificate(&cert, &key);
    program.signal("-HUP");
    program.wait_for("loaded again");
    let output = publish(&program, Some(&cert));
    assert!(output.status.success(), "{}", said(&output));
    let output = publish(&program, Some(&old));
    let text = said(&output);
    assert!(!output.status.success() && text.contains("not to be trusted"), "{text}");
    let log = program.stop();
    assert!(!log.contains("PRIVATE KEY"));
}

#[test]
fn a_wrong_file_is_named_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (cert, key) = (path("cert.pem"), path("key.pem"));
    write_certificate(&cert, &key);
    let (missing, text, other) = (path("missing.pem"), path("text.pem"), path("other.pem"));
    std::fs::write(&text, "hello").unwrap();
    std::fs::write(&other, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let cases = [
        (&missing, &key, "missing.pem: cannot be read"),
        (&text, &key, "text.pem: it has no certificate"),
        (&cert, &missing, "missing.pem: cannot be read"),
        (&cert, &text, "text.pem: it has no private key"),
        (&cert, &other, "other.pem: it is not the key of"),
    ];
    for (cert, key, why) in cases {
        let [cert_set, key_set] = set(cert, key);
        let output = run(&[
            "serve",
            "--set",
            "store.kind=memory",
            "--set",
            &cert_set,
            "--set",
            &key_set,
        ]);
        let text = said(&output);
        assert!(
            output.status.code() == Some(2) && text.contains(why),
            "expected {why:?}: {text}"
        );
    }
}
