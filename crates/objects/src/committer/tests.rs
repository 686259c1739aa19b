use cannery_formats::UserName;
use cannery_lake::{Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_runtime::Rng;
use cannery_state::objects::EntryKey;
use object_store::memory::InMemory;

use super::*;
use crate::change::Conditions;

fn committer(state: &State) -> Committer {
    let lake = Lake::new(Parts {
        id: "main".into(),
        url: "memory:".into(),
        store: Arc::new(InMemory::new()),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::from_os(),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    Committer {
        state: state.clone(),
        mirrors: Arc::new(Mirrors::new(vec![lake.unwrap()]).unwrap()),
        clock: Clock::real(),
        log: mpsc::channel(1).0,
        newest: Arc::default(),
    }
}

fn make_directory(account: &str, attempt: &str) -> ObjectRequest {
    ObjectRequest {
        attempt: attempt.to_owned(),
        at: EntryKey {
            account: account.to_owned(),
            path: "/stor/d".parse().unwrap(),
        },
        change: RequestedChange::MakeDirectory,
        conditions: Conditions::default(),
    }
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found_in_the_outbox_or_in_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.sqlite");
    let state = State::open(file.to_str().unwrap(), Clock::real())
        .await
        .unwrap();
    let ann = UserName::new("ann").unwrap();
    let account = state.add_user(&ann, &Rng::from_os()).await.unwrap().id;
    let committer = committer(&state);
    let requests = [make_directory(&account, "first")];
    let planned = async |requests: &[ObjectRequest]| {
        let mut look = state.look_at_objects().await.unwrap();
        plan(look.look(&wanted(requests)).await.unwrap(), 0, requests)
    };
    let before = planned(&requests).await;
    assert!(!committer.was_committed(&before).await.unwrap());
    let done = committer.transact(&requests).await.unwrap();
    assert!(committer.was_committed(&done).await.unwrap());
    // Somebody else has logged it: only the row is left to tell.
    state.forget_logged(done.writes.version).await.unwrap();
    assert!(committer.was_committed(&done).await.unwrap());
    let mut other = done;
    for row in other.writes.entries.values_mut().flatten() {
        row.attempt = "second".to_owned();
    }
    assert!(!committer.was_committed(&other).await.unwrap());
    state.close().await;
}
