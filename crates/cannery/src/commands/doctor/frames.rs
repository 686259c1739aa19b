//! `cannery doctor --frames`: how large the frames of archives should be on this lake.

use cannery_pipeline::frame_probe::{Measured, Probed, Recommendation, measure, recommend};
use indicatif::HumanBytes;
use serde_json::json;

use crate::commands::{Context, Patience};
use crate::config::units::Bytes;
use crate::failure::{ExitCode, Failure};
use crate::lakes;
use crate::output::on_one_line;

pub(super) async fn run(context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let mirrors = lakes::open(&config, &context.tools(Patience::Person))?;
    let lake = mirrors.first();
    // Looking must not make it.
    if lake.manifest().await?.is_none() {
        let message = format!("there is no lake at `{}`", lake.url());
        let next = "check `object_storage` in the configuration, or make it with `cannery up`";
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    }
    let (probed, measured) = measure(lake, &context.clock, &context.rng).await?;
    let object = match &probed {
        Probed::Archive(key) => format!("ranged reads of `{}`", on_one_line(key.as_str())),
        Probed::Temporary(_) => "ranged reads of an object that was put there for it".to_owned(),
    };
    let head = format!(
        "{:>10} {:>6} {:>11} {:>11} {:>11}",
        "size", "reads", "fastest", "median", "slowest"
    );
    context.output.in_lines().event(
        "probed",
        format!("{}: {object}\n{head}", on_one_line(lake.url())),
        &json!({ "lake": lake.id(), "probed": probed }),
    );
    for one in &measured {
        context.output.event("measured", row(one), one);
    }
    // Every size was read.
    let Some(found) = recommend(&measured) else {
        return Ok(ExitCode::Ok);
    };
    let now = config.pipeline.frame_bytes;
    let mut value = serde_json::to_value(found).expect("numbers are JSON");
    value["frame_bytes_now"] = now.0.into();
    context
        .output
        .in_lines()
        .event("recommended", said(&found, now), &value);
    Ok(ExitCode::Ok)
}

fn row(one: &Measured) -> String {
    let size = Bytes(one.bytes).to_string();
    let [fastest, median, slowest] =
        [one.fastest_ms, one.median_ms, one.slowest_ms].map(|ms| format!("{ms:.2} ms"));
    format!(
        "{size:>10} {:>6} {fastest:>11} {median:>11} {slowest:>11}",
        one.reads
    )
}

fn said(found: &Recommendation, now: Bytes) -> String {
    let throughput = match found.bytes_per_second {
        Some(rate) => format!("then {}/s", HumanBytes(whole(rate))),
        None => "and larger reads take no longer".to_owned(),
    };
    let best = Bytes(found.frame_bytes);
    let advice = match best == now {
        true => format!("pipeline.frame_bytes: {best} is right for this lake"),
        false => format!(
            "pipeline.frame_bytes: {best} fits this lake, instead of {now}; archives that are there stay as they are"
        ),
    };
    format!(
        "{:.2} ms before the first byte, {throughput}\n{advice}",
        found.latency_ms
    )
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive rate, for people"
)]
fn whole(rate: f64) -> u64 {
    rate.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_says_what_to_write_and_what_there_is() {
        let found = Recommendation {
            latency_ms: 39.984,
            bytes_per_second: Some(50e6),
            frame_bytes: 2 << 20,
        };
        assert_eq!(
            said(&found, Bytes(256 << 10)),
            "39.98 ms before the first byte, then 47.68 MiB/s\n\
             pipeline.frame_bytes: 2MiB fits this lake, instead of 256KiB; archives that are there stay as they are"
        );
        let free = Recommendation {
            bytes_per_second: None,
            ..found
        };
        assert_eq!(
            said(&free, Bytes(2 << 20)),
            "39.98 ms before the first byte, and larger reads take no longer\n\
             pipeline.frame_bytes: 2MiB is right for this lake"
        );
    }

    #[test]
    fn rows_stand_under_their_head() {
        let one = Measured {
            bytes: 16 << 10,
            reads: 8,
            fastest_ms: 0.1,
            median_ms: 0.25,
            slowest_ms: 12.0,
        };
        assert_eq!(
            row(&one),
            "     16KiB      8     0.10 ms     0.25 ms    12.00 ms"
        );
    }
}
