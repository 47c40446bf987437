/* engine/cli/session.h — what `run`, `resume`, `plan` and `why` work with: project, database,
 * store, stat cache, loop, runner.
 *
 * One session a command, on its thread. It owns what session_open() made for it, and lends what is
 * the cli's.
 */
#ifndef CAIRN_CLI_SESSION_H
#define CAIRN_CLI_SESSION_H

#include "cli/cli.h"
#include "cli/run/images.h"
#include "plan/plan.h"
#include "run/run.h"

struct session {
	const struct config *config;
	struct db *db;
	struct store *store;
	struct statcache *cache;
	struct loop *loop;
	struct runner *runner;             /* only when executing */
	const struct run_cluster *cluster; /* likewise, on Kubernetes */
	int leases_fd;
	const char *steps_program, *launch_program; /* where tasks run */
	const char *steps_here;
	struct cli_images *images; /* NULL: commands don't run in containers */
	bool plan_may_stand;       /* see plan_options; for session_plan() */
};

/* executing: also opens a loop, the file of key locks and the configured runner; ERR_INVALID for
 * Kubernetes with `cache: read-only`. Call session_close() even after a failure. Configuration,
 * database and store are the cli's and stay open. */
int session_open(struct session *s, struct cli *cli, bool executing, struct err *err);
void session_close(struct session *s);
/* For a command that will plan this pipeline (NULL: pipeline.yaml) in a project that has run
 * before: begins to look at the last results while the caller reads it (plan_ahead_begin()). The
 * cli ends it. -1: cairn.yaml has errors; those of store and database are left to session_open().
 */
int session_look_ahead(struct cli *cli, const char *pipeline, bool executing, struct err *err);

unsigned session_cpus(void); /* online, at least one */

/* PIPELINE and STEP… among a command's operands. */
struct session_operands {
	const char *pipeline; /* NULL: pipeline.yaml */
	const char *const *steps;
	size_t n_steps;
};
struct session_operands session_operands(const struct cli_args *args);

/* Turns --param, --params-file, --from, --until, --force and targets into options. Arrays live in
 * cli->arena. */
int session_options(struct cli *cli, const struct cli_args *args, const struct session_operands *op,
		    struct run_options *ret, struct err *err);

/* Plans with the project as it is now, in an open session; executes nothing. */
int session_plan(struct session *s, struct cli *cli, const struct pipeline *p,
		 const struct run_options *o, struct plan **ret, struct err *err);
/* -1 when a shared store was asked and didn't answer. Then its content counts as missing, and a
 * command that says that a task would run must report this error, too. */
int session_store_answered(struct session *s, struct err *err);

#endif
