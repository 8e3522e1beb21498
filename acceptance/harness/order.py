"""The order of a whole run with several workers: the longest tests start first.

    pytest -n 4 --dist loadfile --no-loadscope-reorder …

A file is one unit of work, as its tests share servers. A test that takes long by itself is named in the table and is a
unit of its own; the rest of its file stays together.
"""

# Approximate seconds of each unit. Units that are missing here run last.
SECONDS = {
    "test_cluster.py": 150,
    "test_cluster.py::test_nodes_are_killed_continuously": 60,
    "test_concatenation.py::test_shared_blocks": 140,
    "test_s3_faults.py": 110,
    "test_s3_storage.py": 110,
    "test_storage_faults.py": 40,
    "test_power_cut.py": 90,
    "test_clients.py::test_uploads_a_gibibyte_in_fixed_memory": 80,
    "test_openapi.py": 60,
    "test_clients.py": 70,
    "test_s3_faults.py::test_the_store_is_unavailable_for_a_minute": 60,
    "test_s3_faults.py::test_the_database_is_unavailable_for_a_minute": 60,
    "test_s3_storage.py::test_a_slow_reader_does_not_fill_the_memory": 60,
    "test_slow_uploaders.py": 60,
    "test_migrate.py": 60,
    "test_database.py": 60,
    "test_object_clients.py::test_objects_are_uploaded_downloaded_and_removed": 50,
    "test_kill_events.py": 50,
    "test_soak.py": 50,
    "test_rolling.py": 100,
    "test_s3_faults.py::test_another_request_fails_once": 50,
    "test_s3_faults.py::test_a_link_that_loses_packets_and_is_cut": 50,
    "test_s3_faults.py::test_the_link_to_the_store_is_cut_for_long": 45,
    "test_s3_storage.py::test_unmodified_clients": 45,
    "test_s3_faults.py::test_the_response_to_a_completion_is_lost": 40,
    "test_s3_storage.py::test_patches_below_and_above_the_size_of_a_part": 35,
    "test_s3_faults.py::test_a_part_fails_once": 30,
    "test_s3_faults.py::test_something_happens_to_the_database": 30,
    "test_s3_storage.py::test_thirty_two_at_once": 30,
    "test_object_clients.py": 40,
    "test_acme.py": 60,
    "test_acme.py::test_renewal_under_load": 20,
    "test_aliyun_api.py": 45,
    "test_aliyun_uploads.py": 55,
    "test_aliyun_faults.py": 40,
    "test_aliyun_browser.py": 60,
    "test_base_path.py": 40,
    "test_hook_programs.py": 65,
    "test_deploy.py": 70,
    "test_doctor.py": 25,
    "test_vimeo_direct.py": 80,
    "test_vimeo_direct.py::test_a_node_takes_over_what_another_has_left": 45,
    "test_vimeo_errors.py": 40,
    "test_vimeo.py": 25,
    "test_vimeo_clients.py": 20,
    "test_vimeo_urlsession.py": 15,
    "test_tencent_api.py": 45,
    "test_vod_nodes.py": 90,
    "test_vod_kills.py": 60,
    "test_tencent_faults.py": 65,
    "test_tencent_ugc.py": 40,
    "test_tencent_cos_clients.py": 30,
    "test_tencent_browser.py": 20,
    "test_tencent_direct.py": 20,
    "test_s3_storage.py::test_concatenation": 30,
    "test_concatenation.py": 30,
    "test_object.py": 30,
    "test_backup_faults.py": 120,
    "test_kill.py": 30,
    "test_pull.py": 50,
    "test_events.py": 30,
    "test_tus_wire.py": 30,
    "test_s3_faults.py::test_the_store_is_unavailable_for_long": 20,
    "test_object_small_parts.py": 20,
    "test_hostile_load.py": 50,
    "test_direct.py": 20,
    "test_urlsession.py": 20,
    "test_harness.py": 20,
    "test_hooks.py": 45,
    "test_way_faults.py": 65,
    "test_tls.py": 60,
    "test_limits.py": 60,
    "test_under_way.py": 60,
    "test_tracing.py": 45,
    "test_extreme_numbers.py": 40,
    "test_scripts.py": 40,
    "test_json_limits.py": 40,
    "test_package.py": 35,
    "test_access_matrix.py": 35,
    "test_disk_reserve.py": 30,
    "test_backup.py": 30,
    "test_resumable_http.py": 30,
    "test_jwt.py": 30,
    "test_docs.py": 30,
    "test_pull_rights.py": 25,
    "test_web_identity.py": 25,
    "test_forms.py": 25,
    "test_image.py": 25,
    "test_minted_rights.py": 25,
    "test_clocks.py": 25,
    "test_verify.py": 20,
    "test_object_clients.py::test_awscli_copies_a_gibibyte_both_ways": 10,
}


def unit(nodeid):
    """The unit of a test, by its id."""
    path, _, test = nodeid.partition("::")
    name = f"{path.rpartition('/')[2]}::{test.partition('[')[0]}"
    return f"{path}::{test.partition('[')[0]}" if name in SECONDS else path


def longest_first(nodeid):
    """For sorting tests by their unit."""
    return -SECONDS.get(unit(nodeid).rpartition("/")[2], 0)
