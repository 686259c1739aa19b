//! The columns of the tables, in the orders in which statements name them.

/// All of an entry in the tables, without where it stands.
pub(super) const ENTRY: &str = "seq, key_hash, key, priority, process_date, insertion, newest, arrived, \
    expiration, timeouts, strikes, version, lease, data";

/// The same without what never changes or is not read along.
pub(super) const META: &str = "priority, process_date, insertion, newest, arrived, expiration, timeouts, \
    strikes, version, lease";

/// The types of [`META`] as arrays, from a parameter on.
pub(super) fn meta_arrays(from: usize) -> String {
    [
        "smallint", "bigint", "bigint", "bigint", "bigint", "bigint", "smallint", "int", "int",
        "bigint",
    ]
    .iter()
    .enumerate()
    .map(|(place, kind)| format!("${}::{kind}[]", from + place))
    .collect::<Vec<_>>()
    .join(", ")
}

/// A list of columns with a prefix each.
pub(super) fn of(prefix: &str, columns: &str) -> String {
    columns
        .split(", ")
        .map(|name| format!("{prefix}.{name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The columns in which entries are read, wherever they stand; see `row.rs`.
const SHOWN: [(&str, &str); 20] = [
    ("seq", "bigint"),
    ("key", "bytea"),
    ("priority", "smallint"),
    ("process_date", "bigint"),
    ("insertion", "bigint"),
    ("newest", "bigint"),
    ("arrived", "bigint"),
    ("expiration", "bigint"),
    ("timeouts", "smallint"),
    ("strikes", "int"),
    ("version", "int"),
    ("lease", "bigint"),
    ("counter", "bigint"),
    ("incarnation", "bigint"),
    ("nonce", "bigint"),
    ("start", "bigint"),
    ("worker", "bytea"),
    ("died", "bigint"),
    ("reason", "bytea"),
    ("data", "bytea"),
];

pub(super) const SHOWN_PROCESSING: &str = "seq, key, priority, process_date, insertion, newest, arrived, \
    expiration, timeouts, strikes, version, lease, counter, incarnation, nonce, start, worker, \
    null::bigint as died, null::bytea as reason, data";

pub(super) const SHOWN_WAITING: &str = "seq, key, priority, process_date, insertion, newest, arrived, \
    expiration, timeouts, strikes, version, lease, null::bigint as counter, \
    null::bigint as incarnation, null::bigint as nonce, null::bigint as start, \
    null::bytea as worker, null::bigint as died, null::bytea as reason, data";

pub(super) const SHOWN_DEAD: &str = "seq, key, priority, process_date, insertion, newest, arrived, \
    expiration, timeouts, strikes, version, lease, null::bigint as counter, \
    null::bigint as incarnation, null::bigint as nonce, null::bigint as start, \
    null::bytea as worker, died, reason, data";

/// The columns of [`SHOWN`] with nothing in them but these.
pub(super) fn nulls(but: &[(&str, &str)]) -> String {
    SHOWN
        .iter()
        .map(|(name, kind)| {
            let value = but
                .iter()
                .find(|(column, _)| column == name)
                .map_or("null", |(_, value)| *value);
            format!("{value}::{kind}")
        })
        .collect::<Vec<_>>()
        .join(", ")
}
