//! `cannery token`: secrets that stand for a user, with limits.

use cannery_state::State;
use cannery_state::identity::Token;
use jiff::Timestamp;
use serde_json::json;

use super::Context;
use crate::cli::user::{TokenCommand, TokenCreateArgs};
use crate::failure::{ExitCode, Failure};
use crate::plant;

pub(crate) async fn run(command: &TokenCommand, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let state = plant::state(&config, context).await?;
    let done = manage(command, &state, context).await;
    state.close().await;
    done.map(|()| ExitCode::Ok)
}

async fn manage(command: &TokenCommand, state: &State, context: &Context) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(args) => create(args, state, context).await?,
        TokenCommand::Ls { user } => {
            let now = context.clock.now();
            for token in state.tokens(user.as_ref()).await? {
                context.output.event("token", line(&token, now), &token);
            }
        }
        TokenCommand::Revoke { id } => {
            state.revoke_token(id).await?;
            let text = format!("revoked token {id}");
            context.output.event("revoked", text, &json!({ "id": id }));
        }
    }
    Ok(())
}

async fn create(args: &TokenCreateArgs, state: &State, context: &Context) -> Result<(), Failure> {
    let scopes = args.scopes.iter().copied().collect();
    let lifetime = args.expires.map(|span| span.0);
    let issued = state
        .create_token(&args.user, &scopes, lifetime, &context.rng)
        .await?;
    // What prints elsewhere hides secrets; here the secret is what was asked for.
    let text = match context.output.json {
        true => {
            let value =
                json!({ "event": "created", "text": issued.text.expose(), "token": issued.token });
            value.to_string()
        }
        false => issued.text.expose().to_owned(),
    };
    context.output.raw(format!("{text}\n").as_bytes());
    Ok(())
}

/// `mfrggzdfmztwq2lknnwg23tpob  ann  read,write  2026-11-15T18:24:03Z  expires 2026-12-15T18:24:03Z`
fn line(token: &Token, now: Timestamp) -> String {
    let ends = match (token.revoked, token.expires) {
        (Some(revoked), _) => format!("revoked {revoked:.0}"),
        (None, Some(expires)) if expires <= now => format!("expired {expires:.0}"),
        (None, Some(expires)) => format!("expires {expires:.0}"),
        (None, None) => "does not expire".to_owned(),
    };
    format!(
        "{}  {}  {}  {:.0}  {ends}",
        token.id, token.user, token.scopes, token.created
    )
}
