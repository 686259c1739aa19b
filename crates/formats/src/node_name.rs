//! The name of a measurement node, of which two parts enter object names: machine and site.

use std::fmt;

/// No part is longer, so that the name of a bundle always fits into one component of a key.
pub const NODE_PART_BYTES_MAX: usize = 40;

const LOCAL: &str = "local";
const HOST_BYTES_MAX: usize = 253;

/// Which machine at which site. Both parts are lower-case letters and digits, at least one.
///
/// A part never contains `-`: an object name joins its parts by `-`, and is taken apart again only because no part has
/// one. A host name with more of them is refused and not squeezed, because `a-bc` and `ab-c` would become the same node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    machine: String,
    site: String,
}

/// Why a text is no node name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid node name `{}`: {reason}", .name.escape_debug())]
pub struct InvalidNodeName {
    /// The text, shortened.
    pub name: String,
    /// What is wrong with it, and what to say instead.
    pub reason: &'static str,
}

impl NodeName {
    /// Takes a node name or host name apart:
    ///
    /// | form | machine, site |
    /// |---|---|
    /// | `<iata><asn>-<8 hex>.<org>.<project>.<domain>`, at least five labels | the hex digits, `<iata><asn>` |
    /// | `<machine>-<site>`, alone or with anything behind a `.`; so `third-party` | as written |
    /// | `<machine>.<site>`, alone or with anything behind a `.` | as written |
    /// | `<machine>` | `<machine>`, `local` |
    ///
    /// # Errors
    /// [`InvalidNodeName`] when either part is not what an object name can hold.
    pub fn parse(text: &str) -> Result<Self, InvalidNodeName> {
        let invalid = |reason| InvalidNodeName {
            name: text.chars().take(80).collect(),
            reason,
        };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        if text.len() > HOST_BYTES_MAX {
            return Err(invalid("it is longer than 253 bytes"));
        }
        let labels: Vec<&str> = text.split('.').collect();
        if !labels.iter().all(|label| is_host_label(label)) {
            return Err(invalid(
                "a host name is made of letters, digits and `-`, with single dots between",
            ));
        }
        let (machine, site) = parts_of(&labels).map_err(invalid)?;
        Self::new(machine, site).map_err(|error| invalid(error.reason))
    }

    /// The node of these two parts.
    ///
    /// # Errors
    /// [`InvalidNodeName`] when a part is empty, too long, or has anything but lower-case letters and digits.
    pub fn new(machine: &str, site: &str) -> Result<Self, InvalidNodeName> {
        for part in [machine, site] {
            if let Some(reason) = fault_of(part) {
                return Err(InvalidNodeName {
                    name: part.chars().take(80).collect(),
                    reason,
                });
            }
        }
        Ok(Self {
            machine: machine.to_owned(),
            site: site.to_owned(),
        })
    }

    /// The machine, such as `mlab1`.
    #[must_use]
    pub fn machine(&self) -> &str {
        &self.machine
    }

    /// The site, such as `lga01`.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.site
    }
}

fn parts_of<'a>(labels: &[&'a str]) -> Result<(&'a str, &'a str), &'static str> {
    let first = labels[0];
    let Some((left, right)) = first.split_once('-') else {
        return Ok((first, labels.get(1).copied().unwrap_or(LOCAL)));
    };
    if right.contains('-') {
        return Err("its first label has more than one `-`; name the node `<machine>-<site>`");
    }
    // Only with organization, project and domain behind it: alone, it is somebody's `<machine>-<site>`.
    let hex_is_machine = labels.len() >= 5 && is_iata_and_asn(left) && is_machine_in_hex(right);
    Ok(if hex_is_machine {
        (right, left)
    } else {
        (left, right)
    })
}

fn is_host_label(label: &str) -> bool {
    !label.is_empty()
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_iata_and_asn(text: &str) -> bool {
    text.is_char_boundary(3) && {
        let (iata, asn) = text.split_at(3);
        iata.bytes().all(|byte| byte.is_ascii_lowercase())
            && (1..=10).contains(&asn.len())
            && asn.bytes().all(|byte| byte.is_ascii_digit())
    }
}

fn is_machine_in_hex(text: &str) -> bool {
    text.len() == 8
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn fault_of(part: &str) -> Option<&'static str> {
    if part.is_empty() {
        return Some("machine and site must not be empty; name the node `<machine>-<site>`");
    }
    if part.len() > NODE_PART_BYTES_MAX {
        return Some("machine and site must not be longer than 40 bytes");
    }
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (!part.bytes().all(fits)).then_some(
        "machine and site are lower-case letters and digits; name the node `<machine>-<site>`",
    )
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.machine, self.site)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_form_gives_machine_and_site() {
        for (text, machine, site) in [
            ("mlab1.lga01.measurement-lab.org", "mlab1", "lga01"),
            ("mlab1-lga01.mlab-oti.measurement-lab.org", "mlab1", "lga01"),
            (
                "mlab1-lga01.mlab-oti.measurement-lab.org-d9h6",
                "mlab1",
                "lga01",
            ),
            (
                "lga3356-c89ffeef.rnp.autojoin.measurement-lab.org",
                "c89ffeef",
                "lga3356",
            ),
            ("third-party", "third", "party"),
            ("box7-attic", "box7", "attic"),
            ("box7", "box7", "local"),
            ("box7.attic", "box7", "attic"),
            // Alone it is `<machine>-<site>` like any other.
            ("lga3356-c89ffeef", "lga3356", "c89ffeef"),
            ("lga3356-c89ffeef.a.b.c", "lga3356", "c89ffeef"),
            // Not eight hexadecimal digits, no letters before the number.
            ("lga3356-c89ffeeg.a.b.c.d", "lga3356", "c89ffeeg"),
            ("lga-c89ffeef.a.b.c.d", "lga", "c89ffeef"),
            ("33561-c89ffeef.a.b.c.d", "33561", "c89ffeef"),
        ] {
            let node = NodeName::parse(text).unwrap();
            assert_eq!((node.machine(), node.site()), (machine, site), "{text}");
        }
    }

    #[test]
    fn what_no_object_name_can_hold_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "it is empty"),
            ("my-web-server", "more than one `-`"),
            ("ndt-mlab1-lga01.mlab-oti.example.org", "more than one `-`"),
            ("-lga01", "must not be empty"),
            ("mlab1-", "must not be empty"),
            ("Mlab1-lga01", "lower-case"),
            ("mlab1.measurement-lab.org", "lower-case"),
            ("mlab1..org", "single dots"),
            ("mlab1.lga01.", "single dots"),
            ("mlab1/lga01", "single dots"),
            ("mläb1", "single dots"),
            ("mlab1-lga01\n", "single dots"),
        ] {
            let error = NodeName::parse(text).unwrap_err();
            assert!(error.reason.contains(reason), "{text:?}: {error}");
        }
        assert!(NodeName::parse(&"a".repeat(40)).is_ok());
        assert!(NodeName::parse(&"a".repeat(41)).is_err());
        assert!(NodeName::parse(&format!("a-b{}", ".c".repeat(126))).is_err());
    }

    proptest! {
        #[test]
        fn a_node_reads_itself_back(machine in "[a-z0-9]{1,40}", site in "[a-z0-9]{1,40}") {
            let node = NodeName::new(&machine, &site).unwrap();
            prop_assert_eq!(NodeName::parse(&node.to_string()), Ok(node));
        }

        #[test]
        fn nothing_panics_and_what_passes_is_clean(text in "[a-zA-Z0-9.-]{0,60}|\\PC{0,20}") {
            if let Ok(node) = NodeName::parse(&text) {
                prop_assert_eq!(node.to_string().matches('-').count(), 1);
                prop_assert_eq!(NodeName::new(node.machine(), node.site()), Ok(node));
            }
        }
    }
}
