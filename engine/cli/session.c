/* engine/cli/session.c — project, store, stat cache, loop and runner, in the order in which they
 * need each other.
 *
 * session_open() goes from the cheap to the costly, so that a wrong configuration is found before a
 * store or a cluster is contacted. Loop, runner and the file of key locks (keys.lock) exist only
 * when tasks are to be executed.
 *
 * `config`, `db` and `store` belong to the cli and outlive the session. `cache`, `loop`, `runner`,
 * `images` and `leases_fd` are the session's own. session_close() releases whatever session_open()
 * opened, also after a failure.
 *
 * Where tasks run decides the programs' paths: on Kubernetes `steps_program` and `launch_program`
 * are paths in the pod, and `steps_here` is the program next to this one.
 *
 * A shared store that can't be reached stops what executes, before it begins: the results of hours
 * would be here only, and those of others would be made again. A plan goes on, and its command says
 * that it may be wrong (session_store_answered()). A store that answers, and fails, is tier.c's
 * matter.
 *
 * Invariants: `executing` announces the process to the store (store_use()) before anything is
 * planned, so that a gc elsewhere sees it; a failure only gives a warning. session_plan() hashes
 * and looks up, and never puts content into the store.
 *
 * Threads: the loop's. What it doesn't do: begin or end a run (run/execution.c).
 */
#include "cli/session.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "run/project/cluster.h"
#include "run/task/staging.h"
#include "runners/kubernetes/job/pod_spec.h"
#include "runners/kubernetes/runner.h"
#include "runners/links.h"
#include "runners/mounts.h"
#include "storage/remote/tier.h"

unsigned session_cpus(void)
{
	return (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

/* The table of some hundred tasks: the content of fewer is found before a thread has begun. */
#define AHEAD_MIN_BYTES (64 * KIB)

static bool on_kubernetes(const struct session *s)
{
	return str_eq(s->config->runner, "kubernetes");
}

static int open_local(struct session *s, struct err *err)
{
	const struct config *c = s->config;
	struct runner_local_options o = {
		.state_dir = c->state_dir,
		.store_dir = config_store_dir(c),
		.inputs = str_eq(c->workspace, "link")    ? RUNNER_INPUTS_LINKED
			  : str_eq(c->workspace, "mount") ? RUNNER_INPUTS_MOUNTED
			  : str_eq(c->workspace, "auto")  ? RUNNER_INPUTS_AUTO
							  : RUNNER_INPUTS_COPIED,
		.staging = staging_of(s->store)
	};

	if (o.inputs == RUNNER_INPUTS_LINKED && links_check(o.store_dir, o.state_dir, err) < 0)
		return err_wrap(
			err,
			"`workspace: link` in cairn.yaml isn't possible here (leave it out, or say "
			"copy)");
	if (o.inputs == RUNNER_INPUTS_MOUNTED && mounts_check(o.store_dir, o.state_dir, err) < 0)
		return err_wrap(err, "`workspace: mount` in cairn.yaml isn't possible here (leave "
				     "it out, or say "
				     "copy)");
	return runner_local_new(s->loop, &o, &s->runner, err);
}

/* The sidecar uses the image with which the run started, whatever its tag means later. */
static int open_kubernetes(struct session *s, struct cli *cli, struct err *err)
{
	const struct config *c = s->config;
	struct run_cluster *cluster = arena_alloc(cli->arena, sizeof(*cluster));
	struct kube_access *access = arena_alloc(cli->arena, sizeof(*access));
	struct kube_profile *profile = arena_alloc(cli->arena, sizeof(*profile));
	struct runner_kubernetes_options o = { .access = access,
					       .profile = profile,
					       .staging = staging_of(s->store) };

	if (cluster_access(c, cli->arena, access, err) < 0 ||
	    cluster_profile(c, access, cli->arena, profile, err) < 0 ||
	    cli_images_own(s->images, &profile->cairn_image, err) < 0)
		return -1;
	*cluster = cluster_name(c, access);
	s->cluster = cluster;
	profile->arch = cli_images_arch(c, cli->arena);
	o.client = (struct kube_client_options){ .qps = c->kubernetes.access.requests_per_second,
						 .burst = c->kubernetes.access.requests_burst };
	o.schedule_within_ns = c->kubernetes.within.schedule_ns;
	o.image_within_ns = c->kubernetes.within.image_ns;
	o.gang_within_ns = c->kubernetes.within.gang_ns;
	o.lost_within_ns = c->kubernetes.within.lost_ns;
	o.series_every_ns = cli_test_duration("CAIRN_TEST_KUBE_SERIES", 0);
	return runner_kubernetes_new(s->loop, &o, &s->runner, err);
}

int session_look_ahead(struct cli *cli, const char *pipeline, bool executing, struct err *err)
{
	_cleanup_(freep) char *file = NULL, *path = NULL;
	const struct config *config;
	struct err ignored = { 0 };
	struct store *store;
	struct db *db;

	assert(!cli->ahead);
	if (cli_config(cli, &config, err) < 0)
		return -1;
	if (config_store_is_shared(config))
		return 0;
	file = fs_join(config->state_dir, "cairn.db");
	if (access(file, F_OK) < 0 || cli_store(cli, true, &store, &ignored) < 0 ||
	    cli_db(cli, DB_WRITE, &db, &ignored) < 0 ||
	    (executing && store_use(store, &ignored) < 0))
		return 0;
	path = run_pipeline_path(config, pipeline ? pipeline : "pipeline.yaml");
	cli->ahead = plan_ahead_begin(store, db, path, AHEAD_MIN_BYTES);
	return 0;
}

int session_open(struct session *s, struct cli *cli, bool executing, struct err *err)
{
	_cleanup_(freep) char *cache = NULL, *leases = NULL;
	struct err why = { 0 };

	*s = (struct session){ .leases_fd = -1 };
	if (cli_config(cli, &s->config, err) < 0)
		return -1;
	if (executing && on_kubernetes(s) && str_eq(s->config->store.cache, "read-only"))
		return err_set(
			err, ERR_INVALID,
			"pods write their results to the store, which `cache: read-only` forbids: "
			"use --cache off to take nobody's results, or --cache read-write");
	s->steps_here = s->steps_program = cli_steps_program(cli);
	if (on_kubernetes(s)) {
		s->steps_program = POD_STEPS;
		s->launch_program = POD_LAUNCH;
	}
	if (fs_mkdir_p(s->config->state_dir, err) < 0)
		return -1;
	cache = xasprintf("%s/statcache", s->config->state_dir);
	if (cli_store(cli, true, &s->store, err) < 0 || cli_db(cli, DB_WRITE, &s->db, err) < 0 ||
	    statcache_open(cache, &s->cache, err) < 0)
		return -1;
	if (on_kubernetes(s))
		s->images = cli_images_new(s->config);
	if (!executing)
		return 0;
	if (tier_failure(s->store, &why) < 0 &&
	    !bucket_has_answered(remote_bucket(tier_remote(s->store))))
		return err_set(err, why.code, "the store %s can't be reached: %s%s",
			       store_uri(s->store), why.msg,
			       on_kubernetes(s) ? "" /* results of pods come through it */
						: "; --cache off goes on without it, and "
						  "`cairn store push` sends the results later");
	if (store_use(s->store, &why) < 0)
		cli_warn(cli, "a `store gc` of another project may remove what this run uses: %s",
			 why.msg);
	leases = xasprintf("%s/keys.lock", s->config->state_dir);
	s->leases_fd = open(leases, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (s->leases_fd < 0)
		return err_errno(err, "cannot open %s", leases);
	if (loop_new(clock_system(), &s->loop, err) < 0)
		return -1;
	return on_kubernetes(s) ? open_kubernetes(s, cli, err) : open_local(s, err);
}

void session_close(struct session *s)
{
	if (s->runner)
		s->runner->ops->free(s->runner);
	loop_free(s->loop);
	statcache_free(s->cache);
	cli_images_free(s->images);
	fd_closep(&s->leases_fd);
	*s = (struct session){ .leases_fd = -1 };
}

struct session_operands session_operands(const struct cli_args *args)
{
	bool named = args->n_operands && cli_is_pipeline_path(args->operands[0]);

	return (struct session_operands){ .pipeline = named ? args->operands[0] : NULL,
					  .steps = args->operands + named,
					  .n_steps = args->n_operands - named };
}

int session_options(struct cli *cli, const struct cli_args *args, const struct session_operands *op,
		    struct run_options *ret, struct err *err)
{
	struct param_override *overrides;

	*ret = (struct run_options){ .select = { .targets = op->steps, .n_targets = op->n_steps } };
	if (cli_params(cli, args, &overrides, &ret->n_overrides, err) < 0)
		return -1;
	ret->overrides = overrides;
	ret->select.from = cli_value(args, "from");
	ret->select.until = cli_value(args, "until");
	ret->select.force = cli_values(args, "force", cli->arena, &ret->select.n_force);
	return 0;
}

int session_plan(struct session *s, struct cli *cli, const struct pipeline *p,
		 const struct run_options *o, struct plan **ret, struct err *err)
{
	struct value *params =
		arena_alloc(cli->arena, (pipeline_n_values(p) + 1) * sizeof(*params));
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct plan_context pc = { .config = s->config,
				   .pipeline = p,
				   .params = params,
				   .store = s->store,
				   .db = s->db,
				   .ahead = cli->ahead,
				   .cache = s->cache,
				   .steps_program = s->steps_program,
				   .launch_program = s->launch_program,
				   .images = cli_images_plan(s->images) };
	struct plan_options po = { .select = o->select,
				   .hash_only = true,
				   .hash_threads = session_cpus(),
				   .may_stand = s->plan_may_stand && !store_is_shared(s->store) };

	assert(s->db && s->store);
	if (params_resolve(p, o->overrides, o->n_overrides, cli->arena, params, diags, err) < 0)
		return -1;
	if (plan_new(&pc, &po, ret, err) < 0)
		return -1;
	if (plan_resolve(*ret, err) < 0) {
		plan_free(*ret);
		return -1;
	}
	return statcache_save(s->cache, NULL), 0;
}

int session_store_answered(struct session *s, struct err *err)
{
	struct err why = { 0 };

	if (tier_failure(s->store, &why) == 0)
		return 0;
	return err_set(err, why.code,
		       "the store %s doesn't answer, so its content counts as missing: %s",
		       store_uri(s->store), why.msg);
}
