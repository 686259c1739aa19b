//! Users, keys and tokens.

use std::time::Duration;

use cannery_formats::UserName;
use cannery_runtime::Rng;
use cannery_state::identity::{IdentityErrorKind, Scope, Scopes};

use crate::subject::Subject;

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICPMSyYaTviDEtvUZ5E2LssG+2mE3kPa7Kt1mDqd1Glm me@here";

fn name(text: &str) -> UserName {
    text.parse().unwrap()
}

fn scopes(text: &str) -> Scopes {
    text.parse().unwrap()
}

pub(crate) async fn a_user_is_there_once_and_a_removed_ones_id_is_not_used_again(
    subject: &Subject,
) {
    let rng = Rng::from_os();
    let ann = subject.add_user(&name("ann"), &rng).await.unwrap();
    subject.add_user(&name("bob"), &rng).await.unwrap();
    let taken = subject.add_user(&name("ann"), &rng).await.unwrap_err();
    assert_eq!(taken.kind, IdentityErrorKind::Taken);
    assert_eq!(subject.user("ann").await.unwrap(), Some(ann.clone()));

    subject.limit_user("ann", Some(1_000)).await.unwrap();
    let limited = subject.user("ann").await.unwrap().unwrap();
    assert_eq!(limited.bytes_max, Some(1_000));

    subject.remove_user("ann").await.unwrap();
    assert_eq!(subject.user("ann").await.unwrap(), None);
    let absent = subject.remove_user("ann").await.unwrap_err();
    assert_eq!(absent.kind, IdentityErrorKind::Absent);
    let absent = subject.limit_user("ann", None).await.unwrap_err();
    assert_eq!(absent.kind, IdentityErrorKind::Absent);

    let again = subject.add_user(&name("ann"), &rng).await.unwrap();
    assert_ne!(again.id, ann.id);
    assert_eq!(again.bytes_max, None);
    let names: Vec<String> = subject
        .users()
        .await
        .unwrap()
        .into_iter()
        .map(|user| user.name)
        .collect();
    assert_eq!(names, ["ann", "bob"]);
}

pub(crate) async fn of_many_who_add_one_name_one_succeeds(subject: &Subject) {
    let rng = Rng::from_os();
    let ann = name("ann");
    let adding = (0..8).map(|_| subject.add_user(&ann, &rng));
    let added = futures::future::join_all(adding).await;
    assert_eq!(
        added.iter().filter(|added| added.is_ok()).count(),
        1,
        "{added:?}"
    );
    assert_eq!(subject.users().await.unwrap().len(), 1);
}

pub(crate) async fn keys_belong_to_one_user_and_go_with_the_user(subject: &Subject) {
    let rng = Rng::from_os();
    let ann = subject.add_user(&name("ann"), &rng).await.unwrap();
    let bob = subject.add_user(&name("bob"), &rng).await.unwrap();
    let key = subject.add_key(&name("ann"), KEY).await.unwrap();
    subject.add_key(&name("ann"), KEY).await.unwrap();
    assert_eq!(subject.keys(&name("ann")).await.unwrap().len(), 1);
    assert_eq!(subject.keys(&name("bob")).await.unwrap(), []);
    let found = subject.key(&ann.id, &key.fingerprint).await.unwrap();
    assert_eq!(found.unwrap().public_key, key.public_key);
    assert_eq!(subject.key(&bob.id, &key.fingerprint).await.unwrap(), None);
    let invalid = subject.add_key(&name("ann"), "ssh-rsa nonsense").await;
    assert_eq!(invalid.unwrap_err().kind, IdentityErrorKind::Invalid);
    let absent = subject.add_key(&name("nobody"), KEY).await;
    assert_eq!(absent.unwrap_err().kind, IdentityErrorKind::Absent);

    subject.add_key(&name("bob"), KEY).await.unwrap();
    subject
        .remove_key(&name("bob"), &key.fingerprint)
        .await
        .unwrap();
    let absent = subject.remove_key(&name("bob"), &key.fingerprint).await;
    assert_eq!(absent.unwrap_err().kind, IdentityErrorKind::Absent);
    subject.remove_user("ann").await.unwrap();
    assert_eq!(subject.key(&ann.id, &key.fingerprint).await.unwrap(), None);
}

pub(crate) async fn a_token_is_good_until_it_expires_or_is_revoked(subject: &Subject) {
    let rng = Rng::from_os();
    subject.add_user(&name("ann"), &rng).await.unwrap();
    let day = Duration::from_secs(24 * 3600);
    let ann = name("ann");
    let (short, long) = futures::future::join(
        subject.create_token(&ann, &scopes("read"), Some(day), &rng),
        subject.create_token(&ann, &scopes("read,write"), None, &rng),
    )
    .await;
    let (short, long) = (short.unwrap(), long.unwrap());
    let (user, token) = subject
        .authenticate(short.text.expose())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (user.name.as_str(), token.id),
        ("ann", short.token.id.clone())
    );
    assert!(token.scopes.has(Scope::Read) && !token.scopes.has(Scope::Write));

    subject.hand.advance(day).await;
    assert_eq!(
        subject.authenticate(short.text.expose()).await.unwrap(),
        None
    );
    assert!(
        subject
            .authenticate(long.text.expose())
            .await
            .unwrap()
            .is_some()
    );
    subject.revoke_token(&long.token.id).await.unwrap();
    subject.revoke_token(&long.token.id).await.unwrap();
    assert_eq!(
        subject.authenticate(long.text.expose()).await.unwrap(),
        None
    );
    let absent = subject.revoke_token("nothing").await.unwrap_err();
    assert_eq!(absent.kind, IdentityErrorKind::Absent);
    let listed = subject.tokens(Some(&ann)).await.unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(
        listed
            .iter()
            .filter(|token| token.revoked.is_some())
            .count(),
        1
    );
    // What is worth nothing is forgotten after a while, and nothing else.
    let good = subject
        .create_token(&ann, &scopes("read"), None, &rng)
        .await
        .unwrap();
    let week = 7 * day;
    assert_eq!(subject.forget_tokens(week).await.unwrap(), 0);
    subject.hand.advance(6 * day).await;
    assert_eq!(subject.forget_tokens(week).await.unwrap(), 0);
    subject.hand.advance(day).await;
    assert_eq!(subject.forget_tokens(week).await.unwrap(), 2);
    let left = subject.tokens(None).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, good.token.id);
}

pub(crate) async fn what_is_not_quite_a_token_is_worth_nothing(subject: &Subject) {
    let rng = Rng::from_os();
    let ann = name("ann");
    subject.add_user(&ann, &rng).await.unwrap();
    let issued = subject
        .create_token(&ann, &scopes("read"), None, &rng)
        .await
        .unwrap();
    let text = issued.text.expose();
    let id = &issued.token.id;
    for odd in [
        "",
        "cannery_",
        "cannery__",
        id.as_str(),
        &text[1..],
        &text[..text.len() - 1],
        &format!("cannery_{id}_"),
        &format!("{text}a"),
        &text.to_uppercase(),
        &format!("cannery_' or 1=1 --_{id}"),
    ] {
        assert_eq!(subject.authenticate(odd).await.unwrap(), None, "{odd}");
    }
    assert!(subject.authenticate(text).await.unwrap().is_some());
    subject.remove_user("ann").await.unwrap();
    assert_eq!(subject.authenticate(text).await.unwrap(), None);
    // Nor does it serve the next user of that name.
    subject.add_user(&ann, &rng).await.unwrap();
    assert_eq!(subject.authenticate(text).await.unwrap(), None);
    assert_eq!(subject.tokens(None).await.unwrap(), []);
}
