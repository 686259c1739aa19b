//! Every measurement leads back to the object that it came in, whatever that was.

use std::collections::BTreeMap;

use cannery_formats::Key;
use cannery_pipeline::inputs::Reports;
use cannery_pipeline::trace::{SourceKind, Tracer};

use crate::sweeping::sealed;

#[tokio::test]
async fn reports_bundles_and_hours_are_found_again() {
    let (mill, expected) = sealed().await;
    let mut plant = mill.works.plant(&mill.works.lake);
    plant.clock = mill.clock();
    let tracer = Tracer {
        plant,
        catalog: mill.catalog.clone(),
        reports: Reports::Lake,
    };
    let mut kinds = BTreeMap::<String, Key>::new();
    for uid in expected.keys() {
        let trace = tracer.run(&uid.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(trace.archive.trouble, None, "{trace:?}");
        let can = trace.can.as_ref().unwrap();
        assert!(can.is_there && can.private_index.is_some(), "{trace:?}");
        assert!(trace.source.is_there, "{:?}", trace.source);
        let size = trace.source.src_size.unwrap();
        assert!(size <= can.text_size, "{trace:?}");
        let key = Key::new(trace.source.places[0].as_str()).unwrap();
        mill.works.lake.head(&key).await.unwrap();
        kinds.insert(format!("{:?}", trace.source.kind), key);
    }
    let all = [SourceKind::Bundle, SourceKind::Hour, SourceKind::Report];
    let all = all.map(|kind| format!("{kind:?}"));
    assert!(kinds.keys().eq(&all), "{kinds:?}");

    // What is gone is said, and the rest of the way stands.
    let (uid, _) = expected.first_key_value().unwrap();
    let keys: Vec<Key> = kinds.into_values().collect();
    mill.works.lake.delete_many(keys).await.unwrap();
    let mut gone = 0;
    for uid in expected.keys() {
        let trace = tracer.run(&uid.parse().unwrap()).await.unwrap().unwrap();
        gone += u32::from(!trace.source.is_there);
        assert_eq!(trace.archive.trouble, None);
    }
    assert!(gone >= 3, "{gone}");
    assert!(tracer.run(&uid.parse().unwrap()).await.unwrap().is_some());
    let nobody = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".parse().unwrap();
    assert!(tracer.run(&nobody).await.unwrap().is_none());
}
