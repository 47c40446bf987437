/* cli/serve/server.h — a `cairn serve` somewhere else, asked over its API: for `run --detach` and
 * the commands that follow such a run. */
#ifndef CAIRN_CLI_SERVE_SERVER_H
#define CAIRN_CLI_SERVE_SERVER_H

#include "base/net/http.h"
#include "cli/cli.h"
#include "run/run.h"

struct server {
	const char *url;     /* without a slash at its end */
	const char *token;   /* or NULL */
	const char *project; /* or NULL: the only one that it serves */
	struct http_client *http;
};

/* One line of --token-file's file, or of CAIRN_SERVE_TOKEN; never of the command line, which
 * everybody can read. NULL when there is none. */
int server_token(struct cli *cli, const struct cli_args *args, const char **ret, struct err *err);
/* The one of --server, else of CAIRN_SERVER or cairn.yaml's serve.url; and the project of
 * --project, else, where --server doesn't name another server, cairn.yaml's serve.project. */
int server_open(struct cli *cli, const struct cli_args *args, struct server *ret, struct err *err);
void server_close(struct server *s);
/* Sends a request about the server's project. Its answer as JSON when the status is in the 200s;
 * anything else is an error in the server's words. `again`: the request may be sent twice without
 * harm, so it is repeated for a while when no answer comes. `body` may be NULL. */
int server_ask(struct server *s, const char *method, const char *path, const json_t *body,
	       bool again, json_t **ret, struct err *err);
/* Adds ?name=value or &name=value to a path, escaped; nothing when `value` is NULL. */
void server_add_param(struct str *path, const char *name, const char *value);
/* `next` of a list's answer becomes the cursor of the next page, which is whatever text the server
 * gave; empty behind the last page. */
int server_next_page(const struct server *s, const char *next, struct str *cursor, struct err *err);
/* GET; the answer's bytes go to cli->out as they come, through cli_print_log(). */
int server_stream(struct server *s, struct cli *cli, const char *path, struct err *err);

/* `cairn run --detach`, and the others with --server: the whole command. */
int server_run(struct cli *cli, const struct cli_args *args, const struct pipeline *p,
	       const struct run_options *o);
int server_logs(struct cli *cli, const struct cli_args *args);
int server_cancel(struct cli *cli, const struct cli_args *args);
/* Only the facts, from a server in place of the database: those that `cairn status --json` and
 * `cairn runs --json` ("runs") print. *ret_next: what becomes of a run that didn't end, or NULL. */
int server_status(struct cli *cli, const struct cli_args *args, json_t **ret, const char **ret_next,
		  struct err *err);
int server_runs(struct cli *cli, const struct cli_args *args, json_t **ret, struct err *err);
/* Without --server: options that have no meaning then are an error. */
int server_unused(const struct cli_args *args, struct err *err);

#endif
