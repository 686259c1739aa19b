use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::*;

/// A folder with `a.crt`, `a.key`, `b.crt`, `b.key`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let made = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let CertifiedKey { cert, signing_key } = made;
        put(&folder.path().join(format!("{name}.crt")), &cert.pem());
        put(
            &folder.path().join(format!("{name}.key")),
            &signing_key.serialize_pem(),
        );
    }
    folder
}

#[allow(clippy::disallowed_methods, reason = "nothing of a test is durable")]
fn put(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

fn files(folder: &Path, certificate: &str, key: &str) -> TlsFiles {
    TlsFiles {
        certificate: folder.join(certificate),
        key: folder.join(key),
    }
}

#[test]
fn files_that_cannot_be_used_are_refused_with_what_to_do() {
    let folder = folder();
    put(&folder.path().join("empty"), "");
    put(
        &folder.path().join("broken"),
        "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n",
    );
    for (certificate, key, expected) in [
        ("none", "a.key", "name a PEM file that this user may read"),
        ("a.crt", "none", "name a PEM file that this user may read"),
        ("empty", "a.key", "there is no certificate in"),
        ("a.key", "a.key", "there is no certificate in"),
        ("a.crt", "empty", "there is no private key in"),
        ("a.crt", "a.crt", "there is no private key in"),
        ("broken", "a.key", "no sound PEM file"),
        ("a.crt", "b.key", "does not belong to the certificate"),
    ] {
        let error = read(&files(folder.path(), certificate, key)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{certificate} {key}: {text}");
        assert!(text.contains(folder.path().to_str().unwrap()), "{text}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_taken_and_a_broken_one_is_not() {
    let simulated =
        cannery_runtime::clock::SimulatedClock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let folder = folder();
    let used = files(folder.path(), "a.crt", "a.key");
    let tls = Tls::load(&used, &simulated.clock()).unwrap();
    let first = tls.current().await;
    let replace = |name: &str, by: &str| {
        let text = std::fs::read_to_string(folder.path().join(by)).unwrap();
        // Another file under the same name, as programs that renew certificates do it.
        std::fs::remove_file(folder.path().join(name)).unwrap();
        put(&folder.path().join(name), &text);
    };
    // Half of a renewal: the pair does not fit, and the old one stays.
    replace("a.crt", "b.crt");
    assert!(
        Arc::ptr_eq(&tls.current().await, &first),
        "not looked at yet"
    );
    simulated.advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&tls.current().await, &first));
    replace("a.key", "b.key");
    simulated.advance(CHECK_INTERVAL).await;
    let second = tls.current().await;
    assert!(!Arc::ptr_eq(&second, &first));
    simulated.advance(CHECK_INTERVAL).await;
    assert!(Arc::ptr_eq(&tls.current().await, &second), "read only once");
}
