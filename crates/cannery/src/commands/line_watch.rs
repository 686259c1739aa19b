//! The pipeline of `cannery up`: begun once the lake, the journal and the catalog answer, however late that is.

use std::time::Duration;

use cannery_journal::Journal;
use cannery_serve::Notices;
use tokio_util::sync::CancellationToken;

use super::Context;
use super::lake_watch::LakeWatch;
use crate::config::Config;
use crate::failure::Failure;
use crate::pipeline::{Pace, Pipeline, PipelineMetrics, Recipe, Site};

/// How often it is looked whether the lake and the journal are there.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// What failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
const NOTICE: &str = "pipeline";

/// The pipeline of a process, running or not.
pub(super) struct LineWatch<'a> {
    pub(super) config: &'a Config,
    pub(super) recipe: Recipe,
    pub(super) metrics: PipelineMetrics,
    pub(super) notices: Notices,
    pub(super) context: &'a Context,
}

impl LineWatch<'_> {
    /// Runs it until `stop` is cancelled. What keeps it from running is logged, shown as a notice, and tried again.
    pub(super) async fn run(
        &self,
        lakes: &LakeWatch,
        journal: impl Fn() -> Option<Journal>,
        stop: &CancellationToken,
    ) {
        if self.config.pipeline.inputs.is_empty() {
            return;
        }
        while !stop.is_cancelled() {
            let begun = tokio::select! {
                begun = self.begin(lakes, &journal) => begun,
                () = stop.cancelled() => return,
            };
            match begun {
                Ok(pipeline) => {
                    self.notices.clear(NOTICE);
                    let summary = pipeline.run(stop).await;
                    pipeline.close().await;
                    if let Some(error) = summary.error {
                        tracing::error!(%error, "the pipeline ended; it begins again");
                    }
                }
                Err(Failure { message, next, .. }) => {
                    tracing::error!(
                        reason = message,
                        next,
                        "the pipeline does not run; trying on"
                    );
                    let notice = format!("the pipeline does not run: {message}; {next}");
                    self.notices.set(NOTICE, notice);
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.context.clock.sleep(AGAIN_AFTER) => {}
            }
        }
    }

    async fn begin(
        &self,
        lakes: &LakeWatch,
        journal: &impl Fn() -> Option<Journal>,
    ) -> Result<Pipeline, Failure> {
        let journal = loop {
            match (lakes.identity(), journal()) {
                (Some(_), Some(journal)) => break journal,
                _ => self.context.clock.sleep(LOOK_EVERY).await,
            }
        };
        let site = Site {
            config: self.config,
            mirrors: lakes.mirrors(),
            journal,
            metrics: &self.metrics,
        };
        Pipeline::open(site, &self.recipe, Pace::Steady, self.context).await
    }
}
