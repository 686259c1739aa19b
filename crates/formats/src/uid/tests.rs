use super::*;
use proptest::prelude::*;

fn key() -> LakeKey {
    LakeKey::new(std::array::from_fn(|at| u8::try_from(at).unwrap()))
}

#[test]
fn a_uid_is_the_same_forever() {
    let uid = Uid::of_json(&key(), 1_483_142_400_123, b"report", b"{\"a\":[1,2]}");
    // Computed with Python's hmac, hashlib and base64.
    assert_eq!(uid.to_string(), "6kvxkidgnaze4o7y4ldmesep4c2a4oi3");
    assert_eq!(uid.to_string().parse(), Ok(uid));
    assert_eq!(Uid::from_bytes(*uid.as_bytes()), uid);
}

#[test]
fn only_white_space_between_parts_does_not_count() {
    let uid = |json: &str| Uid::of_json(&key(), 0, b"r", json.as_bytes());
    let plain = uid(r#"{"a b":"\" c\\","d":1}"#);
    assert_eq!(uid("\t{ \"a b\" :\n\"\\\" c\\\\\" ,\r\n\"d\": 1 } "), plain);
    assert_ne!(uid(r#"{"ab":"\" c\\","d":1}"#), plain);
    assert_ne!(uid(r#"{"a b":"\"c\\","d":1}"#), plain);
}

#[test]
fn everything_that_is_hashed_counts() {
    let other_key = LakeKey::new([7; 32]);
    let uid = Uid::of_bytes(&key(), 1, b"ab", b"c");
    for other in [
        Uid::of_bytes(&other_key, 1, b"ab", b"c"),
        Uid::of_bytes(&key(), 2, b"ab", b"c"),
        Uid::of_bytes(&key(), -1, b"ab", b"c"),
        Uid::of_bytes(&key(), 1, b"a", b"bc"),
        Uid::of_bytes(&key(), 1, b"ab", b"d"),
    ] {
        assert_ne!(uid, other);
    }
}

#[test]
#[should_panic(expected = "as long as its length says")]
fn a_text_that_is_too_short_has_no_uid() {
    let _uid = UidHasher::new(&key(), 0, b"", 1).finish();
}

#[test]
fn a_lake_key_is_kept_and_never_shown() {
    let object = key().to_object();
    assert_eq!(LakeKey::from_object(&object), Ok(key()));
    assert_eq!(object.len(), 65);
    assert_eq!(format!("{:?}", key()), "LakeKey(secret)");
    for bad in [
        &object[..64],
        &object[1..],
        b"",
        &[&object[..], b"\n"].concat(),
    ] {
        assert_eq!(LakeKey::from_object(bad), Err(InvalidLakeKey));
    }
}

#[test]
fn other_texts_are_no_uids() {
    let text = Uid::from_bytes([9; 20]).to_string();
    for bad in [
        &text[1..],
        &text.to_uppercase(),
        &text.replacen(&text[..1], "1", 1),
        "",
    ] {
        assert_eq!(bad.parse::<Uid>(), Err(InvalidUid), "{bad}");
    }
}

proptest! {
    #[test]
    fn any_bytes_have_pieces_that_hold_all_but_space(json in prop::collection::vec(any::<u8>(), 0..60)) {
        let joined: Vec<u8> = json_pieces(&json).flatten().copied().collect();
        let without = |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|b| !is_space(*b)).collect() };
        prop_assert_eq!(without(&joined), without(&json));
    }

    #[test]
    fn pieces_are_what_a_parser_prints(value in "[a-z \\\\\"\n]{0,20}", number: i32) {
        let json = serde_json::json!({"k e": [value, number, {}], "x": null});
        let pretty = serde_json::to_string_pretty(&json).unwrap();
        let joined: Vec<u8> = json_pieces(pretty.as_bytes()).flatten().copied().collect();
        prop_assert_eq!(String::from_utf8(joined).unwrap(), json.to_string());
    }
}
