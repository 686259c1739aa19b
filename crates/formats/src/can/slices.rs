//! Which reports go into which can.

use super::TextName;

/// Reports of one kind that are stored together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slice {
    /// A tar of at least two reports.
    Tar {
        /// Counted from 0; only tars are counted.
        number: u32,
        /// In the order of their names.
        reports: Vec<TextName>,
    },
    /// A report that is large, or alone.
    Plain(TextName),
}

/// Cuts the reports of one kind, given with their sizes in any order, into slices in the order of their names.
///
/// A report of at least `can_bytes` is alone, and does not end the slice that is being filled. A new slice begins when the
/// next report would make the old one reach `can_bytes`. The result follows from the set of reports alone.
#[must_use]
pub fn slices(mut reports: Vec<(TextName, u64)>, can_bytes: u64) -> Vec<Slice> {
    reports.sort();
    let mut groups: Vec<Vec<TextName>> = Vec::new();
    let mut filled = None;
    for (name, size) in reports {
        if size >= can_bytes {
            // Before the group that is being filled, which stays the last.
            let at = groups.len() - usize::from(filled.is_some());
            groups.insert(at, vec![name]);
            continue;
        }
        filled = match (filled, groups.last_mut()) {
            (Some(bytes), Some(group)) if size.saturating_add(bytes) < can_bytes => {
                group.push(name);
                Some(bytes + size)
            }
            _ => {
                groups.push(vec![name]);
                Some(size)
            }
        };
    }
    numbered(groups)
}

fn numbered(groups: Vec<Vec<TextName>>) -> Vec<Slice> {
    let mut numbers = 0..;
    let slice = |mut group: Vec<TextName>| match group.len() {
        1 => Slice::Plain(group.remove(0)),
        _ => Slice::Tar {
            number: numbers.next().expect("there are fewer slices than numbers"),
            reports: group,
        },
    };
    groups.into_iter().map(slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(reports: &[(&str, u64)], can_bytes: u64) -> Vec<String> {
        let reports = reports
            .iter()
            .map(|(name, size)| (TextName::new(*name).unwrap(), *size))
            .collect();
        let show = |slice: &Slice| match slice {
            Slice::Plain(name) => name.to_string(),
            Slice::Tar { number, reports } => {
                let names: Vec<&str> = reports.iter().map(TextName::as_str).collect();
                format!("{number}:{}", names.concat())
            }
        };
        slices(reports, can_bytes).iter().map(show).collect()
    }

    #[test]
    fn a_slice_never_reaches_the_size_of_a_can() {
        assert_eq!(
            shown(&[("b", 4), ("a", 5), ("c", 4), ("d", 5)], 10),
            ["0:ab", "1:cd"]
        );
        assert_eq!(shown(&[("a", 5), ("b", 5), ("c", 4)], 10), ["a", "0:bc"]);
        assert_eq!(shown(&[("a", 5), ("b", 10), ("c", 4)], 10), ["b", "0:ac"]);
        assert_eq!(shown(&[("a", 9), ("b", 9), ("c", 9)], 10), ["a", "b", "c"]);
        assert_eq!(shown(&[("a", 0), ("b", 0)], 1), ["0:ab"]);
        assert_eq!(
            shown(&[("a", u64::MAX), ("b", u64::MAX - 1)], u64::MAX),
            ["a", "b"]
        );
        assert!(shown(&[], 10).is_empty());
    }

    proptest! {
        #[test]
        fn every_report_is_in_one_slice_and_the_order_of_the_input_is_nothing(
            sizes in prop::collection::btree_map("[a-f]{1,3}", 0_u64..12, 0..40),
        ) {
            let reports: Vec<(TextName, u64)> = sizes
                .iter()
                .map(|(name, size)| (TextName::new(name.as_str()).unwrap(), *size))
                .collect();
            let all = slices(reports.clone(), 10);
            let backwards = reports.into_iter().rev().collect();
            prop_assert_eq!(&slices(backwards, 10), &all);
            let mut seen = Vec::new();
            let mut next = 0;
            let mut last_tar: Option<(u64, TextName)> = None;
            for slice in &all {
                match slice {
                    Slice::Plain(name) => seen.push(name.to_string()),
                    Slice::Tar { number, reports } => {
                        prop_assert_eq!(*number, next);
                        next += 1;
                        prop_assert!(reports.len() > 1 && reports.is_sorted());
                        let size: u64 = reports.iter().map(|name| sizes[name.as_str()]).sum();
                        prop_assert!(size < 10);
                        if let Some((size, end)) = &last_tar {
                            prop_assert!(end < &reports[0]);
                            prop_assert!(size + sizes[reports[0].as_str()] >= 10 || all.iter().any(|other| matches!(other, Slice::Plain(name) if name > end && *name < reports[0] && sizes[name.as_str()] < 10)));
                        }
                        last_tar = Some((size, reports[reports.len() - 1].clone()));
                        seen.extend(reports.iter().map(TextName::to_string));
                    }
                }
            }
            seen.sort();
            prop_assert_eq!(seen, sizes.keys().cloned().collect::<Vec<_>>());
        }
    }
}
