//! The cases. One that is not named below is not run; the compiler says so (it is unused).

pub mod dead_letters;
pub mod dedupe;
pub mod groups;
pub mod ids;
pub mod numbers;
pub mod owners;
pub mod persistence;
pub mod reads;
pub mod retention;
pub mod search;
pub mod writes;

/// Makes a test of each case, for the store that `$factory` opens.
macro_rules! every_case {
    ($factory:expr) => {
        crate::suite::every_case! { @tests $factory,
            numbers: [
                appends_number_without_gaps,
                ordinals_count_each_partition,
                partitions_follow_key_or_id,
                partitions_are_fixed_when_the_topic_is_made,
                arrival_never_steps_back,
                numbers_go_on_after_everything_was_removed,
            ]
            ids: [
                a_known_id_with_the_same_payload_gets_the_first_seq,
                a_known_id_with_another_payload_refuses_the_whole_append,
                an_id_twice_in_one_append_is_refused,
                an_id_is_seen_by_later_writes_of_the_batch,
                an_id_is_known_per_topic,
                an_id_is_new_again_after_retention,
                seqs_of_ids_answers_in_order_with_holes,
            ]
            reads: [
                reads_stop_at_events_and_bytes,
                reads_begin_anywhere,
                single_reads_leave_holes_out,
                texts_are_kept_byte_for_byte,
                a_topic_that_does_not_exist_is_empty,
                topics_are_listed_in_order_of_their_names,
                many_events_are_read_in_pieces_without_loss,
            ]
            search: [
                ts_search_finds_the_first_in_seq_order,
                ts_search_ignores_what_was_removed,
                newest_by_key_goes_by_seq,
                newest_by_key_ends_with_retention,
                ordinals_at_counts_up_to_a_seq,
                ordinals_at_is_right_everywhere_in_a_long_topic,
            ]
            writes: [
                a_refused_write_hinders_no_other,
                later_writes_see_earlier_ones,
                an_empty_batch_does_nothing,
                an_append_of_nothing_makes_no_topic,
                a_topic_too_many_is_refused,
                a_group_too_many_is_refused,
                a_deleted_topic_takes_everything_along,
                deleting_what_is_not_there_is_done,
                a_topic_deleted_and_made_again_in_one_batch_is_new,
                a_closed_store_says_so,
            ]
            groups: [
                a_group_is_made_once,
                a_group_may_come_before_its_topic,
                settings_and_pause_are_kept,
                a_claim_fences_every_older_owner,
                epochs_rise_over_a_group_made_again,
                writes_to_a_group_that_is_not_there_are_refused,
                cursors_and_retries_are_kept,
                a_partition_that_is_new_to_the_group_gets_a_cursor,
                seek_replaces_cursors_and_forgets_retries,
                groups_are_listed_in_order_and_per_topic,
            ]
            owners: [
                a_claim_waits_while_another_owner_lives,
                a_group_that_was_let_go_is_free_at_once,
                a_lease_that_is_over_frees_its_groups_and_never_comes_back,
                an_ended_lease_frees_all_its_groups,
                others_hear_how_far_a_topic_is,
            ]
            dead_letters: [
                a_dead_letter_and_its_ack_are_one_step,
                a_dead_letter_is_there_once,
                a_dead_letter_makes_its_topic_beyond_the_limit,
            ]
            dedupe: [
                a_mark_lasts_until_its_end,
                a_second_mark_replaces_the_first,
                marks_belong_to_one_group,
                marks_go_with_their_group_and_topic,
                a_mark_needs_its_group,
                an_event_is_claimed_by_one_at_a_time,
                a_claim_ends_when_its_time_is_over,
                a_claim_ends_by_its_owner_or_a_mark,
                claims_belong_to_one_group_and_need_it,
            ]
            retention: [
                trim_by_count,
                trim_by_age_goes_by_arrival,
                trim_by_bytes,
                the_first_bound_that_is_passed_decides,
                trim_of_everything_keeps_the_numbers,
                trim_without_bounds_removes_nothing,
                trim_of_a_topic_that_is_not_there,
                trim_in_the_middle_of_a_long_topic,
            ]
            persistence: [
                everything_is_there_after_a_reopen,
                numbers_go_on_after_a_reopen,
                deletions_are_kept_over_a_reopen,
                marks_are_kept_over_a_reopen,
            ]
        }
    };
    (@tests $factory:expr, $($module:ident: [$($case:ident,)*])*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                crate::suite::$module::$case(&$factory).await;
            }
        )*)*
    };
}
pub(crate) use every_case;
