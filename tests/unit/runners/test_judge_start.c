/* Before a program runs: what holds it up is said at once, a start that goes as starts go isn't. */
#include <stdio.h>
#include "base/time/clock.h"
#include "runners/kubernetes/facts.h"
#include "unit.h"

#define AT(s) ((1000 + (s)) * NS_PER_S)

/* A pod that was given a node in second 1. */
static struct pod_facts pod(const char *sidecar, const char *main)
{
	struct pod_facts p = { .node = "n1",
			       .phase = POD_PENDING,
			       .scheduled = true,
			       .created_ns = AT(0),
			       .scheduled_ns = AT(1) };

	p.sidecar.state = *sidecar ? CONTAINER_WAITING : CONTAINER_RUNNING;
	p.main.state = CONTAINER_WAITING;
	p.sidecar.reason = sidecar;
	p.main.reason = main;
	return p;
}

static const char *says(const struct pod_facts *p, int64_t now)
{
	static struct kube_verdict v;

	kube_judge(&(struct kube_observed){ .pods = &p, .n = 1, .nodes = 1 }, AT(now), &v);
	return v.text;
}

static void test_start(void **state)
{
	static const char *const sidecars[] = { "PodInitializing", "" };

	for (size_t i = 0; i < ARRAY_LEN(sidecars); i++) {
		struct pod_facts p = pod(sidecars[i], "PodInitializing");

		assert_string_equal(says(&p, 2), "");
		assert_string_equal(says(&p, 30), "");
		assert_string_equal(
			says(&p, 60),
			"it takes long to start on n1: its image, volumes or inputs"); /* the same
											  in every
											  phase */
	}
}

static void test_held_up(void **state)
{
	struct pod_facts p = pod("ImagePullBackOff", "PodInitializing");

	assert_string_equal(says(&p, 2), "the image of the sidecar can't be had: ImagePullBackOff");
	p = pod("", "CreateContainerConfigError");
	assert_string_equal(says(&p, 2), "the step can't be made: CreateContainerConfigError");
	p = (struct pod_facts){ .phase = POD_PENDING, .unschedulable = true, .created_ns = AT(0) };
	assert_string_equal(says(&p, 1), "no node has room for it: the scheduler does not say why");
}

/* A suspended Job waits for its queue, a gang's as well: no stage that a limit of time is for. */
static void test_queued(void **state)
{
	static const struct {
		bool suspended;
		unsigned nodes;
		enum kube_stage stage;
		const char *text;
	} rows[] = {
		{ true, 1, STAGE_QUEUED, "its queue has not let it in yet (the Job is suspended)" },
		{ true, 3, STAGE_QUEUED, "its queue has not let it in yet (the Job is suspended)" },
		{ false, 1, STAGE_CREATED, "" },
		{ false, 3, STAGE_CREATED, "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct job_facts job = { .suspended = rows[i].suspended, .created_ns = AT(0) };
		struct kube_verdict v;

		kube_judge(&(struct kube_observed){ .job = &job, .nodes = rows[i].nodes }, AT(5000),
			   &v);
		assert_int_equal(v.stage, rows[i].stage);
		assert_string_equal(v.text, rows[i].text);
		kube_judge(&(struct kube_observed){ .job = &job,
						    .gone = true,
						    .nodes = rows[i].nodes },
			   AT(5000), &v);
		assert_int_equal(v.stage, STAGE_ENDED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_start),
					    cmocka_unit_test(test_held_up),
					    cmocka_unit_test(test_queued) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
