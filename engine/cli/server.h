/* cli/server.h — a `cairn serve` somewhere else, asked over its API: for `run --detach` and the commands that follow such a run. */
#ifndef CAIRN_CLI_SERVER_H
#define CAIRN_CLI_SERVER_H

#include "base/http.h"
#include "cli/cli.h"
#include "run/log_part.h"
#include "run/run.h"

struct server {
	const char *url;   /* without a slash at its end */
	const char *token; /* or NULL */
	const char *project; /* or NULL: the only one that it serves */
	struct http_client *http;
};

/* One line of --token-file's file, or of CAIRN_SERVE_TOKEN; never of the command line, which everybody can read. NULL when there is none. */
int server_token(struct cli *cli, const struct cli_args *args, const char **ret, struct err *err);
/* The one of --server, else of CAIRN_SERVER or cairn.yaml's serve.url; and the project of --project, else, where --server doesn't name another server,
 * cairn.yaml's serve.project. */
int server_open(struct cli *cli, const struct cli_args *args, struct server *ret, struct err *err);
void server_close(struct server *s);
/* Every path is asked for as one about the project.
 * An answer in the 200s, as JSON; anything else is an error in the server's words. `again`: asking twice does no harm, so lost answers are asked for again for a while.
 * `body` may be NULL. */
int server_ask(struct server *s, const char *method, const char *path, const json_t *body, bool again, json_t **ret, struct err *err);
/* GET; the answer's bytes to cli->out as they come. */
int server_stream(struct server *s, struct cli *cli, const char *path, struct err *err);

/* `cairn run --detach`, and the others with --server: the whole command. */
int server_run(struct cli *cli, const struct cli_args *args, const struct pipeline *p, const struct run_options *o);
int server_status(struct cli *cli, const struct cli_args *args);
int server_logs(struct cli *cli, const struct cli_args *args);
int server_cancel(struct cli *cli, const struct cli_args *args);
int server_runs(struct cli *cli, const struct cli_args *args);
/* `cairn logs`, with or without --server: --lines, --rank and --attempt (0: the last). */
int logs_wanted(const struct cli_args *args, struct log_wanted *ret, uint64_t *ret_attempt, struct err *err);
/* Without --server: options that have no meaning then are an error. */
int server_unused(const struct cli_args *args, struct err *err);

#endif
