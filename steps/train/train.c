/* steps/train/train.c — the `train` step: settings → gang → metrics.
 *
 * run() reads the settings and the nodes (read_settings()), makes the members of this node, finds
 * free ports if everything is on one machine (find_ports()), and lets the gang run (run_gang()).
 * Only the first node, where rank 0 is, has a series and metrics; the others' launchers write none.
 *
 * If the program wrote the metrics file itself, that counts; else the last value of each metric
 * that it printed. The series is also finished when the gang failed, so that it shows how far the
 * training came.
 *
 * If a member was killed by SIGKILL, this process ends in the same way, because the runner
 * recognises a lack of memory by that.
 *
 * gang.c starts, watches and ends the members. One thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include "steps/train/gang.h"

/* More processes on one machine are a mistake in the file. */
#define MEMBERS_MAX 4096
#define KEPT_SERIES "series.jsonl"

/* On one machine no node comes or goes: it is an ordinary gang of the smallest number. */
static int read_elastic(struct gang *g, struct step_args *a, struct err *err)
{
	unsigned min = (unsigned)step_int(a->with, "min_nodes");

	if (!min)
		return 0;
	if (min > g->size.nodes || g->framework != TORCH || g->settings.starts_nodes)
		return err_set(err, ERR_INVALID,
			       "min_nodes must be at most nodes, for torch, with `starts: ranks`");
	if (g->where.apart) {
		g->size.min_nodes = min;
		g->size.max_restarts = (unsigned)step_int(a->with, "max_restarts");
		g->size.workers = 1; /* torchrun */
		return 0;
	}
	g->settings.threads =
		MAX(g->settings.threads * min / g->size.nodes, 1); /* each rank has as many */
	g->size.nodes = min;
	g->size.workers = min * g->size.procs_per_node;
	return 0;
}

static int read_settings(struct gang *g, struct step_args *a, struct err *err)
{
	static const enum framework frameworks[] = { TORCH, TENSORFLOW, JAX, MPI, HOROVOD, PS };
	enum { AUTO, YES, NO } pin = (int)step_choice(a, "pin"), gpus = (int)step_choice(a, "gpus");
	unsigned threads_here;
	struct cpus all;

	g->args = a;
	g->end.mpi_guilty = -1;
	g->framework = frameworks[step_choice(a, "framework")];
	g->size.nodes = (unsigned)step_int(a->with, "nodes");
	g->size.procs_per_node = (unsigned)step_int(a->with, "procs_per_node");
	g->size.servers = (unsigned)step_int(a->with, "servers");
	g->settings.starts_nodes = step_choice(a, "starts") == 1;
	g->settings.metric_lines = step_bool(a->with, "metric_lines");
	g->settings.grace_ns = step_duration(a->with, "grace");
	g->settings.stall_ns = step_duration(a->with, "stall_timeout");
	g->settings.threads = a->threads;
	/* auto|all|own: torch and MPI programs choose their GPU by the local rank. */
	g->settings.own_gpus =
		gpus == NO || (gpus == AUTO && g->framework != TORCH && !gang_is_mpi(g));
	g->size.workers = gang_is_mpi(g)             ? 1
			  : g->settings.starts_nodes ? g->size.nodes
						     : g->size.nodes * g->size.procs_per_node;
	if (gang_read_nodes(g, err) < 0 || read_elastic(g, a, err) < 0)
		return -1;
	threads_here = g->where.apart ? a->threads / g->size.nodes : a->threads;
	g->settings.pins = pin == YES || (pin == AUTO && g->size.workers > 1 &&
					  cpus_get(&all) == 0 && threads_here >= cpus_count(&all));
	return 0;
}

/* Adds the members of a role that run on this node, in order. */
static unsigned add_members(struct gang *g, enum role role, unsigned n)
{
	unsigned local = 0;

	for (unsigned i = 0; i < n; i++)
		if (gang_node(g, role, i) == g->where.here) {
			if (g->members.n < MEMBERS_MAX)
				g->members.v[g->members.n] = (struct member){ .gang = g,
									      .fd = -1,
									      .write_fd = -1,
									      .role = role,
									      .index = i,
									      .local = local };
			g->members.n++;
			local++;
		}
	return local;
}

/* Each member needs a pipe, a process descriptor and a port: more than the usual soft limit. The
 * ranks inherit the higher limit. */
static void allow_files(const struct gang *g)
{
	struct rlimit l;
	rlim_t need = (rlim_t)g->members.n * 4 + 64;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < need) {
		l.rlim_cur = MIN(need, l.rlim_max);
		(void)setrlimit(RLIMIT_NOFILE, &l);
	}
}

/* Finds ports that are free now: all are held at once, so that they differ. Another process may
 * still take one before the program does; then the program fails to bind and says so. */
static int find_ports(struct gang *g, struct err *err)
{
	_cleanup_(freep) int *fds = NULL;
	unsigned n = 0;
	int r = 0;

	if (g->where.apart)
		return 0;
	g->ports.n = g->framework == TENSORFLOW ? g->members.n : 1;
	g->ports.v = xcalloc(g->ports.n, sizeof(*g->ports.v));
	fds = xcalloc(g->ports.n, sizeof(*fds));
	for (; n < g->ports.n && r == 0; n++) {
		struct sockaddr_in at = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof(at);

		fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fds[n] < 0 || bind(fds[n], (struct sockaddr *)&at, len) < 0 ||
		    getsockname(fds[n], (struct sockaddr *)&at, &len) < 0)
			r = err_errno(
				err,
				"no free port on the loopback interface for the ranks to meet at");
		g->ports.v[n] = ntohs(at.sin_port);
	}
	while (n--)
		if (fds[n] >= 0)
			close(fds[n]);
	return r;
}

/* Where the metrics of earlier attempts are. CAIRN_CHECKPOINT is the directory that the program
 * sees. If it is a link to the kept directory, the file lies next to that one; else it is a hidden
 * file in it. */
static char *kept_series(void)
{
	const char *checkpoint = getenv("CAIRN_CHECKPOINT");
	struct stat st;

	if (!checkpoint || !*checkpoint)
		return NULL;
	return xasprintf("%s/%s" KEPT_SERIES, checkpoint,
			 lstat(checkpoint, &st) == 0 && S_ISLNK(st.st_mode) ? "../" : ".cairn-");
}

static int run_gang(struct gang *g, struct step_args *a, struct err *err)
{
	bool first = g->where.here == 0; /* rank 0 is there: a gang's results come from it */
	const struct step_port *series = first ? step_output(a, "series") : NULL;
	_cleanup_(freep) char *kept = first ? kept_series() : NULL;
	json_t *last = json_object(), *v;
	const char *name;
	struct err why = { 0 };
	int r;

	if (series_open(series ? series->path : NULL, kept, &g->series, err) < 0) {
		json_decref(last);
		return -1;
	}
	r = gang_run(g, err);
	if (series_finish(g->series, last, r == 0 ? err : &why) < 0)
		r = -1;
	/* A metrics file of the program's own counts; else the last value of each metric that it
	 * printed.
	 */
	if (!first || (r == 0 && a->metrics_path && access(a->metrics_path, F_OK) == 0))
		a->metrics_path = NULL;
	json_object_foreach(last, name, v)
	{
		if (r == 0 && first && json_is_number(v))
			json_object_set(a->metrics, name, v);
	}
	json_decref(last);
	series_free(g->series);
	return r;
}

static int run(struct step_args *a, struct err *err)
{
	struct gang g = { 0 };
	int r;

	if (!a->command || !*a->command)
		return err_set(err, ERR_USAGE,
			       "no command given: cairn step train [OPTION...] -- COMMAND...");
	g.members.v = xcalloc(MEMBERS_MAX, sizeof(*g.members.v));
	r = read_settings(&g, a, err);
	if (r == 0) {
		if (g.framework == PS)
			add_members(&g, ROLE_SCHEDULER, 1);
		g.size.servers_here = add_members(&g, ROLE_SERVER, g.size.servers);
		if (gang_is_elastic(&g))
			add_members(&g, ROLE_RANK, g.size.procs_per_node);
		g.size.workers_here = add_members(&g, ROLE_WORKER, g.size.workers);
	}
	if (g.members.n > MEMBERS_MAX)
		r = err_set(err, ERR_TOO_LARGE, "%u ranks on one machine; at most %d", g.members.n,
			    MEMBERS_MAX);
	allow_files(&g);
	if (r == 0)
		r = find_ports(&g, err) < 0 ? -1 : run_gang(&g, a, err);
	/* A rank that got SIGKILL was killed by the machine, usually for its memory. The runner
	 * recognises that by how this process ends. */
	if (r < 0 && g.end.guilty && g.end.guilty->status == 128 + SIGKILL) {
		fprintf(stderr, "train: error: %s\n", err->msg);
		fflush(NULL);
		raise(SIGKILL);
	}
	free(g.members.v);
	free(g.ports.v);
	return r;
}

const struct step_impl step_train = { "train", run };
