/* steps/train/gang.h — the ranks of a training program on this machine.
 *
 * train.c reads the settings and reports the result. gang.c starts and watches the members.
 * environment.c makes each rank's environment and command. nodes.c knows the nodes and their ports.
 * elastic.c is for ranks that torchrun starts. peers.c talks with the other nodes' launchers.
 * lines.c and series.c make metrics from the output of rank 0; mpi_output.c finds the rank of each
 * line that mpirun prints. All on one thread and one loop.
 *
 * On one machine all ranks of all nodes run here. With separate nodes, each has its own launcher,
 * which starts the ranks of its node. The ranks meet in their framework's way, at an address that
 * every node knows before it starts.
 */
#ifndef CAIRN_STEPS_TRAIN_GANG_H
#define CAIRN_STEPS_TRAIN_GANG_H

#include "base/mem.h"
#include "base/os/loop.h"
#include "base/os/machine.h"
#include "base/os/process/process.h"
#include "steps/step.h"

/* A longer line is cut into pieces of this size. */
#define LINE_MAX_BYTES (64 * KIB)
/* How much output of the rank that failed is shown. */
#define TAIL_LINES      20
#define TAIL_LINE_BYTES 500
/* In the environment of mpirun's ranks, but not of mpirun itself. */
#define MPI_RANK_MARKER "CAIRN_MPI_RANK_OF"

enum framework { TORCH, TENSORFLOW, JAX, MPI, HOROVOD, PS };
enum role {
	ROLE_WORKER,
	ROLE_SERVER,
	ROLE_SCHEDULER,
	ROLE_RANK, /* the output of a rank that torchrun starts; it has no process of ours */
};

struct gang;

struct member {
	struct gang *gang;
	enum role role;
	unsigned index; /* within its role: a worker's is its rank; torchrun's ranks say theirs */
	unsigned local; /* index among the members of its role on this node */
	struct process *process;
	struct loop_source *source;
	int fd;                 /* its output */
	int write_fd;           /* ROLE_RANK: the other end, which its processes open; else -1 */
	struct str line;        /* the beginning of a line that isn't ended yet */
	struct mpi_output *mpi; /* for mpirun, whose lines are its ranks'; NULL: no mpirun */
	char *tail[TAIL_LINES]; /* a ring of its last lines */
	unsigned n_lines;
	char *daemon; /* of mpirun on this node: a shell command; NULL: the step's own command */
	bool exited,
		ended; /* exited: its process has; ended: all processes that it started have, too */
	int status, signo;
	int64_t said_ns; /* when its last output came; 0: none did */
};

/* The nodes and their addresses, from the environment. CAIRN_GANG_HOSTS is the name of each node,
 * in which %u is the node's number; CAIRN_GANG_NODE the number of this one (else
 * JOB_COMPLETION_INDEX); CAIRN_GANG_NODES the number of nodes; CAIRN_GANG_PORT the first port at
 * which ranks may meet (launchers meet at the one before it); CAIRN_GANG_ADDRESSES the nodes' IP
 * addresses in order, separated by commas, for programs that take no names; CAIRN_GANG_TOKEN a
 * secret of this gang's launchers. Without CAIRN_GANG_HOSTS all ranks are here. */
struct nodes {
	bool apart;
	unsigned here;
	const char *hosts, *addresses; /* lent by the environment */
	const char *token;
	uint16_t port;
};
/* Torch's default; a pod has all ports for itself. Launchers use the one before it. */
#define GANG_PORT     29500
#define GANG_NO_TOKEN "-"

struct gang_size {
	unsigned nodes, procs_per_node, servers;
	unsigned min_nodes, max_restarts;    /* elastic: torchrun starts the ranks; or 0 */
	unsigned workers;                    /* number of worker processes */
	unsigned workers_here, servers_here; /* those on this node */
};

/* How the step wants its ranks started and watched. */
struct gang_settings {
	bool starts_nodes, own_gpus, pins, metric_lines;
	int64_t grace_ns, stall_ns; /* stall_ns 0: silence is fine */
	unsigned threads;           /* cpus of the step */
};

/* On one machine: for the rendezvous; for tensorflow one per member. */
struct gang_ports {
	uint16_t *v;
	unsigned n;
};

struct gang_members {
	struct member *v;
	unsigned n, n_running, n_workers_left;
};

struct gang_timers {
	struct loop_source *cause, *kill, *stall;
};

struct gang_end {
	struct member *guilty; /* the one whose failure made the others fail */
	int mpi_guilty;        /* the rank that mpirun names as the first to fail, or -1 */
	int signal;            /* the one that stopped us; 0: none */
	bool stopping, killed, stalled, done;
	bool forsaken; /* the first node's launcher closed the connection without "end" */
};

struct gang {
	struct nodes where;
	struct step_args *args;
	enum framework framework;
	struct gang_size size;
	struct gang_settings settings;
	struct gang_ports ports;
	struct gang_members members;

	struct loop *loop;
	struct gang_timers timers;
	struct loop_source *signals[2];
	int64_t last_output_ns;
	struct peers *peers; /* NULL: nothing to agree on with other nodes' launchers */
	struct series *series;
	struct str out; /* lines to be written to our standard output */
	struct gang_end end;
};

static inline bool gang_is_mpi(const struct gang *g)
{
	return g->framework == MPI || g->framework == HOROVOD;
}
/* One member is torchrun; those of ROLE_RANK come before it. */
static inline bool gang_is_elastic(const struct gang *g)
{
	return g->size.min_nodes > 0;
}

/* gang.c */
int gang_run(struct gang *g, struct err *err); /* 0: every worker ended well */
/* For peers.c. */
void gang_all_over(struct gang *g); /* the workers of all nodes ended well */
int gang_run_daemon(struct gang *g, const char *command, struct err *err);

/* peers.c: see there. */
int peers_begin(struct gang *g, struct err *err);
bool peers_workers_done(
	struct gang *g); /* those of this node; false: there are no others to wait for */
bool peers_pending(const struct gang *g); /* the end is still to come */
void peers_free(struct gang *g);
int peers_agent_main(int argc, char **argv); /* `mpi-agent ADDRESS COMMAND...` */

/* nodes.c */
/* Fills g->where, from the environment. ERR_INVALID: it contradicts itself or the settings. */
int gang_read_nodes(struct gang *g, struct err *err);
unsigned gang_node(const struct gang *g, enum role role, unsigned index);
void gang_add_host(const struct gang *g, unsigned node, struct str *out);
/* "192.0.2.3", if the environment has it; else the name. */
void gang_add_address(const struct gang *g, unsigned node, struct str *out);
/* The port at which others reach a member of a role. */
uint16_t gang_port(const struct gang *g, enum role role, unsigned index);

/* environment.c: "NAME=value" of one member, ours included; free with gang_environment_free(). */
char **gang_environment(const struct gang *g, const struct member *m);
void gang_environment_free(char **env);
/* environment.c: the path of this program, for mpirun and torchrun, which call it again. */
const char *gang_own_program(struct arena *arena);
/* The command to start, or mpirun around it. */
const char *const *gang_command(const struct gang *g, const struct member *m, struct arena *arena);
/* The text that mpirun's ranks on this node have in their environment. The caller frees. */
char *mpi_marker(const struct gang *g);
/* The cpus of a worker; false when they aren't divided. */
bool gang_cpus(const struct gang *g, const struct member *m, struct cpus *ret);

/* mpi_output.c: see there. fn() gets each line without its end, and its rank below n_ranks, or -1
 * for mpirun itself. A line longer than LINE_MAX_BYTES comes in pieces. */
struct mpi_output;
struct mpi_output *mpi_output_new(unsigned n_ranks,
				  void (*fn)(void *arg, int rank, const char *line, size_t n),
				  void *arg);
void mpi_output_add(struct mpi_output *o, const char *bytes, size_t n);
/* Nothing more comes: a last line without an end counts, too. */
void mpi_output_end(struct mpi_output *o);
void mpi_output_free(struct mpi_output *o);

/* elastic.c: see there. */
#define ELASTIC_RANK "torch-rank" /* this program, as torchrun calls it */
/* For the environment of torchrun: where its ranks find the pipes of their output. */
void elastic_add_outputs(const struct gang *g, struct str *out);
const char *const *elastic_command(const struct gang *g, struct arena *arena);
/* Takes out of a line of a rank's output what elastic_rank_main() wrote there: *n becomes what is
 * the program's of it, and *ret_rank the rank that speaks from now on. False: all was ours. */
bool elastic_read_line(const char *line, size_t *n, unsigned *ret_rank);
int elastic_rank_main(int argc, char **argv); /* `torch-rank COMMAND...` */

/* lines.c */
/* Whether this line has metrics. If so, calls fn for each number; `step` is one of them. */
bool gang_metrics_of_line(const char *line, size_t n,
			  void (*fn)(void *arg, const char *name, double value), void *arg);

/* series.c: the metrics over time. Lines are written as they come; at the end they are merged by
 * step, sorted, and put in canonical form, so that an interrupted and resumed training gives the
 * same file as an uninterrupted one. */
struct series;
/* `path`: the file; `kept`: a copy that outlives the attempt (in the checkpoint) and is read first;
 * either may be NULL. */
int series_open(const char *path, const char *kept, struct series **ret, struct err *err);
void series_line(struct series *s, const char *line,
		 size_t n); /* a line of metrics, or any other */
/* `ret_last`: an object that gets the last value of each metric. */
int series_finish(struct series *s, json_t *ret_last, struct err *err);
void series_free(struct series *s);

#endif
