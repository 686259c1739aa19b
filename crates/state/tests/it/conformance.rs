//! What every state does, whatever engine it stands on: one function a rule.

pub(crate) mod asking;
pub(crate) mod breaking;
pub(crate) mod forgetting;
pub(crate) mod identity;
pub(crate) mod telling;

/// One test a rule, on the engine that `$open` opens.
macro_rules! suite {
    ($open:ident) => {
        $crate::conformance::rules! { $open, telling:
            an_execution_runs_and_then_has_ended
            begin_and_end_in_quick_succession_are_one_execution
            what_is_told_at_once_is_all_there
            every_outcome_comes_back_as_it_was
            hostile_texts_are_kept
            a_worker_that_dies_leaves_what_it_ran_as_lost
            a_worker_that_ends_leaves_what_it_ran_as_lost
            a_worker_that_was_only_silent_is_right_again
        }
        $crate::conformance::rules! { $open, asking:
            pages_have_everything_once_newest_first
            filters_hold_at_once
            the_last_of_each_bucket_and_stage
            a_summary_counts_and_ranks
        }
        $crate::conformance::rules! { $open, forgetting:
            what_is_old_is_forgotten_unless_it_runs
            a_recorder_forgets_by_itself
            forgetting_that_is_cut_off_is_done_by_the_next
        }
        $crate::conformance::rules! { $open, breaking:
            what_finds_no_room_is_counted_and_nobody_waits
            a_state_that_was_closed_stops_nobody
        }
        $crate::conformance::rules! { $open, identity:
            a_user_is_there_once_and_a_removed_ones_id_is_not_used_again
            of_many_who_add_one_name_one_succeeds
            keys_belong_to_one_user_and_go_with_the_user
            a_token_is_good_until_it_expires_or_is_revoked
            what_is_not_quite_a_token_is_worth_nothing
        }
    };
}
pub(crate) use suite;

macro_rules! rules {
    ($open:ident, $group:ident: $($rule:ident)*) => {
        mod $group {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $rule() {
                    let subject = super::$open().await;
                    $crate::conformance::$group::$rule(&subject).await;
                }
            )*
        }
    };
}
pub(crate) use rules;
