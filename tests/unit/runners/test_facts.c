/* runners/kubernetes/facts and judge: statuses of pods as the API server gives them, and what they come to. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "runners/kubernetes/facts.h"

#define RESULT "{\\\"cairn_result\\\":1}"
#define SIDE_RUNS "\"initContainerStatuses\":[{\"name\":\"cairn\",\"started\":true,\"state\":{\"running\":{}}}]"
#define SIDE(code, message) "\"initContainerStatuses\":[{\"name\":\"cairn\",\"state\":{\"terminated\":{\"exitCode\":" code ",\"message\":\"" message "\"}}}]"
#define MAIN_WAITS(reason, message) "\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"waiting\":{\"reason\":\"" reason "\",\"message\":\"" message "\"}}}]"
#define MAIN_RUNS "\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"running\":{\"startedAt\":\"2026-01-01T00:00:05Z\"}}}]"
#define MAIN(code, reason) "\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"terminated\":{\"exitCode\":" code ",\"reason\":\"" reason "\",\"startedAt\":\"2026-01-01T00:00:05Z\"}}}]"
#define HIT(reason) "\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":\"" reason "\"}]"
#define FAILED_ "\"phase\":\"Failed\","
#define PLACED "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"}],"

static const struct {
	const char *status;
	enum kube_stage stage;
	enum failure_class class;
	const char *text; /* in it */
} pods[] = {
	{ "\"phase\":\"Succeeded\"," SIDE("0", RESULT) "," MAIN("0", "Completed"), STAGE_ENDED, FAILURE_NONE, "" },
	{ FAILED_ SIDE("0", RESULT) "," MAIN("3", "Error"), STAGE_ENDED, FAILURE_NONE, "" },
	{ FAILED_ SIDE("0", RESULT) "," MAIN("137", "OOMKilled"), STAGE_ENDED, FAILURE_OOM, "memory" },
	{ FAILED_ HIT("EvictionByEvictionAPI") "," SIDE("0", RESULT) "," MAIN("143", "Error"), STAGE_ENDED, FAILURE_PREEMPTED, "evicted" },
	{ FAILED_ HIT("PreemptionByScheduler") "," MAIN("143", "Error"), STAGE_ENDED, FAILURE_PREEMPTED, "priority" },
	{ FAILED_ HIT("TerminationByKubelet") "," MAIN("143", "Error"), STAGE_ENDED, FAILURE_PREEMPTED, "kubelet" },
	{ FAILED_ HIT("DeletionByPodGC") "," MAIN_RUNS, STAGE_ENDED, FAILURE_LOST, "gone" },
	/* evicted after it had ended well, and its outputs were kept: it has succeeded */
	{ FAILED_ HIT("EvictionByEvictionAPI") "," SIDE("0", RESULT) "," MAIN("0", "Completed"), STAGE_ENDED, FAILURE_NONE, "" },
	{ FAILED_ "\"reason\":\"Evicted\",\"message\":\"ephemeral storage\"," MAIN("137", "Error"), STAGE_ENDED, FAILURE_FAILED, "ephemeral" },
	{ FAILED_ "\"reason\":\"OutOfcpu\"", STAGE_ENDED, FAILURE_LOST, "did not take" },
	{ FAILED_ "\"reason\":\"DeadlineExceeded\"", STAGE_ENDED, FAILURE_TIMEOUT, "longer" },
	{ FAILED_ SIDE("137", "") "," MAIN("122", "Error"), STAGE_ENDED, FAILURE_STORE, "silent" },
	{ FAILED_ SIDE("0", "") "," MAIN("3", "Error"), STAGE_ENDED, FAILURE_FAILED, "exit status 3" },
	{ FAILED_ SIDE("0", "") "," MAIN("137", "Error"), STAGE_ENDED, FAILURE_FAILED, "SIGKILL" },
	{ FAILED_ MAIN("128", "StartError"), STAGE_ENDED, FAILURE_FAILED, "could not be started" },
	{ "\"phase\":\"Succeeded\"," SIDE("0", "") "," MAIN("0", "Completed"), STAGE_ENDED, FAILURE_STORE, "no result" },
	{ "\"phase\":\"Running\"," SIDE_RUNS "," MAIN_RUNS, STAGE_RUNNING, FAILURE_NONE, "" },
	{ "\"phase\":\"Running\"," SIDE_RUNS "," MAIN("0", "Completed"), STAGE_SAVING, FAILURE_NONE, "" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("ErrImagePull", "no such tag"), STAGE_IMAGE, FAILURE_NONE, "no such tag" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("ImagePullBackOff", "x"), STAGE_IMAGE, FAILURE_NONE, "image" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("InvalidImageName", "x"), STAGE_ENDED, FAILURE_IMAGE, "image" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("CreateContainerConfigError", "secret"), STAGE_REFUSED, FAILURE_NONE, "secret" },
	{ "\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\",\"message\":\"1 Insufficient gpu\"}]",
	  STAGE_UNSCHEDULABLE, FAILURE_NONE, "Insufficient gpu" },
	{ "\"phase\":\"Pending\"", STAGE_CREATED, FAILURE_NONE, "" },
	/* hostile: of other types, as if they weren't there */
	{ "\"phase\":7,\"conditions\":{\"type\":1},\"containerStatuses\":[1,null,{\"name\":[]}]", STAGE_CREATED, FAILURE_NONE, "" },
};

static void pods_are_judged_by_their_facts(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
		_cleanup_(freep) char *text = xasprintf("{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"labels\":{\"cairn/attempt\":\"7\"}},\"status\":{%s}}", pods[i].status);
		struct kube_verdict v;
		struct pod_facts f;
		const struct pod_facts *one = &f;
		json_t *j;

		assert_int_equal(json_parse("row", text, strlen(text), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &f), 0);
		assert_int_equal(f.attempt_id, 7);
		kube_judge(NULL, false, &one, 1, 1, 0, &v);
		if (v.stage != pods[i].stage || v.class != pods[i].class || !strstr(v.text, pods[i].text))
			fail_msg("row %zu: stage %d, %s: %s", i, v.stage, failure_class_name(v.class), v.text);
		pod_facts_deinit(&f);
		json_decref(j);
	}
}

static void what_is_no_object_is_passed_over(void **state)
{
	static const char *const rows[] = { "{}", "[]", "{\"metadata\":{\"name\":\"p\"}}", "{\"metadata\":{\"name\":3,\"uid\":\"u\"}}" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pod_facts p;
		struct job_facts f;
		json_t *j;

		assert_int_equal(json_parse("row", rows[i], strlen(rows[i]), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &p), -1);
		assert_int_equal(job_facts_of(j, &f), -1);
		pod_facts_deinit(&p);
		job_facts_deinit(&f);
		json_decref(j);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pods_are_judged_by_their_facts), cmocka_unit_test(what_is_no_object_is_passed_over) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
