//! Durations as whole milliseconds in JSON.

use std::time::Duration;

use serde::{Deserialize as _, Deserializer, Serializer};

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(whole(*duration))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

pub(super) mod optional {
    use super::{Deserializer, Duration, Serializer, whole};
    use serde::{Deserialize as _, Serialize as _};

    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        duration.map(whole).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_millis))
    }
}
