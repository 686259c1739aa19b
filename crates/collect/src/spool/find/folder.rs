//! Where things lie in a spool: `<root>/<datatype>/<yyyy>/<mm>/<dd>`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use jiff::civil::Date;

/// The longest name a file may have.
const NAME_BYTES_MAX: usize = 255;

/// The date of a folder of files: one of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DateFolder(Date);

impl DateFolder {
    /// From the names of three folders, `2026`, `11` and `15`; nothing unless each has all its digits and the day exists.
    #[cfg(test)]
    pub(crate) fn from_components(year: &OsStr, month: &OsStr, day: &OsStr) -> Option<Self> {
        Self::new(parse_year(year)?, parse_month(month)?, two_digits(day)?)
    }

    fn new(year: i16, month: i8, day: i8) -> Option<Self> {
        Date::new(year, month, day).ok().map(Self)
    }
}

impl From<DateFolder> for Date {
    fn from(DateFolder(date): DateFolder) -> Self {
        date
    }
}

impl fmt::Display for DateFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(date) = self;
        write!(
            f,
            "{:04}/{:02}/{:02}",
            date.year(),
            date.month(),
            date.day()
        )
    }
}

/// A folder that belongs to a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Folder {
    Datatype(usize),
    Year(usize, i16),
    Month(usize, i16, i8),
    Day(usize, DateFolder),
}

impl Folder {
    /// The folder of that name in this one, if one may be there.
    pub(super) fn child(self, name: &OsStr) -> Option<Self> {
        match self {
            Self::Datatype(datatype) => Some(Self::Year(datatype, parse_year(name)?)),
            Self::Year(datatype, year) => Some(Self::Month(datatype, year, parse_month(name)?)),
            Self::Month(datatype, year, month) => {
                let date = DateFolder::new(year, month, two_digits(name)?)?;
                Some(Self::Day(datatype, date))
            }
            Self::Day(..) => None,
        }
    }

    /// The folder this one lies in; nothing for a datatype's, which lies in the root.
    pub(super) fn parent(self) -> Option<Self> {
        match self {
            Self::Datatype(_) => None,
            Self::Year(datatype, _) => Some(Self::Datatype(datatype)),
            Self::Month(datatype, year, _) => Some(Self::Year(datatype, year)),
            Self::Day(datatype, DateFolder(date)) => {
                Some(Self::Month(datatype, date.year(), date.month()))
            }
        }
    }

    /// The datatype whose folder it is or lies in.
    pub(super) fn datatype(self) -> usize {
        self.parts().0
    }

    /// Whether `other` is this folder or lies in it.
    pub(super) fn contains(self, other: Self) -> bool {
        let agree = |ours: Option<i16>, theirs| ours.is_none() || ours == theirs;
        let (datatype, ours) = self.parts();
        let (their_datatype, theirs) = other.parts();
        datatype == their_datatype
            && ours
                .into_iter()
                .zip(theirs)
                .all(|(ours, theirs)| agree(ours, theirs))
    }

    fn parts(self) -> (usize, [Option<i16>; 3]) {
        match self {
            Self::Datatype(datatype) => (datatype, [None; 3]),
            Self::Year(datatype, year) => (datatype, [Some(year), None, None]),
            Self::Month(datatype, year, month) => {
                (datatype, [Some(year), Some(month.into()), None])
            }
            Self::Day(datatype, DateFolder(date)) => (
                datatype,
                [date.year(), date.month().into(), date.day().into()].map(Some),
            ),
        }
    }
}

/// The root of a spool and its datatypes.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) root: PathBuf,
    pub(super) datatypes: Vec<String>,
}

impl Layout {
    /// Where a folder lies, from the root.
    pub(super) fn below(&self, folder: Folder) -> PathBuf {
        let (datatype, parts) = folder.parts();
        let mut below = PathBuf::from(&self.datatypes[datatype]);
        for (part, width) in parts.into_iter().zip([4, 2, 2]) {
            if let Some(number) = part {
                below.push(format!("{number:0width$}"));
            }
        }
        below
    }

    /// Where a folder lies.
    pub(super) fn path(&self, folder: Folder) -> PathBuf {
        self.root.join(self.below(folder))
    }

    /// The datatypes' folders.
    pub(super) fn datatypes(&self) -> impl Iterator<Item = Folder> + use<> {
        (0..self.datatypes.len()).map(Folder::Datatype)
    }

    /// The datatype whose folder has that name.
    pub(super) fn datatype(&self, name: &OsStr) -> Option<Folder> {
        let place = self
            .datatypes
            .iter()
            .position(|datatype| name == datatype.as_str())?;
        Some(Folder::Datatype(place))
    }
}

/// Whether a name begins with a dot: the producer's own, or ours. A producer may write `.a.json` and rename it to `a.json`.
pub(in crate::spool) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Whether a file may have that name.
pub(super) fn is_good_name(name: &OsStr) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name
            .to_str()
            .is_some_and(|name| !name.chars().any(char::is_control))
}

fn parse_year(name: &OsStr) -> Option<i16> {
    // There is no year 0, and no table has room for one.
    digits(name, 4).filter(|year| *year > 0)
}

fn parse_month(name: &OsStr) -> Option<i8> {
    two_digits(name).filter(|month| (1..=12).contains(month))
}

fn two_digits(name: &OsStr) -> Option<i8> {
    i8::try_from(digits(name, 2)?).ok()
}

/// A number that is written with exactly so many digits, so that a folder has one name.
fn digits(name: &OsStr, count: usize) -> Option<i16> {
    let name = name.as_bytes();
    (name.len() == count && name.iter().all(u8::is_ascii_digit)).then(|| {
        name.iter()
            .fold(0, |number, digit| number * 10 + i16::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: &str, month: &str, day: &str) -> Option<String> {
        DateFolder::from_components(year.as_ref(), month.as_ref(), day.as_ref())
            .map(|date| date.to_string())
    }

    #[test]
    fn a_date_has_all_its_digits_and_exists() {
        assert_eq!(date("2026", "11", "15").as_deref(), Some("2026/11/15"));
        assert_eq!(date("0007", "01", "01").as_deref(), Some("0007/01/01"));
        assert_eq!(date("2028", "02", "29").as_deref(), Some("2028/02/29"));
        for (year, month, day) in [
            ("2026", "02", "29"),
            ("2026", "13", "01"),
            ("2026", "00", "01"),
            ("2026", "11", "00"),
            ("2026", "11", "31"),
            ("0000", "11", "15"),
            ("26", "11", "15"),
            ("02026", "11", "15"),
            ("2026", "1", "15"),
            ("2026", "11", "+5"),
            ("-026", "11", "15"),
            ("2026", "11", "1\u{665}"),
            ("2026", "11", ""),
        ] {
            assert_eq!(date(year, month, day), None, "{year}/{month}/{day}");
        }
    }

    #[test]
    fn a_folder_contains_what_lies_in_it() {
        let year = Folder::Datatype(1).child("2026".as_ref()).unwrap();
        let month = year.child("11".as_ref()).unwrap();
        let day = month.child("15".as_ref()).unwrap();
        let chain = [Folder::Datatype(1), year, month, day];
        for (outer, folder) in chain.into_iter().enumerate() {
            for (inner, other) in chain.into_iter().enumerate() {
                assert_eq!(folder.contains(other), outer <= inner);
            }
            assert!(!folder.contains(Folder::Datatype(0)));
            assert!(!folder.contains(Folder::Datatype(2)));
        }
        assert_eq!(day.parent(), Some(month));
        assert_eq!(month.parent(), Some(year));
        assert_eq!(year.parent(), Some(Folder::Datatype(1)));
        assert!(!month.contains(year.child("12".as_ref()).unwrap()));
        assert_eq!(day.child("2026".as_ref()), None);
        let layout = Layout {
            root: "/spool/exp".into(),
            datatypes: vec!["foo1".into(), "bar1".into()],
        };
        assert_eq!(
            layout.path(day),
            PathBuf::from("/spool/exp/bar1/2026/11/15")
        );
        assert_eq!(layout.datatype("bar1".as_ref()), Some(Folder::Datatype(1)));
        assert_eq!(layout.datatype("bar".as_ref()), None);
    }

    #[test]
    fn names_that_would_break_a_line_are_bad() {
        assert!(is_good_name("a.json".as_ref()));
        assert!(is_good_name("\u{e4} b.json".as_ref()));
        assert!(is_good_name("x".repeat(255).as_ref()));
        assert!(!is_good_name("x".repeat(256).as_ref()));
        assert!(!is_good_name("a\nb".as_ref()));
        assert!(!is_good_name("a\u{85}b".as_ref()));
        assert!(!is_good_name(OsStr::from_bytes(b"a\xff")));
    }
}
