/* What a pod is told and what it tells, and the plan and the end between its containers: any bytes.
 * What is accepted can be written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "runners/kubernetes/init/protocol.h"
#include "runners/kubernetes/job/pod_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_pod_result: %s\n", what);
	abort();
}

static int put(void *arg, const void *bytes, size_t n, struct content_id *ret, struct err *err)
{
	*ret = (struct content_id){ .kind = CONTENT_BLOB, .size_bytes = n };
	return 0;
}

static void result(const uint8_t *data, size_t size, struct arena *arena)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct pod_result *v, *again;
	struct content_id where;
	size_t n, m;

	if (kube_pod_result_read((const char *)data, size, arena, &v, &n, &where, NULL) != 0)
		return;
	must(pod_result_write(v, n, put, NULL, &text, NULL) == 0, "a result that can't be written");
	must(text.len <= POD_MESSAGE_MAX, "a message that is cut off");
	must(kube_pod_result_read(text.s, text.len, arena, &again, &m, &where, NULL) >= 0,
	     "a result that can't be read");
}

static void spec(const uint8_t *data, size_t size, struct arena *arena)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct runner_attempt *v, *again;
	const struct runner_attempt *first;
	size_t n, m;

	if (pod_spec_read((const char *)data, size, 0, arena, &v, &n, NULL) != 0)
		return;
	first = v;
	must(pod_spec_write(&first, 1, 0, &text, NULL) == 0 &&
		     pod_spec_read(text.s, text.len, 0, arena, &again, &m, NULL) == 0,
	     "a specification that can't be read");
}

static void protocol(const uint8_t *data, size_t size)
{
	_cleanup_(freep) char *copy = xmalloc(size + 1);
	struct init_program *v;
	struct init_exit e;
	size_t n;

	memcpy(copy, data, size);
	copy[size] = '\0';
	init_exit_decode(copy, &e);
	if (init_plan_decode(copy, size, &v, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		must(v[i].argv[0] && strlen(v[i].dir) <= size, "a program without a name");
	init_plan_free(v, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	result(data, size, arena);
	spec(data, size, arena);
	protocol(data, size);
	return 0;
}
