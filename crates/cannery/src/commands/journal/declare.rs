//! Which journals there are, and making new ones.

use serde_json::json;

use super::Context;
use crate::cli::journal::DeclareArgs;
use crate::config::journal::{JournalSettings, RawJournal};
use crate::failure::{ExitCode, Failure};
use crate::journals::Journals;

pub(super) async fn names(journals: &Journals<'_>, context: &Context) -> Result<ExitCode, Failure> {
    for known in journals.known().await? {
        let origin = if known.configured {
            "configured"
        } else {
            "declared"
        };
        let text = format!("{:<24} {origin:<10}  {}", known.name, known.engine);
        let value = json!({ "journal": known.name, "origin": origin, "engine": known.engine });
        context.output.line(text, &value);
    }
    Ok(ExitCode::Ok)
}

pub(super) async fn declare(
    args: &DeclareArgs,
    journals: &Journals<'_>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let name = &args.journal.name;
    let wrong = |reason| {
        let message = format!("cannot declare journal `{name}`: {reason}");
        let next = "correct the declaration; nothing was changed";
        Failure::new(ExitCode::Usage, "invalid", message, next)
    };
    if let Some((twice, _)) = args.fields.iter().enumerate().find_map(|(place, field)| {
        args.fields[..place]
            .iter()
            .find(|earlier| earlier.0 == field.0)
    }) {
        return Err(wrong(format!("the field `{twice}` is declared twice")));
    }
    // What is not said stays as it is.
    let before = journals.settings(name).await?;
    let settings = before.with(raw(args)).map_err(wrong)?;
    let (opened, version) = journals.declare(name, &settings).await?;
    let declared = JournalSettings::of(settings.engine, &opened.journal.declaration());
    let name = opened.journal.name().to_owned();
    opened.close().await;
    context.output.line(
        format!("journal {name} is declared (version {version}, {})", declared.engine),
        &json!({ "journal": name, "outcome": "declared", "version": version, "declaration": declared }),
    );
    Ok(ExitCode::Ok)
}

fn raw(args: &DeclareArgs) -> RawJournal {
    RawJournal {
        engine: None,
        lease: args.lease,
        timeouts_max: args.timeouts_max,
        max_delay: args.max_delay,
        period: args.period,
        on_empty: args.on_empty,
        expiry: args.expiry,
        merge: args.merge,
        wipe: args.wipe,
        key: (!args.key_fields.is_empty()).then(|| args.key_fields.clone()),
        fields: (!args.fields.is_empty()).then(|| args.fields.iter().cloned().collect()),
    }
}
