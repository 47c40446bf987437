/* engine/cli/serve/cmd_serve.c — `cairn serve`: options become those of the daemon.
 *
 * Each option is read and checked here, so that a wrong one is an error before anything listens:
 * addresses, certificates, proxies that may name a user, roles of these users. Then daemon_run()
 * takes over.
 *
 * What it doesn't do: decide who may do what (serve/access/), or listen (serve/web/).
 */
#include <string.h>
#include "cli/serve/server.h"
#include "serve/daemon.h"

/* The Lease named by --lease or by the first project's cairn.yaml; NULL: none. The daemon reports a
 * broken file. */
static int find_lease(struct cli *cli, const struct cli_args *args, const char *dir,
		      struct daemon_lease *l, const struct daemon_lease **ret, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct kube_access *access = arena_alloc(cli->arena, sizeof(*access));
	struct kube_access_options o = { 0 };
	struct config *c = NULL;
	int r = 0;

	l->name = cli_value(args, "lease");
	if (config_load(dir, diags, &c, NULL) == 0) {
		o = (struct kube_access_options){ c->kubernetes.access.kubeconfig,
						  c->kubernetes.access.context,
						  c->kubernetes.access.namespace_, NULL,
						  c->kubernetes.access.kubeconfig_is_projects };
		if (!l->name && c->serve.lease)
			l->name = arena_strdup(cli->arena, c->serve.lease);
	}
	if (l->name) {
		r = kube_access_load(&o, cli->arena, access, err);
		l->access = access;
		l->duration_ns = cli_test_duration("CAIRN_TEST_KUBE_LEASE", 0);
		*ret = l;
	}
	config_free(c);
	return r < 0 ? err_wrap(err, "the Lease %s", l->name) : 0;
}

static const char unit[] =
	"# /etc/systemd/system/cairn.service — cairn serve as a service; change user and "
	"directory.\n"
	"[Unit]\n"
	"Description=Cairn: schedules and API of /srv/project\n"
	"After=network-online.target\n"
	"Wants=network-online.target\n"
	"\n"
	"[Service]\n"
	"Type=notify\n"
	"User=cairn\n"
	"WorkingDirectory=/srv/project\n"
	"# One line in that file is the token; `openssl rand -hex 32` makes one.\n"
	"LoadCredential=token:/etc/cairn/token\n"
	"ExecStart=/usr/local/bin/cairn serve --drain-timeout 10m --token-file %d/token\n"
	"ExecReload=/bin/kill -HUP $MAINPID\n"
	"# Drains: running runs get 10 minutes, are then asked to stop, and can be resumed.\n"
	"KillMode=mixed\n"
	"TimeoutStopSec=11min\n"
	"Restart=on-failure\n"
	"WatchdogSec=60\n"
	"LimitNOFILE=65536\n"
	"NoNewPrivileges=yes\n"
	"PrivateTmp=yes\n"
	"ProtectSystem=full\n"
	"\n"
	"[Install]\n"
	"WantedBy=multi-user.target\n"
	"\n"
	"# For socket activation put this into /etc/systemd/system/cairn.socket:\n"
	"# [Socket]\n"
	"# ListenStream=127.0.0.1:8410\n"
	"# [Install]\n"
	"# WantedBy=sockets.target\n";

/* "operator" or "ada=operator". */
static int read_identity(struct cli *cli, const char *text, struct access_identity *ret,
			 struct err *err)
{
	const char *equals = strrchr(text, '=');

	ret->user = equals ? arena_strndup(cli->arena, text, (size_t)(equals - text)) : NULL;
	ret->role = role_parse(equals ? equals + 1 : text);
	return ret->role != ROLE_NONE && !(equals && equals == text)
		       ? 0
		       : err_set(err, ERR_USAGE,
				 "--identity-role: `%s` is neither viewer, operator, admin nor "
				 "USER=ROLE",
				 text);
}

static int read_access(struct cli *cli, const struct cli_args *args, struct daemon_options *o,
		       struct err *err)
{
	struct access_options *a = &o->access;
	const char *const *roles = cli_values(args, "identity-role", cli->arena, &a->n_identities);
	struct access_identity *v = arena_alloc(cli->arena, (a->n_identities + 1) * sizeof(*v));

	a->proxies = cli_values(args, "trust-proxy", cli->arena, &a->n_proxies);
	a->identity_header = cli_value(args, "identity-header");
	a->identities = v;
	o->tls_cert = cli_value(args, "tls-cert");
	o->tls_key = cli_value(args, "tls-key");
	if (!o->tls_cert != !o->tls_key)
		return err_set(err, ERR_USAGE, "--tls-cert and --tls-key go together");
#ifdef CAIRN_STATIC
	if (o->tls_cert)
		return err_set(
			err, ERR_UNSUPPORTED,
			"the static program can't serve HTTPS: let a server in front of it do "
			"that (nginx, Caddy, an ingress), or build Cairn from source");
#endif
	if (!a->identity_header != !a->n_proxies)
		return err_set(err, ERR_USAGE, "--trust-proxy and --identity-header go together");
	if (a->n_identities && !a->n_proxies)
		return err_set(err, ERR_USAGE, "--identity-role needs --trust-proxy");
	if (a->n_proxies > ACCESS_PROXIES || a->n_identities > ACCESS_IDENTITIES)
		return err_set(err, ERR_USAGE, "at most %d proxies and %d roles", ACCESS_PROXIES,
			       ACCESS_IDENTITIES);
	for (size_t i = 0; i < a->n_identities; i++)
		if (read_identity(cli, roles[i], &v[i], err) < 0)
			return -1;
	return server_token(cli, args, &a->token, err);
}

int cmd_serve(struct cli *cli, const struct cli_args *args)
{
	static const char *const here[] = { "." };
	struct daemon_options o = { .projects = args->n_operands ? args->operands : here,
				    .n_projects = args->n_operands ? args->n_operands : 1,
				    .drain_ns = 300 * NS_PER_S,
				    .verbosity = cli->verbosity };
	struct daemon_lease lease = { 0 };
	uint64_t max_runs = 0;
	struct err err = { 0 };

	if (cli_flag(args, "unit")) {
		cli_printf(cli, "%s", unit);
		return CLI_OK;
	}
	o.listen = cli_values(args, "listen", cli->arena, &o.n_listen);
	o.no_http = o.n_listen == 1 && str_eq(o.listen[0], "none");
	o.pipelines = cli_values(args, "pipeline", cli->arena, &o.n_pipelines);
	o.log_json = str_eq(cli_value(args, "log"), "json");
	if (o.n_projects > DAEMON_PROJECTS_MAX || o.n_listen > DAEMON_LISTEN_MAX)
		return cli_usage_error(cli, "at most %d projects and %d addresses",
				       DAEMON_PROJECTS_MAX, DAEMON_LISTEN_MAX);
	if (read_access(cli, args, &o, &err) < 0 ||
	    cli_duration_value(args, "drain-timeout", &o.drain_ns, &err) < 0 ||
	    cli_uint(args, "max-runs", 1, 10000, &max_runs, &err) < 0)
		return cli_fail(cli, &err);
	if (find_lease(cli, args, o.projects[0], &lease, &o.lease, &err) < 0)
		return cli_fail(cli, &err);
	o.max_runs = (unsigned)max_runs;
	unsetenv("CAIRN_SERVE_TOKEN");
	return daemon_run(&o, &err) < 0 ? cli_fail(cli, &err) : CLI_OK;
}
