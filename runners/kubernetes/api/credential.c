/* runners/kubernetes/api/credential.c — the token or certificate to send now.
 *
 * It is renewed on use, never in the background. The program runs again when its credential expires
 * within RENEW_BEFORE_NS, a token file is read again after TOKEN_FILE_NS, and either happens at
 * once when the server has refused the last one. A program's expiry is wall-clock time, because it
 * is a date; a file's is monotonic. `generation` grows with each new certificate, so that client.c
 * knows when it needs a new connection.
 *
 * Any thread. The lock is held while the program runs: other threads wait for its answer, so it
 * never runs twice at a time. Secrets are wiped, and messages never quote file content or program
 * output.
 */
#include "runners/kubernetes/api/credential.h"

#include <pthread.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/time/clock.h"

#define TOKEN_FILE_NS   (60 * NS_PER_S) /* client-go's period */
#define TOKEN_MAX       (64 * KIB)
#define EXEC_MAX        (1 * MIB) /* enough for a token and a chain of certificates */
#define EXEC_TIMEOUT_NS (60 * NS_PER_S)
#define RENEW_BEFORE_NS (10 * NS_PER_S) /* so that a credential is still valid when it arrives */

struct kube_credential {
	const struct kube_access *access;
	pthread_mutex_t lock;
	/* under lock */
	struct str token, cert, key;
	bool has;         /* the program has run or the file was read */
	int64_t until_ns; /* wall clock for a program, monotonic for a file */
	uint64_t generation;
};

struct kube_credential *kube_credential_new(const struct kube_access *a)
{
	struct kube_credential *c = xcalloc(1, sizeof(*c));

	c->access = a;
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void kube_credential_free(struct kube_credential *c)
{
	if (!c)
		return;
	str_wipe(&c->token);
	str_wipe(&c->cert);
	str_wipe(&c->key);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* A file. */

static int read_token_file(struct kube_credential *c, bool refused, struct err *err)
{
	struct clock *clock = clock_system();
	int64_t now = clock->mono_ns(clock);
	struct str text = { 0 };
	size_t n;

	if (c->has && !refused && now < c->until_ns)
		return 0;
	if (fs_read_file(c->access->token_file, TOKEN_MAX, &text, err) < 0)
		return err_wrap(err, "the token for Kubernetes");
	n = text.s ? strcspn(text.s, " \t\r\n") : 0;
	str_reset(&c->token);
	str_addn(&c->token, text.s ? text.s : "", n);
	str_wipe(&text);
	c->has = true;
	c->until_ns = now + TOKEN_FILE_NS;
	return n ? 0 : err_set(err, ERR_INVALID, "%s holds no token", c->access->token_file);
}

/* A program. */

/* The variable KUBERNETES_EXEC_INFO. Caller frees. */
static char *exec_info(const struct kube_access *a)
{
	const struct kube_exec *e = a->exec;
	json_t *spec = json_pack("{s:b}", "interactive", 0), *all;
	struct str out = { 0 };

	if (e->provide_cluster_info) {
		json_t *cluster = json_pack("{s:s, s:b}", "server", a->server,
					    "insecure-skip-tls-verify", a->insecure);
		struct str ca = { 0 };

		if (a->tls_server_name)
			json_object_set_new(cluster, "tls-server-name",
					    json_string(a->tls_server_name));
		if (a->ca_pem) {
			base64_add(&ca, a->ca_pem, strlen(a->ca_pem));
			json_object_set_new(cluster, "certificate-authority-data",
					    json_stringn(ca.s, ca.len));
		}
		if (e->cluster_config)
			json_object_set_new(cluster, "config",
					    json_loads(e->cluster_config, JSON_DECODE_ANY, NULL));
		str_deinit(&ca);
		json_object_set_new(spec, "cluster", cluster);
	}
	all = json_pack("{s:s, s:s, s:o}", "apiVersion", e->api_version, "kind", "ExecCredential",
			"spec", spec);
	str_add(&out, "KUBERNETES_EXEC_INFO=");
	json_add_canonical(&out, all);
	json_decref(all);
	return str_take(&out);
}

static void replace(struct str *to, const char *text)
{
	str_wipe(to);
	str_add(to, text ? text : "");
}

static int take_status(struct kube_credential *c, const json_t *j, struct err *err)
{
	const char *token, *cert, *key, *until;
	int64_t until_ns = INT64_MAX;
	json_t *status;

	if (json_get_object(j, "status", &status, err) < 0 ||
	    json_get_str_opt(status, "token", NULL, &token, err) < 0 ||
	    json_get_str_opt(status, "clientCertificateData", NULL, &cert, err) < 0 ||
	    json_get_str_opt(status, "clientKeyData", NULL, &key, err) < 0 ||
	    json_get_str_opt(status, "expirationTimestamp", NULL, &until, err) < 0)
		return -1;
	if (!token && (!cert || !key))
		return err_set(err, ERR_INVALID,
			       "it gives neither a token nor a certificate with its key");
	if (until && text_parse_time(until, &until_ns, NULL) < 0)
		return err_set(err, ERR_INVALID, "`expirationTimestamp` is no time");
	if (!cert || !key) /* one is useless without the other */
		cert = key = "";
	if (!str_eq(c->cert.s ? c->cert.s : "", cert) || !str_eq(c->key.s ? c->key.s : "", key))
		c->generation++;
	replace(&c->token, token);
	replace(&c->cert, cert);
	replace(&c->key, key);
	c->until_ns = until_ns;
	c->has = true;
	return 0;
}

static int run_exec(struct kube_credential *c, struct str *out, struct err *err)
{
	const struct kube_exec *e = c->access->exec;
	_cleanup_(freep) char *info = exec_info(c->access);
	size_t n = 0, n_env = 0;
	const char **argv, **env;
	struct command cmd = { .timeout_ns = EXEC_TIMEOUT_NS, .max_bytes = EXEC_MAX };
	int status, r;

	while (e->args && e->args[n])
		n++;
	while (e->env && e->env[n_env])
		n_env++;
	argv = xcalloc(n + 2, sizeof(*argv));
	env = xcalloc(n_env + 2, sizeof(*env));
	argv[0] = e->command;
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = e->args[i];
	for (size_t i = 0; i < n_env; i++)
		env[i] = e->env[i];
	env[n_env] = info;
	cmd.argv = argv;
	cmd.env = env;
	r = command_output(&cmd, out, &status, err);
	free(argv);
	free(env);
	if (r == 0 && status != 0)
		r = err_set(err, ERR_INVALID,
			    "it failed with exit code %d: run it by hand to see why", status);
	return r;
}

static int ask_program(struct kube_credential *c, bool refused, struct err *err)
{
	struct clock *clock = clock_system();
	struct str out = { 0 };
	struct err why = { 0 };
	json_t *j = NULL;
	int r;

	if (c->has && !refused && clock->wall_ns(clock) < c->until_ns - RENEW_BEFORE_NS)
		return 0;
	r = run_exec(c, &out, &why);
	/* The parser's message may quote the output. */
	if (r == 0 &&
	    (json_parse("it", out.s ? out.s : "", out.len, &j, NULL) < 0 || !json_is_object(j)))
		r = err_set(&why, ERR_INVALID, "what it gives is no ExecCredential");
	if (r == 0)
		r = take_status(c, j, &why);
	json_decref(j);
	str_wipe(&out);
	if (r == 0)
		return 0;
	return err_set(err, why.code,
		       "the program that gives credentials for Kubernetes, %s: %s%s%s",
		       c->access->exec->command, why.msg,
		       c->access->exec->install_hint && why.code == ERR_NOT_FOUND ? "; " : "",
		       c->access->exec->install_hint && why.code == ERR_NOT_FOUND
			       ? c->access->exec->install_hint
			       : "");
}

/* The calls. */

int kube_credential_header(struct kube_credential *c, bool refused, struct str *out,
			   struct err *err)
{
	const struct kube_access *a = c->access;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (a->exec)
		r = ask_program(c, refused, err);
	else if (a->token_file)
		r = read_token_file(c, refused, err);
	/* A token file takes precedence over a literal token, as in client-go. */
	if (r == 0 && c->token.len) {
		str_addf(out, "Bearer %s", c->token.s);
	} else if (r == 0 && a->token) {
		str_addf(out, "Bearer %s", a->token);
	} else if (r == 0 && a->username) {
		_cleanup_(str_wipe) struct str pair = { 0 };

		str_addf(&pair, "%s:%s", a->username, a->password ? a->password : "");
		str_add(out, "Basic ");
		base64_add(out, pair.s, pair.len);
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

int kube_credential_certificate(struct kube_credential *c, struct str *ret_cert,
				struct str *ret_key, uint64_t *ret_generation, struct err *err)
{
	const struct kube_access *a = c->access;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (a->exec)
		r = ask_program(c, false, err);
	if (r == 0) {
		str_add(ret_cert, c->cert.len ? c->cert.s : a->cert_pem ? a->cert_pem : "");
		str_add(ret_key, c->key.len ? c->key.s : a->key_pem ? a->key_pem : "");
		*ret_generation = c->generation;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}
