/* The logs of several nodes as one: what each may have of their common limit. */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/kubernetes/internal.h"
#include "unit.h"

#define NODES   4
#define ALL     (256 * MIB)
#define ATTEMPT 9

/* A store whose logs are as large as they say, but for their bytes. */
struct logs {
	uint64_t max[NODES]; /* asked of each */
	struct str text;     /* what was put */
};

static int fetch(void *arg, const struct content_id *id, uint64_t max, struct str *ret,
		 struct err *err)
{
	struct logs *l = arg;

	l->max[id->digest.b[0]] = max;
	if (id->size_bytes > max)
		return err_set(err, ERR_TOO_LARGE, "too large");
	str_addf(ret, "log %u\n", id->digest.b[0]);
	return 0;
}

static int put_log(void *arg, int fd, struct content_id *ret, struct err *err)
{
	struct logs *l = arg;
	char path[64];

	*ret = (struct content_id){ .kind = CONTENT_BLOB, .size_bytes = 1 };
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fs_read_file(path, MIB, &l->text, err);
}

/* One log after the other, of so many bytes. */
static void gang_of(struct logs *l, const uint64_t sizes[NODES])
{
	struct kube k = { .o.staging = { .fetch = fetch, .put_log = put_log, .arg = l } };
	struct bundle b = { .k = &k, .nodes = NODES };
	struct pod pods[NODES] = { 0 };
	struct str messages[NODES] = { 0 };
	char names[NODES][16];
	const struct content_id none = { 0 };
	struct content_id log;
	struct gang_part *parts;
	size_t n;

	for (unsigned i = 0; i < NODES; i++) {
		struct pod_result r = { .attempt_id = ATTEMPT, .ran = true };

		r.r.log = (struct content_id){ .kind = CONTENT_BLOB,
					       .size_bytes = sizes[i],
					       .digest = { .b = { (uint8_t)i } } };
		assert_int_equal(pod_result_write(&r, 1, NULL, NULL, &messages[i], NULL), 0);
		snprintf(names[i], sizeof(names[i]), "pod-%u", i);
		pods[i].f.name = names[i];
		pods[i].f.index = i;
		pods[i].f.sidecar.message = messages[i].s;
		VEC_PUSH(&b.pods, &pods[i]);
	}
	parts = gang_parts(&b, &n);
	gang_log(&k,
		 &(struct gang_log_options){ .parts = parts,
					     .n = n,
					     .nodes = NODES,
					     .attempt_id = ATTEMPT,
					     .other_pod = "",
					     .other = &none },
		 &log);
	assert_int_equal(log.kind, CONTENT_BLOB);
	gang_parts_free(parts, n);
	VEC_FREE(&b.pods);
	for (unsigned i = 0; i < NODES; i++)
		str_deinit(&messages[i]);
}

static void what_one_leaves_is_for_the_others(void **state)
{
	const uint64_t last = ALL - 3 * strlen("log 0\n");

	for (int over = -1; over <= 1; over++) {
		struct logs l = { 0 };

		gang_of(&l, (uint64_t[]){ 6, 6, 6, last + (uint64_t)(int64_t)over });
		assert_int_equal(l.max[0], ALL / NODES);
		assert_int_equal(l.max[3], last);
		assert_non_null(strstr(l.text.s, "=== node 0 of 4 ===\nlog 0\n"));
		assert_non_null(strstr(l.text.s, over > 0 ? "=== node 3 of 4: too large ===\n"
							  : "=== node 3 of 4 ===\nlog 3\n"));
		str_deinit(&l.text);
	}
}

/* A node of an elastic gang has the logs of all its pods, or none. */
static void a_replaced_pod_has_its_log(void **state)
{
	static const struct {
		unsigned index, log; /* whose log it left; 0: it never ran */
	} made[] = { { 1, 1 }, { 0, 2 }, { 3, 0 }, { 1, 3 } };
	struct logs l = { 0 };
	struct kube k = { .o.staging = { .fetch = fetch, .put_log = put_log, .arg = &l } };
	struct bundle b = { .k = &k, .nodes = NODES, .min_nodes = 2 };
	struct pod pods[ARRAY_LEN(made)] = { 0 };
	struct str messages[ARRAY_LEN(made)] = { 0 };
	const struct content_id none = { 0 };
	struct content_id log;
	char names[ARRAY_LEN(made)][16];
	struct gang_part *parts;
	size_t n;

	for (unsigned i = 0; i < ARRAY_LEN(made); i++) {
		struct pod_result r = { .attempt_id = ATTEMPT, .ran = true };

		r.r.log = (struct content_id){ .kind = CONTENT_BLOB,
					       .size_bytes = 6,
					       .digest = { .b = { (uint8_t)made[i].log } } };
		assert_int_equal(pod_result_write(&r, 1, NULL, NULL, &messages[i], NULL), 0);
		snprintf(names[i], sizeof(names[i]), "pod-%u", i);
		pods[i].f.name = names[i];
		pods[i].f.index = made[i].index;
		pods[i].f.created_ns = i;
		pods[i].f.gone = i == 0;
		pods[i].f.sidecar.message = made[i].log ? messages[i].s : NULL;
		VEC_PUSH(&b.pods, &pods[i]);
	}
	parts = gang_parts(&b, &n);
	assert_int_equal(n, 3);
	gang_log(&k,
		 &(struct gang_log_options){ .parts = parts,
					     .n = n,
					     .nodes = NODES,
					     .attempt_id = ATTEMPT,
					     .other_pod = "",
					     .other = &none },
		 &log);
	gang_parts_free(parts, n);
	assert_string_equal(l.text.s, "=== node 0 of 4 ===\nlog 2\n=== node 1 of 4 ===\nlog 1\n"
				      "=== node 1 of 4 ===\nlog 3\n");
	assert_int_equal(l.max[2], ALL / 3);
	str_deinit(&l.text);
	VEC_FREE(&b.pods);
	for (unsigned i = 0; i < ARRAY_LEN(made); i++)
		str_deinit(&messages[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_leaves_is_for_the_others),
		cmocka_unit_test(a_replaced_pod_has_its_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
