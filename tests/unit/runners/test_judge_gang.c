/* Several nodes: which pod is the reason, and when all is over. */
#include <stdio.h>
#include <string.h>
#include "base/time/clock.h"
#include "runners/kubernetes/facts.h"
#include "unit.h"

#define AT(s) ((1000 + (s)) * NS_PER_S)

struct node {
	enum { ABSENT, PENDING, RUNS, SAVES, ENDED, DELETED, OOM } how;
	int code;
	int64_t at; /* seconds */
};

static void pod_of(const struct node *n, unsigned index, struct pod_facts *p)
{
	*p = (struct pod_facts){ .index = index,
				 .phase = POD_RUNNING,
				 .scheduled = true,
				 .created_ns = AT(0),
				 .scheduled_ns = AT(1) };
	p->main.state = CONTAINER_RUNNING;
	p->main.started_ns = AT(2);
	p->sidecar.state = CONTAINER_RUNNING;
	if (n->how == PENDING) {
		p->phase = POD_PENDING;
		p->scheduled = false;
		p->unschedulable = true;
		p->main.state = p->sidecar.state = CONTAINER_WAITING;
	}
	if (n->how < SAVES)
		return;
	p->main.state = CONTAINER_TERMINATED;
	p->main.exit_code = n->code;
	p->main.ended_ns = AT(n->at);
	if (n->how == OOM)
		p->main.reason = "OOMKilled";
	if (n->how == SAVES)
		return;
	p->phase = n->code ? POD_FAILED : POD_SUCCEEDED;
	p->sidecar.state = CONTAINER_TERMINATED;
	p->sidecar.message =
		n->how == DELETED
			? NULL
			: (char *)(uintptr_t)(const char *[]){ "{0}", "{1}", "{2}" }[index];
	if (n->how == DELETED) {
		p->deleted_ns = AT(n->at);
		p->gone = true;
	}
}

static void test_reason(void **state)
{
	static const struct {
		struct node nodes[3];
		int64_t now;
		enum kube_stage stage;
		enum failure_class class;
		const char *result, *text;
	} cases[] = {
		/* all well: the first one's word counts */
		{ { { ENDED, 0, 20 }, { ENDED, 0, 10 }, { ENDED, 0, 30 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{0}",
		  "" },
		/* one still saves */
		{ { { ENDED, 0, 20 }, { SAVES, 0, 10 }, { ENDED, 0, 30 } },
		  31,
		  STAGE_SAVING,
		  FAILURE_NONE,
		  NULL,
		  "" },
		{ { { RUNS }, { ENDED, 0, 10 }, { RUNS } },
		  31,
		  STAGE_RUNNING,
		  FAILURE_NONE,
		  NULL,
		  "" },
		/* two have places, the third has none */
		{ { { RUNS }, { RUNS }, { PENDING } },
		  31,
		  STAGE_UNSCHEDULABLE,
		  FAILURE_NONE,
		  NULL,
		  "node 2 of 3: no node has room for it" },
		/* the first failure is the reason, not what followed from it */
		{ { { ENDED, 1, 20 }, { ENDED, 7, 10 }, { ENDED, 143, 14 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{1}",
		  "" },
		/* … or happened in the same second: who was killed, before who missed him */
		{ { { ENDED, 1, 10 }, { ENDED, 137, 10 }, { ENDED, 143, 11 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{1}",
		  "" },
		{ { { ENDED, 1, 10 }, { ENDED, 137, 11 }, { ENDED, 134, 10 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{1}",
		  "" },
		{ { { ENDED, 137, 10 }, { ENDED, 1, 10 }, { OOM, 137, 11 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_OOM,
		  "{2}",
		  "node 2 of 3: " },
		/* … but not long after */
		{ { { ENDED, 1, 10 }, { ENDED, 137, 20 }, { ENDED, 143, 11 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{0}",
		  "" },
		/* those who were deleted since another failed */
		{ { { DELETED, 143, 11 }, { ENDED, 7, 12 }, { DELETED, 143, 11 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{1}",
		  "" },
		{ { { DELETED, 143, 11 }, { DELETED, 143, 12 }, { DELETED, 143, 11 } },
		  31,
		  STAGE_ENDED,
		  FAILURE_LOST,
		  NULL,
		  "node 0 of 3: " },
		/* the others still save: it isn't over, for so long and no longer */
		{ { { SAVES, 143, 11 }, { ENDED, 7, 10 }, { ENDED, 143, 11 } },
		  31,
		  STAGE_SAVING,
		  FAILURE_NONE,
		  "{1}",
		  "" },
		{ { { RUNS }, { ENDED, 7, 10 }, { ENDED, 143, 11 } },
		  31,
		  STAGE_SAVING,
		  FAILURE_NONE,
		  "{1}",
		  "" },
		{ { { RUNS }, { ENDED, 7, 10 }, { ENDED, 143, 11 } },
		  2000,
		  STAGE_ENDED,
		  FAILURE_NONE,
		  "{1}",
		  "" },
	};
	struct job_facts job = { .created_ns = AT(0) };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pod_facts pods[3];
		const struct pod_facts *in[3];
		struct kube_verdict v;

		for (unsigned k = 0; k < 3; k++) {
			pod_of(&cases[i].nodes[k], k, &pods[k]);
			in[2 - k] = &pods[k]; /* in any order */
		}
		kube_judge(&(struct kube_observed){ .job = &job, .pods = in, .n = 3, .nodes = 3 },
			   AT(cases[i].now), &v);
		if (v.stage != cases[i].stage || v.class != cases[i].class)
			print_error("case %zu: stage %d class %d %s\n", i, v.stage, v.class,
				    v.text);
		assert_int_equal(v.stage, cases[i].stage);
		assert_int_equal(v.class, cases[i].class);
		if (!cases[i].result)
			assert_true(v.stage != STAGE_ENDED || !v.result);
		else
			assert_string_equal(v.result, cases[i].result);
		assert_non_null(strstr(v.text, cases[i].text));
	}
}

static void test_pods_that_are_missing(void **state)
{
	struct job_facts job = { .created_ns = AT(0) };
	struct kube_verdict v;

	kube_judge(&(struct kube_observed){ .job = &job, .nodes = 3 }, AT(1), &v);
	assert_int_equal(v.stage, STAGE_CREATED);
	kube_judge(&(struct kube_observed){ .job = &job, .nodes = 3, .podless = true }, AT(1), &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_LOST);
	kube_judge(&(struct kube_observed){ .job = &job, .gone = true, .nodes = 3 }, AT(1), &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_LOST);
}

/* Of a Job that has ended well only the first node's pod is needed. */
static void test_pods_that_are_missing_at_a_good_end(void **state)
{
	const struct job_facts job = { .created_ns = AT(0), .complete = true };
	struct pod_facts pod[2];
	const struct pod_facts *in[] = { &pod[0], &pod[1] };
	struct kube_observed seen = { .job = &job, .pods = in, .n = 2, .nodes = 3 };
	struct kube_verdict v;

	for (unsigned i = 0; i < 2; i++)
		pod_of(&(struct node){ ENDED, 0, 20 }, i, &pod[i]);
	kube_judge(&seen, AT(21), &v);
	assert_int_equal(v.stage, STAGE_CREATED); /* its news may be on its way */
	seen.podless = true;
	kube_judge(&seen, AT(31), &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_NONE);
	assert_string_equal(v.result, "{0}");
	seen.pods = in + 1;
	seen.n = 1;
	kube_judge(&seen, AT(31), &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_LOST);
}

/* An elastic gang: of three nodes two are enough. */

/* Pods in the order of their creation; `index` says whose they are. */
struct life {
	unsigned index;
	struct node node;
	const char *disruption;
};
static const struct {
	struct life pods[5];
	size_t n;
	int64_t now;
	enum kube_stage stage;
	enum failure_class class;
	bool broken;
	const char *result, *text;
	int64_t released;
} elastic_cases[] = {
	/* the third has no place, and isn't waited for: neither to begin nor to end */
	{ { { 0, { RUNS } }, { 1, { RUNS } }, { 2, { PENDING } } },
	  3,
	  31,
	  STAGE_RUNNING,
	  FAILURE_NONE,
	  .text = "2 of at most 3 nodes run" },
	{ { { 0, { RUNS } }, { 1, { RUNS } } }, 2, 31, STAGE_RUNNING, FAILURE_NONE },
	{ { { 0, { RUNS } }, { 1, { RUNS } }, { 2, { RUNS } } },
	  3,
	  31,
	  STAGE_RUNNING,
	  FAILURE_NONE,
	  .text = "" },
	{ { { 0, { ENDED, 0, 20 } }, { 1, { ENDED, 0, 20 } }, { 2, { PENDING } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{0}" },
	/* too few, or without the first */
	{ { { 0, { RUNS } }, { 1, { PENDING } }, { 2, { PENDING } } },
	  3,
	  31,
	  STAGE_UNSCHEDULABLE,
	  FAILURE_NONE,
	  .text = "node 1 of 3: no node has room for it" },
	{ { { 0, { PENDING } }, { 1, { RUNS } }, { 2, { RUNS } } },
	  3,
	  31,
	  STAGE_UNSCHEDULABLE,
	  FAILURE_NONE,
	  .text = "node 0 of 3: no node has room for it" },
	{ { { 0, { RUNS } } }, 1, 31, STAGE_CREATED, FAILURE_NONE },
	/* one is taken away: the others go on, before it is replaced and after */
	{ { { 0, { RUNS } },
	    { 1, { DELETED, 143, 20 }, "PreemptionByScheduler" },
	    { 2, { RUNS } } },
	  3,
	  31,
	  STAGE_RUNNING,
	  FAILURE_NONE,
	  .text = "2 of at most 3 nodes run" },
	{ { { 0, { RUNS } }, { 1, { DELETED, 143, 20 } }, { 2, { RUNS } }, { 1, { PENDING } } },
	  4,
	  31,
	  STAGE_RUNNING,
	  FAILURE_NONE },
	{ { { 0, { RUNS } }, { 1, { DELETED, 143, 20 } }, { 2, { RUNS } }, { 1, { RUNS } } },
	  4,
	  31,
	  STAGE_RUNNING,
	  FAILURE_NONE,
	  .text = "" },
	/* too few are left: that is the end, whether or not a replacement waits */
	{ { { 0, { RUNS } },
	    { 1, { DELETED, 143, 20 }, "PreemptionByScheduler" },
	    { 2, { PENDING } } },
	  3,
	  31,
	  STAGE_SAVING,
	  FAILURE_NONE,
	  true,
	  .text = "node 1 of 3: " },
	{ { { 0, { RUNS } },
	    { 1, { DELETED, 143, 20 }, "PreemptionByScheduler" },
	    { 2, { DELETED, 143, 21 } },
	    { 1, { PENDING } },
	    { 2, { PENDING } } },
	  5,
	  31,
	  STAGE_SAVING,
	  FAILURE_NONE,
	  true,
	  .text = "node 2 of 3: " },
	{ { { 0, { ENDED, 143, 22 } },
	    { 1, { DELETED, 143, 20 }, "PreemptionByScheduler" },
	    { 2, { PENDING } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_PREEMPTED,
	  .text = "node 1 of 3: " },
	/* the first one's end is the end of all, even if it has a new pod */
	{ { { 0, { DELETED, 143, 20 }, "PreemptionByScheduler" },
	    { 1, { RUNS } },
	    { 2, { RUNS } } },
	  3,
	  31,
	  STAGE_SAVING,
	  FAILURE_NONE,
	  true,
	  .text = "node 0 of 3: " },
	{ { { 0, { DELETED, 143, 20 }, "PreemptionByScheduler" },
	    { 1, { ENDED, 1, 22 } },
	    { 2, { ENDED, 1, 22 } },
	    { 0, { RUNS } } },
	  4,
	  31,
	  STAGE_SAVING,
	  FAILURE_NONE,
	  true,
	  .text = "node 0 of 3: " },
	{ { { 0, { RUNS } }, { 1, { DELETED, 143, 20 } }, { 2, { RUNS } } },
	  3,
	  2000,
	  STAGE_RUNNING,
	  FAILURE_NONE },
	/* who was taken away, before who missed him, in the same second too */
	{ { { 0, { DELETED, 143, 20 } }, { 1, { ENDED, 1, 20 } }, { 2, { ENDED, 1, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_LOST,
	  .result = "{none}",
	  .text = "node 0 of 3: " },
	/* … but not those that ended with the Job, which we deleted for another's failure
	 */
	{ { { 0, { DELETED, 143, 21 } }, { 1, { ENDED, 7, 20 } }, { 2, { ENDED, 7, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{1}",
	  .released = 21 },
	/* a program that fails everywhere */
	{ { { 0, { ENDED, 7, 20 } }, { 1, { ENDED, 7, 20 } }, { 2, { ENDED, 7, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{0}" },
	{ { { 0, { ENDED, 7, 20 } }, { 1, { OOM, 137, 20 } }, { 2, { ENDED, 7, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_OOM,
	  .text = "node 1 of 3: " },
	/* before it began: two that can't be had again, of three */
	{ { { 0, { PENDING } }, { 1, { OOM, 137, 20 } }, { 2, { OOM, 137, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_OOM },
	/* the first ended well: the others end soon, or aren't waited for */
	{ { { 0, { ENDED, 0, 20 } }, { 1, { RUNS } }, { 2, { ENDED, 0, 20 } } },
	  3,
	  31,
	  STAGE_SAVING,
	  FAILURE_NONE },
	{ { { 0, { ENDED, 0, 20 } }, { 1, { RUNS } }, { 2, { ENDED, 0, 20 } } },
	  3,
	  200,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{0}" },
	/* one that came too late failed; enough others ended well */
	{ { { 0, { ENDED, 0, 20 } }, { 1, { ENDED, 1, 21 } }, { 2, { ENDED, 0, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{0}" },
	{ { { 0, { ENDED, 0, 20 } }, { 1, { ENDED, 7, 21 } }, { 2, { ENDED, 7, 20 } } },
	  3,
	  31,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{2}" },
	/* one that ended well was replaced before; or its pod went with its node since */
	{ { { 0, { ENDED, 0, 20 } },
	    { 1, { DELETED, 143, 9 } },
	    { 2, { ENDED, 0, 20 } },
	    { 1, { PENDING } } },
	  4,
	  31,
	  STAGE_ENDED,
	  FAILURE_NONE,
	  .result = "{0}" },
};

static void test_elastic(void **state)
{
	struct job_facts job = { .created_ns = AT(0) };

	for (size_t i = 0; i < ARRAY_LEN(elastic_cases); i++) {
		struct pod_facts pods[5];
		const struct pod_facts *in[5];
		size_t n = elastic_cases[i].n;
		struct kube_verdict v;

		for (unsigned k = 0; k < n; k++) {
			const struct life *l = &elastic_cases[i].pods[k];

			pod_of(&l->node, l->index, &pods[k]);
			pods[k].created_ns = AT(k > 2);
			pods[k].disruption = l->disruption;
			in[n - 1 - k] = &pods[k]; /* in any order */
		}
		kube_judge(&(struct kube_observed){ .job = &job,
						    .pods = in,
						    .n = n,
						    .nodes = 3,
						    .min_nodes = 2,
						    .released_ns =
							    elastic_cases[i].released
								    ? AT(elastic_cases[i].released)
								    : 0 },
			   AT(elastic_cases[i].now), &v);
		if (v.stage != elastic_cases[i].stage || v.class != elastic_cases[i].class ||
		    v.broken != elastic_cases[i].broken)
			print_error("case %zu: stage %d class %d broken %d: %s\n", i, v.stage,
				    v.class, v.broken, v.text);
		assert_int_equal(v.stage, elastic_cases[i].stage);
		assert_int_equal(v.class, elastic_cases[i].class);
		assert_int_equal(v.broken, elastic_cases[i].broken);
		if (elastic_cases[i].result && *elastic_cases[i].result &&
		    strcmp(elastic_cases[i].result, "{none}") != 0)
			assert_string_equal(v.result, elastic_cases[i].result);
		if (elastic_cases[i].text && !*elastic_cases[i].text)
			assert_string_equal(v.text, "");
		else if (elastic_cases[i].text)
			assert_non_null(strstr(v.text, elastic_cases[i].text));
	}
}

/* Of a Job that is over, and of one that is gone. */
static void test_elastic_without_pods(void **state)
{
	struct job_facts job = { .created_ns = AT(0) };
	struct pod_facts pod;
	const struct pod_facts *in[] = { &pod };
	struct kube_observed seen = { .job = &job, .pods = in, .n = 1, .nodes = 3, .min_nodes = 2 };
	struct kube_verdict v;

	pod_of(&(struct node){ ENDED, 0, 20 }, 1, &pod);
	kube_judge(&seen, AT(21), &v);
	assert_int_equal(v.stage, STAGE_CREATED);
	job.complete = seen.podless = true;
	kube_judge(&seen, AT(31), &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_LOST);
	seen.podless = false;
	seen.gone = true;
	kube_judge(&seen, AT(31), &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_LOST);
	seen.n = 0;
	kube_judge(&seen, AT(31), &v);
	assert_int_equal(v.class, FAILURE_LOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reason), cmocka_unit_test(test_pods_that_are_missing),
		cmocka_unit_test(test_pods_that_are_missing_at_a_good_end),
		cmocka_unit_test(test_elastic), cmocka_unit_test(test_elastic_without_pods)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
