/* runners/kubernetes/facts and judge: statuses of pods as the API server gives them, and what they
 * come to. */
#include <string.h>
#include "runners/kubernetes/facts.h"
#include "unit.h"

#define RESULT "{\\\"cairn_result\\\":1}"
#define SIDE_RUNS                                                                                  \
	"\"initContainerStatuses\":[{\"name\":\"cairn\",\"started\":true,\"state\":{\"running\":{" \
	"}}}]"
#define SIDE(code, message)                                                          \
	"\"initContainerStatuses\":[{\"name\":\"cairn\",\"state\":{\"terminated\":{" \
	"\"exitCode\":" code ",\"message\":\"" message "\"}}}]"
#define MAIN_WAITS(reason, message)                                                              \
	"\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"waiting\":{\"reason\":\"" reason \
	"\",\"message\":\"" message "\"}}}]"
#define MAIN_RUNS                                                                                 \
	"\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"running\":{\"startedAt\":\"2026-" \
	"01-01T00:00:05Z\"}}}]"
#define MAIN(code, reason)                                                                        \
	"\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"terminated\":{\"exitCode\":" code \
	",\"reason\":\"" reason "\",\"startedAt\":\"2026-01-01T00:00:05Z\"}}}]"
#define HIT(reason)                                                                               \
	"\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":\"" reason \
	"\"}]"
#define FAILED_ "\"phase\":\"Failed\","
#define PLACED  "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"}],"

static const struct {
	const char *status;
	enum kube_stage stage;
	enum failure_class class;
	const char *text; /* in it */
} pods[] = {
	{ "\"phase\":\"Succeeded\"," SIDE("0", RESULT) "," MAIN("0", "Completed"), STAGE_ENDED,
	  FAILURE_NONE, "" },
	{ FAILED_ SIDE("0", RESULT) "," MAIN("3", "Error"), STAGE_ENDED, FAILURE_NONE, "" },
	{ FAILED_ SIDE("0", RESULT) "," MAIN("137", "OOMKilled"), STAGE_ENDED, FAILURE_OOM,
	  "memory" },
	{ FAILED_ HIT("EvictionByEvictionAPI") "," SIDE("0", RESULT) "," MAIN("143", "Error"),
	  STAGE_ENDED, FAILURE_PREEMPTED, "evicted" },
	{ FAILED_ HIT("PreemptionByScheduler") "," MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_PREEMPTED, "priority" },
	{ FAILED_ HIT("TerminationByKubelet") "," MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_PREEMPTED, "kubelet" },
	{ FAILED_ HIT("DeletionByPodGC") "," MAIN_RUNS, STAGE_ENDED, FAILURE_LOST, "gone" },
	/* evicted after it had ended well, and its outputs were kept: it has succeeded */
	{ FAILED_ HIT("EvictionByEvictionAPI") "," SIDE("0", RESULT) "," MAIN("0", "Completed"),
	  STAGE_ENDED, FAILURE_NONE, "" },
	{ FAILED_ "\"reason\":\"Evicted\",\"message\":\"ephemeral storage\"," MAIN("137", "Error"),
	  STAGE_ENDED, FAILURE_FAILED, "ephemeral" },
	{ FAILED_ "\"reason\":\"OutOfcpu\"", STAGE_ENDED, FAILURE_LOST, "did not take" },
	{ FAILED_ "\"reason\":\"DeadlineExceeded\"", STAGE_ENDED, FAILURE_TIMEOUT, "longer" },
	{ FAILED_ SIDE("137", "") "," MAIN("122", "Error"), STAGE_ENDED, FAILURE_STORE, "silent" },
	{ FAILED_ SIDE("0", "") "," MAIN("3", "Error"), STAGE_ENDED, FAILURE_FAILED,
	  "exit status 3" },
	{ FAILED_ SIDE("0", "") "," MAIN("137", "Error"), STAGE_ENDED, FAILURE_FAILED, "SIGKILL" },
	{ FAILED_ MAIN("128", "StartError"), STAGE_ENDED, FAILURE_FAILED, "could not be started" },
	{ "\"phase\":\"Succeeded\"," SIDE("0", "") "," MAIN("0", "Completed"), STAGE_ENDED,
	  FAILURE_STORE, "no result" },
	{ "\"phase\":\"Running\"," SIDE_RUNS "," MAIN_RUNS, STAGE_RUNNING, FAILURE_NONE, "" },
	{ "\"phase\":\"Running\"," SIDE_RUNS "," MAIN("0", "Completed"), STAGE_SAVING, FAILURE_NONE,
	  "" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("ErrImagePull", "no such tag"),
	  STAGE_IMAGE, FAILURE_NONE, "no such tag" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("ImagePullBackOff", "x"),
	  STAGE_IMAGE, FAILURE_NONE, "image" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS "," MAIN_WAITS("InvalidImageName", "x"),
	  STAGE_ENDED, FAILURE_IMAGE, "image" },
	{ "\"phase\":\"Pending\"," PLACED SIDE_RUNS
	  "," MAIN_WAITS("CreateContainerConfigError", "secret"),
	  STAGE_REFUSED, FAILURE_NONE, "secret" },
	{ "\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
	  "\"reason\":\"Unschedulable\",\"message\":\"1 Insufficient gpu\"}]",
	  STAGE_UNSCHEDULABLE, FAILURE_NONE, "Insufficient gpu" },
	{ "\"phase\":\"Pending\"", STAGE_CREATED, FAILURE_NONE, "" },
	/* hostile: of other types, as if they weren't there */
	{ "\"phase\":7,\"conditions\":{\"type\":1},\"containerStatuses\":[1,null,{\"name\":[]}]",
	  STAGE_CREATED, FAILURE_NONE, "" },
};

static void pods_are_judged_by_their_facts(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(pods); i++) {
		_cleanup_(freep) char *text = xasprintf(
			"{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"labels\":{\"cairn.internal/"
			"attempt\":\"7\"}},\"status\":{%s}}",
			pods[i].status);
		struct kube_verdict v;
		struct pod_facts f;
		const struct pod_facts *one = &f;
		json_t *j;

		assert_int_equal(json_parse("row", text, strlen(text), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &f), 0);
		assert_int_equal(f.attempt_id, 7);
		kube_judge(&(struct kube_observed){ .pods = &one, .n = 1, .nodes = 1 }, 0, &v);
		if (v.stage != pods[i].stage || v.class != pods[i].class ||
		    !strstr(v.text, pods[i].text))
			fail_msg("row %zu: stage %d, %s: %s", i, v.stage,
				 failure_class_name(v.class), v.text);
		pod_facts_deinit(&f);
		json_decref(j);
	}
}

/* A Job as its controller leaves it, and one of its pods, made in second 2. */
#define SUSPENDED(status, at)                                          \
	"\"conditions\":[{\"type\":\"Suspended\",\"status\":\"" status \
	"\",\"lastTransitionTime\":\"2026-01-01T00:00:" at "Z\"}]"
#define DELETED_ "\"deletionTimestamp\":\"2026-01-01T00:01:00Z\","

static const struct {
	const char *suspend, *job, *meta, *pod;
	enum kube_stage stage;
	enum failure_class class;
} suspensions[] = {
	{ "true", SUSPENDED("True", "30"), DELETED_,
	  FAILED_ SIDE("0", RESULT) "," MAIN("143", "Error"), STAGE_ENDED, FAILURE_PREEMPTED },
	{ "true", SUSPENDED("True", "30"), DELETED_, FAILED_ MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_PREEMPTED },
	/* the condition follows the wish, and the watch of pods isn't that of Jobs */
	{ "true", SUSPENDED("False", "02"), DELETED_, FAILED_ MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_PREEMPTED },
	/* let in again before the pod had ended */
	{ "false", SUSPENDED("False", "40"), DELETED_, FAILED_ MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_PREEMPTED },
	/* let in once, a moment after its pod was made as its controller's clock has it; then
	   somebody deleted the pod */
	{ "false", SUSPENDED("False", "03"), DELETED_, FAILED_ MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_LOST },
	{ "false", "\"conditions\":[]", DELETED_, FAILED_ MAIN("143", "Error"), STAGE_ENDED,
	  FAILURE_LOST },
	/* it had ended well, and what it made is kept; it failed, and nobody deleted it; it still
	   saves */
	{ "true", SUSPENDED("True", "30"), DELETED_,
	  "\"phase\":\"Succeeded\"," SIDE("0", RESULT) "," MAIN("0", "Completed"), STAGE_ENDED,
	  FAILURE_NONE },
	{ "true", SUSPENDED("True", "30"), "", FAILED_ SIDE("0", "") "," MAIN("3", "Error"),
	  STAGE_ENDED, FAILURE_FAILED },
	{ "true", SUSPENDED("True", "30"), DELETED_,
	  FAILED_ SIDE("0", RESULT) "," MAIN("137", "OOMKilled"), STAGE_ENDED, FAILURE_OOM },
	{ "true", SUSPENDED("True", "30"), DELETED_,
	  "\"phase\":\"Running\"," SIDE_RUNS "," MAIN("143", "Error"), STAGE_SAVING, FAILURE_NONE },
};

static void a_pod_whose_job_was_suspended_is_preempted(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(suspensions); i++) {
		_cleanup_(freep) char *job_text =
			xasprintf("{\"metadata\":{\"name\":\"j\",\"uid\":\"v\"},\"spec\":{"
				  "\"suspend\":%s},\"status\":{%s}}",
				  suspensions[i].suspend, suspensions[i].job);
		_cleanup_(freep) char *text = xasprintf(
			"{\"metadata\":{%s\"name\":\"p\",\"uid\":\"u\",\"creationTimestamp\":"
			"\"2026-01-01T00:00:02Z\"},\"status\":{%s}}",
			suspensions[i].meta, suspensions[i].pod);
		struct kube_verdict v;
		struct job_facts job;
		struct pod_facts f;
		const struct pod_facts *one = &f;
		json_t *j, *p;

		assert_int_equal(json_parse("job", job_text, strlen(job_text), &j, NULL), 0);
		assert_int_equal(json_parse("pod", text, strlen(text), &p, NULL), 0);
		assert_int_equal(job_facts_of(kube_kinds, j, &job), 0);
		assert_int_equal(pod_facts_of(p, &f), 0);
		kube_judge(&(struct kube_observed){ .job = &job, .pods = &one, .n = 1, .nodes = 1 },
			   0, &v);
		if (v.stage != suspensions[i].stage || v.class != suspensions[i].class)
			fail_msg("row %zu: stage %d, %s: %s", i, v.stage,
				 failure_class_name(v.class), v.text);
		pod_facts_deinit(&f);
		job_facts_deinit(&job);
		json_decref(j);
		json_decref(p);
	}
}

static void job_of(const char *meta, const char *status, struct job_facts *ret)
{
	_cleanup_(freep) char *text = xasprintf(
		"{\"metadata\":{\"name\":\"j\",\"uid\":\"u\",%s},\"status\":{%s}}", meta, status);
	json_t *j;

	assert_int_equal(json_parse("job", text, strlen(text), &j, NULL), 0);
	assert_int_equal(job_facts_of(kube_kinds, j, ret), 0);
	json_decref(j);
}

#define MAIN_AT(second)                                                                \
	"{\"name\":\"main\",\"state\":{\"terminated\":{\"exitCode\":0,\"finishedAt\":" \
	"\"2026-01-01T00:00:" second "Z\"}}}"
#define PROXY_RUNS      "{\"name\":\"istio-proxy\",\"state\":{\"running\":{}}}"
#define SAID_AT(second) "\"finishedAt\":\"2026-01-01T00:00:" second "Z\",\"message\":\"" RESULT "\""
#define SIDE_SAID(second)                                                                         \
	"\"initContainerStatuses\":[{\"name\":\"cairn\",\"state\":{\"terminated\":{\"exitCode\":" \
	"0," SAID_AT(second) "}}}]"
#define SIDE_AGAIN(second)                                                              \
	"\"initContainerStatuses\":[{\"name\":\"cairn\",\"restartCount\":1,\"state\":{" \
	"\"running\":{}},"                                                              \
	"\"lastState\":{\"terminated\":{\"exitCode\":0," SAID_AT(second) "}}}]"
#define BOTH(second) "\"containerStatuses\":[" MAIN_AT(second) "," PROXY_RUNS "]"

/* Another container of the pod goes on: the attempt is over when the program has ended and the
 * sidecar has spoken after it. */
static void a_container_beside_main_holds_up_nothing(void **state)
{
	static const struct {
		const char *sidecar;
		enum kube_stage stage;
	} rows[] = {
		{ SIDE_SAID("31"), STAGE_ENDED },
		{ SIDE_AGAIN("31"), STAGE_ENDED }, /* the kubelet starts it again */
		{ SIDE_AGAIN("02"),
		  STAGE_SAVING }, /* what an earlier one said, before the program began */
		{ SIDE_RUNS, STAGE_SAVING },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *text =
			xasprintf("{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"},\"status\":{"
				  "\"phase\":\"Running\",%s," BOTH("30") "}}",
				  rows[i].sidecar);
		struct kube_verdict v;
		struct pod_facts f;
		const struct pod_facts *one = &f;
		json_t *j;

		assert_int_equal(json_parse("pod", text, strlen(text), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &f), 0);
		kube_judge(&(struct kube_observed){ .pods = &one, .n = 1, .nodes = 1 }, 0, &v);
		if (v.stage != rows[i].stage || v.class != FAILURE_NONE)
			fail_msg("row %zu: stage %d, %s", i, v.stage, failure_class_name(v.class));
		assert_true(v.stage != STAGE_ENDED || v.result);
		pod_facts_deinit(&f);
		json_decref(j);
	}
}

/* The Job's controller deletes the pods of a Job whose time is up, and says so in the Job alone. */
static void a_deadline_of_the_job_is_a_timeout(void **state)
{
	static const struct {
		const char *job, *meta, *pod;
		enum failure_class class;
		bool unexplained;
	} rows[] = {
#define CONDITION(reason) \
	"\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\",\"reason\":\"" reason "\"}]"
		{ CONDITION("DeadlineExceeded"), DELETED_, FAILED_ MAIN("143", "Error"),
		  FAILURE_TIMEOUT, false },
		{ CONDITION("DeadlineExceeded"), DELETED_,
		  FAILED_ SIDE("0", RESULT) "," MAIN("143", "Error"), FAILURE_TIMEOUT, false },
		{ CONDITION("DeadlineExceeded"), DELETED_,
		  "\"phase\":\"Succeeded\"," SIDE("0", RESULT) "," MAIN("0", "Completed"),
		  FAILURE_NONE, false },
		{ CONDITION("BackoffLimitExceeded"), DELETED_, FAILED_ MAIN("143", "Error"),
		  FAILURE_LOST, true },
		{ "", DELETED_, FAILED_ MAIN("143", "Error"), FAILURE_LOST, true },
		{ "", "", FAILED_ MAIN("3", "Error"), FAILURE_FAILED, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *text =
			xasprintf("{\"metadata\":{%s\"name\":\"p\",\"uid\":\"u\"},\"status\":{%s}}",
				  rows[i].meta, rows[i].pod);
		struct kube_verdict v;
		struct job_facts job;
		struct pod_facts f;
		const struct pod_facts *one = &f;
		json_t *j;

		job_of("\"annotations\":{}", rows[i].job, &job);
		assert_int_equal(json_parse("pod", text, strlen(text), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &f), 0);
		kube_judge(&(struct kube_observed){ .job = &job, .pods = &one, .n = 1, .nodes = 1 },
			   0, &v);
		if (v.stage != STAGE_ENDED || v.class != rows[i].class ||
		    v.unexplained != rows[i].unexplained)
			fail_msg("row %zu: %s: %s", i, failure_class_name(v.class), v.text);
		job_facts_deinit(&job);
		pod_facts_deinit(&f);
		json_decref(j);
	}
}

/* Pods that an operator made: whose they are, which of them, and which container is the program's.
 */
static void pods_of_operators(void **state)
{
	static const struct {
		const char *as, *labels, *main;
		unsigned index;
	} rows[] = {
		{ "pytorchjob", "\"training.kubeflow.org/replica-index\":\"2\"", "pytorch", 2 },
		{ "xgboostjob",
		  "\"training.kubeflow.org/replica-index\":\"0\",\"cairn.internal/first\":\"1\"",
		  "xgboost", 1 },
		{ "jobset", "\"batch.kubernetes.io/job-completion-index\":\"1\"", "main", 1 },
		{ "jobset", "\"training.kubeflow.org/replica-index\":\"1\"", "main", 0 },
		{ "trainjob", "\"batch.kubernetes.io/job-completion-index\":\"3\"", "main", 3 },
		{ "rayjob", "\"ray.io/node-type\":\"head\",\"cairn.internal/first\":\"0\"",
		  "ray-head", 0 },
		{ "sparkapplication", "\"spark-role\":\"driver\"", "spark-kubernetes-driver", 0 },
		{ "mpijob",
		  "\"training.kubeflow.org/replica-index\":\"-4\",\"cairn.internal/first\":\"x\"",
		  "mpi", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *text =
			xasprintf("{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"labels\":{%s},"
				  "\"annotations\":{"
				  "\"cairn.internal/as\":\"%s\",\"cairn.internal/"
				  "owner\":\"me\"}},\"status\":{"
				  "\"phase\":\"Running\",\"containerStatuses\":[{\"name\":"
				  "\"other\",\"state\":{"
				  "\"running\":{}}},{\"name\":\"%s\",\"state\":{\"terminated\":{"
				  "\"exitCode\":3}}}]}"
				  "}",
				  rows[i].labels, rows[i].as, rows[i].main);
		struct pod_facts f;
		json_t *j;

		assert_int_equal(json_parse("pod", text, strlen(text), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &f), 0);
		assert_string_equal(f.kind->as, rows[i].as);
		assert_string_equal(f.owner, "me");
		assert_int_equal(f.index, rows[i].index);
		assert_int_equal(f.main.exit_code, 3);
		pod_facts_deinit(&f);
		json_decref(j);
	}
}

/* The status of an object that ended so: as conditions, or as one word at the kind's own place. */
static char *status_of(const struct kube_kind *kind, bool failed)
{
	const char *word = failed ? kind->failed : kind->done, *dot;
	_cleanup_(freep) char *first = NULL;

	if (!kind->state)
		return xasprintf("{\"conditions\":[{\"type\":\"Created\",\"status\":\"True\"},"
				 "{\"type\":\"%s\",\"status\":\"True\",\"reason\":\"Because\","
				 "\"message\":\"of it\"}]}",
				 word);
	dot = strchr(kind->state, '.');
	if (!dot)
		return xasprintf("{\"%s\":\"%s\",\"message\":\"of it\"}", kind->state, word);
	first = xstrndup(kind->state, (size_t)(dot - kind->state));
	return xasprintf("{\"%s\":{\"%s\":\"%s\",\"errorMessage\":\"of it\"}}", first, dot + 1,
			 word);
}

static void each_kind_ends_by_its_own_words(void **state)
{
	for (size_t i = 0; i < KUBE_KINDS; i++)
		for (size_t end = 0; end < 2; end++) {
			const struct kube_kind *kind = &kube_kinds[i];
			_cleanup_(freep) char *status = status_of(kind, end);
			_cleanup_(freep) char *text = xasprintf(
				"{\"metadata\":{\"name\":\"j\",\"uid\":\"u\"},\"status\":%s}",
				status);
			struct job_facts f;
			json_t *j;

			assert_int_equal(json_parse("job", text, strlen(text), &j, NULL), 0);
			assert_int_equal(job_facts_of(kind, j, &f), 0);
			assert_int_equal(f.complete, !end);
			assert_int_equal(f.failed, end);
			assert_string_equal(f.reason, !end          ? ""
						      : kind->state ? kind->failed
								    : "Because");
			if (end)
				assert_string_equal(f.message, "of it");
			job_facts_deinit(&f);
			json_decref(j);
		}
}

/* A word elsewhere, or of another type, says nothing; KubeRay has a word of its own for an object
 * that it refuses. */
static void a_state_is_one_word_at_its_place(void **state)
{
	static const struct {
		const char *as, *status;
		bool complete, failed;
	} rows[] = {
		{ "rayjob", "{\"jobDeploymentStatus\":\"Running\",\"jobStatus\":\"FAILED\"}" },
		{ "rayjob", "{\"jobDeploymentStatus\":\"ValidationFailed\"}", .failed = true },
		{ "rayjob", "{\"jobDeploymentStatus\":[\"Failed\"]}" },
		{ "rayjob", "{\"conditions\":[{\"type\":\"Running\",\"status\":\"True\"}]}" },
		{ "sparkapplication", "{\"applicationState\":\"COMPLETED\"}" },
		{ "sparkapplication", "{\"applicationState\":{\"state\":\"SUCCEEDING\"}}" },
		{ "sparkapplication", "{\"state\":\"FAILED\"}" },
		{ "sparkapplication", "[]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *text =
			xasprintf("{\"metadata\":{\"name\":\"j\",\"uid\":\"u\"},\"status\":%s}",
				  rows[i].status);
		struct job_facts f;
		json_t *j;

		assert_int_equal(json_parse("job", text, strlen(text), &j, NULL), 0);
		assert_int_equal(job_facts_of(kube_kind_of(rows[i].as), j, &f), 0);
		assert_int_equal(f.complete, rows[i].complete);
		assert_int_equal(f.failed, rows[i].failed);
		job_facts_deinit(&f);
		json_decref(j);
	}
}

static void what_is_no_object_is_passed_over(void **state)
{
	static const char *const rows[] = { "{}", "[]", "{\"metadata\":{\"name\":\"p\"}}",
					    "{\"metadata\":{\"name\":3,\"uid\":\"u\"}}" };
	static const char unknown[] =
		"{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"annotations\":{"
		"\"cairn.internal/as\":\"newerjob\"}}}";
	/* No operator's pod is of an array. */
	static const char both[] =
		"{\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"annotations\":{"
		"\"cairn.internal/as\":\"pytorchjob\",\"cairn.internal/owner\":\"o\","
		"\"cairn.internal/attempts\":\"1,2\"}}}";
	struct pod_facts newer;
	json_t *o;

	assert_int_equal(json_parse("row", unknown, strlen(unknown), &o, NULL), 0);
	assert_int_equal(pod_facts_of(o, &newer), -1);
	json_decref(o);
	assert_int_equal(json_parse("row", both, strlen(both), &o, NULL), 0);
	assert_int_equal(pod_facts_of(o, &newer), -1);
	pod_facts_deinit(&newer);
	json_decref(o);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pod_facts p;
		struct job_facts f;
		json_t *j;

		assert_int_equal(json_parse("row", rows[i], strlen(rows[i]), &j, NULL), 0);
		assert_int_equal(pod_facts_of(j, &p), -1);
		assert_int_equal(job_facts_of(kube_kinds, j, &f), -1);
		pod_facts_deinit(&p);
		job_facts_deinit(&f);
		json_decref(j);
	}
}

#define ATTEMPTS(ids) "\"annotations\":{\"cairn.internal/attempts\":\"" ids "\"}"

static void which_attempts_are_whose(void **state)
{
	static const struct {
		const char *meta;
		size_t n, per_pod;
	} rows[] = {
		{ "\"annotations\":{}", 0, 0 }, { ATTEMPTS("12 13 14"), 3, 0 },
		{ ATTEMPTS("12,13,14"), 3, 1 }, { ATTEMPTS("12 13,14 15,16"), 5, 2 },
		{ ATTEMPTS("12,x"), 1, 1 },     { ATTEMPTS("99999999999999999999"), 0, 0 },
		{ ATTEMPTS(",12"), 0, 0 },      { ATTEMPTS("12  13"), 1, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct job_facts f;

		job_of(rows[i].meta, "", &f);
		if (f.n_attempts != rows[i].n || f.per_pod != rows[i].per_pod)
			fail_msg("%s: %zu attempts, %zu a pod", rows[i].meta, f.n_attempts,
				 f.per_pod);
		job_facts_deinit(&f);
	}
}

static void which_indexes_are_over(void **state)
{
	static const struct {
		const char *status;
		const char *over; /* a digit for each of ten */
	} rows[] = {
		{ "", "0000000000" },
		{ "\"completedIndexes\":\"1,3-5,7\"", "0101110100" },
		{ "\"failedIndexes\":\"0,2\",\"completedIndexes\":\"8-9\"", "1010000011" },
		{ "\"failedIndexes\":\"4\"", "0000100000" },
		{ "\"completedIndexes\":\"-\",\"failedIndexes\":\"x,5-\"",
		  "0000000000" }, /* hostile */
		{ "\"completedIndexes\":\"9-1\"", "0000000000" },
		{ "\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\"}]", "1111111111" },
		{ "\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]", "1111111111" },
	};

	struct job_facts gang;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct job_facts f;

		job_of(ATTEMPTS("10,11,12,13,14,15,16,17,18,19"), rows[i].status, &f);
		for (unsigned n = 0; n < 10; n++)
			if (job_is_over(&f, n) != (rows[i].over[n] == '1'))
				fail_msg("%s: index %u", rows[i].status, n);
		job_facts_deinit(&f);
	}
	job_of("\"annotations\":{}", "\"completedIndexes\":\"0-3\"", &gang);
	assert_false(job_is_over(&gang, 1)); /* its indexes are nodes: only the whole is over */
	job_facts_deinit(&gang);
}

/* A pod that somebody removed took its result with it. */
static void an_end_without_a_pod_is_lost(void **state)
{
	struct kube_verdict v;
	struct job_facts f;

	job_of(ATTEMPTS("10,11"), "\"completedIndexes\":\"1\"", &f);
	kube_judge(&(struct kube_observed){ .job = &f, .nodes = 1 }, 0, &v);
	assert_int_equal(v.stage, STAGE_CREATED);
	kube_judge(&(struct kube_observed){ .job = &f, .nodes = 1, .podless = true }, 0, &v);
	assert_int_equal(v.stage, STAGE_ENDED);
	assert_int_equal(v.class, FAILURE_LOST);
	assert_non_null(strstr(v.text, "its pod is gone"));
	job_facts_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pods_are_judged_by_their_facts),
		cmocka_unit_test(a_pod_whose_job_was_suspended_is_preempted),
		cmocka_unit_test(a_container_beside_main_holds_up_nothing),
		cmocka_unit_test(a_deadline_of_the_job_is_a_timeout),
		cmocka_unit_test(pods_of_operators),
		cmocka_unit_test(each_kind_ends_by_its_own_words),
		cmocka_unit_test(a_state_is_one_word_at_its_place),
		cmocka_unit_test(what_is_no_object_is_passed_over),
		cmocka_unit_test(which_attempts_are_whose),
		cmocka_unit_test(which_indexes_are_over),
		cmocka_unit_test(an_end_without_a_pod_is_lost)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
