/* Fills a project as a run of its pipeline would, without starting programs: tasks end at once with
 * one of a few contents. So that what a run with nothing to do costs can be measured for a million
 * tasks without executing a million programs first. usage: bench_populate PROJECT_DIR (with
 * pipeline.yaml and cairn.yaml) */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "model/config/config.h"
#include "run/run.h"

/* Different contents: a million different small files would measure the file system. */
#define CONTENTS 256

static struct store *store;

static void end_at_once(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
			int64_t *ret_duration_ns, struct content_id *ret_outputs,
			char **ret_metrics_json)
{
	char text[16];

	snprintf(text, sizeof(text), "%u\n", (unsigned)(a->id % CONTENTS));
	*ret_duration_ns = 0;
	for (size_t i = 0; i < a->n_outputs; i++)
		if (content_put_bytes(store, text, strlen(text), &ret_outputs[i], NULL) < 0)
			*ret_failure = FAILURE_STORE;
}

static int populate(const char *dir, struct err *err)
{
	_cleanup_(freep) char *state = xasprintf("%s/.cairn", dir),
			      *path = xasprintf("%s/pipeline.yaml", dir),
			      *db_path = xasprintf("%s/cairn.db", state),
			      *store_path = xasprintf("%s/store", state),
			      *cache = xasprintf("%s/statcache", state);
	struct pipeline_load_options lo = { .project_root = dir };
	struct config config = { .project_root = dir,
				 .state_dir = state,
				 .runner = "local",
				 .limits.cpu_milli = 64000,
				 .limits.memory_bytes = GIB };
	struct run_options o = { .jobs = 64 };
	struct diag_list *diags = diag_list_new();
	struct runner_fake_options fake = { .script = end_at_once };
	struct run_context ctx = { .config = &config, .leases_fd = -1, .hash_threads = 1 };
	struct pipeline *p = NULL;
	struct run_row row;
	struct clock clock;

	clock_virtual_init(&clock, 1700000000LL * NS_PER_S);
	if (fs_mkdir_p(state, err) < 0 || pipeline_load(path, &lo, diags, &p, err) < 0 ||
	    loop_new(&clock, &ctx.loop, err) < 0 || store_open(store_path, true, &store, err) < 0 ||
	    db_open(db_path, DB_WRITE, &ctx.db, err) < 0 ||
	    statcache_open(cache, &ctx.cache, err) < 0 ||
	    runner_fake_new(ctx.loop, &fake, &ctx.runner, err) < 0)
		return -1;
	ctx.store = store;
	if (run_start(&ctx, p, &o, arena_new(), &row, err) < 0)
		return -1;
	printf("%llu tasks executed\n", (unsigned long long)row.counts.executed);
	statcache_save(ctx.cache, NULL);
	db_close(ctx.db);
	store_free(store);
	return row.state == RUN_SUCCEEDED ? 0 : err_set(err, ERR_FAILED, "the run didn't succeed");
}

int main(int argc, char **argv)
{
	struct err err = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: bench_populate PROJECT_DIR\n");
		return 2;
	}
	if (populate(argv[1], &err) < 0) {
		fprintf(stderr, "bench_populate: %s\n", err.msg);
		return 1;
	}
	return 0;
}
