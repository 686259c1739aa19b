use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use ssh_key::Mpint;
use ssh_key::public::{Ed25519PublicKey, RsaPublicKey};

use super::*;

const TEXT: &[u8] = b"date: Wed, 18 Nov 2026 00:00:00 GMT";

fn key(data: impl Into<KeyData>) -> UserKey {
    let text = ssh_key::PublicKey::new(data.into(), "me@here").to_openssh();
    UserKey::parse(&text.unwrap(), Timestamp::UNIX_EPOCH).unwrap()
}

fn rsa(size: KeySize) -> (RsaPublicKey, Vec<u8>) {
    let pair = RsaKeyPair::generate(size).unwrap();
    let part = |bytes: &[u8]| Mpint::from_positive_bytes(bytes).unwrap();
    let public = pair.public_key();
    let key = RsaPublicKey {
        e: part(public.exponent().big_endian_without_leading_zero()),
        n: part(public.modulus().big_endian_without_leading_zero()),
    };
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        TEXT,
        &mut signature,
    )
    .unwrap();
    (key, signature)
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> (EcdsaPublicKey, Vec<u8>) {
    let pair = EcdsaKeyPair::generate(algorithm).unwrap();
    let key = EcdsaPublicKey::from_sec1_bytes(pair.public_key().as_ref()).unwrap();
    let signature = pair.sign(&SystemRandom::new(), TEXT).unwrap();
    (key, signature.as_ref().to_vec())
}

fn ed25519() -> (Ed25519PublicKey, Vec<u8>) {
    let pair = Ed25519KeyPair::generate().unwrap();
    let key = Ed25519PublicKey(pair.public_key().as_ref().try_into().unwrap());
    (key, pair.sign(TEXT).as_ref().to_vec())
}

/// Each kind of key, with a signature and the one algorithm that it was made by.
fn signed() -> Vec<(UserKey, SignatureAlgorithm, Vec<u8>)> {
    let (rsa, by_rsa) = rsa(KeySize::Rsa2048);
    let (p256, by_p256) = ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING);
    let (p384, by_p384) = ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING);
    let (ed25519, by_ed25519) = ed25519();
    vec![
        (key(rsa), SignatureAlgorithm::RsaSha256, by_rsa),
        (key(p256), SignatureAlgorithm::EcdsaSha256, by_p256),
        (key(p384), SignatureAlgorithm::EcdsaSha384, by_p384),
        (key(ed25519), SignatureAlgorithm::Ed25519, by_ed25519),
    ]
}

#[test]
fn a_signature_is_good_for_its_key_its_algorithm_and_its_text_alone() {
    let signed = signed();
    for (place, (key, algorithm, signature)) in signed.iter().enumerate() {
        assert!(key.verifies(*algorithm, TEXT, signature), "{key:?}");
        assert!(!key.verifies(*algorithm, b"date: another", signature));
        let mut other = signature.clone();
        other[10] ^= 1;
        assert!(!key.verifies(*algorithm, TEXT, &other));
        assert!(!key.verifies(*algorithm, TEXT, b""));
        for (at, (other, wrong, _)) in signed.iter().enumerate() {
            if at != place {
                assert!(!key.verifies(*wrong, TEXT, signature), "{wrong:?}");
                assert!(!other.verifies(*algorithm, TEXT, signature), "{other:?}");
            }
        }
    }
}

#[test]
fn a_fingerprint_is_the_one_that_ssh_keygen_shows() {
    // `ssh-keygen -E md5 -lf` of this key.
    let text = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICPMSyYaTviDEtvUZ5E2LssG+2mE3kPa7Kt1mDqd1Glm me@here\n";
    let key = UserKey::parse(text, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(
        key.fingerprint,
        "7f:54:e8:07:37:ba:b1:20:8d:8a:d5:54:02:17:21:f2"
    );
    assert_eq!(key.comment, "me@here");
}

#[test]
fn what_is_no_key_and_what_is_too_weak_is_refused() {
    let weak = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDWEAK";
    for text in [
        "",
        "hello",
        weak,
        "ssh-dss AAAAB3NzaC1kc3M= a",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
    ] {
        let error = UserKey::parse(text, Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(error.kind, IdentityErrorKind::Invalid, "{text}");
    }
    let short = Mpint::from_positive_bytes(&[0xff; 128]).unwrap();
    let exponent = Mpint::from_positive_bytes(&[1, 0, 1]).unwrap();
    let data = KeyData::Rsa(RsaPublicKey {
        e: exponent,
        n: short,
    });
    assert!(fault_of(&data).unwrap().contains("1024 bits"));
}
