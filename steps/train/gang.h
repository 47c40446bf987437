/* steps/train/gang.h — the ranks of a training program on this machine.
 *
 * train.c reads the settings and tells the end. gang.c starts and watches the members.
 * environment.c makes each rank's environment and command. nodes.c knows the nodes and their ports.
 * peers.c talks with the other nodes' launchers. lines.c and series.c make metrics of what rank 0
 * prints; mpi_output.c tells whose mpirun's lines are. All on one thread and one loop.
 *
 * On one machine all ranks of all nodes run here. Where nodes are apart, each has a launcher of its
 * own, which starts the ranks of its node. The ranks meet as their framework does it, at an address
 * that every node knows before it starts.
 */
#ifndef CAIRN_STEPS_TRAIN_GANG_H
#define CAIRN_STEPS_TRAIN_GANG_H

#include "base/mem.h"
#include "base/os/loop.h"
#include "base/os/machine.h"
#include "base/os/process.h"
#include "steps/step.h"

/* A line that is longer is cut into pieces of this. */
#define LINE_MAX_BYTES (64 * KIB)
/* What is shown of the rank that failed. */
#define TAIL_LINES      20
#define TAIL_LINE_BYTES 500
/* In the environment of mpirun's ranks, but not of mpirun. */
#define MPI_RANK_MARKER "CAIRN_MPI_RANK_OF"

enum framework { TORCH, TENSORFLOW, JAX, MPI, HOROVOD, PS };
enum role { ROLE_WORKER, ROLE_SERVER, ROLE_SCHEDULER };

struct gang;

struct member {
	struct gang *gang;
	enum role role;
	unsigned index; /* within its role: a worker's is its rank */
	unsigned local; /* among those of its role on this node */
	struct process *process;
	struct loop_source *source;
	int fd;                 /* what it prints */
	struct str line;        /* what has come of the line that isn't ended yet */
	struct mpi_output *mpi; /* mpirun's: its lines are its ranks'; NULL: no mpirun */
	char *tail[TAIL_LINES]; /* a ring of its last lines */
	unsigned n_lines;
	char *daemon;       /* mpirun's on this node: a shell command; NULL: the step's own */
	bool exited, ended; /* exited: its process; ended: with all that it started */
	int status, signo;
};

/* Where the ranks of the other nodes are, from the environment: CAIRN_GANG_HOSTS is the name of
 * each node, %u in it the node's number; CAIRN_GANG_NODE which one this is (else
 * JOB_COMPLETION_INDEX); CAIRN_GANG_NODES how many there are; CAIRN_GANG_PORT the first port that
 * ranks may meet at (launchers meet at the one before it); CAIRN_GANG_ADDRESSES the nodes' IP
 * addresses in order, a comma between, for what takes no names; CAIRN_GANG_TOKEN what only this
 * gang's launchers know. Without CAIRN_GANG_HOSTS all ranks are here. */
struct nodes {
	bool apart;
	unsigned here;
	const char *hosts, *addresses; /* lent by the environment */
	const char *token;
	uint16_t port;
};
/* Torch's; a pod has all ports for itself. Launchers talk at the one before it. */
#define GANG_PORT     29500
#define GANG_NO_TOKEN "-"

struct gang {
	struct nodes where;
	struct step_args *args;
	enum framework framework;
	struct gang_size {
		unsigned nodes, procs_per_node, servers;
		unsigned workers;                    /* processes that are started as such */
		unsigned workers_here, servers_here; /* of them on this node */
	} size;
	bool starts_nodes, own_gpus, pins, metric_lines;
	int64_t grace_ns, stall_ns;
	unsigned threads; /* cpus of the step */
	uint16_t *ports;  /* on one machine: of the rendezvous; for tensorflow one a member */
	unsigned n_ports;
	struct member *members;
	unsigned n_members, n_running, n_workers_left;

	struct loop *loop;
	struct loop_source *kill_timer, *stall_timer, *signals[2];
	int64_t last_output_ns;
	struct peers *peers; /* NULL: nothing to be settled with other nodes' launchers */
	struct series *series;
	struct str out; /* lines on their way to our standard output */
	struct gang_end {
		struct member *guilty; /* the first that failed */
		int mpi_guilty;        /* the rank that mpirun names as such, or -1 */
		int signal;            /* which asked us to stop; 0: none did */
		bool stopping, killed, stalled, done;
		bool forsaken; /* the first node's launcher hung up without "end" */
	} end;
};

static inline bool gang_is_mpi(const struct gang *g)
{
	return g->framework == MPI || g->framework == HOROVOD;
}

/* gang.c */
int gang_run(struct gang *g, struct err *err); /* 0: every worker ended well */
/* For peers.c. */
void gang_all_over(struct gang *g); /* the workers of all nodes ended well */
int gang_run_daemon(struct gang *g, const char *command, struct err *err);

/* peers.c: see there. */
int peers_begin(struct gang *g, struct err *err);
bool peers_workers_done(struct gang *g);  /* of this node; false: nobody else is to be waited for */
bool peers_pending(const struct gang *g); /* the end is still to come */
void peers_free(struct gang *g);
int peers_agent_main(int argc, char **argv); /* `mpi-agent ADDRESS COMMAND...` */

/* nodes.c */
/* Fills g->where, from the environment. ERR_INVALID: it contradicts itself or the settings. */
int gang_read_nodes(struct gang *g, struct err *err);
unsigned gang_node(const struct gang *g, enum role role, unsigned index);
void gang_add_host(const struct gang *g, unsigned node, struct str *out);
/* "192.0.2.3", where the environment says it; else the name. */
void gang_add_address(const struct gang *g, unsigned node, struct str *out);
/* Where a member of a role is reached by the others. */
uint16_t gang_port(const struct gang *g, enum role role, unsigned index);

/* environment.c: "NAME=value" of one member, ours included; free with gang_environment_free(). */
char **gang_environment(const struct gang *g, const struct member *m);
void gang_environment_free(char **env);
/* What is started: the command, or mpirun around it. */
const char *const *gang_command(const struct gang *g, const struct member *m, struct arena *arena);
/* What mpirun's ranks on this node have in their environment. The caller frees. */
char *mpi_marker(const struct gang *g);
/* Cpus of a worker; false when they aren't divided. */
bool gang_cpus(const struct gang *g, const struct member *m, struct cpus *ret);

/* mpi_output.c: see there. fn() gets each line without its end, of a rank below n_ranks, or -1: of
 * mpirun itself; one longer than LINE_MAX_BYTES in pieces. */
struct mpi_output;
struct mpi_output *mpi_output_new(unsigned n_ranks,
				  void (*fn)(void *arg, int rank, const char *line, size_t n),
				  void *arg);
void mpi_output_add(struct mpi_output *o, const char *bytes, size_t n);
/* Nothing more comes: lines that have no end are lines, too. */
void mpi_output_end(struct mpi_output *o);
void mpi_output_free(struct mpi_output *o);

/* lines.c */
/* Is this line one of metrics? Then calls fn for each number; `step` counts as one of them. */
bool gang_metrics_of_line(const char *line, size_t n,
			  void (*fn)(void *arg, const char *name, double value), void *arg);

/* series.c: the metrics over time. Written line by line as they come; at the end merged by step,
 * sorted, in canonical form, so that a training that was interrupted and went on gives the same
 * file as one that wasn't. */
struct series;
/* `path`: the file; `kept`: a copy that outlives the attempt (in the checkpoint), read first;
 * either may be NULL. */
int series_open(const char *path, const char *kept, struct series **ret, struct err *err);
void series_line(struct series *s, const char *line, size_t n); /* of metrics, or any other */
/* `ret_last`: an object that gets the last value of each metric. */
int series_finish(struct series *s, json_t *ret_last, struct err *err);
void series_free(struct series *s);

#endif
