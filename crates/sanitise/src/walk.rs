//! Passes over a document beside the plan, and notes where something is of interest.

use crate::fault::Bad;
use crate::plan::{Node, Plan};
use crate::scan::{Scan, Start};

/// A place where something may be done, in the order of the text.
#[derive(Clone, Debug)]
pub(crate) enum Hit<'p> {
    /// A value that a path of the plan leads to.
    Value(ValueHit<'p>),
    /// The end of an object that may lack keys.
    Close(CloseHit<'p>),
}

impl Hit<'_> {
    /// Where it stands. No two stand at the same place.
    pub(crate) fn place(&self) -> usize {
        match self {
            Self::Value(hit) => hit.start,
            Self::Close(hit) => hit.at,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ValueHit<'p> {
    /// `None` where nothing but the string's bytes are of interest.
    pub(crate) node: Option<&'p Node>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Where the member or element begins that it is the value of.
    pub(crate) item_start: usize,
    pub(crate) item: Item,
}

/// Which item of which container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) container: usize,
    pub(crate) index: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct CloseHit<'p> {
    pub(crate) node: &'p Node,
    /// Where the bracket stands.
    pub(crate) at: usize,
    pub(crate) container: usize,
    pub(crate) members: usize,
    /// Which of the node's `sets` it has.
    pub(crate) has: Vec<bool>,
}

/// A document that is well-formed, and what is of interest in it.
pub(crate) struct Walked<'p, 'a> {
    pub(crate) hits: Vec<Hit<'p>>,
    pub(crate) scan: Scan<'a>,
}

/// Walks over a document, which must be one JSON object.
pub(crate) fn walk<'p, 'a>(plan: &'p Plan, scan: Scan<'a>) -> Result<Walked<'p, 'a>, Bad> {
    let mut scan = scan;
    scan.space();
    if scan.at_end() {
        return Err(Bad::Empty);
    }
    let mut walk = Walk {
        plan,
        hits: Vec::with_capacity(64),
        containers: 0,
    };
    if scan.peek()? == Start::Object {
        walk.object(&mut scan, plan.root())?;
        scan.end()?;
    } else {
        scan.value()?;
        scan.end()?;
        return Err(Bad::NotAnObject);
    }
    let hits = walk.hits;
    Ok(Walked { hits, scan })
}

struct Walk<'p> {
    plan: &'p Plan,
    hits: Vec<Hit<'p>>,
    containers: usize,
}

impl<'p> Walk<'p> {
    fn value(
        &mut self,
        scan: &mut Scan<'_>,
        node: usize,
        item_start: usize,
        item: Item,
    ) -> Result<(), Bad> {
        let node = self.plan.node(node);
        let start = scan.position();
        let hit = (!node.interests.is_empty()).then_some(self.hits.len());
        if hit.is_some() {
            self.hits.push(Hit::Value(ValueHit {
                node: Some(node),
                start,
                end: start,
                item_start,
                item,
            }));
        }
        match scan.peek()? {
            Start::Object if node.has_keys() => self.object(scan, node)?,
            Start::Array if node.element.is_some() => self.array(scan, node)?,
            _ => scan.value()?,
        }
        if let Some(Hit::Value(hit)) = hit.and_then(|hit| self.hits.get_mut(hit)) {
            hit.end = scan.position();
        }
        Ok(())
    }

    fn container(&mut self) -> usize {
        self.containers += 1;
        self.containers
    }

    fn object(&mut self, scan: &mut Scan<'_>, node: &'p Node) -> Result<(), Bad> {
        let container = self.container();
        let mut has = vec![false; node.sets.len()];
        let members = scan.members(|scan, member| {
            let (below, set) = node.key(member.name, member.print);
            if let Some(set) = set {
                has[set] = true;
            }
            let item = Item {
                container,
                index: member.index,
            };
            match below {
                Some(below) => self.value(scan, below, member.start, item),
                None => scan.value(),
            }
        })?;
        if has.contains(&false) {
            self.hits.push(Hit::Close(CloseHit {
                node,
                at: scan.position() - 1,
                container,
                members,
                has,
            }));
        }
        Ok(())
    }

    fn array(&mut self, scan: &mut Scan<'_>, node: &'p Node) -> Result<(), Bad> {
        let container = self.container();
        let below = node.element.expect("whoever calls has looked");
        scan.elements(|scan, index| {
            let start = scan.position();
            self.value(scan, below, start, Item { container, index })
        })?;
        Ok(())
    }
}
