//! What a filter may do, and the steps that are counted while it does it.
//!
//! A filter is rewritten before it is compiled: only functions that end are allowed, and wherever values multiply or grow
//! it has to pay. What it can pay with is bounded, so whatever a document or a filter looks like, it ends soon.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};

use super::analyse::literal;

/// Pays one step.
pub(super) const STEP: &str = "cannery_step";
/// Pays for the size of a value.
pub(super) const SIZE: &str = "cannery_size";
/// Lets everything pass but strings, of which a product would be many copies.
pub(super) const FACTOR: &str = "cannery_factor";
/// Lets only short strings pass, for what takes the square of their length.
pub(super) const SHORT: &str = "cannery_short";

const FILTER_BYTES_MAX: usize = 16 * 1024;
const NESTING_MAX: usize = 100;

/// Functions that pass their input on, or look at nothing but its type.
const CHEAP: &[&str] = &[
    "select",
    "empty",
    "not",
    "true",
    "false",
    "null",
    "nan",
    "infinite",
    "values",
    "nulls",
    "strings",
    "numbers",
    "booleans",
    "arrays",
    "objects",
    "iterables",
    "scalars",
    "type",
    "first",
    "last",
    "has",
    "in",
];

/// Functions whose work is in proportion to what they get and make.
const FAIR: &[&str] = &[
    "error",
    "map",
    "length",
    "utf8bytelength",
    "keys",
    "keys_unsorted",
    "any",
    "all",
    "add",
    "min",
    "max",
    "min_by",
    "max_by",
    "unique",
    "unique_by",
    "group_by",
    "sort",
    "sort_by",
    "reverse",
    "flatten",
    "nth",
    "limit",
    "skip",
    "range",
    "join",
    "split",
    "ascii_downcase",
    "ascii_upcase",
    "ltrimstr",
    "rtrimstr",
    "startswith",
    "endswith",
    "trim",
    "ltrim",
    "rtrim",
    "tostring",
    "tonumber",
    "toboolean",
    "tojson",
    "fromjson",
    "to_entries",
    "floor",
    "ceil",
    "round",
    "sqrt",
    "fabs",
    "abs",
    "pow",
    "log",
    "log2",
    "log10",
    "exp",
    "explode",
    "isempty",
    "isnan",
    "isinfinite",
    "isnormal",
    "todate",
    "fromdate",
    "todateiso8601",
    "fromdateiso8601",
    "strptime",
    "mktime",
    "gmtime",
    "strftime",
    "getpath",
    "recurse",
];

/// Functions that compare all with all: what they look for must stand in the filter.
const SEARCH: &[&str] = &["contains", "index", "rindex", "indices", "test"];

/// Functions that take the square of the length of their input: a short one, and a pattern that stands in the filter.
const SQUARE: &[&str] = &[
    "match",
    "capture",
    "scan",
    "sub",
    "gsub",
    "splits",
    "from_entries",
    "with_entries",
];

/// Formats of strings, which are functions too.
const FORMATS: &[&str] = &["@text", "@json", "@html", "@uri", "@base64", "@base64d"];

type Refused = String;

/// Refuses a filter whose text alone is too much for a parser.
pub(super) fn check_text(filter: &str) -> Result<(), Refused> {
    if filter.len() > FILTER_BYTES_MAX {
        return Err(format!("it has more than {FILTER_BYTES_MAX} bytes"));
    }
    let opened = filter.bytes().filter(|byte| b"([{".contains(byte)).count();
    let words = filter.split_whitespace();
    let nested =
        words.filter(|word| ["if", "try", "reduce", "foreach", "label", "-"].contains(word));
    match opened + nested.count() > NESTING_MAX * 4 || deepest(filter) > NESTING_MAX {
        true => Err("it is nested too deep".into()),
        false => Ok(()),
    }
}

fn deepest(filter: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in filter.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The same filter, which pays for what it does.
///
/// # Errors
/// What it may not do.
pub(super) fn guard(term: Term<&str>) -> Result<Term<&str>, Refused> {
    Ok(match term {
        Term::Id | Term::Num(_) | Term::Var(_) | Term::Break(_) | Term::Arr(None) => term,
        Term::Recurse => pays(term, STEP),
        Term::Str(format, parts) => {
            check_format(format)?;
            let parts = parts.into_iter().map(|part| {
                Ok(match part {
                    StrPart::Term(inner) => StrPart::Term(pays(guard(inner)?, SIZE)),
                    StrPart::Str(_) | StrPart::Char(_) => part,
                })
            });
            Term::Str(format, parts.collect::<Result<_, Refused>>()?)
        }
        Term::Arr(Some(inner)) => pays(Term::Arr(Some(boxed(*inner)?)), SIZE),
        Term::Obj(entries) => {
            let entries = entries.into_iter().map(|(key, value)| {
                let value = value.map(guard).transpose()?;
                // `{a}` and `{$a}` are more than their key.
                let key = if value.is_some() {
                    guard(key)?
                } else {
                    plain(key)?
                };
                Ok((key, value))
            });
            pays(Term::Obj(entries.collect::<Result<_, Refused>>()?), SIZE)
        }
        Term::Neg(inner) => Term::Neg(boxed(*inner)?),
        Term::BinOp(left, op, right) => binary(guard(*left)?, op, guard(*right)?)?,
        Term::Label(name, body) => Term::Label(name, boxed(*body)?),
        Term::Fold(kind, over, pattern, steps) => {
            let steps = steps.into_iter().map(guard).collect::<Result<_, _>>()?;
            let over = Box::new(pays(guard(*over)?, STEP));
            Term::Fold(kind, over, guard_pattern(pattern)?, steps)
        }
        Term::TryCatch(body, catch) => {
            Term::TryCatch(boxed(*body)?, catch.map(|catch| boxed(*catch)).transpose()?)
        }
        Term::IfThenElse(branches, otherwise) => {
            let branches = branches
                .into_iter()
                .map(|(c, t)| Ok((guard(c)?, guard(t)?)));
            let branches = branches.collect::<Result<_, Refused>>()?;
            let otherwise = otherwise.map(|inner| boxed(*inner)).transpose()?;
            Term::IfThenElse(branches, otherwise)
        }
        Term::Def(..) => return Err("it defines functions; write out what they do".into()),
        Term::Call(name, args) => call(name, args)?,
        Term::Path(head, path) => guard_path(guard(*head)?, path)?,
    })
}

fn boxed(term: Term<&str>) -> Result<Box<Term<&str>>, Refused> {
    guard(term).map(Box::new)
}

/// The key of an object that is its own value.
fn plain(key: Term<&str>) -> Result<Term<&str>, Refused> {
    match literal(&key).is_some() || matches!(key, Term::Var(_)) {
        true => Ok(key),
        false => Err("an object has a computed key without a value".into()),
    }
}

fn pays<'s>(term: Term<&'s str>, with: &'static str) -> Term<&'s str> {
    pipe(term, Term::Call(with, Vec::new()))
}

fn pipe<'s>(left: Term<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(None), Box::new(right))
}

fn binary<'s>(
    left: Term<&'s str>,
    op: BinaryOp<&'s str>,
    right: Term<&'s str>,
) -> Result<Term<&'s str>, Refused> {
    let of = |left, op, right| Term::BinOp(Box::new(left), op, Box::new(right));
    Ok(match op {
        BinaryOp::Pipe(pattern) => {
            let pattern = pattern.map(guard_pattern).transpose()?;
            of(left, BinaryOp::Pipe(pattern), right)
        }
        BinaryOp::Comma | BinaryOp::Alt | BinaryOp::Or | BinaryOp::And => of(left, op, right),
        BinaryOp::Math(Math::Mul) => {
            let product = of(pays(left, FACTOR), op, pays(right, FACTOR));
            pays(product, SIZE)
        }
        BinaryOp::Math(_) => pays(of(pays(left, SIZE), op, right), SIZE),
        BinaryOp::Cmp(_) => of(pays(left, SIZE), op, right),
        BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
            return Err("it assigns; a filter only reads".into());
        }
    })
}

fn guard_pattern(pattern: Pattern<&str>) -> Result<Pattern<&str>, Refused> {
    Ok(match pattern {
        Pattern::Var(_) => pattern,
        Pattern::Arr(inner) => Pattern::Arr(
            inner
                .into_iter()
                .map(guard_pattern)
                .collect::<Result<_, _>>()?,
        ),
        Pattern::Obj(inner) => {
            let inner = inner.into_iter().map(|(key, pattern)| {
                let key = if matches!(key, Term::Var(_)) {
                    key
                } else {
                    guard(key)?
                };
                Ok((key, guard_pattern(pattern)?))
            });
            Pattern::Obj(inner.collect::<Result<_, Refused>>()?)
        }
    })
}

fn call<'s>(name: &'s str, args: Vec<Term<&'s str>>) -> Result<Term<&'s str>, Refused> {
    let literals = args.iter().filter(|arg| literal(arg).is_some()).count();
    if SEARCH.contains(&name) && literals != args.len() {
        return Err(format!("what `{name}` looks for has to be a string"));
    }
    let is_square = SQUARE.contains(&name);
    let has_pattern = args.first().is_some_and(|arg| literal(arg).is_some());
    if is_square && !has_pattern && !name.ends_with("_entries") {
        return Err(format!("the pattern of `{name}` has to be a string"));
    }
    let known = [CHEAP, FAIR, SEARCH, SQUARE, FORMATS];
    if !known.iter().any(|list| list.contains(&name)) || name == "recurse" && !args.is_empty() {
        let count = args.len();
        return Err(format!("it calls `{name}/{count}`, which filters may not"));
    }
    let args = args.into_iter().map(guard).collect::<Result<_, _>>()?;
    let call = Term::Call(name, args);
    if CHEAP.contains(&name) {
        return Ok(pays(call, STEP));
    }
    let before = Term::Call(if is_square { SHORT } else { SIZE }, Vec::new());
    Ok(pays(pipe(before, call), SIZE))
}

fn check_format(format: Option<&str>) -> Result<(), Refused> {
    match format {
        Some(format) if !FORMATS.contains(&format) => {
            Err(format!("it uses `{format}`, which filters may not"))
        }
        _ => Ok(()),
    }
}

/// Every iteration of a path pays, also where nothing comes of it in the end.
fn guard_path<'s>(
    mut head: Term<&'s str>,
    path: Path<Term<&'s str>>,
) -> Result<Term<&'s str>, Refused> {
    let mut parts = Vec::new();
    for (part, opt) in path.0 {
        match part {
            Part::Index(index) => parts.push((Part::Index(guard(index)?), opt)),
            Part::Range(from, to) => {
                let range = Part::Range(from.map(guard).transpose()?, to.map(guard).transpose()?);
                parts.push((range, opt));
                let done = Path(std::mem::take(&mut parts));
                head = pays(Term::Path(Box::new(head), done), STEP);
            }
        }
    }
    Ok(match parts.is_empty() {
        true => head,
        false => Term::Path(Box::new(head), Path(parts)),
    })
}
