//! What every catalog does, whatever engine it stands on: one function a rule.

pub(crate) mod asking;
pub(crate) mod breaking;
pub(crate) mod covering;
pub(crate) mod declaring;
pub(crate) mod duplicating;
pub(crate) mod loading;

/// One test a rule, on the engine that `$open` opens.
macro_rules! suite {
    ($open:ident) => {
        $crate::conformance::rules! { $open, loading:
            a_new_file_is_ingested_and_then_skipped
            other_frames_change_offsets_only
            another_generation_is_a_repoint
            another_text_keeps_the_ids_of_what_stays
            a_file_takes_the_place_of_others
            a_file_that_replaces_unknown_ones_asks_for_its_features
            a_feature_is_reprocessed_alone
            a_compatible_version_is_only_marked
            what_a_newer_program_loaded_is_reported
            what_the_lake_has_no_more_is_reported
            a_row_that_does_not_fit_is_kept_as_bad
            every_type_comes_back_as_it_was
            a_large_file_is_loaded_in_parts
            an_empty_file_is_a_file
            a_forgotten_file_is_gone
        }
        $crate::conformance::rules! { $open, duplicating:
            the_same_uid_again_is_a_duplicate
            the_file_that_sorts_first_holds_it
            twice_in_one_file_is_a_duplicate
            a_duplicate_takes_the_place_of_what_goes
            the_order_of_loading_does_not_matter
            a_repoint_moves_duplicates_too
            rows_are_those_of_the_holder
            a_file_of_one_line_many_times_takes_the_place_of_its_open_can
        }
        $crate::conformance::rules! { $open, breaking:
            a_load_that_is_dropped_changes_nothing
            a_commit_that_is_cut_off_changes_nothing
            a_fence_that_refuses_changes_nothing
            of_two_loads_of_a_file_one_is_refused
            loads_of_many_files_at_once_come_out_the_same
            a_late_load_does_not_undo_a_newer_one
            a_plan_that_contradicts_itself_is_refused
            a_repoint_to_another_text_is_refused
            what_is_pushed_is_checked
        }
        $crate::conformance::rules! { $open, covering:
            hours_between_two_that_are_known_are_absent
            the_order_of_hours_does_not_matter
            a_node_is_covered_by_its_reports
            a_report_in_two_files_counts_once
            a_node_that_is_forgotten_is_not_covered
        }
        $crate::conformance::rules! { $open, declaring:
            other_columns_make_the_table_anew
            an_older_declaration_is_refused
            names_are_checked
            an_aggregate_is_computed_for_the_dates_touched
            dates_are_touched_until_they_are_computed
            an_aggregate_that_is_no_query_is_refused
            a_feature_declared_anew_refuses_loads_under_way
            a_column_may_change_its_type
        }
        $crate::conformance::rules! { $open, asking:
            pages_have_everything_once
            filters_hold_at_once
            a_trace_has_all_hops
            counts_add_up
            coverage_is_replaced_and_filtered
            a_difference_is_found
            residuals_are_summed
            files_and_reports_are_filtered_by_what_they_hold
            what_is_not_at_its_place_is_found
            pages_of_a_file_have_what_is_in_it
            bad_things_are_counted_by_reason
            rows_of_features_are_cut
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
                    subject.is_sound().await;
                }
            )*
        }
    };
}
pub(crate) use rules;
