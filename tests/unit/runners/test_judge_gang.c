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
		snprintf(p->main.reason, sizeof(p->main.reason), "OOMKilled");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reason), cmocka_unit_test(test_pods_that_are_missing),
		cmocka_unit_test(test_pods_that_are_missing_at_a_good_end)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
