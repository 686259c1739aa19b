//! What every journal does, whatever engine it stands on: one function a rule.

pub(crate) mod claiming;
pub(crate) mod dead;
pub(crate) mod declaring;
pub(crate) mod expiring;
pub(crate) mod inspecting;
pub(crate) mod leasing;
pub(crate) mod merging;
pub(crate) mod refusing;
pub(crate) mod returning;
pub(crate) mod timing;
pub(crate) mod waking;

/// One test a rule, on the engine that `$open` opens.
macro_rules! suite {
    ($open:path) => {
        $crate::conformance::rules! { $open, claiming:
            order_is_priority_then_process_date_then_arrival
            nothing_before_its_process_date
            priority_200_waits
            a_claim_with_fast_work_has_no_slow_work
            what_is_blocked_does_not_hold_up_slow_work
            a_claim_hands_out_what_was_asked_for_and_nothing_twice
            a_claim_is_bounded_in_bytes
            done_and_claim_is_one
            next_wake_is_none_while_nothing_waits_or_is_processed
            next_wake_is_the_next_process_date
            next_wake_is_past_while_something_is_due
            next_wake_is_the_moment_after_a_deadline
        }
        $crate::conformance::rules! { $open, merging:
            a_merge_keeps_the_insertion_date_and_folds_the_rest
            the_later_expiration_wins_and_none_is_the_latest
            a_merge_resets_the_timeouts
            a_merge_moves_an_entry_back_in_the_order
            a_key_re_added_without_end_still_runs
            a_far_date_is_never_pulled_nearer
            no_max_delay_is_the_default
            a_stale_add_keeps_the_data
            a_stale_add_resets_no_timeouts
            adds_of_one_date_replace_in_order
            a_date_too_far_ahead_is_clamped_and_counted
            a_batch_merges_with_itself
            merge_off_keeps_every_add
            keys_are_compared_whole
        }
        $crate::conformance::rules! { $open, returning:
            a_key_added_while_processing_waits_for_the_end
            adds_of_a_blocked_key_merge
            a_timeout_waits_again_with_one_more
            a_timeout_with_a_successor_is_absorbed
            a_stale_successor_leaves_the_data
            release_waits_again_without_blame
            release_waits_until_the_date
            release_with_a_successor_is_absorbed
            fail_counts_and_waits_until_the_date
            fail_with_a_successor_is_absorbed
            an_absorbed_entry_respects_max_delay
            merge_off_absorbs_nothing
        }
        $crate::conformance::rules! { $open, leasing:
            a_heartbeat_extends
            a_lease_holds_through_its_last_millisecond
            a_token_is_refused_after_its_end
            a_token_is_refused_after_a_timeout
            a_token_is_refused_after_cancel
            a_token_is_refused_after_death_and_requeue
            a_lost_lease_changes_nothing
            no_token_comes_back_when_the_journal_was_empty
            one_token_twice_in_a_request_ends_once
        }
        $crate::conformance::rules! { $open, expiring:
            an_expired_entry_is_gone_everywhere
            an_add_after_expiry_is_a_new_entry
            what_has_expired_on_arrival_is_never_merged_with
            declared_expiry_is_the_default
            an_entry_that_expires_while_processing_may_finish
            an_expired_entry_is_never_retried
            an_expired_entry_leaves_its_successor_alone
            an_expired_successor_absorbs_nothing
            a_dead_entry_does_not_expire
        }
        $crate::conformance::rules! { $open, dead:
            past_timeouts_max_it_dies_exactly_once
            retry_never_goes_to_the_dead_list
            a_long_reason_is_cut
            timeouts_max_zero_allows_one_attempt
            death_frees_the_successor
            requeue_forgets_what_was_held_against_it
            requeue_meets_a_waiting_entry
            requeue_while_processing_is_blocked
            requeue_of_two_makes_one
            requeue_revives_what_expired_in_the_meantime
            forget_takes_the_dead_only
            cancel_takes_waiting_and_processing
            a_poisonous_key_re_added_while_waiting_dies
            a_poisonous_key_re_added_while_processing_dies
            done_wipes_the_slate_clean
        }
        $crate::conformance::rules! { $open, declaring:
            the_same_declaration_changes_nothing
            old_entries_keep_their_lease_and_version
            a_merge_takes_the_new_version
            old_entries_keep_their_timeouts_max
            merge_cannot_change_while_there_are_entries
            a_wrong_declaration_is_refused
        }
        $crate::conformance::rules! { $open, refusing:
            a_batch_with_a_wrong_entry_adds_nothing
            an_undeclared_field_or_a_wrong_type_is_refused
            a_process_date_before_the_insertion_date_is_refused
            dates_outside_of_1970_to_9999_are_refused
            a_worker_cannot_ask_for_a_date_after_9999
            what_is_too_large_is_refused
            what_is_as_large_as_allowed_is_taken
            data_that_is_no_text_is_refused
            the_very_text_comes_back
            a_closed_journal_refuses
        }
        $crate::conformance::rules! { $open, inspecting:
            get_shows_processing_waiting_dead
            list_is_in_order_page_by_page
            list_filters
            a_rare_prefix_is_found_page_by_page
            stats_count_by_priority_and_state
            stats_know_the_oldest_and_the_next
            counts_balance_through_everything
        }
        $crate::conformance::rules! { $open, waking:
            a_listener_hears_an_add
            every_listener_hears
            a_listener_hears_of_the_end
        }
    };
}
pub(crate) use suite;

/// One test a rule for engines that wake their listeners by themselves.
#[allow(unused_macros, reason = "the engine in memory does not")]
macro_rules! alarms {
    ($open:path) => {
        $crate::conformance::rules! { $open, timing:
            a_listener_hears_at_the_process_date
            a_listener_hears_of_a_timeout
            a_listener_hears_of_what_comes_back
            a_listener_hears_when_a_successor_is_free
        }
    };
}
#[allow(unused_imports, reason = "the engine in memory does not")]
pub(crate) use alarms;

macro_rules! rules {
    ($open:path, $part:ident: $($rule:ident)*) => {
        $(
            #[tokio::test]
            async fn $rule() {
                $crate::conformance::$part::$rule($open).await;
            }
        )*
    };
}
pub(crate) use rules;
