//! What a filter looks at, from its text alone. Where that cannot be told, it is everything that the filter gets.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::path::Part;

use super::interest::{Interest, Step};

/// Where in the document a value may come from; nowhere when it was computed.
type Sources = Vec<Vec<Step>>;

/// What the filter looks at.
pub(super) fn interest(filter: &Term<&str>) -> Interest {
    let mut analysis = Analysis {
        seen: Interest::default(),
        variables: Vec::new(),
    };
    let out = analysis.term(filter, &vec![Vec::new()]);
    analysis.whole(&out);
    analysis.seen
}

struct Analysis<'t> {
    seen: Interest,
    variables: Vec<(&'t str, Sources)>,
}

impl<'t> Analysis<'t> {
    fn whole(&mut self, sources: &Sources) {
        for source in sources {
            self.seen.at(source).whole = true;
        }
    }

    fn step(&mut self, from: &Sources, step: &Step) -> Sources {
        let further = from.iter().map(|source| {
            let mut source = source.clone();
            source.push(step.clone());
            source
        });
        let further: Sources = further.collect();
        for source in &further {
            self.seen.at(source);
        }
        further
    }

    /// What `term` yields when its input is from `input`.
    fn term(&mut self, term: &Term<&'t str>, input: &Sources) -> Sources {
        match term {
            Term::Id => return input.clone(),
            Term::Recurse | Term::Def(..) => self.whole(input),
            Term::Num(_) | Term::Break(_) | Term::Arr(None) => {}
            Term::Str(_, parts) => self.string(parts, input),
            Term::Arr(Some(inner)) | Term::Neg(inner) => self.consume(inner, input),
            Term::Obj(entries) => self.object(entries, input),
            Term::BinOp(left, op, right) => return self.binary(left, op, right, input),
            Term::Label(_, body) => return self.term(body, input),
            Term::Fold(_, over, pattern, steps) => self.fold(over, pattern, steps, input),
            Term::TryCatch(body, catch) => {
                let mut out = self.term(body, input);
                if let Some(catch) = catch {
                    out.extend(self.term(catch, &Vec::new()));
                }
                return out;
            }
            Term::IfThenElse(branches, otherwise) => {
                let mut out = Vec::new();
                for (condition, then) in branches {
                    self.term(condition, input);
                    out.extend(self.term(then, input));
                }
                out.extend(match otherwise {
                    Some(otherwise) => self.term(otherwise, input),
                    None => input.clone(),
                });
                return out;
            }
            Term::Call(name, args) => return self.call(name, args, input),
            Term::Var(name) => {
                let bound = self.variables.iter().rev().find(|(bound, _)| bound == name);
                return bound.map_or_else(Vec::new, |(_, sources)| sources.clone());
            }
            Term::Path(head, path) => return self.path(head, &path.0, input),
        }
        Vec::new()
    }

    /// Takes all that `term` yields.
    fn consume(&mut self, term: &Term<&'t str>, input: &Sources) {
        let out = self.term(term, input);
        self.whole(&out);
    }

    fn string(&mut self, parts: &[StrPart<&'t str, Term<&'t str>>], input: &Sources) {
        for part in parts {
            if let StrPart::Term(term) = part {
                self.consume(term, input);
            }
        }
    }

    fn object(&mut self, entries: &[(Term<&'t str>, Option<Term<&'t str>>)], input: &Sources) {
        for (key, value) in entries {
            match (value, literal(key)) {
                (Some(value), _) => {
                    self.consume(key, input);
                    self.consume(value, input);
                }
                // `{a}` is `{a: .a}`.
                (None, Some(key)) => {
                    let value = self.step(input, &Step::Key(key));
                    self.whole(&value);
                }
                (None, None) => {
                    self.consume(key, input);
                    if !matches!(key, Term::Var(_)) {
                        self.whole(input);
                    }
                }
            }
        }
    }

    fn binary(
        &mut self,
        left: &Term<&'t str>,
        op: &BinaryOp<&'t str>,
        right: &Term<&'t str>,
        input: &Sources,
    ) -> Sources {
        match op {
            BinaryOp::Pipe(None) => {
                let middle = self.term(left, input);
                self.term(right, &middle)
            }
            BinaryOp::Pipe(Some(pattern)) => {
                let value = self.term(left, input);
                let depth = self.variables.len();
                self.bind(pattern, &value, input);
                let out = self.term(right, input);
                self.variables.truncate(depth);
                out
            }
            BinaryOp::Comma | BinaryOp::Alt => {
                let mut out = self.term(left, input);
                out.extend(self.term(right, input));
                out
            }
            // Whether something is true is seen without looking into it.
            BinaryOp::Or | BinaryOp::And => {
                self.term(left, input);
                self.term(right, input);
                Vec::new()
            }
            BinaryOp::Math(_) | BinaryOp::Cmp(_) => {
                self.consume(left, input);
                self.consume(right, input);
                Vec::new()
            }
            BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
                self.whole(input);
                self.consume(left, input);
                self.consume(right, input);
                Vec::new()
            }
        }
    }

    fn bind(&mut self, pattern: &Pattern<&'t str>, value: &Sources, input: &Sources) {
        match pattern {
            Pattern::Var(name) => self.variables.push((name, value.clone())),
            Pattern::Arr(inner) => {
                self.whole(value);
                for pattern in inner {
                    self.bind(pattern, &Vec::new(), input);
                }
            }
            Pattern::Obj(inner) => {
                self.whole(value);
                for (key, pattern) in inner {
                    self.consume(key, input);
                    if let Term::Var(name) = key {
                        self.variables.push((name, Vec::new()));
                    }
                    self.bind(pattern, &Vec::new(), input);
                }
            }
        }
    }

    fn fold(
        &mut self,
        over: &Term<&'t str>,
        pattern: &Pattern<&'t str>,
        steps: &[Term<&'t str>],
        input: &Sources,
    ) {
        let value = self.term(over, input);
        let depth = self.variables.len();
        let mut state = input.clone();
        if let Some((first, rest)) = steps.split_first() {
            // What goes round is taken whole at the start, so whatever comes of it is there.
            self.consume(first, &state);
            state.clear();
            self.bind(pattern, &value, input);
            for step in rest {
                self.consume(step, &state);
            }
        }
        self.variables.truncate(depth);
    }

    fn call(&mut self, name: &str, args: &[Term<&'t str>], input: &Sources) -> Sources {
        match (name, args) {
            ("select", [condition]) => {
                self.term(condition, input);
                return input.clone();
            }
            (
                "values" | "nulls" | "strings" | "numbers" | "booleans" | "arrays" | "objects"
                | "iterables" | "scalars",
                [],
            ) => return input.clone(),
            ("empty" | "true" | "false" | "null" | "nan" | "infinite" | "not" | "type", []) => {}
            ("first" | "last", [inner]) => return self.term(inner, input),
            ("limit" | "skip" | "nth", [count, inner]) => {
                self.consume(count, input);
                return self.term(inner, input);
            }
            ("first" | "last", []) => return self.step(input, &Step::Items),
            ("map", [inner]) => {
                let items = self.step(input, &Step::Items);
                self.consume(inner, &items);
            }
            ("any" | "all", []) => {
                self.step(input, &Step::Items);
            }
            ("any" | "all", [condition]) => {
                let items = self.step(input, &Step::Items);
                self.term(condition, &items);
            }
            ("any" | "all", [over, condition]) => {
                let items = self.term(over, input);
                self.term(condition, &items);
            }
            ("isempty", [inner]) => {
                self.term(inner, input);
            }
            ("has", [key]) if literal(key).is_some() => {
                let key = literal(key).unwrap_or_default();
                self.step(input, &Step::Key(key));
            }
            _ => {
                self.whole(input);
                for arg in args {
                    self.consume(arg, input);
                }
            }
        }
        Vec::new()
    }

    fn path(
        &mut self,
        head: &Term<&'t str>,
        parts: &[(Part<Term<&'t str>>, jaq_core::path::Opt)],
        input: &Sources,
    ) -> Sources {
        let mut at = self.term(head, input);
        for (part, _) in parts {
            at = match part {
                Part::Index(index) => match (literal(index), index) {
                    (Some(key), _) => self.step(&at, &Step::Key(key)),
                    (None, Term::Num(_)) => self.step(&at, &Step::Items),
                    (None, _) => {
                        self.whole(&at);
                        self.consume(index, input);
                        Vec::new()
                    }
                },
                Part::Range(None, None) => self.step(&at, &Step::Items),
                Part::Range(from, to) => {
                    self.whole(&at);
                    for bound in [from, to].into_iter().flatten() {
                        self.consume(bound, input);
                    }
                    Vec::new()
                }
            };
        }
        at
    }
}

/// The text of a string that has nothing to compute in it.
pub(super) fn literal(term: &Term<&str>) -> Option<String> {
    let Term::Str(None, parts) = term else {
        return None;
    };
    let mut text = String::new();
    for part in parts {
        match part {
            StrPart::Str(piece) => text.push_str(piece),
            StrPart::Char(char) => text.push(*char),
            StrPart::Term(_) => return None,
        }
    }
    Some(text)
}
