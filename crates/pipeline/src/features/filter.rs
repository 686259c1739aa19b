//! A filter: compiled once, run on many documents, by several threads.

use std::cell::Cell;
use std::fmt::{self, Write as _};

use jaq_core::data::{DataT, HasLut};
use jaq_core::load::parse::{Def, Term};
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Compiler, Ctx, Cv, Error, Lut, ValXs, Vars, unwrap_valr};
use jaq_json::{Num, Val};
use serde_json::Value as Json;

use super::guard::{self, FACTOR, SHORT, SIZE, STEP};
use super::interest::Interest;
use super::{analyse, prune};

/// What a run may cost at least; a step is about a tenth of a microsecond.
const STEPS: u64 = 500_000;

/// What a run on a document of `bytes` bytes may cost.
pub(super) fn steps_for(bytes: usize) -> u64 {
    STEPS.saturating_add(bytes as u64 / 4)
}

/// Deeper values are refused: dropping them takes the stack.
const DEPTH_MAX: usize = 200;
/// Of a value's text, so many bytes cost a step.
const STEP_BYTES: u64 = 32;
/// Above this, what takes the square of a length is refused.
const SHORT_BYTES_MAX: usize = 16 * 1024;
/// More of what one filter makes of one document is refused.
const ROWS_MAX: usize = 10_000;
const REASON_BYTES_MAX: usize = 300;

const MAIN: &str = "cannery_filter";

/// A filter that may be run.
pub(super) struct Filter {
    compiled: jaq_core::Filter<Paying>,
    pub(super) interest: Interest,
}

/// What a run has besides its values.
struct Purse<'a> {
    lut: &'a Lut<Paying>,
    steps: Cell<u64>,
    is_empty: Cell<bool>,
}

/// Filters whose steps are counted.
struct Paying;

impl DataT for Paying {
    type V<'a> = Val;
    type Data<'a> = &'a Purse<'a>;
}

impl<'a> HasLut<'a, Paying> for &'a Purse<'a> {
    fn lut(&self) -> &'a Lut<Paying> {
        self.lut
    }
}

impl Purse<'_> {
    fn pay(&self, steps: u64) -> Result<(), Error<Val>> {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        if left.is_none() {
            self.is_empty.set(true);
            return Err(Error::str("it takes too long"));
        }
        Ok(())
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").finish_non_exhaustive()
    }
}

impl Filter {
    /// Compiles a filter of the language of `jq`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn compile(code: &str) -> Result<Self, String> {
        guard::check_text(code)?;
        let term = parse(code)?;
        let interest = analyse::interest(&term);
        let body = guard::guard(term)?;
        let defs = jaq_core::defs()
            .chain(jaq_std::defs())
            .chain(jaq_json::defs());
        let main = Def {
            name: MAIN,
            args: Vec::new(),
            body,
        };
        let mut prelude: Vec<Def<&str>> = Vec::new();
        for def in defs {
            prelude.push(def);
        }
        prelude.push(main);
        let arena = Arena::default();
        let file = File {
            code: MAIN,
            path: (),
        };
        let modules = Loader::new(prelude)
            .load(&arena, file)
            .map_err(|_| "it cannot be loaded".to_owned())?;
        let compiled = Compiler::default().with_funs(funs()).compile(modules);
        let compiled = compiled.map_err(|errors| {
            let mut names = errors.iter().flat_map(|(_, errors)| errors);
            let (name, what) = names.next().map_or(("", "name"), |(n, w)| (*n, w.as_str()));
            format!("it uses the {what} `{name}`, which is not there")
        })?;
        Ok(Self { compiled, interest })
    }

    /// What the filter makes of a document with so many steps at most, one after the other until the first error.
    pub(super) fn run(
        &self,
        document: Val,
        steps: u64,
        mut each: impl FnMut(Result<Json, String>),
    ) {
        let purse = Purse {
            lut: &self.compiled.lut,
            steps: Cell::new(steps),
            is_empty: Cell::new(false),
        };
        let context = Ctx::<Paying>::new(&purse, Vars::new([]));
        let values = self.compiled.id.run((context, document)).map(unwrap_valr);
        for (number, value) in values.enumerate() {
            if purse.is_empty.get() {
                return each(Err("the filter takes too long with it".into()));
            }
            if number >= ROWS_MAX {
                return each(Err(format!(
                    "the filter makes more than {ROWS_MAX} rows of it"
                )));
            }
            match value {
                Ok(value) => match purse.pay(size(&value, purse.steps.get(), 0)) {
                    Ok(()) => each(Ok(json(&value))),
                    Err(_) => return each(Err("the filter makes too much of it".into())),
                },
                Err(error) => return each(Err(short(&error))),
            }
        }
        if purse.is_empty.get() {
            // It caught the error.
            each(Err("the filter takes too long with it".into()));
        }
    }
}

fn parse(code: &str) -> Result<Term<&str>, String> {
    let tokens = load::lex::Lexer::new(code).lex().map_err(|errors| {
        let error = errors.first().map(|(expect, at)| (expect.as_str(), *at));
        unexpected(code, error)
    })?;
    let parsed = load::parse::Parser::new(&tokens).parse(|parser| parser.term());
    parsed.map_err(|errors| {
        let error = errors
            .first()
            .map(|(expect, found)| (expect.as_str(), load::lex::Token::opt_as_str(*found, code)));
        unexpected(code, error)
    })
}

fn unexpected(code: &str, error: Option<(&str, &str)>) -> String {
    let (expected, found) = error.unwrap_or(("another text", ""));
    let near: String = found.chars().take(20).collect();
    if near.is_empty() {
        return format!("it is no filter: expected {expected} at its end");
    }
    let at = load::span(code, found).start;
    format!("it is no filter: expected {expected} at byte {at}, where `{near}` stands")
}

fn funs() -> impl Iterator<Item = Fun<Paying>> {
    let given = jaq_core::funs::<Paying>()
        .chain(jaq_std::base_funs())
        .chain(jaq_std::extra_funs())
        .chain(jaq_json::funs());
    // These would take the stack, or the square of a length.
    let given = given.filter(|(name, args, _)| !(*name == "fromjson" && args.is_empty()));
    given.chain(own())
}

fn own() -> impl Iterator<Item = Fun<Paying>> {
    let funs: [jaq_core::native::Filter<jaq_core::RunPtr<Paying>>; 5] = [
        (STEP, v(0), |(context, value)| {
            let paid = context.data().pay(1);
            bome(paid.map(|()| value))
        }),
        (SIZE, v(0), |(context, value)| {
            let purse = context.data();
            let paid = purse.pay(size(&value, purse.steps.get(), 0));
            bome(paid.map(|()| value))
        }),
        (FACTOR, v(0), |(_, value)| {
            bome(match value {
                Val::TStr(_) | Val::BStr(_) => Err(Error::str("strings are not multiplied")),
                value => Ok(value),
            })
        }),
        (SHORT, v(0), paid_if_short),
        ("fromjson", v(0), |(_, value)| {
            let text = match &value {
                Val::TStr(text) | Val::BStr(text) => prune::whole(text),
                _ => Err("only strings are".into()),
            };
            bome(text.map_err(|why| Error::str(format_args!("it is no JSON: {why}"))))
        }),
    ];
    funs.into_iter().map(|fun| run::<Paying>(fun))
}

fn paid_if_short<'a>((context, value): Cv<'a, Paying>) -> ValXs<'a, Val> {
    let length = match &value {
        Val::TStr(text) | Val::BStr(text) => text.len(),
        Val::Arr(items) => items.len(),
        Val::Obj(entries) => entries.len(),
        Val::Null | Val::Bool(_) | Val::Num(_) => 0,
    };
    let purse = context.data();
    let paid = match length > SHORT_BYTES_MAX {
        true => Err(Error::str("it is too long for this function")),
        // About the square.
        false => purse.pay((length * length / 32) as u64 + 1),
    };
    bome(paid.map(|()| value))
}

/// What a value costs, looked at no further than `limit`. Too deep costs more than anybody has.
fn size(value: &Val, limit: u64, depth: usize) -> u64 {
    if depth > DEPTH_MAX {
        return u64::MAX;
    }
    let mut sum: u64 = 1;
    let mut add = |more: u64| {
        sum = sum.saturating_add(more);
        sum <= limit
    };
    match value {
        Val::Null | Val::Bool(_) | Val::Num(_) => {}
        Val::TStr(text) | Val::BStr(text) => {
            add(text.len() as u64 / STEP_BYTES);
        }
        Val::Arr(items) => {
            for item in items.iter() {
                if !add(size(item, limit, depth + 1)) {
                    break;
                }
            }
        }
        Val::Obj(entries) => {
            for (key, item) in entries.iter() {
                if !add(size(key, limit, depth + 1)) || !add(size(item, limit, depth + 1)) {
                    break;
                }
            }
        }
    }
    sum
}

/// The value as JSON. Numbers that JSON cannot say become null.
fn json(value: &Val) -> Json {
    match value {
        Val::Null => Json::Null,
        Val::Bool(value) => Json::Bool(*value),
        Val::Num(number) => match number {
            Num::Int(number) => Json::from(*number as i64),
            Num::BigInt(_) | Num::Float(_) | Num::Dec(_) => {
                let text = number.to_string();
                serde_json::from_str(&text).unwrap_or(Json::Null)
            }
        },
        Val::TStr(text) | Val::BStr(text) => {
            Json::String(String::from_utf8_lossy(text).into_owned())
        }
        Val::Arr(items) => Json::Array(items.iter().map(json).collect()),
        Val::Obj(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                let key = match key {
                    Val::TStr(text) | Val::BStr(text) => String::from_utf8_lossy(text).into_owned(),
                    other => other.to_string(),
                };
                (key, json(value))
            });
            Json::Object(entries.collect())
        }
    }
}

/// The beginning of a message, which may quote a value of any length.
fn short(message: &dyn fmt::Display) -> String {
    struct Short(String);
    impl fmt::Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let left = REASON_BYTES_MAX - self.0.len();
            let fits = text.char_indices().map(|(at, char)| at + char.len_utf8());
            let fitting = fits.take_while(|end| *end <= left).last().unwrap_or(0);
            self.0.push_str(&text[..fitting]);
            match fitting == text.len() {
                true => Ok(()),
                false => Err(fmt::Error),
            }
        }
    }
    let mut out = Short(String::new());
    match write!(out, "{message}") {
        Ok(()) => out.0,
        Err(_) => format!("{}…", out.0),
    }
}
