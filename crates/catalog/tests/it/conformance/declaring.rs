//! Declared tables.

use cannery_catalog::{Aggregate, Column, ColumnType, Decision, ErrorKind, Feature};

use crate::doc::{dns, doc, http, version_of};
use crate::subject::{Subject, ingest, open_gate, plan, plan as plan_of, push};

fn daily() -> Aggregate {
    Aggregate {
        name: "daily".to_owned(),
        version: 1,
        columns: vec![
            Column::new("size", ColumnType::Int),
            Column::new("rows", ColumnType::Int),
        ],
        query: "select h.size, count(*) from feature_http h join measurement m on m.id = h.measurement \
                where m.date = $1 group by h.size"
            .to_owned(),
    }
}

pub(crate) async fn other_columns_make_the_table_anew(subject: &Subject) {
    let file = doc("a", &[2, 5]);
    subject.ingest(&file).await;
    let mut wider = Feature {
        version: 2,
        ..http()
    };
    wider.columns.push(Column::new("extra", ColumnType::Json));
    subject.declare(&wider).await;
    assert!(subject.rows("feature_http").await.is_empty());
    assert!(subject.rows("badrow").await.is_empty());
    let decision = subject
        .decide(&file.facts(), &[version_of(&wider)])
        .await
        .unwrap();
    let features = vec!["http".to_owned()];
    assert_eq!(decision, Decision::Reprocess { features });
    assert_eq!(subject.features().await.unwrap()[1], wider);
    subject.declare(&wider).await;
}

pub(crate) async fn an_older_declaration_is_refused(subject: &Subject) {
    let newer = Feature {
        version: 2,
        ..http()
    };
    subject.declare(&newer).await;
    let refused = subject.declare_feature(&http()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Newer);
    let newer = Aggregate {
        version: 2,
        ..daily()
    };
    assert!(subject.declare_aggregate(&newer).await.unwrap());
    assert!(!subject.declare_aggregate(&newer).await.unwrap());
    let refused = subject.declare_aggregate(&daily()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Newer);
}

pub(crate) async fn names_are_checked(subject: &Subject) {
    let before = subject.picture().await;
    let named = |name: &str| Feature {
        name: name.to_owned(),
        ..http()
    };
    let columns = |names: &[&str]| Feature {
        name: "x".to_owned(),
        columns: names
            .iter()
            .map(|name| Column::new(*name, ColumnType::Int))
            .collect(),
        ..http()
    };
    for bad in [
        named("a\"; drop table file; --"),
        named(""),
        columns(&[]),
        columns(&["a", "a"]),
        columns(&["measurement"]),
        columns(&["a b"]),
        Feature {
            version: 0,
            min_compatible: 0,
            ..named("x")
        },
        Feature {
            min_compatible: 2,
            ..named("x")
        },
    ] {
        let refused = subject.declare_feature(&bad).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{bad:?}");
    }
    // A word of SQL and the longest name are names like any other.
    subject
        .declare(&columns(&["select", &"c".repeat(48)]))
        .await;
    let file = doc("a", &[1]);
    subject.ingest(&file).await;
    assert_ne!(subject.picture().await, before);
}

pub(crate) async fn an_aggregate_is_computed_for_the_dates_touched(subject: &Subject) {
    subject.declare_aggregate(&daily()).await.unwrap();
    subject.ingest(&doc("a", &[1, 2, 4])).await;
    let dates = subject.dates().await.unwrap();
    assert_eq!(dates, ["2026-11-15", "2026-11-16", "2026-11-17"]);
    subject
        .recompute(dates.iter().map(String::as_str))
        .await
        .unwrap();
    let rows = [
        "[\"2026-11-15\",4,1]",
        "[\"2026-11-16\",1,1]",
        "[\"2026-11-17\",2,2]",
    ];
    assert_eq!(subject.rows("aggregate_daily").await, rows);
    // Late measurements of the 15th and 17th, and one of no known time.
    let done = subject.ingest(&doc("b", &[62, 8, 14])).await;
    let dates: Vec<&str> = done.dates.iter().map(String::as_str).collect();
    assert_eq!(dates, ["2026-11-15", "2026-11-17"]);
    subject.recompute(["2026-11-17"]).await.unwrap();
    let rows = subject.rows("aggregate_daily").await;
    assert_eq!(rows.len(), 4, "the 15th is as it was: {rows:?}");
    subject.recompute(dates).await.unwrap();
    let rows = [
        "[\"2026-11-15\",4,1]",
        "[\"2026-11-15\",8,2]",
        "[\"2026-11-16\",1,1]",
        "[\"2026-11-17\",14,2]",
        "[\"2026-11-17\",2,2]",
    ];
    assert_eq!(subject.rows("aggregate_daily").await, rows);
    assert!(subject.recompute(["yesterday"]).await.is_err());
}

/// What is to be computed is part of what touched it: nobody has to remember it elsewhere.
pub(crate) async fn dates_are_touched_until_they_are_computed(subject: &Subject) {
    let touched = async || subject.touched_dates().await.unwrap();
    let file = doc("a", &[1, 2, 4]);
    subject.ingest(&file).await;
    assert_eq!(touched().await, [""; 0], "there is no aggregate");
    let all = ["2026-11-15", "2026-11-16", "2026-11-17"];
    subject.declare_aggregate(&daily()).await.unwrap();
    assert_eq!(touched().await, all, "its table is empty");
    subject.recompute(["2026-11-16"]).await.unwrap();
    assert_eq!(touched().await, ["2026-11-15", "2026-11-17"]);
    subject.recompute(all).await.unwrap();
    subject.declare_aggregate(&daily()).await.unwrap();
    assert_eq!(touched().await, [""; 0]);
    // A load that does not commit touches nothing.
    let late = doc("b", &[62, 8]);
    let plan = ingest(&late);
    let mut load = subject.load(plan.clone()).await.unwrap();
    push(&mut load, &late, &plan).await.unwrap();
    load.commit(async { Err("no".to_owned()) })
        .await
        .unwrap_err();
    assert_eq!(touched().await, [""; 0]);
    subject.ingest(&late).await;
    assert_eq!(touched().await, ["2026-11-15"]);
    subject.recompute(["2026-11-15"]).await.unwrap();
    let state = late.facts().state();
    subject.forget(&late.full_name(), &state).await.unwrap();
    assert_eq!(touched().await, ["2026-11-15"]);
    subject.recompute(["2026-11-15"]).await.unwrap();
    let newer = Feature {
        version: 2,
        min_compatible: 2,
        ..http()
    };
    subject.declare(&newer).await;
    let decision = Decision::Reprocess {
        features: vec!["http".to_owned()],
    };
    let plan = plan_of(&file, Some(&file), decision);
    subject.run(&file, plan).await.unwrap();
    assert_eq!(touched().await, all);
    subject.recompute(all).await.unwrap();
    let other = Aggregate {
        version: 2,
        ..daily()
    };
    assert!(subject.declare_aggregate(&other).await.unwrap());
    assert_eq!(touched().await, all);
    let versions = subject.versions_of(crate::doc::BUCKET).await.unwrap();
    let of_file = &versions[&file.full_name()];
    assert_eq!((of_file["http"], of_file["dns"]), (2, 1));
    let name = file.full_name();
    for (generation, before, expected) in [
        ("r00000001", None, vec![]),
        ("r00000002", None, vec![name.clone()]),
        ("r00000002", Some(name.as_str()), vec![]),
        ("r00000002", Some("~"), vec![name.clone()]),
    ] {
        let others = subject.files_of_other_generations(generation, before).await;
        assert_eq!(others.unwrap(), expected, "{generation} {before:?}");
    }
}

pub(crate) async fn an_aggregate_that_is_no_query_is_refused(subject: &Subject) {
    let before = subject.picture().await;
    for query in [
        "select nonsense from nowhere where date = $1",
        "delete from file where name = $1",
        "select 1, 2",
        "select 1, 2 where 'x' = $1; drop table file",
        "select 1 where 'x' = $1",
    ] {
        let bad = Aggregate {
            query: query.to_owned(),
            ..daily()
        };
        let refused = subject.declare_aggregate(&bad).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{query}: {refused}");
    }
    assert_eq!(subject.picture().await, before);
}

pub(crate) async fn a_feature_declared_anew_refuses_loads_under_way(subject: &Subject) {
    let file = doc("a", &[2]);
    let plan = ingest(&file);
    let mut load = subject.load(plan.clone()).await.unwrap();
    push(&mut load, &file, &plan).await.unwrap();
    let newer = Feature {
        version: 2,
        ..http()
    };
    subject.declare(&newer).await;
    let refused = load.commit(open_gate()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    assert_eq!(subject.find(2).await, None);
}

/// Statements that were prepared for the old table are of no use for the new one.
pub(crate) async fn a_column_may_change_its_type(subject: &Subject) {
    let file = doc("a", &[2]);
    subject.ingest(&file).await;
    for (version, column_type) in [(2, ColumnType::Bool), (3, ColumnType::Float)] {
        assert_eq!(subject.rows("feature_dns").await.len(), 1);
        let mut changed = Feature { version, ..dns() };
        changed.columns[0].column_type = column_type;
        subject.declare(&changed).await;
        let decision = Decision::Reprocess {
            features: vec!["dns".to_owned()],
        };
        let plan = plan(&file, Some(&file), decision);
        subject.run(&file, plan).await.unwrap();
    }
    assert!(subject.rows("feature_dns").await.is_empty());
    let bad = subject.rows("badrow").await;
    assert!(bad[0].contains("a boolean is no number"), "{bad:?}");
}
