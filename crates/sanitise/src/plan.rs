//! All paths of the rules as one tree: walked beside a document, it says at every key what is of interest there.

use crate::path::{Path, Step};
use crate::rules::{Meaning, Rule};
use crate::scan::fingerprint;

/// Paths with stars that cross each other multiply; beyond this they were not written by hand.
const NODES_MAX: usize = 20_000;

/// Something that wants to know the value at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// The rule with this number.
    Rule(usize),
    /// What says the data format version.
    Version,
    /// The time source with this number.
    Time(usize),
}

#[derive(Debug)]
pub(crate) struct Plan {
    nodes: Vec<Node>,
}

/// A place in a document, or all places that a star makes one.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// In the order of the file.
    pub(crate) interests: Vec<Interest>,
    keys: Vec<KeyNode>,
    any_key: Option<usize>,
    pub(crate) element: Option<usize>,
    /// Keys to put in where they are missing.
    pub(crate) sets: Vec<SetKey>,
}

#[derive(Debug)]
struct KeyNode {
    key: String,
    print: u64,
    node: usize,
    /// Which of the object's `sets` it is.
    set: Option<usize>,
}

/// A key that rules put in.
#[derive(Debug)]
pub(crate) struct SetKey {
    pub(crate) key: String,
    /// In the order of the file.
    pub(crate) rules: Vec<usize>,
}

/// What still wants to go on from a node.
type Paths<'a> = Vec<(Interest, &'a [Step])>;

impl Plan {
    /// The plan of these rules, or why it would be too large.
    pub(crate) fn of(meaning: &Meaning) -> Result<Self, String> {
        let version = Path::parse("data_format_version").expect("it is a path");
        let mut paths = vec![(Interest::Version, version.steps())];
        for (number, source) in meaning.time.iter().enumerate() {
            paths.push((Interest::Time(number), source.at.steps()));
        }
        for (number, rule) in meaning.rules.iter().enumerate() {
            let steps = rule.at.iter().map(Path::steps);
            paths.extend(steps.map(|steps| (Interest::Rule(number), steps)));
        }
        let mut plan = Self { nodes: Vec::new() };
        plan.grow(&paths, &meaning.rules)?;
        Ok(plan)
    }

    pub(crate) fn root(&self) -> &Node {
        &self.nodes[0]
    }

    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// Makes the node where `paths` begin, and all below it; gives its number.
    fn grow(&mut self, paths: &Paths<'_>, rules: &[Rule]) -> Result<usize, String> {
        let number = self.nodes.len();
        if number == NODES_MAX {
            return Err(format!(
                "its paths with `*` cross in more than {NODES_MAX} ways; name the keys instead"
            ));
        }
        self.nodes.push(Node::default());
        let mut node = Node {
            interests: interests(paths, rules),
            ..Node::default()
        };
        for key in first_keys(paths) {
            let below = after(paths, |step| *step == Step::AnyKey || is_key(step, key));
            let setting = setting(paths, rules, key);
            let set = (!setting.is_empty()).then_some(node.sets.len());
            if set.is_some() {
                node.sets.push(SetKey {
                    key: key.to_owned(),
                    rules: setting,
                });
            }
            node.keys.push(KeyNode {
                key: key.to_owned(),
                print: fingerprint(key.as_bytes()),
                node: self.grow(&below, rules)?,
                set,
            });
        }
        node.any_key = self.grow_if(&after(paths, |step| *step == Step::AnyKey), rules)?;
        node.element = self.grow_if(&after(paths, |step| *step == Step::Element), rules)?;
        self.nodes[number] = node;
        Ok(number)
    }

    fn grow_if(&mut self, paths: &Paths<'_>, rules: &[Rule]) -> Result<Option<usize>, String> {
        if paths.is_empty() {
            return Ok(None);
        }
        self.grow(paths, rules).map(Some)
    }
}

impl Node {
    /// Whether anything in an object here is of interest.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty() || self.any_key.is_some()
    }

    /// The node of a member, and which of `sets` it is.
    #[inline]
    pub(crate) fn key(
        &self,
        name: crate::scan::Quoted<'_>,
        print: u64,
    ) -> (Option<usize>, Option<usize>) {
        let found = self
            .keys
            .iter()
            .find(|key| (key.print == print || name.escaped) && name.says(&key.key));
        match found {
            Some(key) => (Some(key.node), key.set),
            None => (self.any_key, None),
        }
    }
}

fn is_key(step: &Step, key: &str) -> bool {
    matches!(step, Step::Key(name) if name == key)
}

/// Who is interested in the value itself. A null-fill is not: it is about values that are not there.
fn interests(paths: &Paths<'_>, rules: &[Rule]) -> Vec<Interest> {
    let here = paths.iter().filter(|(_, steps)| steps.is_empty());
    let mut interests: Vec<Interest> = here.map(|(interest, _)| *interest).collect();
    interests.retain(|interest| match interest {
        Interest::Rule(number) => !matches!(rules[*number].op, crate::rules::Op::NullFill),
        Interest::Version | Interest::Time(_) => true,
    });
    interests.dedup();
    interests
}

fn first_keys<'a>(paths: &Paths<'a>) -> Vec<&'a str> {
    let mut keys = Vec::new();
    for (_, steps) in paths {
        if let Some(Step::Key(key)) = steps.first()
            && !keys.contains(&key.as_str())
        {
            keys.push(key);
        }
    }
    keys
}

/// The paths whose first step fits, without it.
fn after<'a>(paths: &Paths<'a>, fits: impl Fn(&Step) -> bool) -> Paths<'a> {
    let on = |(interest, steps): &(Interest, &'a [Step])| match steps {
        [first, rest @ ..] if fits(first) => Some((*interest, rest)),
        _ => None,
    };
    paths.iter().filter_map(on).collect()
}

/// The rules that put in this key.
fn setting(paths: &Paths<'_>, rules: &[Rule], key: &str) -> Vec<usize> {
    let sets = |(interest, steps): &(Interest, &[Step])| match (interest, steps) {
        (Interest::Rule(number), [only]) if is_key(only, key) && rules[*number].sets() => {
            Some(*number)
        }
        _ => None,
    };
    paths.iter().filter_map(sets).collect()
}
