use std::collections::BTreeMap;
use std::path::Path;

use cannery_formats::NodeName;
use cannery_formats::inventory::{Break, Chain};
use cannery_formats::spool::{BundleName, Datatype, Experiment, ObjectHome};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_lake::{Honours, LakeMetrics, Parts, RetryPolicy};
use cannery_runtime::Rng;
use cannery_runtime::clock::SimulatedClock;
use cannery_testkit::sim_disk::SimDisk;
use object_store::memory::InMemory;

use super::remote::{Fetched, fetch, pack};
use super::*;

mod accounts;
mod checks;
mod crashes;
mod lives;
mod stores;

const FOLDER: &str = "/node/inventory";
const DAY: Duration = Duration::from_secs(86_400);

/// A node whose workspace can be lost, and its lake.
struct World {
    disk: SimDisk,
    clock: SimulatedClock,
    mirrors: Mirrors,
    /// One each for a mirror.
    faults: Vec<Faults>,
}

fn home() -> InventoryHome {
    InventoryHome {
        node: NodeName::parse("mlab1-lga01").unwrap(),
        experiment: Experiment::new("ndt").unwrap(),
    }
}

fn date(text: &str) -> SpoolDate {
    SpoolDate::from_path(&text.replace('-', "/")).unwrap()
}

fn lake(id: &str, faults: &Faults) -> Lake {
    let store = FaultStore::new(Arc::new(InMemory::new()), faults.clone(), Clock::real());
    let parts = Parts {
        id: id.to_owned(),
        url: format!("memory:///{id}"),
        store: Arc::new(store),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::seeded(3),
        retry: RetryPolicy {
            deadline: Duration::ZERO,
            ..RetryPolicy::default()
        },
        metrics: LakeMetrics::default(),
    };
    Lake::new(parts).unwrap()
}

/// The object number `number` of the node.
fn object(number: u64) -> (Key, Vec<u8>) {
    let name = BundleName {
        home: ObjectHome::V1,
        experiment: Experiment::new("ndt").unwrap(),
        datatype: Datatype::new("foo1").unwrap(),
        date: date("2026-11-15"),
        opened: Timestamp::from_second(1_800_000_000 + i64::try_from(number).unwrap())
            .unwrap()
            .into(),
        node: home().node,
    };
    let content = format!("content of {number}").into_bytes();
    (name.data_key(), content)
}

fn item(number: u64) -> Item {
    let (key, content) = object(number);
    Item {
        key,
        bytes: content.len() as u64,
        sha256: Digest::of(&content),
    }
}

impl World {
    fn new(mirrors: usize) -> Self {
        let faults: Vec<_> = (0..mirrors).map(|_| Faults::none()).collect();
        let lakes = ["a", "b"].iter().zip(&faults);
        let lakes = lakes.map(|(id, faults)| lake(id, faults)).collect();
        Self {
            disk: SimDisk::new(7),
            clock: SimulatedClock::starting_at("2026-11-15T12:00:00Z".parse().unwrap()),
            mirrors: Mirrors::new(lakes).unwrap(),
            faults,
        }
    }

    /// A process that begins.
    fn inventory(&self) -> Inventory {
        Inventory::new(InventoryParts {
            folder: PathBuf::from(FOLDER),
            disk: Arc::new(self.disk.clone()),
            clock: self.clock.clock(),
            mirrors: self.mirrors.clone(),
            home: home(),
        })
    }

    fn lose_workspace(&mut self) {
        self.disk = SimDisk::new(8);
    }

    /// The clock shows another time.
    fn set_clock(&mut self, now: &str) {
        self.clock = SimulatedClock::starting_at(now.parse().unwrap());
    }

    fn lake(&self, mirror: usize) -> &Lake {
        self.mirrors.iter().nth(mirror).unwrap()
    }

    /// Puts an object into every mirror, without a line.
    async fn put(&self, number: u64) {
        let (key, content) = object(number);
        for lake in self.mirrors.iter() {
            lake.put_new(&key, content.clone()).await.unwrap();
        }
    }

    /// Puts objects into every mirror and records them.
    async fn ship(&self, inventory: &Inventory, numbers: impl IntoIterator<Item = u64>) {
        for number in numbers {
            self.clock.advance(Duration::from_secs(1)).await;
            self.put(number).await;
            let now = self.clock.clock().now();
            inventory
                .record(vec![item(number)], now, false)
                .await
                .unwrap();
        }
    }

    /// The inventory of a day in a mirror.
    async fn text(&self, mirror: usize, day: &str) -> Option<String> {
        let key = Key::inventory(&home(), date(day));
        match fetch(self.lake(mirror), &key).await.unwrap() {
            Fetched::Text(text, _) => Some(String::from_utf8(text).unwrap()),
            Fetched::Absent => None,
            Fetched::Unreadable(why) => panic!("{why}"),
        }
    }

    /// Somebody with the keys of the bucket writes over an inventory.
    async fn tamper(&self, mirror: usize, day: &str, change: impl FnOnce(String) -> String) {
        let key = Key::inventory(&home(), date(day));
        let Fetched::Text(text, version) = fetch(self.lake(mirror), &key).await.unwrap() else {
            panic!("there is no inventory of {day}");
        };
        let text = change(String::from_utf8(text).unwrap());
        let bytes = pack(text.into()).await.unwrap();
        let lake = self.lake(mirror);
        lake.put_if_version(&key, &version, bytes).await.unwrap();
    }

    async fn remove(&self, mirror: usize, key: &Key) {
        self.lake(mirror).delete(key).await.unwrap();
    }

    /// Every mirror has the same lines, they hang together over all days, and these objects have one each.
    async fn expect(&self, numbers: impl IntoIterator<Item = u64>) {
        let one = |item: Item| ((item.key, (item.bytes, item.sha256)), 1);
        let expected: BTreeMap<(Key, (u64, Digest)), u32> =
            numbers.into_iter().map(item).map(one).collect();
        for lake in self.mirrors.iter() {
            let report = check(lake, &home()).await.unwrap();
            assert!(report.is_clean(), "{report:?}");
            let (mut found, mut chain) = (BTreeMap::new(), Chain::default());
            for day in remote::days(lake, &home()).await.unwrap() {
                let key = Key::inventory(&home(), day);
                let Fetched::Text(text, _) = fetch(lake, &key).await.unwrap() else {
                    panic!("{key}");
                };
                for line in String::from_utf8(text).unwrap().lines() {
                    let line = chain.follow(line.as_bytes()).unwrap();
                    assert_eq!(day_of(line.confirmed), day, "{line:?}");
                    let said = (line.size, line.sha256);
                    *found.entry((line.key, said)).or_default() += 1;
                }
            }
            assert_eq!(found, expected, "{}", lake.id());
        }
    }

    /// The names in the local folder.
    fn files(&self) -> Vec<String> {
        let entries = self.disk.read_dir(Path::new(FOLDER)).unwrap();
        let mut names: Vec<_> = entries
            .into_iter()
            .map(|entry| entry.name.into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}
