//! Date folders that have had their time: empty ones go, so that the watches on them do not grow without end.

use std::io;
use std::path::Path;

use cannery_runtime::disk::Disk;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

use super::folder::Folder;

/// How many days a folder is kept after its date: producers may be late, and their clocks may differ.
const KEPT_DAYS: i64 = 2;

/// Whether no producer is expected to file anything below a folder any more. That of a datatype is kept for ever.
pub(super) fn is_past(folder: Folder, now: Timestamp) -> bool {
    let today = now.to_zoned(TimeZone::UTC).date();
    let kept_from = today.saturating_sub(Span::new().days(KEPT_DAYS));
    last_date(folder).is_some_and(|last| last < kept_from)
}

/// The last date whose files lie in a folder or below it.
fn last_date(folder: Folder) -> Option<Date> {
    match folder {
        Folder::Datatype(_) => None,
        Folder::Year(_, year) => Date::new(year, 12, 31).ok(),
        Folder::Month(_, year, month) => Some(Date::new(year, month, 1).ok()?.last_of_month()),
        Folder::Day(_, date) => Some(date.into()),
    }
}

/// Removes a folder if it is empty. Whoever files into it in the same moment wins: what holds anything stays. Nothing is
/// synced: a folder that a power cut brings back is as empty, and goes again.
///
/// # Errors
/// As the disk says, unless the folder is not empty or gone.
pub(super) fn remove_empty(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_dir(path) {
        Err(error) if is_settled(&error) => Ok(()),
        removed => removed,
    }
}

fn is_settled(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound
    )
}

#[cfg(test)]
mod tests {
    use cannery_runtime::disk::{create_dir_all, read, write_durably};
    use cannery_testkit::sim_disk::SimDisk;

    use super::*;

    fn folder(path: &str) -> Folder {
        path.split('/')
            .filter(|part| !part.is_empty())
            .fold(Folder::Datatype(0), |folder, part| {
                folder.child(part.as_ref()).unwrap()
            })
    }

    #[test]
    fn a_folder_is_past_more_than_two_days_after_its_last_date() {
        for (path, now, past) in [
            ("2026/11/13", "2026-11-15T23:59:59Z", false),
            ("2026/11/13", "2026-11-16T00:00:00Z", true),
            ("2026/11/20", "2026-11-16T00:00:00Z", false),
            ("2026/11", "2026-12-02T23:59:59Z", false),
            ("2026/11", "2026-12-03T00:00:00Z", true),
            ("2024/02", "2024-03-02T23:00:00Z", false),
            ("2024/02", "2024-03-03T00:00:00Z", true),
            ("2026", "2027-01-02T23:59:59Z", false),
            ("2026", "2027-01-03T00:00:00Z", true),
            ("9999", "2027-01-03T00:00:00Z", false),
            ("", "2027-01-03T00:00:00Z", false),
        ] {
            let now: Timestamp = now.parse().unwrap();
            assert_eq!(is_past(folder(path), now), past, "{path} at {now}");
        }
    }

    /// Whatever fails, a folder with a file in it stays, and an empty one is there or gone and goes in the end.
    #[test]
    fn no_file_goes_with_its_folder_whenever_the_power_goes_or_the_disk_fails() {
        let (empty, full) = (Path::new("/foo1/2026/11/10"), Path::new("/foo1/2026/11/11"));
        let remove = |disk: &SimDisk| -> io::Result<()> {
            remove_empty(disk, full)?;
            remove_empty(disk, empty)?;
            remove_empty(disk, Path::new("/foo1/2026/11"))?;
            // Somebody else was faster.
            remove_empty(disk, empty)
        };
        for seed in 0..40 {
            let disk = SimDisk::new(seed);
            for path in [empty, full] {
                create_dir_all(&disk, path).unwrap();
            }
            write_durably(&disk, &full.join("a.json"), b"{}").unwrap();
            let at = disk.operations() + 1 + seed % 4;
            match seed % 3 {
                0 => disk.power_off_at(at),
                1 => disk.fail_at(at, io::ErrorKind::PermissionDenied),
                _ => disk.fail_after(at, io::ErrorKind::StorageFull),
            }
            let removed = remove(&disk);
            assert_eq!(removed.is_err(), disk.operations() >= at, "{seed}");
            let after = if seed % 3 == 0 { disk.crash() } else { disk };
            assert_eq!(read(&after, &full.join("a.json"), 9).unwrap(), b"{}");
            remove(&after).unwrap();
            assert!(after.metadata(empty).is_err());
            assert_eq!(read(&after, &full.join("a.json"), 9).unwrap(), b"{}");
        }
    }
}
