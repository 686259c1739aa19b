//! The name of a bundle, under which its data and its index are stored.

use super::{BundleTime, Datatype, Experiment, ObjectHome, SpoolDate};
use crate::{Key, NodeName};

/// What makes a bundle unique: one node opens at most one bundle of a datatype and date in one microsecond.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleName {
    /// The folder of all objects of the spool.
    pub home: ObjectHome,
    /// The measurement service.
    pub experiment: Experiment,
    /// What the files in it are.
    pub datatype: Datatype,
    /// The spool folder the files lay in.
    pub date: SpoolDate,
    /// When the bundle was opened.
    pub opened: BundleTime,
    /// Who collected it.
    pub node: NodeName,
}

/// The two objects of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// One row a file.
    Data,
    /// One line a file, in the same order.
    Index,
}

impl BundleName {
    /// Where the rows lie.
    #[must_use]
    pub fn data_key(&self) -> Key {
        Key::spool_object(self, Part::Data)
    }

    /// Where the index lies.
    #[must_use]
    pub fn index_key(&self) -> Key {
        Key::spool_object(self, Part::Index)
    }

    /// Which bundle's object `key` is, and which of the two. `None` for every other object, even one that is nearly named
    /// so: what is parsed here is spelled exactly so by [`BundleName::data_key`] or [`BundleName::index_key`].
    #[must_use]
    pub fn parse(key: &Key) -> Option<(Self, Part)> {
        let components: Vec<&str> = key.as_str().split('/').collect();
        let (home, rest) = home_of(&components)?;
        let [experiment, _, yyyy, mm, dd, file] = rest else {
            return None;
        };
        let stem: Vec<&str> = file.split('-').collect();
        let [opened, datatype, machine, site, _, end] = stem[..] else {
            return None;
        };
        let name = Self {
            home,
            experiment: Experiment::new(experiment).ok()?,
            datatype: Datatype::new(datatype).ok()?,
            date: SpoolDate::from_components(yyyy, mm, dd).ok()?,
            opened: opened.parse().ok()?,
            node: NodeName::new(machine, site).ok()?,
        };
        let part = if end.starts_with("data") {
            Part::Data
        } else {
            Part::Index
        };
        (Key::spool_object(&name, part) == *key).then_some((name, part))
    }
}

fn home_of<'a>(components: &'a [&'a str]) -> Option<(ObjectHome, &'a [&'a str])> {
    let (version, rest) = components.split_at_checked(2)?;
    let version = version.join("/");
    if let Ok(home) = ObjectHome::new(&version, None) {
        return Some((home, rest));
    }
    let (organization, rest) = rest.split_first()?;
    let home = ObjectHome::new(&version, Some(organization)).ok()?;
    Some((home, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::InventoryHome;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn name(home: ObjectHome) -> BundleName {
        BundleName {
            home,
            experiment: Experiment::new("ndt").unwrap(),
            datatype: Datatype::new("scamper1").unwrap(),
            date: SpoolDate::from_path("2026/11/14").unwrap(),
            opened: "20261115T182403.850914Z".parse().unwrap(),
            node: NodeName::parse("mlab1-lga01").unwrap(),
        }
    }

    const DATA: &str = "autoload/v1/ndt/scamper1/2026/11/14/20261115T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl.gz";
    const INDEX: &str = "autoload/v2/rnp/ndt/index1/2026/11/14/20261115T182403.850914Z-scamper1-mlab1-lga01-ndt-index1.jsonl.gz";

    #[test]
    fn the_keys_are_those_a_loader_expects() {
        let v1 = name(ObjectHome::V1);
        assert_eq!(v1.data_key().as_str(), DATA);
        let v2 = name(ObjectHome::new("autoload/v2", Some("rnp")).unwrap());
        assert_eq!(v2.index_key().as_str(), INDEX);
        assert_eq!(
            crate::spool::table_key(&v2.home, &v2.experiment, &v2.datatype).as_str(),
            "autoload/v2/tables/ndt/scamper1.table.json"
        );
        assert_eq!(
            crate::spool::index_table_key(&v1.home, &v1.experiment).as_str(),
            "autoload/v1/tables/ndt/index1.table.json"
        );
        assert_eq!(
            Key::spool_index_folder(&v2.home, &v2.experiment, Some(v2.date)).as_str(),
            "autoload/v2/rnp/ndt/index1/2026/11/14"
        );
        assert_eq!(
            Key::spool_index_folder(&v1.home, &v1.experiment, None).as_str(),
            "autoload/v1/ndt/index1"
        );
        assert_eq!(
            Key::spool_data_folder(&v1.home, &v1.experiment, &v1.datatype, Some(v1.date)).as_str(),
            "autoload/v1/ndt/scamper1/2026/11/14"
        );
        let home = InventoryHome {
            node: v1.node.clone(),
            experiment: v1.experiment.clone(),
        };
        assert_eq!(
            Key::inventory(&home, v1.date).as_str(),
            ".cannery/inventory/mlab1-lga01/ndt/2026-11-14.jsonl.gz"
        );
    }

    #[test]
    fn nearly_right_keys_are_no_bundles() {
        for (from, to) in [
            ("ndt-data", "ndx-data"),
            ("Z-scamper1", "Z-scamper2"),
            ("-data.jsonl.gz", "-index1.jsonl.gz"),
            ("-data.jsonl.gz", "-data.jsonl"),
            ("-data.jsonl.gz", "-data.jsonl.gz.tmp"),
            ("mlab1-lga01", "mlab1-lga01-x"),
            ("mlab1-lga01", "mlab1"),
            ("2026/11/14", "2026/11/31"),
            ("autoload/v1", "autoload/v2"),
            ("autoload/v1", "autoload/v1/rnp"),
            ("autoload/v1", "autoload/v3"),
            ("autoload/v1/", ""),
            ("/scamper1/", "/index1/"),
        ] {
            let key = Key::new(DATA.replacen(from, to, 1)).unwrap();
            assert_ne!(key.as_str(), DATA);
            assert_eq!(BundleName::parse(&key), None, "{key}");
        }
    }

    fn names() -> impl Strategy<Value = BundleName> {
        let word = "[a-z][a-z0-9]{0,63}";
        (
            proptest::option::of("[a-z0-9]{1,64}"),
            (word, word),
            0_i64..253_402_200_000,
            0_i64..253_402_200_000_000_000,
            ("[a-z0-9]{1,40}", "[a-z0-9]{1,40}"),
        )
            .prop_filter_map(
                "reserved",
                |(org, (exp, dt), day, opened, (machine, site))| {
                    let home = match &org {
                        None => ObjectHome::V1,
                        Some(org) => ObjectHome::new("autoload/v2", Some(org)).ok()?,
                    };
                    let day = Timestamp::from_second(day).ok()?;
                    Some(BundleName {
                        home,
                        experiment: Experiment::new(&exp).ok()?,
                        datatype: Datatype::new(&dt).ok()?,
                        date: SpoolDate::new(jiff::tz::TimeZone::UTC.to_datetime(day).date())
                            .ok()?,
                        opened: Timestamp::from_microsecond(opened).ok()?.into(),
                        node: NodeName::new(&machine, &site).ok()?,
                    })
                },
            )
    }

    proptest! {
        #[test]
        fn every_name_is_read_back_from_both_keys(name in names()) {
            let (data, index) = (name.data_key(), name.index_key());
            prop_assert_eq!(Key::new(data.as_str()), Ok(data.clone()));
            prop_assert_eq!(Key::new(index.as_str()), Ok(index.clone()));
            prop_assert_eq!(BundleName::parse(&data), Some((name.clone(), Part::Data)));
            prop_assert_eq!(BundleName::parse(&index), Some((name, Part::Index)));
        }

        #[test]
        fn what_parses_is_spelled_so(at in 0_usize..110, by in "[a-z0-9./-]{0,3}") {
            let mut text = DATA.to_owned();
            let at = at.min(text.len() - 1);
            text.replace_range(at..=at, &by);
            if let Ok(key) = Key::new(text)
                && let Some((name, part)) = BundleName::parse(&key) {
                prop_assert_eq!(Key::spool_object(&name, part), key);
            }
        }
    }
}
