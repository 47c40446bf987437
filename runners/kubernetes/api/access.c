/* runners/kubernetes/api/access.c — kubeconfig files, merged by searching each in turn for a name.
 *
 * load() parses the existing files of the list, or uses the pod's service account when there is
 * none (read_account()). read_context() then follows names: the context, its cluster, its user.
 * find() searches the files in order. The first entry of that name wins as a whole; nothing is
 * merged from later ones. A `place` is a node with its file, so that errors have line and column,
 * and relative paths start at the right directory.
 *
 * Everything lands in the caller's arena; the YAML trees are freed at the end. Client certificates
 * and CAs are read once, here. A token file is only named, because credential.c reads it
 * repeatedly. Nothing is executed and no request is made. A project's own kubeconfig (`foreign`) is
 * refused if it names a program or a token file. One thread.
 */
#include "runners/kubernetes/api/access.h"

#include <stdlib.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/os/fs.h"
#include "base/text/yaml_json.h"

#define FILES_MAX 32
#define FILE_MAX  (4 * MIB) /* enough for hundreds of clusters with their certificates */

struct kubeconfig {
	struct yaml_tree *files[FILES_MAX];
	size_t n;
	struct diag_list *diags;
	struct arena *arena;
	struct str names; /* of all files, for messages */
};

/* A map of one of the files. */
struct place {
	const struct yaml_tree *file;
	const struct yaml_node *node; /* NULL: none */
};

/* Values. */

static int bad(const struct place *p, const struct yaml_node *at, struct err *err, const char *what)
{
	return err_set(err, ERR_INVALID, "%s:%d:%d: %s", p->file->file, at->line, at->col, what);
}

/* A text member; NULL when it is absent or empty. */
static int get_text(const struct place *p, const char *key, const char **ret, struct err *err)
{
	const struct yaml_node *v = yaml_get(p->node, key);

	*ret = NULL;
	if (!v || (v->kind == YAML_KIND_SCALAR && (yaml_is_null(v) || v->len == 0)))
		return 0;
	if (v->kind != YAML_KIND_SCALAR)
		return bad(p, v, err, "must be text");
	*ret = v->text;
	return 0;
}

static int get_bool(const struct place *p, const char *key, bool *ret, struct err *err)
{
	const struct yaml_node *v = yaml_get(p->node, key);

	*ret = false;
	if (!v || (v->kind == YAML_KIND_SCALAR && yaml_is_null(v)))
		return 0;
	return v->kind == YAML_KIND_SCALAR && yaml_as_bool(v, ret)
		       ? 0
		       : bad(p, v, err, "must be true or false");
}

static const char *keep(struct kubeconfig *k, const char *s)
{
	return s ? arena_strdup(k->arena, s) : NULL;
}

/* As get_text(), but a copy in the arena. */
static int get_copy(struct kubeconfig *k, const struct place *p, const char *key, const char **ret,
		    struct err *err)
{
	if (get_text(p, key, ret, err) < 0)
		return -1;
	*ret = keep(k, *ret);
	return 0;
}

/* Relative paths start at the file's own directory. */
static const char *path_of(struct kubeconfig *k, const struct place *p, const char *path)
{
	_cleanup_(freep) char *dir = NULL;

	if (!path || path[0] == '/')
		return keep(k, path);
	dir = fs_dirname(p->file->file);
	return arena_printf(k->arena, "%s/%s", dir, path);
}

/* The member KEY-data in base64, or the file that KEY names. */
static int get_pem(struct kubeconfig *k, const struct place *p, const char *key, const char **ret,
		   struct err *err)
{
	_cleanup_(freep) char *data_key = xasprintf("%s-data", key);
	_cleanup_(str_wipe) struct str pem = { 0 };
	const char *data, *path;
	int r = 0;

	*ret = NULL;
	if (get_text(p, data_key, &data, err) < 0 || get_text(p, key, &path, err) < 0)
		return -1;
	if (data) {
		if (base64_decode(&pem, data, strlen(data), err) < 0)
			r = bad(p, yaml_get(p->node, data_key), err, "is not base64");
	} else if (path) {
		path = path_of(k, p, path);
		r = fs_read_file(path, MIB, &pem, err);
	} else {
		return 0;
	}
	if (r == 0)
		*ret = arena_strndup(k->arena, pem.s ? pem.s : "", pem.len);
	return r;
}

static int get_texts(struct kubeconfig *k, const struct place *p, const char *key,
		     const char *const **ret, struct err *err)
{
	const struct yaml_node *v = yaml_get(p->node, key);
	const char **out;
	size_t n = v && v->kind == YAML_KIND_SEQ ? v->len : 0;

	*ret = NULL;
	if (!v || (v->kind == YAML_KIND_SCALAR && yaml_is_null(v)))
		return 0;
	if (v->kind != YAML_KIND_SEQ)
		return bad(p, v, err, "must be a list");
	out = arena_alloc(k->arena, (n + 1) * sizeof(*out));
	for (size_t i = 0; i < n; i++) {
		if (v->items[i]->kind != YAML_KIND_SCALAR)
			return bad(p, v->items[i], err, "must be text");
		out[i] = keep(k, v->items[i]->text);
	}
	*ret = out;
	return 0;
}

/* Names. */

/* The member `member` of the entry `name` in the list `list`; the first file with one wins. */
static int find(struct kubeconfig *k, const char *list, const char *member, const char *name,
		struct place *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str known = { 0 };

	str_add(&known, "");
	for (size_t f = 0; f < k->n; f++) {
		struct place p = { k->files[f], NULL };
		const struct yaml_node *v = yaml_get(k->files[f]->root, list);

		for (size_t i = 0; v && v->kind == YAML_KIND_SEQ && i < v->len; i++) {
			const char *its;

			p.node = v->items[i];
			if (get_text(&p, "name", &its, err) < 0)
				return -1;
			if (its && known.len < 512)
				str_addf(&known, "%s%s", known.len ? ", " : "", its);
			if (!str_eq(its, name))
				continue;
			p.node = yaml_get(v->items[i], member);
			if (p.node && p.node->kind != YAML_KIND_MAP)
				return bad(&p, p.node, err, "must be a mapping");
			*ret = p;
			return 0;
		}
	}
	return err_set(err, ERR_NOT_FOUND, "%s: there is no %s `%s`%s%s", k->names.s, member, name,
		       known.len ? "; there are: " : "", known.s);
}

static int current_context(struct kubeconfig *k, const char **ret, struct err *err)
{
	for (size_t f = 0; f < k->n; f++) {
		struct place p = { k->files[f], k->files[f]->root };

		if (get_text(&p, "current-context", ret, err) < 0)
			return -1;
		if (*ret)
			return 0;
	}
	return err_set(err, ERR_NOT_FOUND,
		       "%s: no context is chosen: set one with `kubectl config use-context`, or "
		       "name one (kubernetes.context in cairn.yaml)",
		       k->names.s);
}

/* Clusters and users. */

static int read_cluster(struct kubeconfig *k, const struct place *p, struct kube_access *a,
			struct err *err)
{
	const char *server;

	if (!p->node)
		return err_set(err, ERR_INVALID, "%s: the cluster is empty", p->file->file);
	if (get_text(p, "server", &server, err) < 0 ||
	    get_copy(k, p, "tls-server-name", &a->tls_server_name, err) < 0 ||
	    get_copy(k, p, "proxy-url", &a->proxy, err) < 0 ||
	    get_bool(p, "insecure-skip-tls-verify", &a->insecure, err) < 0 ||
	    get_pem(k, p, "certificate-authority", &a->ca_pem, err) < 0)
		return -1;
	if (!server)
		return bad(p, p->node, err, "the cluster has no `server`");
	if (!str_has_prefix(server, "https://") && !str_has_prefix(server, "http://"))
		return bad(p, yaml_get(p->node, "server"), err, "must be an https:// URL");
	a->server = arena_strndup(k->arena, server, str_len_without(server, '/'));
	return 0;
}

static int read_exec_env(struct kubeconfig *k, const struct place *p, struct kube_exec *e,
			 struct err *err)
{
	const struct yaml_node *v = yaml_get(p->node, "env");
	size_t n = v && v->kind == YAML_KIND_SEQ ? v->len : 0;
	const char **out = arena_alloc(k->arena, (n + 1) * sizeof(*out));

	for (size_t i = 0; i < n; i++) {
		struct place entry = { p->file, v->items[i] };
		const char *name, *value;

		if (get_text(&entry, "name", &name, err) < 0 ||
		    get_text(&entry, "value", &value, err) < 0)
			return -1;
		if (!name || strchr(name, '='))
			return bad(&entry, v->items[i], err, "a variable needs a `name`");
		out[i] = arena_printf(k->arena, "%s=%s", name, value ? value : "");
	}
	e->env = out;
	return 0;
}

/* The cluster's settings for the program: extensions: [{name: client.authentication.k8s.io/exec,
 * extension: …}]. */
static void read_exec_extension(struct kubeconfig *k, const struct place *cluster,
				struct kube_exec *e)
{
	const struct yaml_node *v = yaml_get(cluster->node, "extensions");

	for (size_t i = 0; v && v->kind == YAML_KIND_SEQ && i < v->len; i++) {
		const struct yaml_node *name = yaml_get(v->items[i], "name"),
				       *it = yaml_get(v->items[i], "extension");
		struct str text = { 0 };
		json_t *j;

		if (!name || !it || name->kind != YAML_KIND_SCALAR ||
		    !str_eq(name->text, "client.authentication.k8s.io/exec"))
			continue;
		j = yaml_to_json(it);
		json_add_canonical(&text, j);
		e->cluster_config = arena_strndup(k->arena, text.s, text.len);
		json_decref(j);
		str_deinit(&text);
	}
}

static int read_exec(struct kubeconfig *k, const struct place *p, struct kube_access *a,
		     struct err *err)
{
	struct kube_exec *e = arena_alloc(k->arena, sizeof(*e));
	const char *command;

	if (get_text(p, "command", &command, err) < 0 ||
	    get_copy(k, p, "apiVersion", &e->api_version, err) < 0 ||
	    get_copy(k, p, "installHint", &e->install_hint, err) < 0 ||
	    get_bool(p, "provideClusterInfo", &e->provide_cluster_info, err) < 0 ||
	    get_texts(k, p, "args", &e->args, err) < 0 || read_exec_env(k, p, e, err) < 0)
		return -1;
	if (!command)
		return bad(p, p->node, err, "`exec` has no `command`");
	if (!str_eq(e->api_version, "client.authentication.k8s.io/v1") &&
	    !str_eq(e->api_version, "client.authentication.k8s.io/v1beta1"))
		return bad(p, p->node, err,
			   "`exec.apiVersion` must be client.authentication.k8s.io/v1 or v1beta1");
	/* A command with a slash is a path; a bare name is looked up in PATH. */
	e->command = strchr(command, '/') ? path_of(k, p, command) : keep(k, command);
	a->exec = e;
	return 0;
}

static int read_user(struct kubeconfig *k, const struct place *p, struct kube_access *a,
		     struct err *err)
{
	struct place exec = { p->file, yaml_get(p->node, "exec") };
	const struct yaml_node *provider = yaml_get(p->node, "auth-provider");
	const char *file;

	if (!p->node)
		return 0;
	if (provider && !yaml_get(p->node, "exec"))
		return err_set(err, ERR_UNSUPPORTED,
			       "%s:%d:%d: `auth-provider` isn't part of Kubernetes any more: use "
			       "an exec plugin",
			       p->file->file, provider->line, provider->col);
	if (get_copy(k, p, "token", &a->token, err) < 0 ||
	    get_text(p, "tokenFile", &file, err) < 0 ||
	    get_copy(k, p, "username", &a->username, err) < 0 ||
	    get_copy(k, p, "password", &a->password, err) < 0 ||
	    get_copy(k, p, "as", &a->as_user, err) < 0 ||
	    get_copy(k, p, "as-uid", &a->as_uid, err) < 0 ||
	    get_texts(k, p, "as-groups", &a->as_groups, err) < 0 ||
	    get_pem(k, p, "client-certificate", &a->cert_pem, err) < 0 ||
	    get_pem(k, p, "client-key", &a->key_pem, err) < 0)
		return -1;
	if (!a->cert_pem != !a->key_pem)
		return bad(
			p, p->node, err,
			"a client certificate and its key belong together: one of them is missing");
	a->token_file = path_of(k, p, file);
	return exec.node && exec.node->kind == YAML_KIND_MAP ? read_exec(k, &exec, a, err) : 0;
}

static int read_context(struct kubeconfig *k, const struct kube_access_options *o,
			struct kube_access *a, struct err *err)
{
	const char *name = o->context, *cluster, *user, *ns;
	struct place context, p, at;

	if (!name && current_context(k, &name, err) < 0)
		return -1;
	a->context = keep(k, name);
	if (find(k, "contexts", "context", name, &context, err) < 0 ||
	    get_text(&context, "cluster", &cluster, err) < 0 ||
	    get_text(&context, "user", &user, err) < 0 ||
	    get_text(&context, "namespace", &ns, err) < 0)
		return -1;
	if (!cluster)
		return err_set(err, ERR_INVALID, "%s: the context `%s` names no cluster",
			       context.file->file, name);
	a->namespace_ = keep(k, o->namespace_ ? o->namespace_ : ns ? ns : "default");
	if (find(k, "clusters", "cluster", cluster, &at, err) < 0 ||
	    read_cluster(k, &at, a, err) < 0)
		return -1;
	if (user && (find(k, "users", "user", user, &p, err) < 0 || read_user(k, &p, a, err) < 0))
		return -1;
	if (o->foreign && user && (a->exec || a->token_file))
		return bad(&p, p.node, err,
			   a->exec ? "a kubeconfig in the project may not have `exec`: keep it in "
				     "~/.kube/config, or name it by KUBECONFIG"
				   : "a kubeconfig in the project may not have `tokenFile`: keep "
				     "it in ~/.kube/config, or name it by KUBECONFIG");
	if (a->exec && a->exec->provide_cluster_info)
		read_exec_extension(k, &at, (struct kube_exec *)a->exec);
	return 0;
}

/* Files. */

static int load_file(struct kubeconfig *k, const char *path, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err why = { 0 };

	if (fs_read_file(path, FILE_MAX, &text, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*err = why;
		return -1;
	}
	if (k->n == FILES_MAX)
		return err_set(err, ERR_INVALID, "KUBECONFIG names over %d files", FILES_MAX);
	if (yaml_tree_parse(arena_strdup(k->arena, path), text.s ? text.s : "", text.len, k->diags,
			    &k->files[k->n], &why) < 0)
		return diag_to_err(k->diags, path, err);
	k->n++;
	str_addf(&k->names, "%s%s", k->names.len ? ":" : "", path);
	return 0;
}

/* In a pod. */

static int read_account(const struct kube_access_options *o, struct arena *arena,
			struct kube_access *a, struct err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *port = getenv("KUBERNETES_SERVICE_PORT");
	const char *dir = o->account_dir ? o->account_dir : KUBE_ACCOUNT_DIR;
	_cleanup_(freep) char *ca = fs_join(dir, "ca.crt"), *ns = fs_join(dir, "namespace");
	_cleanup_(str_wipe) struct str pem = { 0 }, name = { 0 };
	struct err why = { 0 };

	if (fs_read_file(ca, MIB, &pem, err) < 0)
		return err_wrap(err, "the pod's service account");
	if (!o->namespace_ && fs_read_file(ns, KIB, &name, &why) < 0) {
		if (why.code != ERR_NOT_FOUND)
			return err_set(err, why.code,
				       "the pod's service account: %s: set kubernetes.namespace in "
				       "cairn.yaml",
				       why.msg);
		str_add(&name, "default");
	}
	a->source = "the pod's service account";
	a->server = arena_printf(arena, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s",
				 host, port && *port ? port : "443");
	a->ca_pem = arena_strndup(arena, pem.s, pem.len);
	a->token_file = arena_printf(arena, "%s/token", dir);
	a->namespace_ = o->namespace_ ? arena_strdup(arena, o->namespace_)
				      : arena_strndup(arena, name.s, strcspn(name.s, " \r\n"));
	return 0;
}

static int load(struct kubeconfig *k, const struct kube_access_options *o, struct kube_access *a,
		struct err *err)
{
	const char *list = o->kubeconfig ? o->kubeconfig : getenv("KUBECONFIG"),
		   *home = getenv("HOME"), *host = getenv("KUBERNETES_SERVICE_HOST");

	if (!o->kubeconfig && !(list && *list))
		list = home && *home ? arena_printf(k->arena, "%s/.kube/config", home) : "";
	for (const char *at = list; *at;) {
		size_t n = strcspn(at, ":");
		_cleanup_(freep) char *path = xstrndup(at, n);

		if (n && load_file(k, path, err) < 0)
			return -1;
		at += n + (at[n] == ':');
	}
	if (k->n == 0 && !o->kubeconfig && host && *host)
		return read_account(o, k->arena, a, err);
	if (k->n == 0)
		return err_set(err, ERR_NOT_FOUND,
			       "no kubeconfig was found (%s), and Cairn does not run in a pod: set "
			       "KUBECONFIG, "
			       "or kubernetes.kubeconfig in cairn.yaml",
			       *list ? list : "~/.kube/config");
	a->source = arena_strdup(k->arena, k->names.s);
	return read_context(k, o, a, err);
}

int kube_access_load(const struct kube_access_options *o, struct arena *arena,
		     struct kube_access *ret, struct err *err)
{
	struct kubeconfig k = { .arena = arena, .diags = diag_list_new() };
	struct kube_access a = { 0 };
	int r = load(&k, o, &a, err);

	if (r == 0)
		*ret = a;
	for (size_t i = 0; i < k.n; i++)
		yaml_tree_free(k.files[i]);
	diag_list_free(k.diags);
	str_deinit(&k.names);
	return r;
}
