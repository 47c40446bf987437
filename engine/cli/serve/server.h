/* engine/cli/serve/server.h — a remote `cairn serve` and its API: for `run --detach` and the
 * commands that follow such a run. */
#ifndef CAIRN_CLI_SERVE_SERVER_H
#define CAIRN_CLI_SERVE_SERVER_H

#include "base/net/http.h"
#include "cli/cli.h"
#include "run/run.h"

struct server {
	const char *url;     /* without a slash at its end */
	const char *token;   /* or NULL */
	const char *project; /* or NULL: the server's only project */
	struct http_client *http;
};

/* The token from the file of --token-file (one line), or from CAIRN_SERVE_TOKEN; never from the
 * command line, which every user of the machine can read. NULL when there is none. */
int server_token(struct cli *cli, const struct cli_args *args, const char **ret, struct err *err);
/* The URL is that of --server, else of CAIRN_SERVER, else cairn.yaml's serve.url. The project is
 * that of --project; else cairn.yaml's serve.project, unless --server names another server. */
int server_open(struct cli *cli, const struct cli_args *args, struct server *ret, struct err *err);
void server_close(struct server *s);
/* Sends a request about the server's project. Returns the answer as JSON when the status is in the
 * 200s; anything else is an error in the server's words. `again`: sending the request twice does no
 * harm, so it is repeated for a while when no answer comes. `body` may be NULL. */
int server_ask(struct server *s, const char *method, const char *path, const json_t *body,
	       bool again, json_t **ret, struct err *err);
/* Adds ?name=value or &name=value to a path, escaped; nothing when `value` is NULL. */
void server_add_param(struct str *path, const char *name, const char *value);
/* Makes `next` of a list's answer the cursor of the next page. It is any text that the server sent;
 * empty after the last page. */
int server_next_page(const struct server *s, const char *next, struct str *cursor, struct err *err);
/* Sends a GET; the answer's bytes go to cli->out as they arrive, through cli_print_log(). */
int server_stream(struct server *s, struct cli *cli, const char *path, struct err *err);

/* Each is a whole command: `cairn run --detach`, and others with --server. */
int server_run(struct cli *cli, const struct cli_args *args, const struct pipeline *p,
	       const struct run_options *o);
int server_logs(struct cli *cli, const struct cli_args *args);
int server_cancel(struct cli *cli, const struct cli_args *args);
int server_approve(struct cli *cli, const struct cli_args *args);
/* Reads only the facts, from a server in place of the database: those that `cairn status --json`
 * and `cairn runs --json` ("runs") print. *ret_next: what happens next to a run that hasn't ended,
 * or NULL. */
int server_status(struct cli *cli, const struct cli_args *args, json_t **ret, const char **ret_next,
		  struct err *err);
int server_runs(struct cli *cli, const struct cli_args *args, json_t **ret, struct err *err);
/* Refuses options that have no meaning without --server. */
int server_unused(const struct cli_args *args, struct err *err);

#endif
