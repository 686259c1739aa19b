//! The table schema of a lake: united, never narrowed, whoever else is at work.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_collect::schema::{Done, SchemaError, Settled, TABLE_BYTES_MAX, settle, settle_index};
use cannery_formats::Key;
use cannery_formats::spool::{Datatype, Experiment, ObjectHome, table_key};
use cannery_formats::table_schema::{Field, Kind, Mode, TableSchema, parse_datatype};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_lake::{DiskStore, Honours, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, RealDisk, Rng};
use object_store::ObjectStore;
use object_store::memory::InMemory;

use interloper::Interloper;

mod interloper;
mod race;

const MIB: u64 = 1 << 20;
const SOURCE: &str = "/spool/datatypes/foo1.json";

fn key() -> Key {
    let (experiment, datatype) = (Experiment::new("ndt"), Datatype::new("foo1"));
    table_key(&ObjectHome::V1, &experiment.unwrap(), &datatype.unwrap())
}

fn table(datatype: &str) -> TableSchema {
    TableSchema::of(&parse_datatype(datatype.as_bytes()).unwrap(), false)
}

/// The table of nullable strings.
fn strings(names: &[&str]) -> TableSchema {
    let field = |name: &&str| Field::new(name, Kind::String, Mode::Nullable);
    TableSchema::of(&names.iter().map(field).collect::<Vec<_>>(), false)
}

/// The names of the fields of `raw`.
fn names(table: &TableSchema) -> Vec<&str> {
    let fields = table.datatype_fields().iter();
    fields.map(|field| field.name.as_str()).collect()
}

fn parts(id: &str, url: &str, store: Arc<dyn ObjectStore>) -> Parts {
    Parts {
        id: id.to_owned(),
        url: url.to_owned(),
        store,
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::from_os(),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    }
}

fn lake(id: &str, url: &str, store: Arc<dyn ObjectStore>) -> Lake {
    Lake::new(parts(id, url, store)).unwrap()
}

fn memory(id: &str) -> Lake {
    lake(id, &format!("memory:{id}"), Arc::new(InMemory::new()))
}

/// A lake whose pauses take no time and whose attempts are given up soon.
fn impatient_lake(store: Arc<dyn ObjectStore>) -> Lake {
    let clock = SimulatedClock::impatient("2026-11-15T00:00:00Z".parse().unwrap()).clock();
    Lake::new(Parts {
        clock,
        retry: RetryPolicy {
            attempt: Duration::from_millis(200),
            deadline: Duration::from_secs(20),
            ..RetryPolicy::default()
        },
        ..parts("main", "memory:", store)
    })
    .unwrap()
}

fn mirrors<const N: usize>(lakes: [Lake; N]) -> Mirrors {
    Mirrors::new(lakes.into()).unwrap()
}

async fn table_at(lake: &Lake) -> TableSchema {
    let object = lake.get(&key(), MIB).await.unwrap();
    TableSchema::parse(&object.bytes).unwrap()
}

async fn upload(mirrors: &Mirrors, ours: &TableSchema) -> Result<Settled, SchemaError> {
    settle(mirrors, &key(), ours, true, SOURCE).await
}

fn done(settled: &Settled) -> Vec<Done> {
    settled.mirrors.iter().map(|mirror| mirror.done).collect()
}

#[tokio::test]
async fn a_field_that_a_newer_version_lacks_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = DiskStore::new(Arc::new(RealDisk), folder.path(), Rng::from_os());
    let url = format!("file:{}", folder.path().display());
    let mirrors = mirrors([lake("main", &url, Arc::new(store))]);
    let created = upload(&mirrors, &strings(&["A", "B"])).await.unwrap();
    assert_eq!(done(&created), [Done::Created]);
    let object = format!("{url}/autoload/v1/tables/ndt/foo1.table.json");
    assert_eq!(created.mirrors[0].url, object);

    let widened = upload(&mirrors, &strings(&["A", "C"])).await.unwrap();
    assert_eq!(done(&widened), [Done::Widened]);
    assert_eq!(names(&widened.schema), ["A", "B", "C"]);
    let there = mirrors.first().get(&key(), MIB).await.unwrap();
    assert_eq!(there.bytes, widened.schema.to_bytes());

    // Neither version flips it back.
    for ours in [strings(&["A", "B"]), strings(&["A", "C"]), widened.schema] {
        let again = upload(&mirrors, &ours).await.unwrap();
        assert_eq!(done(&again), [Done::Unchanged]);
        assert_eq!(names(&again.schema), ["A", "B", "C"]);
    }
    let after = mirrors.first().get(&key(), MIB).await.unwrap();
    assert_eq!(after.version, there.version);
}

#[tokio::test]
async fn the_spelling_of_the_lake_is_left_alone() {
    let mirrors = mirrors([memory("main")]);
    let text = String::from_utf8(strings(&["A", "B"]).to_bytes()).unwrap();
    let by_hand = text.split_whitespace().collect::<String>();
    let put = mirrors.put_new(&key(), by_hand.clone().into_bytes()).await;
    assert!(put.is_everywhere());
    let settled = upload(&mirrors, &strings(&["b", "A"])).await.unwrap();
    assert_eq!(done(&settled), [Done::Unchanged]);
    let there = mirrors.first().get(&key(), MIB).await.unwrap();
    assert_eq!(there.bytes, by_hand);
}

/// Expects that `ours` is refused beside `theirs` with these words, and that the lake stays as it is.
#[tokio::test]
async fn the_table_of_the_indexes_is_settled_like_any_other() {
    let mirrors = mirrors([memory("a"), memory("b")]);
    let ndt = Experiment::new("ndt").unwrap();
    for (uploads, expected) in [
        (false, Done::WouldCreate),
        (true, Done::Created),
        (true, Done::Unchanged),
    ] {
        let settled = settle_index(&mirrors, &ObjectHome::V1, &ndt, uploads).await;
        assert_eq!(done(&settled.unwrap()), [expected; 2]);
    }
    let key = Key::new("autoload/v1/tables/ndt/index1.table.json").unwrap();
    for lake in mirrors.iter() {
        let object = lake.get(&key, MIB).await.unwrap();
        assert_eq!(object.bytes, TableSchema::index1().to_bytes());
    }
}

async fn refused(ours: &str, theirs: &str, words: &str) {
    let mirrors = mirrors([memory("main")]);
    upload(&mirrors, &table(theirs)).await.unwrap();
    let before = mirrors.first().get(&key(), MIB).await.unwrap();
    for uploads in [true, false] {
        let error = settle(&mirrors, &key(), &table(ours), uploads, SOURCE).await;
        let error = error.unwrap_err();
        assert!(!error.is_transient());
        let message = error.to_string();
        assert!(message.contains(words), "{message}");
    }
    let after = mirrors.first().get(&key(), MIB).await.unwrap();
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_change_of_type_or_mode_names_the_field_both_types_and_both_sources() {
    let here = format!("in `{SOURCE}`");
    let there = "in `memory:main/autoload/v1/tables/ndt/foo1.table.json`";
    refused(
        r#"[{"name":"a","type":"STRING","mode":"REPEATED"}]"#,
        r#"[{"name":"a","type":"STRING"}]"#,
        &format!("field `raw.a` is STRING REPEATED {here} and STRING {there}"),
    )
    .await;
    refused(
        r#"[{"name":"r","type":"RECORD","fields":[{"name":"x","type":"INTEGER"}]}]"#,
        r#"[{"name":"r","type":"RECORD","fields":[{"name":"x","type":"DATE"}]}]"#,
        &format!("field `raw.r.x` is INTEGER {here} and DATE {there}"),
    )
    .await;
    refused(
        r#"[{"name":"a","type":"STRING"},{"name":"b","type":"STRING","mode":"REQUIRED"}]"#,
        r#"[{"name":"a","type":"STRING"}]"#,
        &format!("field `raw.b` is STRING REQUIRED {here} and missing {there}"),
    )
    .await;
}

#[tokio::test]
async fn mirrors_that_differ_converge() {
    let lakes = [memory("one"), memory("two"), memory("three")];
    let mirrors = mirrors(lakes.clone());
    for (lake, fields) in lakes.iter().zip([["A", "B"], ["A", "C"]]) {
        let bytes = strings(&fields).to_bytes();
        lake.put_new(&key(), bytes).await.unwrap();
    }
    let settled = upload(&mirrors, &strings(&["A", "D"])).await.unwrap();
    assert_eq!(
        done(&settled),
        [Done::Widened, Done::Widened, Done::Created]
    );
    assert!(settled.is_everywhere());
    assert_eq!(names(&settled.schema), ["A", "B", "C", "D"]);
    // Each keeps its own order in front.
    for (lake, fields) in lakes.iter().zip(["ABCD", "ACBD", "ABCD"]) {
        assert_eq!(names(&table_at(lake).await).concat(), fields);
    }
    let again = upload(&mirrors, &strings(&["A"])).await.unwrap();
    assert_eq!(done(&again), [Done::Unchanged; 3]);
    assert_eq!(names(&again.schema), ["A", "B", "C", "D"]);
}

#[tokio::test]
async fn mirrors_that_cannot_be_one_are_named_and_left_alone() {
    let lakes = [memory("one"), memory("two"), memory("three")];
    let mirrors = mirrors(lakes.clone());
    let number = table(r#"[{"name":"A","type":"INTEGER"}]"#);
    for (lake, table) in lakes.iter().zip([strings(&["A"]), number]) {
        lake.put_new(&key(), table.to_bytes()).await.unwrap();
    }
    let error = upload(&mirrors, &strings(&["B"])).await.unwrap_err();
    let message = error.to_string();
    let key = key();
    let words =
        format!("field `raw.A` is INTEGER in `memory:two/{key}` and STRING in `memory:one/{key}`");
    assert!(message.contains(&words), "{message}");
    assert_eq!(names(&table_at(&lakes[0]).await), ["A"]);
    assert_eq!(lakes[2].list_all(None).await.unwrap(), []);
}

#[tokio::test]
async fn a_mirror_that_refuses_keeps_the_others_from_being_written() {
    let lakes = [memory("one"), memory("two")];
    let mirrors = mirrors(lakes.clone());
    let theirs = strings(&["A"]).to_bytes();
    lakes[1].put_new(&key(), theirs).await.unwrap();
    let ours = table(r#"[{"name":"A","type":"INTEGER"}]"#);
    let message = upload(&mirrors, &ours).await.unwrap_err().to_string();
    assert!(message.contains("`memory:two/"), "{message}");
    assert_eq!(lakes[0].list_all(None).await.unwrap(), []);
}

#[tokio::test]
async fn without_upload_nothing_is_written() {
    let lakes = [memory("one"), memory("two"), memory("three")];
    let (first, second) = (strings(&["A", "B"]), strings(&["A", "B", "C"]));
    lakes[0].put_new(&key(), first.to_bytes()).await.unwrap();
    lakes[1].put_new(&key(), second.to_bytes()).await.unwrap();
    // A store without versions is no obstacle to reading.
    lakes[0].set_honours(Honours {
        create: false,
        update: false,
    });
    let mirrors = mirrors(lakes.clone());
    let before = lakes[0].get(&key(), MIB).await.unwrap();
    let ours = strings(&["A", "C"]);
    let settled = settle(&mirrors, &key(), &ours, false, SOURCE).await;
    let settled = settled.unwrap();
    assert_eq!(
        done(&settled),
        [Done::WouldWiden, Done::Unchanged, Done::WouldCreate]
    );
    assert!(!settled.is_everywhere());
    assert_eq!(names(&settled.schema), ["A", "B", "C"]);
    assert_eq!(lakes[0].get(&key(), MIB).await.unwrap(), before);
    for (lake, objects) in lakes.iter().zip([1, 1, 0]) {
        assert_eq!(lake.list_all(None).await.unwrap().len(), objects);
    }
}

#[tokio::test]
async fn a_store_without_versions_is_refused_with_the_way_out() {
    for (create, update) in [(true, false), (false, true)] {
        let lakes = [memory("one"), memory("two")];
        lakes[1].set_honours(Honours { create, update });
        let mirrors = mirrors(lakes.clone());
        let error = upload(&mirrors, &strings(&["A"])).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("lake `two`"), "{message}");
        assert!(message.contains("`upload_schema: false`"), "{message}");
        for lake in &lakes {
            assert_eq!(lake.list_all(None).await.unwrap(), []);
        }
    }
}

#[tokio::test]
async fn what_is_no_table_schema_is_never_overwritten() {
    for (damage, word) in [
        (&b"[{\"name\":\"a\","[..], "it is not JSON"),
        (b"{}", "JSON array"),
        (b"", "it is not JSON"),
        (br#"[{"name":"raw","type":"RECORD"}]"#, "field `raw`"),
        (
            br#"[{"name":"a","type":"STRING","maxLength":"3"}]"#,
            "maxLength",
        ),
    ] {
        let mirrors = mirrors([memory("main")]);
        mirrors.put_new(&key(), damage.to_vec()).await;
        let before = mirrors.first().get(&key(), MIB).await.unwrap();
        let error = upload(&mirrors, &strings(&["A"])).await.unwrap_err();
        assert!(matches!(error, SchemaError::Unreadable { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(word), "{message}");
        assert!(
            message.contains("`memory:main/autoload/v1/tables/ndt/foo1.table.json`"),
            "{message}"
        );
        assert_eq!(mirrors.first().get(&key(), MIB).await.unwrap(), before);
    }
}

/// A table of `count` fields of 1000 bytes and a little more each.
fn long_table(letter: char, count: u64) -> TableSchema {
    let field = |n| Field {
        description: Some("x".repeat(1_000)),
        ..Field::new(&format!("{letter}{n}"), Kind::String, Mode::Nullable)
    };
    TableSchema::of(&(0..count).map(field).collect::<Vec<_>>(), false)
}

#[tokio::test]
async fn a_union_that_nobody_could_read_again_is_not_written() {
    let mirrors = mirrors([memory("main")]);
    let most = TABLE_BYTES_MAX / 1_500;
    upload(&mirrors, &long_table('a', most)).await.unwrap();
    let before = mirrors.first().get(&key(), TABLE_BYTES_MAX).await.unwrap();
    let error = upload(&mirrors, &long_table('b', most)).await.unwrap_err();
    assert!(matches!(error, SchemaError::TooLarge { .. }), "{error}");
    let after = mirrors.first().get(&key(), TABLE_BYTES_MAX).await.unwrap();
    assert!(after == before);
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_still_converges() {
    for fault in [
        Fault::ErrorBefore,
        Fault::ErrorAfter,
        Fault::HangAfter,
        Fault::PreconditionFailed,
        Fault::ConflictingWrite,
    ] {
        let (store, faults) = (Arc::new(InMemory::new()), Faults::none());
        let faulty = FaultStore::new(store.clone(), faults.clone(), Clock::real());
        let mirrors = mirrors([impatient_lake(Arc::new(faulty))]);
        let honest = lake("main", "memory:", store);
        for (ours, expected, what) in [
            (["A", "B"], "AB", Done::Created),
            (["A", "C"], "ABC", Done::Widened),
        ] {
            faults.next(Request::Put, fault, 1);
            let settled = upload(&mirrors, &strings(&ours)).await.unwrap();
            assert_eq!(done(&settled), [what], "{fault:?}");
            assert_eq!(names(&settled.schema).concat(), expected, "{fault:?}");
            assert_eq!(table_at(&honest).await, settled.schema, "{fault:?}");
        }
        assert_eq!(faults.injected(), 2, "{fault:?}");
    }
}

#[tokio::test]
async fn a_lake_that_does_not_answer_is_a_reason_to_try_again() {
    let (store, faults) = (Arc::new(InMemory::new()), Faults::none());
    let faulty = FaultStore::new(store.clone(), faults.clone(), Clock::real());
    let mirrors = mirrors([impatient_lake(Arc::new(faulty))]);
    faults.next(Request::Put, Fault::ErrorBefore, u32::MAX);
    let error = upload(&mirrors, &strings(&["A"])).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    faults.stop();
    let settled = upload(&mirrors, &strings(&["A"])).await.unwrap();
    assert_eq!(done(&settled), [Done::Created]);
}

/// A lake where each of `contents` is put just before one of our puts; the last comes first.
fn interrupted(contents: Vec<TableSchema>) -> (Mirrors, Arc<Interloper>) {
    let bytes = |table: TableSchema| Bytes::from(table.to_bytes());
    let contents = contents.into_iter().map(bytes).collect();
    let store = Arc::new(Interloper::new(Arc::new(InMemory::new()), contents));
    (mirrors([lake("main", "memory:", store.clone())]), store)
}

#[tokio::test]
async fn who_is_slower_reads_again_and_merges() {
    let theirs = vec![strings(&["A", "B", "C"]), strings(&["A", "B"])];
    let (mirrors, interloper) = interrupted(theirs);
    let settled = upload(&mirrors, &strings(&["A", "D"])).await.unwrap();
    assert_eq!(interloper.left(), 0);
    assert_eq!(done(&settled), [Done::Widened]);
    assert_eq!(names(&settled.schema), ["A", "B", "C", "D"]);
    assert_eq!(table_at(mirrors.first()).await, settled.schema);
}

#[tokio::test]
async fn who_is_slower_may_find_nothing_left_to_do_or_a_conflict() {
    let (first, _) = interrupted(vec![strings(&["B", "A"])]);
    let settled = upload(&first, &strings(&["A"])).await.unwrap();
    assert_eq!(done(&settled), [Done::Unchanged]);
    assert_eq!(names(&settled.schema), ["B", "A"]);

    let theirs = table(r#"[{"name":"A","type":"INTEGER"}]"#);
    let (second, _) = interrupted(vec![theirs.clone()]);
    let error = upload(&second, &strings(&["A"])).await.unwrap_err();
    assert!(matches!(error, SchemaError::Changed { .. }), "{error}");
    assert_eq!(table_at(second.first()).await, theirs);
}

#[tokio::test]
async fn somebody_who_never_stops_writing_is_given_up_on() {
    // Whoever this is takes back what others add, so the swap always fails.
    let (mirrors, interloper) = interrupted(vec![strings(&["A"]); 1_000]);
    let error = upload(&mirrors, &strings(&["B"])).await.unwrap_err();
    assert!(error.is_transient());
    let message = error.to_string();
    assert!(message.contains("changed it 100 times"), "{message}");
    assert_eq!(interloper.left(), 900);
    assert_eq!(names(&table_at(mirrors.first()).await), ["A"]);
}
