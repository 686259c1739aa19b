//! Claims, and what becomes of them.

use cannery_journal::{Date, Fate, Retry, Token};
use serde_json::json;

use super::Context;
use super::view::{self, EntryView};
use crate::cli::journal::{FailArgs, LeaseArgs};
use crate::config::units::Span;
use crate::failure::{ExitCode, Failure};
use crate::journals::Opened;

pub(super) async fn claim(
    opened: &Opened,
    count: u32,
    worker: &str,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let claimed = opened.journal.claim(worker, count).await?;
    for entry in &claimed.entries {
        context
            .output
            .line(view::claimed(entry), &EntryView::of(entry));
    }
    if !claimed.entries.is_empty() {
        return Ok(ExitCode::Ok);
    }
    let name = opened.journal.name();
    let watch = format!("wait for work with `cannery journal watch {name} --count 1`");
    let next = match claimed.next_wake {
        Some(date) => format!("look again at {date}, or {watch}"),
        None => watch,
    };
    let message = format!("nothing is due in journal `{name}`");
    Err(Failure::new(ExitCode::Absent, "nothing_due", message, next))
}

pub(super) async fn heartbeat(
    opened: &Opened,
    lease: &LeaseArgs,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let deadline = opened.journal.heartbeat(lease.token).await?;
    context.output.line(
        format!("held until {deadline}"),
        &json!({ "token": lease.token, "outcome": "held", "deadline": deadline }),
    );
    Ok(ExitCode::Ok)
}

pub(super) async fn done(
    opened: &Opened,
    lease: &LeaseArgs,
    context: &Context,
) -> Result<ExitCode, Failure> {
    opened.journal.done(lease.token).await?;
    Ok(tell(lease.token, Fate::Done, context))
}

pub(super) async fn release(
    opened: &Opened,
    lease: &LeaseArgs,
    (at, delay): (Option<Date>, Option<Span>),
    context: &Context,
) -> Result<ExitCode, Failure> {
    let at = at.or_else(|| delay.map(|delay| after(delay, context)));
    let fate = opened.journal.release(lease.token, at).await?;
    Ok(tell(lease.token, fate, context))
}

pub(super) async fn fail(
    opened: &Opened,
    args: &FailArgs,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let retry = match (args.retry_at, args.retry_in) {
        _ if args.dead => Retry::Never,
        (Some(date), _) => Retry::At(date),
        (None, delay) => Retry::At(after(
            delay.unwrap_or(Span(std::time::Duration::ZERO)),
            context,
        )),
    };
    let token = args.lease.token;
    let fate = opened.journal.fail(token, &args.reason, retry).await?;
    Ok(tell(token, fate, context))
}

fn after(delay: Span, context: &Context) -> Date {
    Date::from(context.clock.now()).plus(delay.0)
}

fn tell(token: Token, fate: Fate, context: &Context) -> ExitCode {
    let text = match fate {
        Fate::Done => "done",
        Fate::Waiting => "it waits again",
        Fate::Absorbed => "a newer entry of the same key took it over",
        Fate::Dead => "it is on the dead list",
        Fate::Expired => "it had expired and is gone",
        Fate::Lost => "the lease was lost before",
    };
    let value = json!({ "token": token, "outcome": fate });
    context.output.line(text, &value);
    ExitCode::Ok
}
