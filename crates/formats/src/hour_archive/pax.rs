//! PAX records: what did not fit into a header. Of them we write the name only, and take no more.

use super::fault::ArchiveFault;

/// What records say of the next member.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    /// Its name.
    pub(super) path: Option<String>,
    /// Its size, which must be the one in its header.
    pub(super) size: Option<u64>,
}

/// The record of a name: `<length of all of it> path=<name>` and a newline.
pub(super) fn path_record(path: &str) -> Vec<u8> {
    let rest = format!(" path={path}\n");
    let mut digits = 1;
    loop {
        let length = (rest.len() + digits).to_string();
        if length.len() == digits {
            return format!("{length}{rest}").into_bytes();
        }
        digits += 1;
    }
}

/// Reads records. Those that describe what we do not keep, such as exact times, are passed over.
pub(super) fn parse(mut content: &[u8]) -> Result<Records, ArchiveFault> {
    let mut records = Records::default();
    while !content.is_empty() {
        let (key, value, rest) = first(content)
            .ok_or_else(|| ArchiveFault::Damaged("a PAX record is not readable".into()))?;
        content = rest;
        let hostile = |what: String| Err(ArchiveFault::Hostile(what));
        let is_again = match key {
            "path" => records.path.replace(utf8(value)?).is_some(),
            "size" => records.size.replace(size(value)?).is_some(),
            "linkpath" => return hostile("a PAX record makes a member a link".into()),
            sparse if sparse.starts_with("GNU.sparse.") => {
                return hostile("a member is a sparse file".into());
            }
            _ => false,
        };
        if is_again {
            return hostile(format!("a member has two PAX records `{key}`"));
        }
    }
    Ok(records)
}

/// The key and the value of the first record, and what is behind it.
fn first(content: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    let space = content.iter().position(|byte| *byte == b' ')?;
    let digits = std::str::from_utf8(&content[..space]).ok()?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (record, rest) = content.split_at_checked(digits.parse().ok()?)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let key = std::str::from_utf8(&record[..equals]).ok()?;
    Some((key, &record[equals + 1..], rest))
}

fn utf8(value: &[u8]) -> Result<String, ArchiveFault> {
    String::from_utf8(value.to_vec())
        .map_err(|_| ArchiveFault::Hostile("the name of a member is not UTF-8".into()))
}

fn size(value: &[u8]) -> Result<u64, ArchiveFault> {
    let text = std::str::from_utf8(value).ok();
    text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ArchiveFault::Hostile("a PAX record has a size that is no number".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        assert_eq!(path_record("a"), b"9 path=a\n");
        assert_eq!(path_record("ab"), b"11 path=ab\n");
        for length in 1..1_100 {
            let name = "n".repeat(length);
            let record = path_record(&name);
            assert_eq!(parse(&record).unwrap().path, Some(name));
            let digits = std::str::from_utf8(&record).unwrap();
            let (count, _) = digits.split_once(' ').unwrap();
            assert_eq!(count.parse(), Ok(record.len()));
        }
    }

    #[test]
    fn what_is_not_kept_is_passed_over() {
        let records = parse(b"20 mtime=1234567.25\n12 uname=me\n9 size=7\n").unwrap();
        assert_eq!((records.path, records.size), (None, Some(7)));
    }

    #[test]
    fn records_that_lie_are_refused() {
        for (content, what) in [
            (b"9 path=a".as_slice(), "not readable"),
            (b"9 path=aX", "not readable"),
            (b"99 path=a\n", "not readable"),
            (b"0 path=a\n", "not readable"),
            (b"+9 path=a\n", "not readable"),
            (b" 9 path=a\n", "not readable"),
            (b"18446744073709551616 a=\n", "not readable"),
            (b"9 path_a\n", "not readable"),
            (b"9 path=a\n9 path=a\n", "two PAX records `path`"),
            (b"9 size=1\n9 size=1\n", "two PAX records `size`"),
            (b"11 size=-1\n", "no number"),
            (b"14 linkpath=a\n", "a link"),
            (b"22 GNU.sparse.major=1\n", "sparse"),
            (b"9 path=\xff\n", "not UTF-8"),
        ] {
            let fault = parse(content).unwrap_err().to_string();
            assert!(fault.contains(what), "{fault}: {content:?}");
        }
    }
}
