use super::*;

fn known(recorded: &[(&str, &str)], removed: &[&str], rows: &[(&str, &str)]) -> KnownUsers {
    let name = |name: &&str| UserName::new(name).unwrap();
    KnownUsers {
        recorded: recorded
            .iter()
            .map(|(id, of)| ((*id).to_owned(), name(of)))
            .collect(),
        removed: removed.iter().map(|id| (*id).to_owned()).collect(),
        rows: rows
            .iter()
            .map(|(id, name)| ((*id).to_owned(), (*name).to_owned()))
            .collect(),
    }
}

fn planned(known: &KnownUsers, used: &[&str]) -> (Vec<UserFix>, Vec<String>) {
    let used = used.iter().map(|id| (*id).to_owned()).collect();
    let plan = known.plan(&used).unwrap();
    (plan.fixes, plan.abandoned.into_iter().collect())
}

#[test]
fn a_user_whom_only_the_lake_knows_is_added() {
    let add = UserFix::Add {
        id: "a".into(),
        name: "ann".into(),
    };
    let known = known(&[("a", "ann")], &[], &[]);
    assert_eq!(planned(&known, &["a"]), (vec![add.clone()], vec![]));
    assert_eq!(planned(&known, &[]), (vec![add], vec![]));
}

#[test]
fn a_user_whom_both_know_stays() {
    let known = known(&[("a", "ann")], &[], &[("a", "ann")]);
    assert_eq!(planned(&known, &["a"]), (vec![], vec![]));
}

#[test]
fn a_name_that_was_added_again_gets_the_id_with_the_objects() {
    let take = UserFix::TakeId {
        from: "b".into(),
        to: "a".into(),
    };
    let both = known(&[("a", "ann"), ("b", "ann")], &[], &[("b", "ann")]);
    assert_eq!(planned(&both, &["a"]), (vec![take], vec!["b".to_owned()]));
    // Without objects the one in the database is as good as the other.
    assert_eq!(planned(&both, &[]), (vec![], vec!["a".to_owned()]));
    let used = ["a", "b"].map(ToOwned::to_owned).into();
    let refused = both.plan(&used).unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::Corrupt);
    assert!(refused.message.contains("`ann`: a, b"), "{refused}");
}

#[test]
fn a_user_who_was_removed_stays_removed() {
    let again = known(&[("a", "ann"), ("b", "ann")], &["a"], &[("b", "ann")]);
    assert_eq!(planned(&again, &["a", "b"]), (vec![], vec![]));
    let older = known(&[("a", "ann")], &["a"], &[("a", "ann")]);
    let remove = UserFix::Remove { id: "a".into() };
    assert_eq!(planned(&older, &["a"]), (vec![remove], vec![]));
}

#[test]
fn objects_of_nobody_are_an_error() {
    let refused = known(&[], &[], &[])
        .plan(&["a".to_owned()].into())
        .unwrap_err();
    assert!(
        refused.message.contains("users/.accounts/a.json"),
        "{refused}"
    );
}
