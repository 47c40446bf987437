/* steps/train/environment.c — the environment of each rank, by framework; its GPUs and cpus; and
 * the command to start.
 *
 * gang_environment() copies our own environment and adds to it (struct env, where a later value
 * replaces an earlier one): PYTHONUNBUFFERED and OMP_NUM_THREADS unless the user has set them, the
 * framework's rendezvous (torch_rank(), tensorflow_task(), jax_process(), ps_node(); mpirun sets
 * its ranks' own), a share of the GPUs, and the marker CAIRN_GANG by which a member's processes are
 * found.
 *
 * OMP_NUM_THREADS divides the step's cpus among all ranks of all nodes, so that a result doesn't
 * depend on where they run. GPUs and cpus of this node are divided among its workers (share()).
 *
 * mpirun_of() puts mpirun around the command. On one machine it needs no daemon; on several it
 * starts daemons through this program (`mpi-agent`, peers.c). mpi_marker() is in the environment of
 * mpirun's ranks but not of mpirun itself, so that gang.c can signal only the ranks.
 *
 * nodes.c has addresses and ports. Nothing is started here; all results belong to the caller.
 *
 * Sources: torch/distributed/argparse_util.py and elastic/agent (PET_*, RANK …);
 * tensorflow.org/guide/distributed_training (TF_CONFIG); docs.jax.dev, jax.distributed.initialize;
 * ps-lite's and BytePS's documentation (DMLC_*).
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "steps/train/gang.h"

extern char **environ;

/* How long torchrun waits for the store on the first node, whose image may have to be pulled: as
 * long as a gang may take to start (`gang_within`). Its default is a minute. */
#define STORE_TIMEOUT_S 600
/* Per machine; even the largest have fewer. */
#define GPUS_MAX 64

struct env {
	VEC(char *) v;
};

/* A later value replaces an earlier one. */
static void set(struct env *e, const char *name, const char *fmt, ...) _printf_(3, 4);
static void set(struct env *e, const char *name, const char *fmt, ...)
{
	size_t n = strlen(name);
	struct str s = { 0 };
	va_list ap;

	str_addf(&s, "%s=", name);
	va_start(ap, fmt);
	str_addv(&s, fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < e->v.n; i++)
		if (strncmp(e->v.v[i], name, n) == 0 && e->v.v[i][n] == '=') {
			free(e->v.v[i]);
			e->v.v[i] = str_take(&s);
			return;
		}
	VEC_PUSH(&e->v, str_take(&s));
}

static void set_default(struct env *e, const char *name, unsigned value)
{
	if (!getenv(name))
		set(e, name, "%u", value);
}

/* Torch. */

/* What torchrun reads; it gives its ranks the rest. The first node keeps the store in which nodes
 * meet; where that is, is said, because torchrun's guess needs a host name that resolves. What the
 * step sets comes last, because there a later word counts. */
static void torchrun(const struct gang *g, struct env *e)
{
	const char *conf = getenv("PET_RDZV_CONF");
	_cleanup_(str_deinit) struct str first = { 0 }, outputs = { 0 };

	gang_add_host(g, 0, &first);
	elastic_add_outputs(g, &outputs);
	set(e, "PET_NNODES", "%u:%u", g->size.min_nodes, g->size.nodes);
	set(e, "PET_NPROC_PER_NODE", "%u", g->size.procs_per_node);
	set(e, "PET_MAX_RESTARTS", "%u", g->size.max_restarts);
	set(e, "PET_RDZV_BACKEND", "c10d");
	set(e, "PET_RDZV_ENDPOINT", "%s:%u", first.s, g->where.port);
	set(e, "PET_RDZV_ID", "%s", g->where.token);
	set(e, "PET_RDZV_CONF", "is_host=%s,read_timeout=%d%s%s",
	    g->where.here == 0 ? "true" : "false", STORE_TIMEOUT_S, conf && *conf ? "," : "",
	    conf ? conf : "");
	/* A rank leaves torchrun's output at once (elastic.c), so these say nothing; but torchrun
	 * 1.13, Debian 12's, fails under Python 3.11 if they are 0. */
	set_default(e, "PET_REDIRECTS", 1);
	set_default(e, "PET_TEE", 1);
	set(e, "CAIRN_GANG_NODE", "%u", g->where.here);
	set(e, "CAIRN_GANG_OUTPUTS", "%s", outputs.s);
}

/* On one machine all ranks are local, whatever `nodes` says, so that each finds a device of its
 * own. */
static void torch_rank(const struct gang *g, const struct member *m, struct env *e)
{
	unsigned world = g->size.nodes * g->size.procs_per_node;
	_cleanup_(str_deinit) struct str master = { 0 };

	gang_add_host(g, 0, &master);
	set(e, "MASTER_ADDR", "%s", master.s);
	set(e, "MASTER_PORT", "%u", gang_port(g, ROLE_WORKER, 0));
	set(e, "PET_MASTER_ADDR", "%s", master.s);
	set(e, "PET_MASTER_PORT", "%u", gang_port(g, ROLE_WORKER, 0));
	set(e, "PET_NNODES", "%u", g->size.nodes);
	set(e, "PET_NPROC_PER_NODE", "%u", g->size.procs_per_node);
	set(e, "PET_NODE_RANK", "%u", g->settings.starts_nodes ? m->index : g->where.here);
	if (g->settings.starts_nodes) {
		set(e, "NODE_RANK", "%u", m->index);
		return;
	}
	set(e, "RANK", "%u", m->index);
	set(e, "WORLD_SIZE", "%u", world);
	set(e, "LOCAL_RANK", "%u", m->local);
	set(e, "LOCAL_WORLD_SIZE", "%u", g->size.workers_here);
	set(e, "GROUP_RANK", "%u", g->where.here);
	set(e, "GROUP_WORLD_SIZE", "%u", g->where.apart ? g->size.nodes : 1);
	set(e, "ROLE_NAME", "default");
	set(e, "ROLE_RANK", "%u", m->index);
	set(e, "ROLE_WORLD_SIZE", "%u", world);
	set(e, "TORCHELASTIC_RUN_ID", "cairn");
	set(e, "TORCHELASTIC_RESTART_COUNT", "0");
	set(e, "TORCHELASTIC_MAX_RESTARTS", "0");
}

/* The others. */

static json_t *hosts(const struct gang *g, enum role role, unsigned n)
{
	_cleanup_(str_deinit) struct str host = { 0 };
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++) {
		str_reset(&host);
		gang_add_host(g, gang_node(g, role, i), &host);
		str_addf(&host, ":%u", gang_port(g, role, i));
		json_array_append_new(list, json_string(host.s));
	}
	return list;
}

static void tensorflow_task(const struct gang *g, const struct member *m, struct env *e)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	json_t *cluster = json_object(), *all = json_object();

	json_object_set_new(cluster, "worker", hosts(g, ROLE_WORKER, g->size.workers));
	if (g->size.servers)
		json_object_set_new(cluster, "ps", hosts(g, ROLE_SERVER, g->size.servers));
	json_object_set_new(all, "cluster", cluster);
	json_object_set_new(all, "task",
			    json_pack("{sssi}", "type", m->role == ROLE_SERVER ? "ps" : "worker",
				      "index", (int)m->index));
	json_add_canonical(&text, all);
	json_decref(all);
	set(e, "TF_CONFIG", "%s", text.s);
}

static void jax_process(const struct gang *g, const struct member *m, struct env *e)
{
	/* jax reads the first, wrappers the second */
	static const char *const prefixes[] = { "JAX_", "" };
	_cleanup_(str_deinit) struct str master = { 0 };

	gang_add_host(g, 0, &master);
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		char name[64];

		snprintf(name, sizeof(name), "%sCOORDINATOR_ADDRESS", prefixes[i]);
		if (*prefixes[i])
			set(e, name, "%s:%u", master.s, gang_port(g, ROLE_WORKER, 0));
		else
			set(e, name, "%s", master.s);
		snprintf(name, sizeof(name), "%sNUM_PROCESSES", prefixes[i]);
		set(e, name, "%u", g->size.workers);
		snprintf(name, sizeof(name), "%sPROCESS_ID", prefixes[i]);
		set(e, name, "%u", m->index);
	}
	set(e, "COORDINATOR_PORT", "%u", gang_port(g, ROLE_WORKER, 0));
}

static void ps_node(const struct gang *g, const struct member *m, struct env *e)
{
	static const char *const roles[] = {
		[ROLE_WORKER] = "worker", [ROLE_SERVER] = "server", [ROLE_SCHEDULER] = "scheduler"
	};
	_cleanup_(str_deinit) struct str root = { 0 };

	set(e, "DMLC_ROLE", "%s", roles[m->role]);
	gang_add_address(g, 0, &root); /* ps-lite accepts no names */
	set(e, "DMLC_PS_ROOT_URI", "%s", root.s);
	set(e, "DMLC_PS_ROOT_PORT", "%u", gang_port(g, ROLE_SCHEDULER, 0));
	set(e, "DMLC_NUM_WORKER", "%u", g->size.workers);
	set(e, "DMLC_NUM_SERVER", "%u", g->size.servers);
	if (m->role != ROLE_SCHEDULER)
		set(e, m->role == ROLE_WORKER ? "DMLC_WORKER_ID" : "DMLC_SERVER_ID", "%u",
		    m->index);
}

/* Devices and threads. */

/* The part of `n` things that belongs to the i-th of `of`: adjacent, and as even as possible. If
 * there are too few, some share one. */
static void share(unsigned n, unsigned of, unsigned i, unsigned *from, unsigned *to)
{
	assert(i < of);
	*from = (unsigned)((uint64_t)n * i / of);
	*to = n < of ? *from + 1 : (unsigned)((uint64_t)n * (i + 1) / of);
}

/* A pod sees only its own devices, which count from 0; only their files tell how many there are. */
static void add_devices(struct str *out)
{
	char path[64];

	for (unsigned i = 0, n = 0; i < GPUS_MAX; i++) {
		snprintf(path, sizeof(path), "/dev/nvidia%u", i);
		if (access(path, F_OK) == 0) {
			str_addf(out, "%s%u", n ? "," : "", n);
			n++;
		}
	}
}

static void own_gpus(const struct gang *g, const struct member *m, struct env *e)
{
	const char *all = getenv("CUDA_VISIBLE_DEVICES");
	_cleanup_(str_deinit) struct str mine = { 0 }, found = { 0 };
	unsigned n = 1, from, to;

	if (!g->settings.own_gpus)
		return;
	if (!all && g->where.apart) {
		add_devices(&found);
		all = found.s;
	}
	if (!all || !*all)
		return;
	if (m->role != ROLE_WORKER) {
		set(e, "CUDA_VISIBLE_DEVICES", "%s", "");
		return;
	}
	for (const char *c = all; *c; c++)
		n += *c == ',';
	share(n, g->size.workers_here, m->local, &from, &to);
	for (unsigned i = 0; i < to; i++) {
		size_t len = strcspn(all, ",");

		if (i >= from)
			str_addf(&mine, "%s%.*s", mine.len ? "," : "", (int)len, all);
		all += len + (all[len] == ',');
	}
	set(e, "CUDA_VISIBLE_DEVICES", "%s", mine.len ? mine.s : "");
}

bool gang_cpus(const struct gang *g, const struct member *m, struct cpus *ret)
{
	unsigned from, to, i = 0;
	struct cpus all;

	if (!g->settings.pins || m->role != ROLE_WORKER || cpus_get(&all) < 0 ||
	    cpus_count(&all) < g->size.workers_here)
		return false;
	share(cpus_count(&all), g->size.workers_here, m->local, &from, &to);
	*ret = (struct cpus){ 0 };
	for (unsigned cpu = 0; cpu < MACHINE_CPUS_MAX; cpu++)
		if (cpus_has(&all, cpu) && i++ >= from && i <= to)
			cpus_add(ret, cpu);
	return true;
}

const char *gang_own_program(struct arena *arena)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	return arena_strndup(arena, self, (size_t)MAX(n, 0));
}

char **gang_environment(const struct gang *g, const struct member *m)
{
	struct env e = { 0 };

	for (char **v = environ; *v; v++)
		VEC_PUSH(&e.v, xstrdup(*v));
	set_default(&e, "PYTHONUNBUFFERED", 1);
	set_default(&e, "OMP_NUM_THREADS",
		    MAX(g->settings.threads / (g->size.nodes * g->size.procs_per_node), 1));
	switch (g->framework) {
	case TORCH:
		gang_is_elastic(g) ? torchrun(g, &e) : torch_rank(g, m, &e);
		break;
	case TENSORFLOW:
		tensorflow_task(g, m, &e);
		break;
	case JAX:
		jax_process(g, m, &e);
		break;
	case PS:
		ps_node(g, m, &e);
		break;
	case MPI:
	case HOROVOD:
		/* In a container the user is root, and there is nothing to protect. */
		set(&e, "OMPI_ALLOW_RUN_AS_ROOT", "1");
		set(&e, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
		break;
	}
	own_gpus(g, m, &e);
	set(&e, "CAIRN_GANG", "%d.%u", (int)getpid(), (unsigned)(m - g->members.v));
	VEC_PUSH(&e.v, NULL);
	return e.v.v;
}

void gang_environment_free(char **env)
{
	for (char **v = env; v && *v; v++)
		free(*v);
	free(env);
}

/* The command. */

char *mpi_marker(const struct gang *g)
{
	return g->where.apart ? xasprintf(MPI_RANK_MARKER "=%u-%s", g->where.port, g->where.token)
			      : xasprintf(MPI_RANK_MARKER "=%d", (int)getpid());
}

struct words {
	VEC(const char *) v;
	struct arena *arena;
};

static void add_words(struct words *w, const char *const *words)
{
	for (; *words; words++)
		VEC_PUSH(&w->v, *words);
}

/* Lists the nodes for mpirun's daemons, by address, so that no node needs the others' names; `plm
 * rsh` starts them through this program. */
static void add_nodes(const struct gang *g, struct words *w)
{
	static const char *const fixed[] = { "--mca",
					     "plm",
					     "rsh",
					     "--mca",
					     "plm_rsh_no_tree_spawn",
					     "1",
					     "--leave-session-attached",
					     "--mca",
					     "plm_rsh_agent",
					     NULL };
	_cleanup_(str_deinit) struct str hosts = { 0 };

	for (unsigned i = 0; i < g->size.nodes; i++) {
		if (i)
			str_addc(&hosts, ',');
		gang_add_address(g, i, &hosts);
		str_addf(&hosts, ":%u", g->size.procs_per_node);
	}
	add_words(w, fixed);
	VEC_PUSH(&w->v, arena_printf(w->arena, "%s mpi-agent", gang_own_program(w->arena)));
	VEC_PUSH(&w->v, "--host");
	VEC_PUSH(&w->v, arena_strdup(w->arena, hosts.s));
}

/* mpirun starts the ranks itself; on one machine it needs no remote shell for that (plm isolated).
 */
static const char *const *mpirun_of(const struct gang *g, struct arena *arena)
{
	static const char *const isolated[] = { "--mca", "plm", "isolated", NULL };
	static const char *const options[] = { "--oversubscribe", "--bind-to", "none",
					       "--tag-output",    "-x",        NULL };
	_cleanup_(freep) char *marker = mpi_marker(g);
	struct words w = { .arena = arena };
	const char *const *all;

	VEC_PUSH(&w.v, "mpirun");
	if (g->where.apart)
		add_nodes(g, &w);
	else
		add_words(&w, isolated);
	add_words(&w, options);
	VEC_PUSH(&w.v, arena_strdup(arena, marker));
	VEC_PUSH(&w.v, "-np");
	VEC_PUSH(&w.v, arena_printf(arena, "%u", g->size.nodes * g->size.procs_per_node));
	add_words(&w, g->args->command);
	VEC_PUSH(&w.v, NULL);
	all = arena_memdup(arena, w.v.v, w.v.n * sizeof(*w.v.v));
	VEC_FREE(&w.v);
	return all;
}

const char *const *gang_command(const struct gang *g, const struct member *m, struct arena *arena)
{
	const char *const shell[] = { "/bin/sh", "-c", m->daemon, NULL };

	if (m->daemon)
		return arena_memdup(arena, shell, sizeof(shell));
	if (gang_is_elastic(g))
		return elastic_command(g, arena);
	return gang_is_mpi(g) ? mpirun_of(g, arena) : g->args->command;
}
